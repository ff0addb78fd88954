"""Compiled loops that decide which messages land in scratch, as their places may still be in use."""

from __future__ import annotations

from typing import NamedTuple

from pccl._arrays import Bools, Ints
from pccl._kernels import kernel
from pccl.errors import InternalError


class Order(NamedTuple):
    """What comes before what: sending message `m` is event `m`, receiving it is event `m` plus the number of messages.

    The events before event `e` are ``before[first[e]:first[e + 1]]``. Its position is its place in one order of all.
    """

    first: Ints
    before: Ints
    position: Ints


class Marks(NamedTuple):
    """Per event: the last question for which it was sought, and the last one that has seen it; and a stack of them."""

    sought: Ints
    seen: Ints
    stack: Ints


@kernel
def stage(order: Order, marks: Marks, waiting: Ints, staged: Bools, in_time: Bools) -> None:
    """Note which messages land in scratch; and of those whose receipt would wait, which find their places free.

    A put does not ask its receiver: it may go to its place at once only if whoever sends it knows, from what it has
    received, that the place is free.
    """
    for question in range(len(waiting)):
        message = waiting[question]
        if not staged[message]:
            # It then waits no longer, so that later questions must find their way through its send.
            in_time[message] = knows(order, marks, in_time, message, question + 1)
            staged[message] = not in_time[message]


@kernel
def knows(order: Order, marks: Marks, in_time: Bools, message: int, stamp: int) -> bool:
    """Whether all that the receipt of a message waits for is complete, for certain, when it is sent."""
    count = len(in_time)
    receipt = count + message
    missing = 0
    oldest = order.position[order.before[order.first[receipt]]]
    for k in range(order.first[receipt], order.first[receipt + 1]):
        event = order.before[k]
        oldest = min(oldest, order.position[event])
        if marks.sought[event] != stamp:
            marks.sought[event] = stamp
            missing += 1
    marks.seen[message] = stamp
    marks.stack[0] = message
    size = 1
    # Back from the send, to whatever it is ordered after; nothing older than all of them is of interest.
    for _ in range(len(marks.seen) + 1):
        if size == 0 or missing == 0:
            break
        size -= 1
        event = marks.stack[size]
        if marks.sought[event] == stamp:
            missing -= 1
        received = count <= event < 2 * count
        begin = order.first[event]
        end = order.first[event + 1]
        if received:
            # A receipt also comes after its own send.
            size = see(order, marks, event - count, oldest, stamp, size)
            if in_time[event - count]:
                end = begin
        for k in range(begin, end):
            size = see(order, marks, order.before[k], oldest, stamp, size)
    else:
        raise InternalError("an event is looked at more than once for what comes before it")
    return missing == 0


@kernel
def see(order: Order, marks: Marks, event: int, oldest: int, stamp: int, size: int) -> int:
    """Put an event on the stack unless it has been seen, or is too old; returns how many are there."""
    if marks.seen[event] == stamp or order.position[event] < oldest:
        return size
    marks.seen[event] = stamp
    marks.stack[size] = event
    return size + 1
