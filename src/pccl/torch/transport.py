"""Messages over the send and receive of any backend of torch.distributed.

With gloo every message is by itself, and found by its tag. NCCL knows no tags, and lets messages pass only together: it
gets all messages of a round at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from pccl.errors import RunError
from pccl.torch.arrays import TorchArrays

# Beyond the tags that people use themselves on the same group.
_FIRST_TAG = 1 << 30
_TAGS = 1 << 16
_LENGTHS = 1 << 14


class TorchHandle:
    """A message, or several, on their way."""

    __slots__ = ("_data", "_peer", "_transport", "_works")

    def __init__(
        self, transport: TorchTransport, peer: int | None, works: Sequence[Any], data: Any
    ) -> None:
        self._transport = transport
        self._peer = peer
        self._works = works
        # The backend does not keep tensors alive that nobody else has.
        self._data = data

    def wait(self) -> None:
        """Return when it is through; on a GPU, when what follows on the stream may rely on it."""
        try:
            for work in self._works:
                if self._transport.batched:
                    work.wait()
                else:
                    work.wait(self._transport.timeout)
        except RuntimeError as error:
            raise self._transport.failure(self._peer, error) from None


class TorchTransport:
    """The connection of one rank with the others of a process group.

    Parameters
    ----------
    group
        A process group, or a backend by itself.
    device
        Where buffers are.
    timeout
        For how long a rank waits for another.
    batched
        Whether messages go together, round by round; NCCL needs that.
    """

    def __init__(
        self, group: Any, device: torch.device, timeout: timedelta, batched: bool = False
    ) -> None:
        self.group = group
        self.rank: int = group.rank()
        self.size: int = group.size()
        self.arrays = TorchArrays(device)
        self.timeout = timeout
        self.batched = batched

    def send(self, data: torch.Tensor, peer: int, tag: int) -> TorchHandle:
        """Begin to send a tensor."""
        if self.batched:
            return self.batch([(data, peer)], [])
        work = self._begin(self.group.send, peer, [data], peer, _tag(data, tag))
        return TorchHandle(self, peer, [work], data)

    def receive(self, data: torch.Tensor, peer: int, tag: int) -> TorchHandle:
        """Begin to receive a tensor."""
        if self.batched:
            return self.batch([], [(data, peer)])
        work = self._begin(self.group.recv, peer, [data], peer, _tag(data, tag))
        return TorchHandle(self, peer, [work], data)

    def batch(
        self,
        sends: Sequence[tuple[torch.Tensor, int]],
        receives: Sequence[tuple[torch.Tensor, int]],
    ) -> TorchHandle:
        """Begin to send and to receive all of these at once."""
        device = self.arrays.device
        coalesces = device.type != "cpu"
        # A process group has a backend for each device; a backend by itself has one device.
        where = (device,) if isinstance(self.group, dist.ProcessGroup) else ()
        works = []
        if coalesces:
            self.group._start_coalescing(*where)
        for data, peer in sends:
            works.append(self._begin(self.group.send, peer, [data], peer, _tag(data, 0)))
        for data, peer in receives:
            works.append(self._begin(self.group.recv, peer, [data], peer, _tag(data, 0)))
        if coalesces:
            works = [self.group._end_coalescing(*where)]
        return TorchHandle(self, None, works, (sends, receives))

    def exchange(self, data: bytes) -> list[bytes]:
        """Give a few bytes to all, and return those of all."""
        device = self.arrays.device
        counts = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(self.size)]
        mine = torch.tensor([len(data)], dtype=torch.int64, device=device)
        try:
            self.group.allgather([counts], [mine]).wait()
            most = max(int(count) for count in counts)
            room = [torch.zeros(most, dtype=torch.uint8, device=device) for _ in range(self.size)]
            text = torch.zeros(most, dtype=torch.uint8)
            text[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else 0
            if most:
                self.group.allgather([room], [text.to(device)]).wait()
        except RuntimeError as error:
            raise self.failure(None, error) from None
        return [
            bytes(one[: int(count)].cpu().numpy()) for one, count in zip(room, counts, strict=True)
        ]

    def failure(self, peer: int | None, error: RuntimeError) -> RunError:
        """What to say of an error of the backend."""
        text = str(error).strip().splitlines() or [type(error).__name__]
        who = "another rank" if peer is None else f"rank {peer}"
        return RunError(
            f"rank {self.rank} has lost {who}, or has waited for it for {self.timeout.total_seconds():g} s: it has "
            f"died, or does not run the same plan with as many elements ({text[0]})"
        )

    def _begin(self, call: Any, peer: int, *args: Any) -> Any:
        try:
            return call(*args)
        except RuntimeError as error:
            raise self.failure(peer, error) from None


def _tag(data: torch.Tensor, tag: int) -> int:
    """The tag of a message under which nobody expects one of another length.

    Where lengths differ gloo ends the process; messages that do not find each other end with the timeout.
    """
    return int(_FIRST_TAG + data.nbytes % _LENGTHS * _TAGS + tag % _TAGS)
