"""Cuts: what must leave a set of devices takes the time that the links out of it need.

The certificate is the set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from pccl._arrays import Bools, Ints, take_rows
from pccl.algorithm.bound import Certificate
from pccl.bounds.case import Case
from pccl.bounds.traffic import any_of, rates
from pccl.collective import Conditions, format_group
from pccl.network import NEVER, times_from_nearest
from pccl.topology import Topology
from pccl.topology.core import transmission_time

__all__ = ["QUICK", "explain", "find", "prove"]

QUICK = True


def find(case: Case) -> Iterator[tuple[Certificate, bool]]:
    """Yield the narrowest set, and for whole chunks several: that of the fewest bytes need not be the best."""
    sets = [tuple(np.flatnonzero(inside).tolist()) for inside in case.cuts]
    yield {"devices": sets[0]}, False
    if case.whole_chunks:
        for devices in sets:
            yield {"devices": devices}, True


def prove(
    topology: Topology, conditions: Conditions, certificate: Certificate, whole_chunks: bool
) -> int:
    """Picoseconds that what must leave the set needs at least."""
    inside = np.zeros(topology.num_devices, np.bool_)
    inside[list(certificate["devices"])] = True
    out = np.flatnonzero(inside[topology.src] & ~inside[topology.dst])
    starts_inside = any_of(inside[conditions.source_ids], conditions.source_offsets)
    ends_outside = any_of(~inside[conditions.destination_ids], conditions.destination_offsets)
    leaves = starts_inside & ends_outside
    if not len(out) or not np.any(leaves):
        return 0
    if whole_chunks:
        return _time_of_chunks(topology, conditions, inside, out, leaves)
    speeds, kind = rates(topology, conditions)
    links = np.bincount(kind[out], minlength=len(speeds)).tolist()
    rate = sum((n * speed for n, speed in zip(links, speeds, strict=True)), Fraction(0))
    return math.ceil(int(conditions.bytes[leaves].sum()) / rate)


def explain(certificate: Certificate) -> str:
    """Which set it is."""
    devices = format_group(certificate["devices"])
    if len(devices) >= 60:
        devices = devices[:57] + "..."
    return f"what must leave devices {devices}"


def _time_of_chunks(
    topology: Topology, conditions: Conditions, inside: Bools, out: Ints, leaves: Bools
) -> int:
    """Picoseconds that whole chunks need, if all are as small as the smallest.

    A link out of the set starts no earlier than a chunk can be there, sends whole chunks, and is done so early that
    the last can still reach one of its destinations.
    """
    smallest = int(conditions.bytes[leaves].min())
    chunks = np.flatnonzero(leaves)
    _, sources = take_rows(conditions.source_offsets, conditions.source_ids, chunks)
    _, targets = take_rows(conditions.destination_offsets, conditions.destination_ids, chunks)
    sources = np.unique(sources[inside[sources]])
    targets = np.unique(targets[~inside[targets]])
    before = times_from_nearest(topology, smallest, sources)[topology.src[out]]
    after = times_from_nearest(topology.transpose(), smallest, targets)[topology.dst[out]]
    useful = (before < NEVER) & (after < NEVER)
    if not np.any(useful):
        return 0
    transmission = transmission_time(smallest, topology.bandwidth[out])
    hold = transmission + topology.held_latency[out]
    # The k-th chunk of a link is where it must be at `fixed + k * hold`.
    fixed = before + transmission + topology.latency[out] + after - hold
    return _time_for(int(np.count_nonzero(leaves)), fixed[useful], hold[useful])


def _time_for(chunks: int, fixed: Ints, hold: Ints) -> int:
    """The least time by which links that need `fixed + k * hold` for k chunks have carried all chunks."""
    low = 0
    high = int(fixed.max()) + chunks * int(hold.max())
    while low < high:
        middle = (low + high) // 2
        carried = np.maximum((middle - fixed) // hold, 0)
        if int(carried.sum()) >= chunks:
            high = middle
        else:
            low = middle + 1
    return low
