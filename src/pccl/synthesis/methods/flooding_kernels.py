"""Flooding: all chunks at once, event by event; each free link takes the rarest chunk of use to its receiver.

Where switches pass messages on one by one, it is not links that choose, but ways from one device that keeps chunks to
another: a way takes a chunk when all its links are free by the time at which the message gets there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._array_kernels import trailing_zeros
from pccl._arrays import Bits, Bools, Indices, Ints
from pccl._heap_kernels import pop, push
from pccl._kernels import inlined, kernel
from pccl.errors import InternalError
from pccl.network.calendar_kernels import Lanes, first_gap, full, occupy, room_of
from pccl.network.graph_kernels import Network
from pccl.synthesis.methods.ways_kernels import Ways
from pccl.synthesis.search_kernels import DONE, LANE_FULL, OUTPUT_FULL, PAUSED

# Places in `now`.
EVENTS = 0
COUNT = 1
TIME = 2
TOUCHED = 3
DICE = 4
LOOKED = 5
# Chunks that are compared at most: the rarest of so many is rare enough, and with a million chunks nobody looks at all.
MOST_COMPARED = 2048


class Flood(NamedTuple):
    """Who has what: rows of bits, one per job, for each device. What is said of arcs may be said of ways."""

    has: Bits
    coming: Bits  # what it has, or what is on its way to it
    wants: Bits  # of what it is a destination
    copies: Indices  # per job: devices that have it or will
    size: Indices  # per job: size class
    idle: Bools  # per arc; of a way, whether it does not wait for a moment to come
    touched: Ints  # arcs that something has happened to
    heap: Ints  # events: [slot, (time, kind, arc or transfer)]
    job: Indices  # transfers so far, in the order of their starts
    arc: Indices
    start: Ints
    now: Ints
    relays: bool  # whether devices take what they do not want
    in_turn: bool  # whether ways choose in turn, the nearest neighbours first, or in any order


@kernel
def flood(net: Network, state: Flood, budget: int) -> int:
    """Go on for so many transfers; returns why it stopped."""
    limit = state.now[COUNT] + budget
    # Where nothing is sent, nothing new will happen.
    vain = 0
    while vain <= len(state.heap):
        count = state.now[COUNT]
        if not serve_touched(net, state):
            return OUTPUT_FULL
        if state.now[EVENTS] == 0:
            return DONE
        if state.now[COUNT] > limit:
            return PAUSED
        go_on(net.first, net.dst, state)
        vain = vain + 1 if state.now[COUNT] == count else 0
    raise InternalError("flooding waits for more than can happen before a chunk is sent")


@kernel
def flood_ways(net: Network, ways: Ways, lanes: Lanes, state: Flood, budget: int) -> int:
    """Go on for so many messages; returns why it stopped."""
    limit = state.now[COUNT] + budget
    # Where nothing is sent, calendars stay as they are: for each size, a way waits once for each time that is taken.
    most_waits = len(state.heap) + len(ways.arc) * room_of(lanes) * len(net.hold)
    vain = 0
    while vain <= most_waits:
        count = state.now[COUNT]
        status = serve_touched_ways(net, ways, lanes, state)
        if status != DONE:
            return status
        if state.now[EVENTS] == 0:
            return DONE
        if state.now[COUNT] > limit:
            return PAUSED
        go_on(ways.first, ways.dst, state)
        vain = vain + 1 if state.now[COUNT] == count else 0
    raise InternalError("flooding waits for more than can happen before a chunk is sent")


@kernel
def go_on(first: Ints, dst: Indices, state: Flood) -> None:
    """Let all happen that happens next; `first` and `dst` are those of arcs, or of ways."""
    arcs = len(dst)
    time = state.heap[0, 0]
    state.now[TIME] = time
    state.now[TOUCHED] = 0
    # All of this moment before any link chooses: one that becomes free may take what arrives just now.
    for _ in range(state.now[EVENTS]):
        if state.heap[0, 0] != time:
            break
        last = pop(state.heap, state.now[EVENTS])
        state.now[EVENTS] = last
        event = state.heap[last, 2]
        if event < arcs:
            state.idle[event] = True
            touch(state, event)
        else:
            transfer = event - arcs
            arrive(first, state, dst[state.arc[transfer]], state.job[transfer])


@inlined
def touch(state: Flood, arc: int) -> None:
    """Have a look at the arc before time goes on."""
    state.touched[state.now[TOUCHED]] = arc
    state.now[TOUCHED] += 1


@kernel
def arrive(first: Ints, state: Flood, device: int, job: int) -> None:
    """The device has the chunk, and its idle arcs may have use for it."""
    state.has[device, job >> 6] |= np.uint64(1) << np.uint64(job & 63)
    for arc in range(first[device], first[device + 1]):
        if state.idle[arc]:
            touch(state, arc)


@kernel
def serve_touched(net: Network, state: Flood) -> bool:
    """Let idle arcs that something happened to take a chunk; returns False when there is no room to write it down."""
    count = state.now[TOUCHED]
    time = state.now[TIME]
    arcs = len(net.dst)
    while count > 0:
        arc = take_touched(state, count, True)
        count -= 1
        if not state.idle[arc]:
            continue
        # What the receiver wants itself goes before what it would only pass on.
        sender = net.src[arc]
        receiver = net.dst[arc]
        job = rarest(state, sender, receiver, True)
        if job < 0 and state.relays:
            job = rarest(state, sender, receiver, False)
        if job < 0:
            continue
        transfer = state.now[COUNT]
        if transfer == len(state.arc):
            # It chooses again when there is more room.
            state.touched[count] = arc
            state.now[TOUCHED] = count + 1
            return False
        kind = net.kind[arc]
        size = state.size[job]
        send(state, arc, receiver, job)
        events = push(state.heap, state.now[EVENTS], time + net.hold[size, kind], 0, arc)
        state.now[EVENTS] = push(
            state.heap, events, time + net.travel[size, kind], 1, arcs + transfer
        )
    state.now[TOUCHED] = 0
    return True


@kernel
def serve_touched_ways(net: Network, ways: Ways, lanes: Lanes, state: Flood) -> int:
    """Let ways that something happened to take a chunk, if they can at once; returns why it stopped."""
    count = state.now[TOUCHED]
    time = state.now[TIME]
    while count > 0:
        way = take_touched(state, count, not state.in_turn)
        count -= 1
        if not state.idle[way]:
            continue
        state.now[LOOKED] += 1
        # Calendars first, as they answer sooner than a look at all chunks: most chunks are of one size.
        moment = earliest_use(net, ways, lanes, way, 0, time)
        if moment > time:
            wait(ways, state, way, moment)
            continue
        sender = ways.src[way]
        receiver = ways.dst[way]
        job = rarest(state, sender, receiver, True)
        if job < 0 and state.relays:
            job = rarest(state, sender, receiver, False)
        if job < 0:
            continue
        size = state.size[job]
        if size > 0:
            moment = earliest_use(net, ways, lanes, way, size, time)
            if moment > time:
                wait(ways, state, way, moment)
                continue
        transfer = state.now[COUNT]
        status = room_on(net, ways, lanes, way, size, time)
        if transfer == len(state.arc):
            status = OUTPUT_FULL
        if status != DONE:
            # It chooses again when there is more room.
            state.touched[count] = way
            state.now[TOUCHED] = count + 1
            return status
        send(state, way, receiver, job)
        again, arrival = take_way(net, ways, lanes, way, size, time)
        wait(ways, state, way, again)
        # Before all ways that wait for this moment, since those that choose in turn begin with the last.
        state.now[EVENTS] = push(
            state.heap, state.now[EVENTS], arrival, -1, len(ways.dst) + transfer
        )
    state.now[TOUCHED] = 0
    return DONE


@kernel
def earliest_use(net: Network, ways: Ways, lanes: Lanes, way: int, size: int, time: int) -> int:
    """The first moment from `time` on at which a message may leave and find every link free when it gets there."""
    k = ways.begin[way]
    moment = time
    # It goes back once, at most, for each time at which a link is taken.
    left = (ways.begin[way + 1] - k) * room_of(lanes)
    while k < ways.begin[way + 1]:
        arc = ways.arc[k]
        kind = net.kind[arc]
        free, _ = first_gap(lanes, net.lane[arc], moment, net.hold[size, kind])
        if free > moment:
            if left == 0:
                raise InternalError("a way finds its links taken more often than calendars can say")
            left -= 1
            # Once more from the beginning, later by as much as it would have had to wait here.
            time += free - moment
            moment = time
            k = ways.begin[way]
        else:
            moment += net.travel[size, kind]
            k += 1
    return time


@kernel
def room_on(net: Network, ways: Ways, lanes: Lanes, way: int, size: int, time: int) -> int:
    """Whether the calendars of a way have room for a message."""
    for k in range(ways.begin[way], ways.begin[way + 1]):
        if full(lanes, net.lane[ways.arc[k]], time):
            return LANE_FULL
        time += net.travel[size, net.kind[ways.arc[k]]]
    return DONE


@kernel
def take_way(
    net: Network, ways: Ways, lanes: Lanes, way: int, size: int, time: int
) -> tuple[int, int]:
    """Take the links of a way for a message that leaves now; returns when the first is free again, and its arrival."""
    again = time + net.hold[size, net.kind[ways.arc[ways.begin[way]]]]
    for k in range(ways.begin[way], ways.begin[way + 1]):
        lane = net.lane[ways.arc[k]]
        kind = net.kind[ways.arc[k]]
        hold = net.hold[size, kind]
        _, slot = first_gap(lanes, lane, time, hold)
        occupy(lanes, lane, slot, time, time + hold)
        time += net.travel[size, kind]
    return again, time


@inlined
def take_touched(state: Flood, count: int, shuffled: bool) -> int:
    """Take one of so many arcs that something has happened to: the last, or any of them."""
    # Any of them, so that no arc is always the first to choose.
    state.now[DICE] = (state.now[DICE] * 1103515245 + 12345) & 0x7FFFFFFF
    pick = (state.now[DICE] >> 8) % count if shuffled else count - 1
    arc = state.touched[pick]
    state.touched[pick] = state.touched[count - 1]
    return arc


@inlined
def wait(ways: Ways, state: Flood, way: int, moment: int) -> None:
    """Have another look at the way then, and not before."""
    state.idle[way] = False
    place = way - ways.first[ways.src[way]]
    state.now[EVENTS] = push(state.heap, state.now[EVENTS], moment, place, way)


@inlined
def send(state: Flood, arc: int, receiver: int, job: int) -> None:
    """Write down that the chunk leaves now."""
    transfer = state.now[COUNT]
    state.coming[receiver, job >> 6] |= np.uint64(1) << np.uint64(job & 63)
    state.copies[job] += 1
    state.job[transfer] = job
    state.arc[transfer] = arc
    state.start[transfer] = state.now[TIME]
    state.now[COUNT] += 1
    state.idle[arc] = False


@kernel
def rarest(state: Flood, sender: int, receiver: int, wanted: bool) -> int:
    """The job with the fewest copies, of many, that the sender has and the receiver has not; -1 if there is none."""
    words = state.has.shape[1]
    best = np.int64(-1)
    fewest = np.int64(2**31)
    compared = 0
    # From a random word on, so that of equally rare jobs not always the same are taken.
    word = state.now[DICE] % words
    for _ in range(words):
        useful = state.has[sender, word] & ~state.coming[receiver, word]
        useful &= state.wants[receiver, word] if wanted else ~state.wants[receiver, word]
        while useful != 0:
            job = (word << 6) + np.int64(trailing_zeros(useful))
            useful &= useful - np.uint64(1)
            compared += 1
            if state.copies[job] < fewest:
                best = job
                fewest = np.int64(state.copies[job])
        if compared >= MOST_COMPARED:
            break
        word = word + 1 if word + 1 < words else 0
    return best


@kernel
def prune(src: Indices, dst: Indices, state: Flood, needed: Bits, useful: Bools) -> None:
    """Mark the transfers that feed a destination, going backwards in time; over arcs, or ways, with these ends."""
    # A device gets a chunk once, so the transfer that fed a useful one comes before it in time, and
    # after it here.
    for transfer in range(state.now[COUNT] - 1, -1, -1):
        job = state.job[transfer]
        arc = state.arc[transfer]
        word = job >> 6
        bit = np.uint64(1) << np.uint64(job & 63)
        receiver = dst[arc]
        wanted = needed[receiver, word] | state.wants[receiver, word]
        if wanted & bit != 0:
            useful[transfer] = True
            needed[src[arc], word] |= bit
