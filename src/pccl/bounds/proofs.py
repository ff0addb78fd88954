"""What certificates prove: short, exact, and without any search.

latency   the unloaded time of a chunk from one device to another
cut       what must leave a set of devices, over the rate at which its links carry it away
prices    whatever links cost, chunks pay for their cheapest ways, and links earn no more than they carry
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from pccl._arrays import Bools, Indices, Ints, offsets_of
from pccl.collective import Conditions
from pccl.network import (
    NEVER,
    few_sizes,
    network,
    no_way,
    price_table,
    times_from_nearest,
    unloaded_times,
)
from pccl.topology import Topology
from pccl.topology.core import transmission_time

__all__ = [
    "cut",
    "cut_of_chunks",
    "latency",
    "leaving",
    "longest_way",
    "prices",
    "rates",
    "shares",
    "useful_links",
]

Share = tuple[int, Indices, Indices, bool]  # bytes, sources, destinations, whether it is a sum


# --- latency ---------------------------------------------------------------------------------------------------------


def latency(
    topology: Topology, conditions: Conditions, chunk: int, source: int, destination: int
) -> int:
    """Picoseconds that a chunk needs at least from one of its sources to one of its destinations."""
    if (
        chunk < 0
        or source not in conditions.sources(chunk)
        or destination not in conditions.destinations(chunk)
    ):
        return 0
    net = network(topology, conditions.bytes[chunk : chunk + 1])
    return int(unloaded_times(net, np.array([source]), np.array([0]))[0, destination]) * net.unit


def longest_way(
    topology: Topology, conditions: Conditions, among: Bools | None = None
) -> tuple[int, int, tuple[int, int]]:
    """The most that :func:`latency` proves, for which chunk (among some), and from where to where."""
    sizes, size_of = conditions.sizes
    class_of_size, smallest = few_sizes(sizes)
    net = network(topology, sizes)
    chosen = (conditions.piece == 0) & (conditions.num_destinations > 0)
    if among is not None:
        chosen &= among
    best = (0, -1, (0, 0))
    known: set[tuple[bytes, bytes, int]] = set()
    tables: dict[int, Ints] = {}  # per class of sizes: unloaded times from device to device
    everybody = np.arange(topology.num_devices)
    for chunk in np.flatnonzero(chosen).tolist():
        sources, destinations = conditions.sources(chunk), conditions.destinations(chunk)
        size_class = int(class_of_size[size_of[chunk]])
        ends = sources.tobytes(), destinations.tobytes(), size_class
        if ends in known:
            continue
        known.add(ends)
        if size_class not in tables:
            same = np.full(len(everybody), smallest[size_class])
            tables[size_class] = unloaded_times(net, everybody, same)
        times = tables[size_class][np.ix_(sources, destinations)]
        source, destination = divmod(int(times.argmax()), len(destinations))
        pair = int(sources[source]), int(destinations[destination])
        if times[source, destination] >= NEVER:
            raise no_way(topology, chunk, *pair)
        if times[source, destination] > best[0]:
            best = int(times[source, destination]), chunk, pair
    if best[1] < 0:
        return best
    return latency(topology, conditions, best[1], *best[2]), *best[1:]


# --- cuts ------------------------------------------------------------------------------------------------------------


def cut(topology: Topology, conditions: Conditions, inside: Bools) -> int:
    """Picoseconds that the bytes which must leave the set need at least."""
    speeds, kind = rates(topology, conditions)
    count = np.bincount(kind[inside[topology.src] & ~inside[topology.dst]], minlength=len(speeds))
    rate = sum((int(n) * r for n, r in zip(count, speeds, strict=True)), Fraction(0))
    return math.ceil(int(conditions.bytes[leaving(conditions, inside)].sum()) / rate) if rate else 0


def cut_of_chunks(topology: Topology, conditions: Conditions, inside: Bools) -> int:
    """Picoseconds that the chunks which must leave the set need at least, if they are as large as the smallest.

    A link out of the set starts no earlier than a chunk can be there, sends whole chunks, and is done so early that
    the last can still reach one of its destinations.
    """
    leaves = leaving(conditions, inside)
    out = np.flatnonzero(inside[topology.src] & ~inside[topology.dst])
    if not len(out) or not np.any(leaves):
        return 0
    smallest = int(conditions.bytes[leaves].min())
    sources = _members(conditions.source_ids, conditions.source_offsets, leaves, inside)
    targets = _members(conditions.destination_ids, conditions.destination_offsets, leaves, ~inside)
    before = times_from_nearest(topology, smallest, sources)[topology.src[out]]
    after = times_from_nearest(topology.transpose(), smallest, targets)[topology.dst[out]]
    transmission = transmission_time(smallest, topology.bandwidth[out])
    hold = transmission + topology.held_latency[out]
    useful = (before < NEVER) & (after < NEVER)
    if not np.any(useful):
        return 0
    # The k-th chunk of a link is where it must be at `fixed + k * hold`.
    fixed = (before + after + transmission + topology.latency[out] - hold)[useful]
    return _time_for(int(np.count_nonzero(leaves)), fixed, hold[useful])


def _time_for(chunks: int, fixed: Ints, hold: Ints) -> int:
    """The least time by which links that need `fixed + k * hold` for k chunks have carried so many in all."""
    low, high = 0, int(fixed.max(initial=0)) + chunks * int(hold.max(initial=0))
    while low < high:
        middle = (low + high) // 2
        if int(np.maximum((middle - fixed) // hold, 0).sum()) >= chunks:
            high = middle
        else:
            low = middle + 1
    return low


def useful_links(topology: Topology, conditions: Conditions) -> Bools:
    """Links on some way from a source to a destination of anything."""
    some = 1
    everything, everybody = (
        np.ones(len(conditions), np.bool_),
        np.ones(topology.num_devices, np.bool_),
    )
    sources = _members(conditions.source_ids, conditions.source_offsets, everything, everybody)
    targets = _members(
        conditions.destination_ids, conditions.destination_offsets, everything, everybody
    )
    before, after = (
        times_from_nearest(topology, some, sources),
        times_from_nearest(topology.transpose(), some, targets),
    )
    return np.asarray((before[topology.src] < NEVER) & (after[topology.dst] < NEVER))


def _members(ids: Indices, offsets: Ints, rows: Bools, side: Bools) -> Ints:
    member = np.zeros(len(side), np.bool_)
    member[ids[np.repeat(rows, np.diff(offsets))]] = True
    return np.flatnonzero(member & side)


def leaving(conditions: Conditions, inside: Bools) -> Bools:
    """Chunks that start, or have a contributor, inside the set and must get to somebody outside."""
    starts = _any(inside[conditions.source_ids], conditions.source_offsets)
    return starts & _any(~inside[conditions.destination_ids], conditions.destination_offsets)


def _any(values: Bools, offsets: Ints) -> Bools:
    """Per row, whether any of its values is true."""
    counts = offsets_of(values)
    return counts[offsets[1:]] > counts[offsets[:-1]]


def rates(topology: Topology, conditions: Conditions) -> tuple[list[Fraction], Ints]:
    """Bytes per picosecond that links of each kind carry at most, and the kind of each link.

    An exclusive link is held for its latency too, so that it carries the largest chunks at the best rate, if times were
    not rounded up.
    """
    features = np.stack([topology.bandwidth, topology.held_latency])
    (bandwidth, lag), kind = np.unique(features, axis=1, return_inverse=True)
    largest = int(conditions.bytes.max(initial=1))
    speeds = [
        largest / (Fraction(largest * 10**12, int(b)) + int(a)) if a else Fraction(int(b), 10**12)
        for b, a in zip(bandwidth, lag, strict=True)
    ]
    return speeds, kind.reshape(-1)


# --- prices ----------------------------------------------------------------------------------------------------------


def prices(topology: Topology, conditions: Conditions, price: Ints) -> int:
    """Picoseconds in which links can earn, at these prices per byte, what the chunks must pay at least."""
    if len(price) != topology.num_links or np.any(price < 0):
        return 0
    speeds, kind = rates(topology, conditions)
    earned = sum(
        (int(price[kind == k].sum()) * speed for k, speed in enumerate(speeds)), Fraction(0)
    )
    return math.ceil(_least_cost(topology, conditions, price) / earned) if earned else 0


def _least_cost(topology: Topology, conditions: Conditions, price: Ints) -> int:
    distance = price_table(topology, price)
    single, several = shares(topology, conditions)
    total = (
        int((single.astype(object) * np.where(single > 0, distance, 0)).sum())
        if np.any(single)
        else 0
    )
    enter = _cheapest(price, topology.dst, topology.num_devices)
    leave = _cheapest(price, topology.src, topology.num_devices)
    known: dict[
        tuple[bytes, bytes, bool], int
    ] = {}  # shares of an All-Reduce have the same ends, and many of them
    for size, sources, destinations, reduces in several:
        ends = sources.tobytes(), destinations.tobytes(), reduces
        if ends not in known:
            way = int(distance[np.ix_(sources, destinations)].max())
            known[ends] = max(way, _ends(enter, leave, sources, destinations, reduces))
        total += size * known[ends]
    return total


def _ends(enter: Ints, leave: Ints, sources: Indices, destinations: Indices, reduces: bool) -> int:
    """What a chunk pays for entering all its destinations and leaving all its contributors, each at least once.

    The first device to hold a sum with several destinations is none of those that wait for it, and need not send its
    own contribution. Until then every other contributor has sent, and after that every other destination receives: two
    transfers for each member but one.
    """
    if not reduces:
        return int(enter[destinations].sum())
    if len(destinations) == 1:
        return int(leave[sources[sources != destinations[0]]].sum())
    return sum(int(ends.sum() - ends.max()) for ends in (enter[destinations], leave[sources]))


def _cheapest(price: Ints, end: Indices, devices: int) -> Ints:
    least = np.full(devices, NEVER)
    np.minimum.at(least, end, price)
    return np.where(least < NEVER, least, 0)


def shares(topology: Topology, conditions: Conditions) -> tuple[Ints, Iterator[Share]]:
    """Bytes from NPU to NPU, and one by one what has several destinations or contributors.

    Pieces of a share have the same ends: they are taken together.
    """
    n = topology.num_devices
    alone = (conditions.num_destinations == 1) & ~conditions.reduces
    source = conditions.source_ids[conditions.source_offsets[:-1][alone]].astype(np.int64)
    target = conditions.destination_ids[conditions.destination_offsets[:-1][alone]]
    single = np.zeros(n * n, np.int64)
    np.add.at(single, source * n + target, conditions.bytes[alone])
    share = np.cumsum(conditions.piece == 0) - 1
    size = np.zeros(share[-1] + 1 if len(share) else 0, np.int64)
    np.add.at(size, share, conditions.bytes)
    rows = np.flatnonzero(~alone & (conditions.piece == 0) & (conditions.num_destinations > 0))
    several = (
        (
            int(size[share[row]]),
            conditions.sources(row),
            conditions.destinations(row),
            bool(conditions.reduces[row]),
        )
        for row in rows.tolist()
    )
    return single.reshape(n, n), several
