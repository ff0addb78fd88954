"""Compiled loops that decide which neighbouring messages share a signal, where there is no room for each by itself.

Messages from one rank to another, one behind the other in the order in which they are sent, form a run. A run leaves
when all of its messages may, and is used when all of them have arrived.
"""

from __future__ import annotations

from typing import NamedTuple

from pccl._arrays import Bools, Ints
from pccl._heap_kernels import pop_key, push_key
from pccl._kernels import inlined, kernel
from pccl.errors import InternalError

NONE = -1
# Operations that two runs save as one: a sender synchronizes and signals once, and a receiver waits once. Whoever has
# to wait for others, to tell others, or to take what has landed in scratch synchronizes once for that, too.
SIGNAL = 2
RECEIPT = 1
TALK = 2
TAKE = 1


class Waits(NamedTuple):
    """What waits for what: sending message `m` is event `m`, receiving it is event `m` plus the number of messages.

    The events behind event `e` are ``after[first_after[e]:first_after[e + 1]]``, those before it likewise.
    """

    first_after: Ints
    after: Ints
    first_before: Ints
    before: Ints


class Runs(NamedTuple):
    """Runs, each by the number of its first message; at first every message is one.

    Attributes
    ----------
    ready, leave
        When the last of its messages may leave, and when it does.
    land, use
        When the last of its messages is there, and when the first of them is needed.
    travel
        How long after it has left the last of its messages is there at the earliest.
    waits, tells, staged
        Whether its sender waits for somebody, its receiver tells somebody, and something lands in scratch.
    holds, queues
        Whether something waits for its being sent, and whether its receipt waits for something else.
    size, last
        How many messages it has, and its last one.
    next
        The run behind it, with the same ends, or none.
    of, link
        Per message: its run, and the message behind it in its run.
    """

    ready: Ints
    leave: Ints
    land: Ints
    use: Ints
    travel: Ints
    waits: Bools
    tells: Bools
    staged: Bools
    holds: Bools
    queues: Bools
    size: Ints
    last: Ints
    next: Ints
    of: Ints
    link: Ints


class Room(NamedTuple):
    """Messages have a `src` and a `dst`, maybe over a `port`; ranks a `load` of operations, and `room` for some."""

    src: Ints
    dst: Ints
    port: Bools
    load: Ints
    room: Ints


class Late(NamedTuple):
    """Events that have become later, as a heap, and whether an event is in it."""

    keys: Ints
    items: Ints
    waiting: Bools


class Scratch(NamedTuple):
    """Arrays to work with: a heap of runs, one of late events, a stack, and marks of the events that were seen."""

    keys: Ints
    items: Ints
    late: Late
    stack: Ints
    mark: Ints


@kernel
def settle(waits: Waits, runs: Runs, scratch: Scratch) -> None:
    """Let whatever waits for something be no earlier, which tells what need not be looked at."""
    for run in range(len(runs.of)):
        delay(waits, runs, scratch, run)


@kernel
def join(waits: Waits, runs: Runs, room: Room, scratch: Scratch, most: int) -> None:
    """Join neighbours, those first that lose least time, until every rank has room or nothing more can be joined."""
    heap = 0
    for run in range(len(runs.of)):
        if runs.next[run] != NONE:
            heap = push_key(scratch.keys, scratch.items, heap, loss(runs, run), run)
    stamp = 0
    vain = 0
    while heap:
        # Until two runs are joined, each can get worse, and be dismissed, only once.
        vain += 1
        if vain > 2 * len(runs.of):
            raise InternalError("no two runs of messages are joined, and none is dismissed")
        known, run = scratch.keys[0], scratch.items[0]
        heap = pop_key(scratch.keys, scratch.items, heap)
        other = runs.next[run]
        if runs.of[run] != run or other == NONE or runs.size[run] + runs.size[other] > most:
            continue
        sends, receipts = saved(runs, room, run, other)
        src, dst = room.src[run], room.dst[run]
        helps_sender = sends > 0 and room.load[src] > room.room[src]
        if not helps_sender and room.load[dst] <= room.room[dst]:
            continue
        # What was joined since then can only have made it worse.
        now = loss(runs, run)
        if now > known:
            heap = push_key(scratch.keys, scratch.items, heap, now, run)
            continue
        stamp += 2
        if leads_to(waits, runs, scratch, run, other, stamp - 1) or leads_to(
            waits, runs, scratch, other, run, stamp
        ):
            continue
        vain = 0
        room.load[src] -= sends
        room.load[dst] -= receipts
        unite(runs, run, other)
        hurry(waits, runs, run)
        delay(waits, runs, scratch, run)
        if runs.next[run] != NONE:
            heap = push_key(scratch.keys, scratch.items, heap, loss(runs, run), run)


@inlined
def loss(runs: Runs, run: int) -> int:
    """How much later a run leaves, and is there when it is needed, together with the next one."""
    other = runs.next[run]
    ready = max(runs.ready[run], runs.ready[other])
    land = max(runs.land[run], runs.land[other])
    use = min(runs.use[run], runs.use[other])
    return max(ready - runs.leave[run], 0) + max(land - use, 0)


@inlined
def saved(runs: Runs, room: Room, run: int, other: int) -> tuple[int, int]:
    """Operations that the sender and the receiver save."""
    sends = 0 if room.port[run] else SIGNAL
    if runs.waits[run] and runs.waits[other]:
        sends += TALK
    receipts = RECEIPT
    if runs.tells[run] and runs.tells[other]:
        receipts += TALK
    if runs.staged[run] and runs.staged[other]:
        receipts += TAKE
    return sends, receipts


@inlined
def unite(runs: Runs, run: int, other: int) -> None:
    """Put the messages of another run behind those of a run."""
    there = max(runs.leave[run] + runs.travel[run], runs.leave[other] + runs.travel[other])
    runs.ready[run] = max(runs.ready[run], runs.ready[other])
    runs.leave[run] = max(runs.leave[run], runs.ready[run])
    runs.travel[run] = there - runs.leave[run]
    runs.land[run] = max(runs.land[run], runs.land[other])
    runs.use[run] = min(runs.use[run], runs.use[other])
    runs.waits[run] |= runs.waits[other]
    runs.tells[run] |= runs.tells[other]
    runs.staged[run] |= runs.staged[other]
    runs.holds[run] |= runs.holds[other]
    runs.queues[run] |= runs.queues[other]
    runs.size[run] += runs.size[other]
    runs.link[runs.last[run]] = other
    runs.last[run] = runs.last[other]
    runs.next[run] = runs.next[other]
    message = other
    for _ in range(runs.size[other]):
        runs.of[message] = run
        message = runs.link[message]


@inlined
def hurry(waits: Waits, runs: Runs, run: int) -> None:
    """What a run waits for is needed when it leaves, which for its later messages is earlier than planned."""
    count = len(runs.of)
    message = run
    for _ in range(runs.size[run]):
        for k in range(waits.first_before[message], waits.first_before[message + 1]):
            event = waits.before[k]
            if event >= count:
                feeder = runs.of[event - count]
                runs.use[feeder] = min(runs.use[feeder], runs.leave[run])
        message = runs.link[message]


@inlined
def delay(waits: Waits, runs: Runs, scratch: Scratch, run: int) -> None:
    """Whatever waits for a run, and for what waits for it, leaves and lands no earlier than that lets it."""
    count = len(runs.of)
    late = scratch.late
    size = leave_later(runs, late, 0, run, runs.leave[run])
    if runs.tells[run]:
        size = push_event(late, size, runs.land[run], count + run)
    # Events that wait for each other in a circle would get later without end.
    for _ in range(len(late.waiting) ** 2):
        if not size:
            break
        event = late.items[0]
        size = pop_key(late.keys, late.items, size)
        late.waiting[event] = False
        received = event >= count
        here = event - count if received else event
        done = runs.land[here] if received else runs.leave[here]
        message = here
        for _ in range(runs.size[here]):
            part = message + count if received else message
            for k in range(waits.first_after[part], waits.first_after[part + 1]):
                then = waits.after[k]
                if then >= count:
                    size = land_later(runs, late, size, runs.of[then - count], done)
                else:
                    follower = runs.of[then]
                    runs.ready[follower] = max(runs.ready[follower], done)
                    if done > runs.leave[follower]:
                        size = leave_later(runs, late, size, follower, done)
            message = runs.link[message]
    if size:
        raise InternalError("messages that wait for each other get later without end")


@inlined
def leave_later(runs: Runs, late: Late, size: int, run: int, time: int) -> int:
    """Let a run leave, and so land, later; returns how many events are late then."""
    # Only what others wait for has to be looked at.
    if runs.holds[run]:
        size = push_event(late, size, runs.leave[run], run)
    runs.leave[run] = time
    return land_later(runs, late, size, run, time + runs.travel[run])


@inlined
def land_later(runs: Runs, late: Late, size: int, run: int, time: int) -> int:
    """Let a run land no earlier than at some time; returns how many events are late then."""
    if time <= runs.land[run]:
        return size
    if runs.tells[run]:
        size = push_event(late, size, runs.land[run], len(runs.of) + run)
    runs.land[run] = time
    return size


@inlined
def push_event(late: Late, size: int, time: int, event: int) -> int:
    """Add an event unless it waits already; returns the new size.

    The first to come are those that were to happen first: what waits for others was later than they, so that nearly all
    events move once.
    """
    if late.waiting[event]:
        return size
    late.waiting[event] = True
    return push_key(late.keys, late.items, size, time, event)


@inlined
def leads_to(
    waits: Waits, runs: Runs, scratch: Scratch, run: int, other: int, stamp: int
) -> bool:  # fmt: skip
    """Whether another run has to wait for a run by way of others: then they would wait in a circle as one."""
    count = len(runs.of)
    # What is later than the other one cannot lead to it.
    limit = runs.land[other] if runs.queues[other] else runs.leave[other]
    if runs.land[run] > limit and not runs.holds[run]:
        return False
    # Nodes are runs as they are sent, and behind those, as they are received.
    scratch.stack[0], scratch.stack[1] = run, count + run
    scratch.mark[run], scratch.mark[count + run] = stamp, stamp
    size = 2
    for _ in range(len(scratch.mark)):
        if size == 0:
            break
        size -= 1
        node = scratch.stack[size]
        received = node >= count
        here = node - count if received else node
        message = here
        for _ in range(runs.size[here]):
            event = message + count if received else message
            for k in range(waits.first_after[event], waits.first_after[event + 1]):
                then = waits.after[k]
                lands = then >= count
                follower = runs.of[then - count] if lands else runs.of[then]
                if follower == other:
                    return True
                when = runs.land[follower] if lands else runs.leave[follower]
                entry = follower + count if lands else follower
                if scratch.mark[entry] != stamp and when <= limit:
                    scratch.mark[entry] = stamp
                    scratch.stack[size] = entry
                    size += 1
            message = runs.link[message]
        # What is sent is received.
        entry = here + count
        if not received and scratch.mark[entry] != stamp and runs.land[here] <= limit:
            scratch.mark[entry] = stamp
            scratch.stack[size] = entry
            size += 1
    if size > 0:
        raise InternalError("a run of messages is looked at more than once for what it leads to")
    return False
