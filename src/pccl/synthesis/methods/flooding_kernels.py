"""Flooding: all chunks at once, event by event; each free link takes the rarest chunk of use to its receiver."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from pccl._arrays import Bits, Bools, Indices, Ints
from pccl._heap_kernels import pop, push
from pccl._kernels import inlined, kernel
from pccl.network.graph_kernels import Network

# Places in `now`.
EVENTS = 0
COUNT = 1
TIME = 2
TOUCHED = 3
DICE = 4


class Flood(NamedTuple):
    """Who has what: rows of bits, one per job, for each device."""

    has: Bits
    coming: Bits  # what it has, or what is on its way to it
    wants: Bits  # of what it is a destination
    copies: Indices  # per job: devices that have it or will
    size: Indices  # per job: size class
    idle: Bools  # per arc
    touched: Ints  # arcs that something has happened to
    heap: Ints  # events: [slot, (time, kind, arc or transfer)]
    job: Indices  # transfers so far, in the order of their starts
    arc: Indices
    start: Ints
    now: Ints
    relays: bool  # whether devices take what they do not want


@kernel
def flood(net: Network, state: Flood, budget: int) -> bool:
    """Go on for so many transfers; returns whether there is nothing left to do."""
    limit = state.now[COUNT] + budget
    arcs = len(net.dst)
    while True:
        if not serve_touched(net, state):
            return False  # no room for more transfers
        if state.now[EVENTS] == 0:
            return True
        if state.now[COUNT] > limit:
            return False
        time = state.heap[0, 0]
        state.now[TIME] = time
        state.now[TOUCHED] = 0
        # All of this moment before any link chooses: one that becomes free may take what arrives
        # just now.
        while state.now[EVENTS] > 0 and state.heap[0, 0] == time:
            last = pop(state.heap, state.now[EVENTS])
            state.now[EVENTS] = last
            event = state.heap[last, 2]
            if event < arcs:
                state.idle[event] = True
                touch(state, event)
            else:
                transfer = event - arcs
                arrive(net, state, net.dst[state.arc[transfer]], state.job[transfer])


@inlined
def touch(state: Flood, arc: int) -> None:
    """Have a look at the arc before time goes on."""
    state.touched[state.now[TOUCHED]] = arc
    state.now[TOUCHED] += 1


@kernel
def arrive(net: Network, state: Flood, device: int, job: int) -> None:
    """The device has the chunk, and its idle arcs may have use for it."""
    state.has[device, job >> 6] |= np.uint64(1) << np.uint64(job & 63)
    for arc in range(net.first[device], net.first[device + 1]):
        if state.idle[arc]:
            touch(state, arc)


@kernel
def serve_touched(net: Network, state: Flood) -> bool:
    """Let idle arcs that something happened to take a chunk; returns False when there is no room to write it down."""
    count = state.now[TOUCHED]
    time = state.now[TIME]
    arcs = len(net.dst)
    while count > 0:
        # In turn from a random one on, so that no arc is always the first to choose.
        state.now[DICE] = (state.now[DICE] * 1103515245 + 12345) & 0x7FFFFFFF
        pick = (state.now[DICE] >> 8) % count
        arc = state.touched[pick]
        count -= 1
        state.touched[pick] = state.touched[count]
        if not state.idle[arc]:
            continue
        # What the receiver wants itself goes before what it would only pass on.
        job = rarest(net, state, arc, True)
        if job < 0 and state.relays:
            job = rarest(net, state, arc, False)
        if job < 0:
            continue
        transfer = state.now[COUNT]
        if transfer == len(state.arc):
            # It chooses again when there is more room.
            state.touched[count] = arc
            state.now[TOUCHED] = count + 1
            return False
        receiver = net.dst[arc]
        kind = net.kind[arc]
        size = state.size[job]
        state.coming[receiver, job >> 6] |= np.uint64(1) << np.uint64(job & 63)
        state.copies[job] += 1
        state.job[transfer] = job
        state.arc[transfer] = arc
        state.start[transfer] = time
        state.now[COUNT] += 1
        state.idle[arc] = False
        events = push(state.heap, state.now[EVENTS], time + net.hold[size, kind], 0, arc)
        state.now[EVENTS] = push(
            state.heap, events, time + net.travel[size, kind], 1, arcs + transfer
        )
    state.now[TOUCHED] = 0
    return True


@kernel
def rarest(net: Network, state: Flood, arc: int, wanted: bool) -> int:
    """The job with the fewest copies that the sender has and the receiver has not; -1 if there is none."""
    sender = net.src[arc]
    receiver = net.dst[arc]
    words = state.has.shape[1]
    best = np.int64(-1)
    fewest = np.int64(2**31)
    # From a random word on, so that of equally rare jobs not always the same are taken.
    word = state.now[DICE] % words
    for _ in range(words):
        useful = state.has[sender, word] & ~state.coming[receiver, word]
        useful &= state.wants[receiver, word] if wanted else ~state.wants[receiver, word]
        while useful != 0:
            job = (word << 6) + np.int64(trailing_zeros(useful))
            useful &= useful - np.uint64(1)
            if state.copies[job] < fewest:
                best = job
                fewest = np.int64(state.copies[job])
        word = word + 1 if word + 1 < words else 0
    return best


@kernel
def prune(net: Network, state: Flood, needed: Bits, useful: Bools) -> None:
    """Mark the transfers that feed a destination, going backwards in time."""
    # A device gets a chunk once, so the transfer that fed a useful one comes before it in time, and
    # after it here.
    for transfer in range(state.now[COUNT] - 1, -1, -1):
        job = state.job[transfer]
        arc = state.arc[transfer]
        word = job >> 6
        bit = np.uint64(1) << np.uint64(job & 63)
        receiver = net.dst[arc]
        wanted = needed[receiver, word] | state.wants[receiver, word]
        if wanted & bit != 0:
            useful[transfer] = True
            needed[net.src[arc], word] |= bit
