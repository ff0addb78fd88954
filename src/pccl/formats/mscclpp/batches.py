"""What is sent and received together: single messages, or several where a plan has no room for each of them.

A message is a put into the memory of its receiver, so it lands when its sender sends. One that is added to something,
or could land on what is still in use, goes to a place of its own in scratch, from where the receiver takes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from pccl._arrays import Bools, Ints, distinct, inverse, offsets_by_owner, sorted_order
from pccl.errors import PcclError
from pccl.formats.lowering import Program
from pccl.formats.lowering.ordering import sorted_events
from pccl.formats.mscclpp.staging_kernels import Marks, Order, stage


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


def single(program: Program, box: int) -> Batches:
    """Every message by itself; ports connect boxes of `box` ranks each."""
    m = program.messages
    first, then = program.before, program.after
    port = m.src // box != m.dst // box
    time = np.concatenate([m.start, m.arrival, program.copies.time])
    # The order with all that a program waits for; what turns out to be needless cannot make it wrong.
    position = positions((first, then), time, port)
    staged, in_time = _staged(program, position)
    # Whoever sends these knows that what they wait for is done.
    kept = ~np.isin(then, in_time)
    messages = [[i] for i in range(len(m))]
    pairs = (first[kept], then[kept])
    return Batches(messages, m.src, m.dst, port, staged, pairs, time, position)


def _staged(program: Program, position: Ints) -> tuple[list[bool], Ints]:
    """Per message whether it lands in scratch; and the receipts of others that would otherwise wait for something."""
    count = len(program.messages)
    events = len(position)
    # A sum needs both of its parts, so that what arrives must not land on the other one.
    staged = program.messages.reduce.copy()
    in_time = np.zeros(count, np.bool_)
    receipts = (program.after >= count) & (program.after < 2 * count)
    waiting = distinct(program.after[receipts] - count)
    before = program.before[sorted_order(program.after)]
    order = Order(offsets_by_owner(program.after, events), before, position)
    sought, seen, stack = np.zeros((3, events), np.int64)
    stage(order, Marks(sought, seen, stack), waiting, staged, in_time)
    return staged.tolist(), count + np.flatnonzero(in_time)


def _listed(first: Ints, then: Ints, count: int) -> list[list[int]]:
    """Per event: those before it."""
    found: list[list[int]] = [[] for _ in range(count)]
    for one, other in zip(first.tolist(), then.tolist(), strict=True):
        found[other].append(one)
    return found


def all_pairs(pairs: tuple[Ints, Ints], port: Bools) -> tuple[Ints, Ints]:
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


def positions(pairs: tuple[Ints, Ints], time: Ints, port: Bools) -> Ints:
    """A place for every event in one order that respects all dependencies; by planned time, as far as they allow."""
    order = sorted_events(time, *all_pairs(pairs, port))
    if len(order) < len(time):
        mend = "; verify it first"
        if port.any():
            mend = " over ports; export it out of place, or with all ranks in one box"
        raise PcclError(f"messages of the algorithm would wait for each other in a circle{mend}")
    return inverse(order)
