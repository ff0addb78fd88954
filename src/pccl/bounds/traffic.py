"""What bounds ask about conditions on a network."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from pccl._arrays import Bools, Floats, Indices, Ints, offsets_of
from pccl.collective import Conditions
from pccl.network import NEVER, times_from_nearest
from pccl.topology import Topology

__all__ = ["Share", "any_of", "link_rates", "rates", "several_ends", "single_ends", "useful_links"]


class Share(NamedTuple):
    """Pieces that belong together: they have the same ends."""

    bytes: int
    sources: Indices
    destinations: Indices
    reduces: bool


def any_of(values: Bools, offsets: Ints) -> Bools:
    """Per row of a list of lists, whether any of its values is true."""
    counts = offsets_of(values)
    return counts[offsets[1:]] > counts[offsets[:-1]]


def rates(topology: Topology, conditions: Conditions) -> tuple[list[Fraction], Ints]:
    """Bytes per picosecond that links of each kind carry at most, and the kind of each link.

    An exclusive link is held for its latency too, so that it carries the largest chunks at the best rate, if times were
    not rounded up.
    """
    features = np.stack([topology.bandwidth, topology.held_latency])
    kinds, kind = np.unique(features, axis=1, return_inverse=True)
    largest = int(conditions.bytes.max(initial=1))
    speeds = []
    for bandwidth, held_latency in kinds.T.tolist():
        transmission = Fraction(largest * 10**12, bandwidth)
        speeds.append(largest / (transmission + held_latency))
    return speeds, kind.reshape(-1)


def link_rates(topology: Topology, conditions: Conditions) -> Floats:
    """Per link: the bytes per picosecond that it carries at most, rounded."""
    speeds, kind = rates(topology, conditions)
    return np.array(speeds, np.float64)[kind]


def useful_links(topology: Topology, conditions: Conditions) -> Bools:
    """Links on some way from a source to a destination of anything."""
    sources = np.unique(conditions.source_ids)
    targets = np.unique(conditions.destination_ids)
    before = times_from_nearest(topology, 1, sources)[topology.src]
    after = times_from_nearest(topology.transpose(), 1, targets)[topology.dst]
    return np.asarray((before < NEVER) & (after < NEVER))


def single_ends(topology: Topology, conditions: Conditions) -> Ints:
    """Bytes from device to device of all that has one source and one destination."""
    n = topology.num_devices
    alone = _has_single_ends(conditions)
    source = conditions.source_ids[conditions.source_offsets[:-1][alone]].astype(np.int64)
    target = conditions.destination_ids[conditions.destination_offsets[:-1][alone]]
    table = np.zeros(n * n, np.int64)
    np.add.at(table, source * n + target, conditions.bytes[alone])
    return table.reshape(n, n)


def several_ends(conditions: Conditions) -> Iterator[Share]:
    """Yield all that has several destinations or contributors, share by share."""
    first_piece = conditions.piece == 0
    share = np.cumsum(first_piece) - 1
    size = np.zeros(np.count_nonzero(first_piece), np.int64)
    np.add.at(size, share, conditions.bytes)
    wanted = conditions.num_destinations > 0
    rows = np.flatnonzero(first_piece & wanted & ~_has_single_ends(conditions))
    for row in rows.tolist():
        sources = conditions.sources(row)
        destinations = conditions.destinations(row)
        yield Share(int(size[share[row]]), sources, destinations, bool(conditions.reduces[row]))


def _has_single_ends(conditions: Conditions) -> Bools:
    single: Bools = conditions.num_destinations == 1
    return single & ~conditions.reduces
