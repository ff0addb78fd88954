"""What is sent and received together: single messages, or several where a plan has no room for each of them.

A message is a put into the memory of its receiver, so it lands when its sender sends. One that is added to something,
or could land on what is still in use, goes to a place of its own in scratch, from where the receiver takes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise

import numpy as np

from pccl._arrays import Bools, Ints, inverse, offsets_by_owner
from pccl.errors import PcclError
from pccl.formats.lowering import Program
from pccl.formats.lowering.ordering import sorted_events
from pccl.formats.mscclpp.joining_kernels import NONE, Late, Room, Runs, Scratch, Waits, join

# Messages that share a signal, at most.
MOST_TOGETHER = 16


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

    @property
    def batch_of(self) -> Ints:
        """Per message: its batch."""
        found = np.empty(len(self.staged), np.int64)
        sizes = [len(batch) for batch in self.messages]
        found[list(chain.from_iterable(self.messages))] = np.repeat(np.arange(len(self)), sizes)
        return found

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

    @property
    def answered(self) -> Bools:
        """Per batch: whether its sender must hear that a port has read it, because something overwrites it."""
        answered: Bools = self.port & (self.followers[: len(self)] > 0)
        return answered

    def joined(self, load: Ints, room: Ints) -> Batches:
        """Single messages with their neighbours, as few as possible, where ranks have a greater load than room."""
        count = len(self)
        copies = len(self.time) - 2 * count
        runs = self._runs(load, room)
        # In the order in which they are sent.
        order = np.argsort(self.position[:count])
        _, first, inverse_of = np.unique(runs[order], return_index=True, return_inverse=True)
        batch_of = np.empty(count, np.int64)
        batch_of[order] = inverse(np.argsort(first))[inverse_of]
        total = len(first)
        by_batch = order[np.argsort(batch_of[order], kind="stable")]
        bounds = pairwise(offsets_by_owner(batch_of, total).tolist())
        messages = [by_batch[low:high].tolist() for low, high in bounds]
        events = 2 * total + copies
        # What becomes of the events: sends, receipts, copies.
        moved = np.concatenate([batch_of, total + batch_of, 2 * total + np.arange(copies)])
        first, then = self.pairs
        # Batches wait for each other once, however many of their messages do.
        then, first = np.divmod(np.unique(moved[then] * events + moved[first]), events)
        # A batch is as late as the last of its messages.
        time = np.zeros(events, np.int64)
        np.maximum.at(time, moved, self.time)
        # Messages of a batch agree in their ends.
        sample = [batch[0] for batch in messages]
        ends = (self.src[sample], self.dst[sample], self.port[sample])
        position = _positions((first, then), time, ends[2])
        return Batches(messages, *ends, self.staged, (first, then), time, position)

    def _runs(self, load: Ints, room: Ints) -> Ints:
        """Per message: the first of those that it is joined with."""
        count = len(self)
        # Copies take part as messages that are never joined, and are there as soon as they are sent.
        everything = np.arange(len(self.time) - count)
        copies = everything[count:]
        event = np.concatenate([everything[:count], len(everything) + everything[:count], copies])
        first, then = _all_pairs(self.pairs, self.port)
        # A send comes before its own receipt anyway.
        first, then = event[first[: len(self.pairs[0])]], event[then[: len(self.pairs[0])]]
        leave = np.concatenate([self.time[:count], self.time[2 * count :]])
        land = self.time[count:].copy()
        time = np.concatenate([leave, land])
        use = np.full(len(time), time.max(initial=0))
        np.minimum.at(use, first, time[then])
        ready = np.zeros(len(time), np.int64)
        np.maximum.at(ready, then, time[first])
        is_message = everything < count
        needs = np.bincount(then, minlength=len(time)) > 0
        followed = np.bincount(first, minlength=len(time)) > 0
        staged = np.zeros(len(everything), np.bool_)
        staged[:count] = self.staged
        runs = Runs(
            ready=ready[: len(everything)],
            leave=leave,
            land=land,
            use=use[len(everything) :],
            travel=land - leave,
            waits=is_message & needs[: len(everything)],
            tells=is_message & followed[len(everything) :],
            staged=staged,
            holds=followed[: len(everything)].copy(),
            queues=needs[len(everything) :].copy(),
            size=np.ones(len(everything), np.int64),
            last=everything.copy(),
            next=np.append(self._behind(), np.full(len(copies), NONE)),
            of=everything.copy(),
            link=np.full(len(everything), NONE),
        )
        waits = Waits(
            offsets_by_owner(first, len(time)),
            then[np.argsort(first, kind="stable")],
            offsets_by_owner(then, len(time)),
            first[np.argsort(then, kind="stable")],
        )
        keys, items, late_keys, late_items, stack = np.empty((5, len(time)), np.int64)
        late = Late(late_keys, late_items, np.zeros(len(time), np.bool_))
        mark = np.zeros(len(time), np.int64)
        limits = Room(self.src, self.dst, self.port, load.copy(), room)
        join(waits, runs, limits, Scratch(keys, items, late, stack, mark), MOST_TOGETHER)
        return runs.of[:count]

    def _behind(self) -> Ints:
        """Per message: the next between its ranks, in the order in which they are sent."""
        count = len(self)
        order = np.lexsort((self.position[:count], self.dst, self.src))
        one, other = order[:-1], order[1:]
        same = (self.src[one] == self.src[other]) & (self.dst[one] == self.dst[other])
        behind = np.full(count, NONE, np.int64)
        behind[one[same]] = other[same]
        return behind


def single(program: Program, box: int) -> Batches:
    """Every message by itself; ports connect boxes of `box` ranks each."""
    m = program.messages
    first, then = program.before, program.after
    port = m.src // box != m.dst // box
    time = np.concatenate([m.start, m.arrival, program.copies.time])
    # The order with all that a program waits for; what turns out to be needless cannot make it wrong.
    position = _positions((first, then), time, port)
    staged, in_time = _staged(program, position)
    # Whoever sends these knows that what they wait for is done.
    kept = ~np.isin(then, in_time)
    messages = [[i] for i in range(len(m))]
    pairs = (first[kept], then[kept])
    return Batches(messages, m.src, m.dst, port, staged, pairs, time, position)


def _staged(program: Program, position: Ints) -> tuple[list[bool], list[int]]:
    """Per message whether it lands in scratch; and the receipts of others that would otherwise wait for something."""
    count = len(program.messages)
    # A sum needs both of its parts, so that what arrives must not land on the other one.
    staged = program.messages.reduce.tolist()
    receipts = (program.after >= count) & (program.after < 2 * count)
    waiting = np.unique(program.after[receipts] - count).tolist()
    before = _listed(program.before, program.after, len(position)) if waiting else []
    places = position.tolist()
    in_time = []
    for i in waiting:
        if staged[i]:
            continue
        # A put does not ask its receiver: it may go to its place at once only if whoever sends it knows, from
        # what it has received, that the place is free.
        if _all_precede(before[count + i], i, count, before, places):
            # It waits no longer, so that later questions must find their way through its send.
            before[count + i] = []
            in_time.append(count + i)
        else:
            staged[i] = True
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
    sends = np.arange(len(port))
    receipts = len(port) + sends
    # The port reads its source some time after the send.
    late = first < len(port)
    late[late] = port[first[late]]
    done = np.where(late, first + len(port), first)
    return np.concatenate([done, sends]), np.concatenate([then, receipts])


def _positions(pairs: tuple[Ints, Ints], time: Ints, port: Bools) -> Ints:
    """A place for every event in one order that respects all dependencies; by planned time, as far as they allow."""
    order = sorted_events(time, *_all_pairs(pairs, port))
    if len(order) < len(time):
        mend = "; verify it first"
        if port.any():
            mend = " over ports; export it out of place, or with all ranks in one box"
        raise PcclError(f"messages of the algorithm would wait for each other in a circle{mend}")
    return inverse(order)


def _all_precede(
    events: list[int], event: int, count: int, before: list[list[int]], position: list[int]
) -> bool:
    """Whether all these events are complete, for certain, when another one begins."""
    missing = set(events)
    oldest = min(position[e] for e in events)
    seen = {event}
    queue = [event]
    # Back from the one that begins, to whatever it is ordered after; nothing older than all of them is of interest.
    while queue and missing:
        one = queue.pop()
        missing.discard(one)
        # A receipt also comes after its own send.
        sources = [*before[one], one - count] if count <= one < 2 * count else before[one]
        for earlier in sources:
            if earlier not in seen and position[earlier] >= oldest:
                seen.add(earlier)
                queue.append(earlier)
    return not missing
