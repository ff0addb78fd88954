"""What is sent and received together: single messages, or several where a plan has no room for each of them.

A message is a put into the memory of its receiver, so it lands when its sender sends. One that is added to something,
or could land on what is still in use, goes to a place of its own in scratch, from where the receiver takes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pccl._arrays import Bools, Ints, offsets_by_owner
from pccl.errors import PcclError
from pccl.formats.lowering import Program
from pccl.formats.lowering.ordering import sorted_events
from pccl.formats.mscclpp.packing_kernels import find_depths

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
    pairs
        Events of the same rank: the first of a pair must be complete before the second.
    time
        Per event: when it was planned.
    position
        Per event: its place in one order of all that respects all dependencies.
    """

    messages: list[list[int]]
    src: Ints
    dst: Ints
    port: Bools
    staged: list[bool]
    pairs: tuple[Ints, Ints]
    time: Ints
    position: Ints

    def __len__(self) -> int:
        return len(self.messages)

    @cached_property
    def before(self) -> list[list[int]]:
        """Per event: the events of its rank that must be complete before it."""
        return _listed(*self.pairs, len(self.time))

    @cached_property
    def followers(self) -> Ints:
        """Per event: how many must wait for it."""
        return np.bincount(self.pairs[0], minlength=len(self.time))

    @cached_property
    def needs(self) -> Ints:
        """Per event: for how many it must wait."""
        return np.bincount(self.pairs[1], minlength=len(self.time))

    def joined(self, most: int) -> Batches:
        """Up to so many single messages in a batch.

        Those in one have as many events behind them as each other, when they are sent and when they are received. So
        whatever depends on a batch has more behind it, and batches cannot come to depend on each other in a circle.
        """
        count = len(self)
        batch_of, first = self._together(most)
        total = len(first)
        moved = np.concatenate(
            [batch_of, total + batch_of, 2 * total + np.arange(len(self.time) - 2 * count)]
        )
        events = len(self.time) - 2 * count + 2 * total
        pairs = np.divmod(np.unique(moved[self.pairs[1]] * events + moved[self.pairs[0]]), events)[
            ::-1
        ]
        time = np.zeros(events, np.int64)
        np.maximum.at(time, moved, self.time)
        src, dst, port = self.src[first], self.dst[first], self.port[first]
        sequence = np.lexsort((self.position[:count], batch_of))
        messages = np.split(sequence, np.cumsum(np.bincount(batch_of, minlength=total))[:-1])
        return Batches(
            [[i for one in batch.tolist() for i in self.messages[one]] for batch in messages], src, dst, port,
            self.staged, (pairs[0], pairs[1]), time, _positions((pairs[0], pairs[1]), time, port),
        )  # fmt: skip

    def _together(self, most: int) -> tuple[Ints, Ints]:
        """Per message its batch, and per batch its first message; batches are numbered in the order of these."""
        count, depth = len(self), self._depths()
        key = (self.src * (int(self.dst.max(initial=0)) + 1) + self.dst) * (
            int(depth.max(initial=0)) + 1
        )
        key = (key + depth[:count]) * (int(depth.max(initial=0)) + 1) + depth[count : 2 * count]
        _, alike = np.unique(key, return_inverse=True)
        order = np.lexsort((self.position[:count], alike))
        nth = np.empty(count, np.int64)
        nth[order] = (
            np.arange(count) - offsets_by_owner(alike, int(alike.max(initial=-1)) + 1)[alike[order]]
        )
        by = np.argsort(self.position[:count])
        _, first, batch = np.unique(
            (alike * count + nth // most)[by], return_index=True, return_inverse=True
        )
        number = np.empty(len(first), np.int64)
        number[np.argsort(first)] = np.arange(len(first))
        found = np.empty(count, np.int64)
        found[by] = number[batch]
        return found, by[np.sort(first)]

    def _depths(self) -> Ints:
        """How many events are behind each, one behind the other."""
        before, after = _all_pairs(self.pairs, self.port)
        by, depth = np.argsort(after, kind="stable"), np.zeros(len(self.time), np.int64)
        find_depths(
            np.argsort(self.position), offsets_by_owner(after, len(depth)), before[by], depth
        )
        return depth


def single(program: Program, box: int) -> Batches:
    """Every message by itself; ports connect boxes of `box` ranks each."""
    m, count = program.messages, len(program.messages)
    pairs = program.before, program.after
    port = m.src // box != m.dst // box
    time = np.concatenate([m.start, m.arrival, program.copies.time])
    position = _positions(pairs, time, port)
    staged, in_time = _staged(program, position)
    kept = ~np.isin(pairs[1], in_time)  # whoever sends these knows that what they wait for is done
    return Batches(
        [[i] for i in range(count)],
        m.src,
        m.dst,
        port,
        staged,
        (pairs[0][kept], pairs[1][kept]),
        time,
        position,
    )


def _staged(program: Program, position: Ints) -> tuple[list[bool], list[int]]:
    """Per message whether it lands in scratch; and the receipts of others that would otherwise wait for something."""
    count = len(program.messages)
    staged = program.messages.reduce.tolist()
    waiting = np.unique(
        program.after[(program.after >= count) & (program.after < 2 * count)] - count
    ).tolist()
    before = _listed(program.before, program.after, len(position)) if waiting else []
    in_time, places = [], position.tolist()
    for i in (i for i in waiting if not staged[i]):
        staged[i] = not _all_precede(before[count + i], i, count, before, places)
        if not staged[i]:
            before[count + i] = []
            in_time.append(count + i)
    return staged, in_time


def _listed(first: Ints, then: Ints, count: int) -> list[list[int]]:
    """Per event: those before it."""
    found: list[list[int]] = [[] for _ in range(count)]
    for one, other in zip(first.tolist(), then.tolist(), strict=True):
        found[other].append(one)
    return found


def _all_pairs(pairs: tuple[Ints, Ints], port: Bools) -> tuple[Ints, Ints]:
    """What comes before what, receipts after sends included.

    What is sent over a port may be overwritten when it has been received, not when it has been sent.
    """
    first, then = pairs
    count, sends = len(port), np.arange(len(port))
    late = first < count
    late[late] = port[first[late]]
    return np.concatenate([np.where(late, first + count, first), sends]), np.concatenate(
        [then, count + sends]
    )


def _positions(pairs: tuple[Ints, Ints], time: Ints, port: Bools) -> Ints:
    """A place for every event in one order that respects all dependencies; by planned time, as far as they allow."""
    order = sorted_events(time, *_all_pairs(pairs, port))
    if len(order) < len(time):
        mend = (
            " over ports; export it out of place, or with all ranks in one box"
            if port.any()
            else "; verify it first"
        )
        raise PcclError(f"messages of the algorithm would wait for each other in a circle{mend}")
    position = np.empty(len(time), np.int64)
    position[order] = np.arange(len(time))
    return position


def _all_precede(
    events: list[int], event: int, count: int, before: list[list[int]], position: list[int]
) -> bool:
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
