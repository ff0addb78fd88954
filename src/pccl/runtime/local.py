"""All ranks in one process, which take turns: the reference that every transport is compared with.

A message is on its way only when both of its ends are ready for it, so that an order that could deadlock anywhere does
so here.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

from pccl.algorithm import Algorithm
from pccl.errors import InternalError, RunError
from pccl.runtime.arrays import Arrays, NumpyArrays
from pccl.runtime.execute import Buffers, Rank
from pccl.runtime.scripts import Scripts, scripts_of
from pccl.runtime.sizes import Elements


class LocalHandle:
    """One end of a message between ranks of the same process."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.done = False

    def wait(self) -> None:
        """Do nothing: whoever lets ranks take turns sees to it that the message has come."""
        if not self.done:
            raise InternalError("a rank goes on before its message has come")


class Wires:
    """What connects the ranks of one process."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self._sent: dict[Any, deque[LocalHandle]] = defaultdict(deque)
        self._expected: dict[Any, deque[LocalHandle]] = defaultdict(deque)

    def send(self, key: Any, data: Any) -> LocalHandle:
        """One end of a message; it is copied as soon as the other end is there."""
        return self._join(self._sent[key], data, key)

    def receive(self, key: Any, data: Any) -> LocalHandle:
        """The other end."""
        return self._join(self._expected[key], data, key)

    def _join(self, queue: deque[LocalHandle], data: Any, key: Any) -> LocalHandle:
        handle = LocalHandle(data)
        queue.append(handle)
        if self._sent[key] and self._expected[key]:
            sent, expected = self._sent[key].popleft(), self._expected[key].popleft()
            if len(sent.data) != len(expected.data):
                raise RunError(
                    f"a message of {len(sent.data)} elements comes where {len(expected.data)} are expected"
                )
            self.arrays.copy(expected.data, sent.data)
            sent.done = expected.done = True
        return handle


class LocalTransport:
    """The connection of one rank with the others of the same process."""

    def __init__(self, wires: Wires, rank: int, size: int) -> None:
        self.wires = wires
        self.arrays = wires.arrays
        self.rank = rank
        self.size = size

    def send(self, data: Any, peer: int, tag: int) -> LocalHandle:
        """Begin to send an array."""
        return self.wires.send((self.rank, peer, tag), data)

    def receive(self, data: Any, peer: int, tag: int) -> LocalHandle:
        """Begin to receive an array."""
        return self.wires.receive((peer, self.rank, tag), data)

    def exchange(self, data: bytes) -> list[bytes]:
        """Ranks of one process have the same plan."""
        return [data] * self.size


def run_locally(
    plan: Algorithm | Scripts,
    buffers: Sequence[Sequence[Buffers | tuple[Any, Any]]],
    *,
    op: str = "sum",
    elements: Sequence[Elements] | None = None,
    arrays: Arrays | None = None,
) -> None:
    """Run a plan in this process, on the buffers of all ranks.

    Parameters
    ----------
    plan
        The plan, or the scripts made from it.
    buffers
        Per rank, of every collective that it is a member of: its input and its output, which may be the same array.
    op
        What sums are: ``sum``, ``prod``, ``max``, ``min`` or ``avg``.
    elements
        Of every collective of the plan; by default that follows from the buffers.
    arrays
        The library that the buffers are from; NumPy by default.

    Examples
    --------
    >>> import numpy as np
    >>> import pccl
    >>> plan = pccl.synthesize(pccl.topology.ring(4), pccl.AllReduce("1MiB"))
    >>> numbers = [np.arange(5) + 10 * rank for rank in range(4)]
    >>> run_locally(plan, [[(array, array)] for array in numbers])
    >>> numbers[3].tolist()
    [60, 64, 68, 72, 76]
    """
    scripts = plan if isinstance(plan, Scripts) else scripts_of(plan)
    wires = Wires(NumpyArrays() if arrays is None else arrays)
    turns = []
    for number, pairs in enumerate(buffers):
        rank = Rank(scripts, LocalTransport(wires, number, len(buffers)), check=False)
        given = None if elements is None else [elements[part] for part in rank.mine]
        turns.append(rank.start([Buffers(*pair) for pair in pairs], op=op, elements=given))
    take_turns(turns)


def take_turns(turns: Sequence[Any]) -> None:
    """Let ranks go on whose message has come, until all are done."""
    waiting: dict[int, Any] = dict.fromkeys(range(len(turns)))
    while waiting:
        ready = [rank for rank, handle in waiting.items() if handle is None or handle.done]
        if not ready:
            raise InternalError(f"ranks {', '.join(map(str, waiting))} wait for each other")
        for rank in ready:
            # As far as it gets: a handle that is done is nothing to wait for.
            for handle in turns[rank]:
                if not handle.done:
                    waiting[rank] = handle
                    break
            else:
                del waiting[rank]
