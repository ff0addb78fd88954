"""Compiled loops of the simulator: transfers that are served first come, first served.

A transfer first needs a place in the switch it goes to, for the stay that it begins, and then its link. A link serves
one transfer at a time, and has a queue. Nothing but full buffers can block, as links wait for nothing but time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Bools, Indices, Ints
from pccl._heap_kernels import pop, push
from pccl._kernels import kernel
from pccl.errors import InternalError

NONE = np.int64(-1)

# What happens to a transfer.
SENT = 0  # its last byte has left
ARRIVED = 1  # its last byte is there
FREE = 2  # its link can serve another
KINDS = 3


class Queues(NamedTuple):
    """Lists of those who wait, first come first."""

    first: Ints  # per place where one waits
    last: Ints
    following: Ints  # per one who waits: the next in its queue


class Service(NamedTuple):
    """Transfers under way, what happens next, and what they wait for."""

    hold: Ints
    transmission: Ints
    travel: Ints
    start: Ints  # -1 until it starts
    heap: Ints  # [slot, (time, sequence, KINDS * transfer + what happens)]
    events: Ints  # [0]: how many wait in the heap, [1]: how many there ever were
    link: Indices  # per transfer
    busy: Bools  # per link
    queues: Queues  # of transfers, per link
    # Finite buffers, and the stays that queue for a place in them.
    stay: Indices  # [transfer, (sends a chunk on from, brings a chunk for)]: or -1; no rows without finite buffers
    switch: Ints  # per stay
    left: Ints  # per stay: transfers that are not over
    previous: Ints  # per stay: that of the same chunk before, which must be over
    next: Ints
    wanted: Bools  # per stay: whether a transfer has asked for it
    granted: Bools
    first_transfer: Ints  # per stay: the first in the list of transfers that wait for it
    places: Ints  # per device: how many are free
    stay_queues: Queues  # of stays, per device


@kernel
def serve_first_come(
    order: Ints,
    first: Ints,
    followers: Ints,
    missing: Ints,
    state: Service,
) -> None:
    """Serve all transfers as they become ready; events at the same time happen in the order of their causes."""
    for transfer in order:
        if missing[transfer] == 0:
            enter(state, transfer, 0)
    for _ in range(KINDS * len(state.link) + 1):
        if state.events[0] == 0:
            break
        slot = pop(state.heap, state.events[0])
        state.events[0] = slot
        time = state.heap[slot, 0]
        transfer = state.heap[slot, 2] // KINDS
        kind = state.heap[slot, 2] % KINDS
        # Those who wait already go before those who become ready by the same event.
        if kind == FREE:
            serve_next(state, state.link[transfer], time)
        if kind == ARRIVED:
            for k in range(first[transfer], first[transfer + 1]):
                missing[followers[k]] -= 1
                if missing[followers[k]] == 0:
                    enter(state, followers[k], time)
        if kind != FREE:
            stay = stay_of(state, transfer, kind)
            if stay >= 0:
                count_off(state, stay, time)
    else:
        raise InternalError("more happens to transfers in queues than can happen to each of them")


class Backlog(NamedTuple):
    """Transfers that wait for their links, by place in the list: a heap for each link."""

    first: Ints  # per link: where its heap begins, and where the last ends
    count: Ints  # per link: how many wait
    heap: Ints


@kernel
def serve_oldest_first(
    first: Ints, followers: Ints, missing: Ints, link: Indices, hold: Ints, travel: Ints,
    backlog: Backlog, busy: Bools, events: Ints, start: Ints,
) -> None:  # fmt: skip
    """Serve all transfers as they become ready; of those that wait for a link, the first in the list goes first.

    Switches have no limits here.
    """
    transfers = len(link)
    for transfer in range(transfers):
        if missing[transfer] == 0:
            await_link(backlog, link[transfer], transfer)
    size = np.int64(0)
    for each in range(len(busy)):
        size = take_oldest(backlog, each, 0, hold, travel, busy, events, size, start)
    for _ in range(2 * transfers + 1):
        if size == 0:
            break
        size = pop(events, size)
        time = events[size, 0]
        transfer = events[size, 2] // KINDS
        # At one moment arrivals come first, so that a link that gets free knows all who wait for it.
        if events[size, 2] % KINDS == FREE:
            busy[link[transfer]] = False
            size = take_oldest(
                backlog, link[transfer], time, hold, travel, busy, events, size, start
            )
            continue
        for k in range(first[transfer], first[transfer + 1]):
            ready = followers[k]
            missing[ready] -= 1
            if missing[ready] == 0:
                await_link(backlog, link[ready], ready)
                size = take_oldest(
                    backlog, link[ready], time, hold, travel, busy, events, size, start
                )
    else:
        raise InternalError("transfers arrive or free their links more than once")


@kernel
def await_link(backlog: Backlog, link: int, transfer: int) -> None:
    """Put a transfer into the heap of its link."""
    heap = backlog.heap[backlog.first[link] : backlog.first[link + 1]]
    backlog.count[link] = push(heap, backlog.count[link], transfer, 0, 0)


@kernel
def take_oldest(
    backlog: Backlog, link: int, time: int, hold: Ints, travel: Ints, busy: Bools, events: Ints, size: int, start: Ints
) -> int:  # fmt: skip
    """Start the first transfer that waits for a link, if there is one and the link is free; returns the events."""
    if busy[link] or backlog.count[link] == 0:
        return size
    heap = backlog.heap[backlog.first[link] : backlog.first[link + 1]]
    backlog.count[link] = pop(heap, backlog.count[link])
    transfer = heap[backlog.count[link], 0]
    busy[link] = True
    start[transfer] = time
    size = push(events, size, time + travel[transfer], 0, KINDS * transfer + ARRIVED)
    return push(events, size, time + hold[transfer], 1, KINDS * transfer + FREE)


@kernel
def stay_of(state: Service, transfer: int, side: int) -> int:
    """The stay of the chunk at the sender or at the receiver of a transfer, or -1."""
    return state.stay[transfer, side] if len(state.stay) > 0 else NONE


@kernel
def enter(state: Service, transfer: int, time: int) -> None:
    """A transfer is ready: it goes to its link, or waits for the stay that it begins to have a place."""
    stay = stay_of(state, transfer, ARRIVED)
    if stay < 0 or state.granted[stay]:
        ask(state, transfer, time)
        return
    # It waits in no queue yet, so its link to the next in a queue can make a list of those who wait
    # for the stay.
    state.queues.following[transfer] = state.first_transfer[stay]
    state.first_transfer[stay] = transfer
    if not state.wanted[stay]:
        state.wanted[stay] = True
        if state.previous[stay] < 0 or state.left[state.previous[stay]] == 0:
            join(state.stay_queues, state.switch[stay], stay)
            grant(state, state.switch[stay], time)


@kernel
def grant(state: Service, switch: int, time: int) -> None:
    """Give free places of a switch to the stays that asked first."""
    for _ in range(state.places[switch]):
        if state.stay_queues.first[switch] < 0:
            break
        stay = leave(state.stay_queues, switch)
        state.places[switch] -= 1
        state.granted[stay] = True
        transfer = state.first_transfer[stay]
        for _ in range(len(state.link) + 1):
            if transfer < 0:
                break
            # The list of those who wait for the stay uses the places of the queues that they go to now.
            after = state.queues.following[transfer]
            ask(state, transfer, time)
            transfer = after
        else:
            raise InternalError("those who wait for a stay are a list without an end")


@kernel
def count_off(state: Service, stay: int, time: int) -> None:
    """One transfer less; with the last one the stay is over, and its place is free."""
    state.left[stay] -= 1
    if state.left[stay] == 0:
        state.places[state.switch[stay]] += 1
        again = state.next[stay]
        if again >= 0 and state.wanted[again]:
            join(state.stay_queues, state.switch[again], again)
        grant(state, state.switch[stay], time)


@kernel
def ask(state: Service, transfer: int, time: int) -> None:
    """Start a transfer if its link is free; otherwise it queues."""
    link = state.link[transfer]
    if state.busy[link]:
        join(state.queues, link, transfer)
    else:
        begin(state, transfer, time)


@kernel
def begin(state: Service, transfer: int, time: int) -> None:
    """Start a transfer."""
    state.busy[state.link[transfer]] = True
    state.start[transfer] = time
    schedule(state, time + state.hold[transfer], transfer, FREE)
    schedule(state, time + state.travel[transfer], transfer, ARRIVED)
    # Only a buffer cares when the last byte has left.
    if stay_of(state, transfer, SENT) >= 0:
        schedule(state, time + state.transmission[transfer], transfer, SENT)


@kernel
def schedule(state: Service, time: int, transfer: int, kind: int) -> None:
    """Something will happen to a transfer."""
    event = KINDS * transfer + kind
    state.events[0] = push(state.heap, state.events[0], time, state.events[1], event)
    state.events[1] += 1


@kernel
def serve_next(state: Service, link: int, time: int) -> None:
    """A link is free, for the first of those that queue."""
    state.busy[link] = False
    if state.queues.first[link] >= 0:
        begin(state, leave(state.queues, link), time)


@kernel
def join(queues: Queues, place: int, one: int) -> None:
    """Put one at the end of the queue of a place."""
    queues.following[one] = NONE
    if queues.first[place] < 0:
        queues.first[place] = one
    else:
        queues.following[queues.last[place]] = one
    queues.last[place] = one


@kernel
def leave(queues: Queues, place: int) -> int:
    """Take the first one out of the queue of a place."""
    one = queues.first[place]
    queues.first[place] = queues.following[one]
    return one
