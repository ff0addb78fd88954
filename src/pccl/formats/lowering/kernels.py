"""Compiled loops that decide what receivers do with what arrives (keep it, add it, or leave it), and order events.

What a device has of a sum is a set of contributions: a row of bits, one for every source of the chunk. Of a chunk that
is no sum there is one bit, which all sources have.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Bits, Bools, Indices, Ints
from pccl._heap_kernels import pop_key, push_key
from pccl._kernels import inlined, kernel
from pccl.algorithm.kernels import Moves

NONE = -1


class Sources(NamedTuple):
    """The sources of chunk `c` are ``ids[offsets[c]:offsets[c + 1]]``; `sums` says whether they are added up."""

    offsets: Ints
    ids: Indices
    sums: Bools


class Arrivals(NamedTuple):
    """Transfers that arrive at NPUs, by chunk, arrival and turn, and the paths that end with them.

    Those of chunk `c` are ``row[first[c]:first[c + 1]]``. Path `p` from ``offsets[k]`` to ``offsets[k + 1] - 1`` leaves
    its sender with transfer ``leaves[p]``, and arrives with transfer ``row[k]``.
    """

    first: Ints
    row: Ints
    offsets: Ints
    leaves: Ints


class Holdings(NamedTuple):
    """What is where while a chunk is followed; bits are rows of words.

    Devices have `have`, and `is_input` says whether that is still what they began with. Each transfer from an NPU
    carries what it had then: `sent` and `sent_input`, counted from the first of the chunk. `total`, `whole` and
    `covered` have one row of bits each: what arrives, all contributions, and what the receiver may come to have.
    """

    have: Bits
    is_input: Bools
    sent: Bits
    sent_input: Bools
    total: Bits
    whole: Bits
    covered: Bits


class Decisions(NamedTuple):
    """Per path: when it starts, what its ends do, and its place in the order in which they do it; -1 for nothing."""

    start: Ints
    reduce: Bools
    from_input: Bools
    adds_input: Bools
    sequence: Ints


@inlined
def same(one: Bits, other: Bits) -> bool:
    """Whether two sets are equal."""
    difference = np.uint64(0)
    for word in range(len(one)):
        difference |= one[word] ^ other[word]
    return difference == 0


@inlined
def overlap(one: Bits, other: Bits) -> bool:
    """Whether two sets have something in common."""
    common = np.uint64(0)
    for word in range(len(one)):
        common |= one[word] & other[word]
    return common != 0


@inlined
def unite(into: Bits, other: Bits) -> None:
    """Add a set to another."""
    for word in range(len(into)):
        into[word] |= other[word]


@inlined
def assign(into: Bits, other: Bits) -> None:
    """Make a set equal to another."""
    for word in range(len(into)):
        into[word] = other[word]


@inlined
def begin_chunk(chunk: int, moves: Moves, sources: Sources, held: Holdings) -> None:
    """Give every source its contribution, and nothing to all other devices that the chunk comes to."""
    for row in range(moves.first[chunk], moves.first[chunk + 1]):
        held.have[moves.dst[row]] = 0
        held.is_input[moves.dst[row]] = False
        # A sender that neither is a source nor receives anything has nothing.
        held.have[moves.src[row]] = 0
        held.is_input[moves.src[row]] = False
    held.whole[:] = 0
    for k in range(sources.offsets[chunk], sources.offsets[chunk + 1]):
        bit = k - sources.offsets[chunk] if sources.sums[chunk] else 0
        device = sources.ids[k]
        held.have[device] = 0
        held.have[device, bit >> 6] = np.uint64(1) << np.uint64(bit & 63)
        held.is_input[device] = True
        unite(held.whole, held.have[device])


@inlined
def choose_copy(
    paths: range, low: int, device: int, moves: Moves, arrivals: Arrivals, held: Holdings
) -> int:
    """How parts of a sum replace what a receiver has: 1 by adding those it lacks, 0 by copying, -1 if neither will do.

    A copy will not do if one of the parts is what the receiver has sent itself, and no longer has.
    """
    assign(held.covered, held.have[device])
    returns = False
    for path in paths:
        leaves = arrivals.leaves[path]
        # What it sent itself comes back.
        returns |= moves.src[leaves] == device
        if not overlap(held.sent[leaves - low], held.have[device]):
            unite(held.covered, held.sent[leaves - low])
    if same(held.covered, held.total):
        return 1
    return -1 if returns else 0


@kernel
def decide(
    moves: Moves, sources: Sources, arrivals: Arrivals, held: Holdings, made: Decisions
) -> int:
    """Follow all chunks, each in the order of time; returns the first arrival that cannot be delivered, or -1."""
    count = 0
    for chunk in range(len(moves.first) - 1):
        low = moves.first[chunk]
        # Chunks do not depend on each other; `held` is used again for each.
        begin_chunk(chunk, moves, sources, held)
        leaving = low
        # The first NPU that has added up a sum that switches have made, and when it had it.
        adder = NONE
        added_at = 0
        for k in range(arrivals.first[chunk], arrivals.first[chunk + 1]):
            row = arrivals.row[k]
            # What arrives at the moment when a transfer starts is there in time for it.
            while leaving < moves.first[chunk + 1] and moves.start[leaving] < moves.arrival[row]:
                assign(held.sent[leaving - low], held.have[moves.src[leaving]])
                held.sent_input[leaving - low] = held.is_input[moves.src[leaving]]
                leaving += 1
            device = moves.dst[row]
            paths = range(arrivals.offsets[k], arrivals.offsets[k + 1])
            held.total[:] = 0
            own = NONE
            from_adder = NONE
            # What arrives in all, and whether the receiver itself or the adder is among the senders.
            for path in paths:
                sender = moves.src[arrivals.leaves[path]]
                unite(held.total, held.sent[arrivals.leaves[path] - low])
                if sender == device:
                    own = path
                if sender == adder:
                    from_adder = path
            adds = moves.reduce[row]
            # A copy of what is there already changes nothing.
            if not adds and same(held.total, held.have[device]):
                continue
            # Switches have made the sum: whoever gets it first adds it up, and sends it to the others.
            if not adds and len(paths) > 1 and same(held.total, held.whole):
                # One message instead of one from every contributor, as soon as the sum is there.
                if from_adder != NONE:
                    made.start[from_adder] = added_at
                    made.sequence[from_adder] = count
                    count += 1
                    assign(held.have[device], held.total)
                    held.is_input[device] = False
                    continue
                if adder == NONE and own != NONE:
                    adder = device
                    added_at = moves.arrival[row]
            # Whether the receiver has any part of it already: a copy onto some needs a closer look.
            has_some = overlap(held.have[device], held.whole)
            only_new = False
            if not adds and has_some:
                way = choose_copy(paths, low, device, moves, arrivals, held)
                if way < 0:
                    return k
                only_new = way > 0
                adds = only_new
            replaced = not adds
            adds_input = held.is_input[device]
            for path in paths:
                leaves = arrivals.leaves[path]
                if only_new and overlap(held.sent[leaves - low], held.have[device]):
                    continue
                made.start[path] = moves.start[leaves]
                made.from_input[path] = held.sent_input[leaves - low]
                made.reduce[path] = adds and has_some
                made.adds_input[path] = adds and has_some and adds_input
                made.sequence[path] = count
                count += 1
                # The first part is kept or added; all others are added to that.
                adds = True
                has_some = True
                adds_input = False
            # A copy leaves nothing of what was there before, a sum all of it.
            if replaced:
                assign(held.have[device], held.total)
            else:
                unite(held.have[device], held.total)
            held.is_input[device] = False
    return NONE


@kernel
def find_turns(moves: Moves, sources: Sources, place: Ints, turn: Ints) -> None:
    """Per transfer of a sum: the turn of its receiver among the sources; another is first for each chunk."""
    for chunk in range(len(moves.first) - 1):
        count = sources.offsets[chunk + 1] - sources.offsets[chunk]
        if not sources.sums[chunk]:
            continue
        for k in range(count):
            place[sources.ids[sources.offsets[chunk] + k]] = k
        for row in range(moves.first[chunk], moves.first[chunk + 1]):
            turn[row] = (place[moves.dst[row]] - chunk) % count
        # Leave the row as it was, for the next chunk.
        for k in range(count):
            place[sources.ids[sources.offsets[chunk] + k]] = 0


@kernel
def order_events(missing: Ints, offsets: Ints, followers: Ints, heap: Ints, order: Ints) -> int:
    """All events, each after those it waits for, and otherwise by number; returns how many have a place.

    `missing` counts for how many others each event waits; those that wait for event `e` are
    ``followers[offsets[e]:offsets[e + 1]]``.
    """
    # An event is its own key, so that one array is both halves of the heap.
    size = 0
    for event in range(len(missing)):
        if missing[event] == 0:
            size = push_key(heap, heap, size, event, event)
    for done in range(len(missing)):
        if size == 0:
            return done
        # The event with the least number of those that wait for nothing.
        event = heap[0]
        size = pop_key(heap, heap, size)
        order[done] = event
        for k in range(offsets[event], offsets[event + 1]):
            follower = followers[k]
            missing[follower] -= 1
            if missing[follower] == 0:
                size = push_key(heap, heap, size, follower, follower)
    return len(missing)


@kernel
def serve(
    order: Ints, link: Ints, offsets: Ints, needs: Ints, hold: Ints, travel: Ints, free: Ints, arrival: Ints
) -> None:  # fmt: skip
    """When each event is over, in this order: after its needs, and after what its link, if it has one, served before.

    Event `e` needs those in ``needs[offsets[e]:offsets[e + 1]]``. What stands in `arrival` before is when it may begin.
    """
    for e in order:
        begin = arrival[e]
        for k in range(offsets[e], offsets[e + 1]):
            begin = max(begin, arrival[needs[k]])
        if link[e] >= 0:
            begin = max(begin, free[link[e]])
            free[link[e]] = begin + hold[e]
        arrival[e] = begin + travel[e]


@kernel
def find_waits(
    order: Ints, low: int, block: Ints, position: Ints, offsets: Ints, needs: Ints, known: Ints, history: Ints,
    waits: Bools,
) -> None:  # fmt: skip
    """Which needs of every operation of a rank it has to wait for, beyond what it knows from the waits before it.

    Operation `i` is the one at ``position[i]`` of ``block[i]``, and its needs are listed from ``offsets[i]`` on. What
    block `b` knows of every block is in ``known[b]``, and what it knew after operation `i` in ``history[i - low]``.
    """
    for i in order:
        mine = known[block[i]]
        for k in range(offsets[i], offsets[i + 1]):
            other = needs[k]
            # Not known to be done yet; after this wait, all that the other knew is known here as well.
            if mine[block[other]] < position[other]:
                waits[k] = True
                for b in range(len(mine)):
                    mine[b] = max(mine[b], history[other - low, b])
        mine[block[i]] = position[i]
        for b in range(len(mine)):
            history[i - low, b] = mine[b]
