"""What is sent and received together: single messages, or several where a plan has no room for each of them.

A message is a put into the memory of its receiver, so it lands when its sender sends. One that is added to something,
or could land on what is still in use, goes to a place of its own in scratch, from where the receiver takes it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pccl.errors import PcclError
from pccl.export.lowering import Program

__all__ = ["Batches", "single"]


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of messages between ranks, and the copies of the program.

    Sending batch ``b`` is event ``b``, receiving it is event ``len(batches) + b``, and copy ``k`` is event
    ``2 * len(batches) + k``.

    Attributes
    ----------
    messages
        Per batch: its messages.
    src, dst, port
        Per batch: its ranks, and whether it goes over a port.
    staged
        Per message: whether it lands in scratch, at a place of its own.
    before
        Per event: the events of its rank that must be complete before it.
    time
        Per event: when it was planned.
    position
        Per event: its place in one order of all that respects all dependencies.
    """

    messages: list[list[int]]
    src: list[int]
    dst: list[int]
    port: list[bool]
    staged: list[bool]
    before: list[list[int]]
    time: list[int]
    position: list[int]

    def __len__(self) -> int:
        return len(self.messages)

    def joined(self, most: int) -> Batches:
        """Up to so many single messages in a batch.

        Those in one have as many events behind them as each other, when they are sent and when they are received. So
        whatever depends on a batch has more behind it, and batches cannot come to depend on each other in a circle.
        """
        count, depth = len(self), self._depths()
        batch_of, batches = [0] * count, list[list[int]]()
        growing: dict[tuple[int, ...], int] = {}
        for i in sorted(range(count), key=self.position.__getitem__):
            key = self.src[i], self.dst[i], depth[i], depth[count + i]
            if key not in growing or len(batches[growing[key]]) == most:
                growing[key] = len(batches)
                batches.append([])
            batch_of[i] = growing[key]
            batches[growing[key]].append(i)
        total = len(batches)
        moved = [
            *batch_of,
            *(total + b for b in batch_of),
            *(2 * total + k for k in range(len(self.before) - 2 * count)),
        ]
        before: list[set[int]] = [set() for _ in range(len(self.before) - 2 * count + 2 * total)]
        time = [0] * len(before)
        for event, events in enumerate(self.before):
            before[moved[event]].update(moved[first] for first in events)
            time[moved[event]] = max(time[moved[event]], self.time[event])
        src, dst = ([column[batch[0]] for batch in batches] for column in (self.src, self.dst))
        port = [self.port[batch[0]] for batch in batches]
        listed = [sorted(events) for events in before]
        return replace(
            self, messages=[[i for one in batch for i in self.messages[one]] for batch in batches], src=src, dst=dst,
            port=port, before=listed, time=time, position=_positions(listed, time, port),
        )  # fmt: skip

    def _depths(self) -> list[int]:
        """How many events are behind each, one behind the other."""
        count, depth = len(self), [0] * len(self.before)
        for event in sorted(range(len(depth)), key=self.position.__getitem__):
            behind = [depth[_completion(first, count, self.port)] for first in self.before[event]]
            if count <= event < 2 * count:
                behind.append(depth[event - count])
            depth[event] = 1 + max(behind, default=-1)
        return depth


def single(program: Program, box: int) -> Batches:
    """Every message by itself; ports connect boxes of `box` ranks each."""
    m, count = program.messages, len(program.messages)
    before: list[list[int]] = [[] for _ in range(2 * count + len(program.copies))]
    for first, then in zip(program.before.tolist(), program.after.tolist(), strict=True):
        before[then].append(first)
    port = (m.src // box != m.dst // box).tolist()
    time = [*m.start.tolist(), *m.arrival.tolist(), *program.copies.time.tolist()]
    position = _positions(before, time, port)
    staged = [bool(x) for x in m.reduce]
    for i in range(count):
        if not staged[i] and before[count + i]:
            staged[i] = not _all_precede(before[count + i], i, count, before, position)
            if not staged[i]:
                before[count + i] = []  # whoever sends it knows that they are done
    return Batches([[i] for i in range(count)], m.src.tolist(), m.dst.tolist(), port, staged, before, time, position)


def _completion(event: int, count: int, port: Sequence[bool]) -> int:
    """What is sent over a port may be overwritten when it has been received, not when it has been sent."""
    return event + count if event < count and port[event] else event


def _positions(before: list[list[int]], time: list[int], port: list[bool]) -> list[int]:
    """A place for every event in one order that respects all dependencies; by planned time, as far as they allow."""
    count, total = len(port), len(before)
    after: list[list[int]] = [[] for _ in range(total)]
    missing = [len(events) for events in before]
    for then, events in enumerate(before):
        for first in events:
            after[_completion(first, count, port)].append(then)
    for i in range(count):
        after[i].append(count + i)
        missing[count + i] += 1
    ready = [(time[event], event) for event in range(total) if not missing[event]]
    heapq.heapify(ready)
    position, next_one = [-1] * total, 0
    while ready:
        _, event = heapq.heappop(ready)
        position[event], next_one = next_one, next_one + 1
        for then in after[event]:
            missing[then] -= 1
            if not missing[then]:
                heapq.heappush(ready, (time[then], then))
    if next_one < total:
        mend = " over ports; export it out of place, or with all ranks in one box" if any(port) else "; verify it first"
        raise PcclError(f"messages of the algorithm would wait for each other in a circle{mend}")
    return position


def _all_precede(events: list[int], event: int, count: int, before: list[list[int]], position: list[int]) -> bool:
    """Whether all these events are complete, for certain, when another one begins."""
    missing, oldest = set(events), min(position[e] for e in events)
    seen, queue = {event}, [event]
    while queue and missing:
        one = queue.pop()
        missing.discard(one)
        sources = [*before[one], one - count] if count <= one < 2 * count else before[one]
        for earlier in sources:
            if earlier not in seen and position[earlier] >= oldest:
                seen.add(earlier)
                queue.append(earlier)
    return not missing
