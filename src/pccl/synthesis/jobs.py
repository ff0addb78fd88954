"""From conditions to jobs: one chunk from one device to its destinations, in one direction of time.

A reduction is the mirror image of a broadcast: on the transposed topology, with time running backwards, the sum leaves
its root and spreads to all contributors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pccl._arrays import Column, Indices, Ints, offsets_of, take_rows
from pccl.collective import Conditions
from pccl.errors import InfeasibleError
from pccl.network import LONGEST, NEVER, Network, few_sizes, network, no_way, unloaded_times
from pccl.synthesis.search_kernels import JobColumns
from pccl.synthesis.zones import Zones
from pccl.topology import Topology

SMALL = 100_000  # with fewer jobs there is time for the best search, and for second opinions


@dataclass(frozen=True, eq=False)
class Jobs:
    """Jobs in columns, with their unloaded distances on the network they run on."""

    topology: Topology
    net: Network
    chunk: Indices
    source: Indices
    size: Indices  # size class
    piece: Indices
    first: Ints  # destinations of job j are destination[first[j] : first[j + 1]]
    destination: Indices
    row: Indices  # of `remaining`; for jobs with several destinations that of their zone, which holds zeros
    remaining: Ints  # [row, device]: unloaded time from there to the destination of the row, inside the zone
    zones: int  # rows of `remaining` that belong to zones
    distance: Ints  # unloaded time to the farthest destination

    def __len__(self) -> int:
        return len(self.chunk)

    @property
    def any_single(self) -> bool:
        """Whether some job has just one destination, so that its routes may be kept minimal."""
        return bool(np.any(self.row >= self.zones))

    @property
    def any_several(self) -> bool:
        """Whether some job has several destinations."""
        return bool(np.any(np.diff(self.first) > 1))

    @cached_property
    def hops(self) -> int:
        """About how many links the chunks with one destination take, if their hops are typical."""
        if not self.any_single:
            return 0
        typical = max(float(self.net.travel.mean()), 1)
        return int(self.distance[self.row >= self.zones].sum() / typical)

    @cached_property
    def _compact_remaining(self) -> tuple[Column, int]:
        """Times in 16 bits where they fit: the search looks into this table most, so it should be small."""
        reachable = self.remaining < NEVER
        if int(self.remaining.max(initial=0, where=reachable)) > 65_000:
            return self.remaining, int(NEVER)
        return np.where(reachable, self.remaining, 65_535).astype(np.uint16), 65_535

    @cached_property
    def _haste(self) -> int:
        """With many jobs, a hop nearer to the destination is worth waiting for half as long as a link is held."""
        longest = int(self.distance.max(initial=0))
        if len(self) <= SMALL or longest > 2**50:  # times that are multiplied must still fit
            return 0
        return int(128 * self.net.hold.min() / self.net.travel.min())

    def columns(self, order: Ints, release: Ints, minimal: bool) -> JobColumns:
        """The jobs as kernels want them, in this order; none begins before its release.

        Kernels go through them from the first to the last: looked up in an order, they would be a third slower.
        """
        remaining, unreachable = self._compact_remaining
        first, destination = take_rows(self.first, self.destination, order)
        return JobColumns(
            source=self.source[order],
            release=release[order],
            size=self.size[order],
            row=self.row[order],
            first=first,
            destination=destination,
            remaining=remaining,
            unreachable=unreachable,
            zones=self.zones,
            minimal=minimal,
            haste=self._haste,
        )


def jobs_that_collect(
    topology: Topology, conditions: Conditions, zones: Zones, root: Indices, steps: bool
) -> Jobs:
    """Mirrored jobs on the transposed topology: from the root of every reduction to its contributors."""
    chunks = np.flatnonzero(conditions.reduces)
    ends = take_rows(conditions.source_offsets, conditions.source_ids, chunks)
    jobs = _jobs(topology.transpose(), conditions, zones, chunks, root[chunks], *ends, steps)
    return _checked(jobs, mirrored=True)


def jobs_that_spread(
    topology: Topology, conditions: Conditions, zones: Zones, root: Indices, steps: bool
) -> Jobs:
    """Forward jobs: every plain chunk, and the finished sum of every reduction with further destinations."""
    chunks = np.flatnonzero(~conditions.reduces | (conditions.num_destinations > 1))
    ends = take_rows(conditions.destination_offsets, conditions.destination_ids, chunks)
    jobs = _jobs(topology, conditions, zones, chunks, root[chunks], *ends, steps)
    return _checked(jobs, mirrored=False)


def jobs_backwards(topology: Topology, conditions: Conditions, zones: Zones) -> Jobs | None:
    """Plain chunks as if they went from their destination to their source; None unless each has one of both."""
    one_source = np.all(np.diff(conditions.source_offsets) == 1)
    one_destination = np.all(conditions.num_destinations == 1)
    if np.any(conditions.reduces) or not one_source or not one_destination:
        return None
    chunks = np.arange(len(conditions))
    ends = conditions.source_offsets, conditions.source_ids
    jobs = _jobs(
        topology.transpose(),
        conditions,
        zones,
        chunks,
        conditions.destination_ids,
        *ends,
        steps=False,
    )
    return _checked(jobs, mirrored=True)


def _jobs(
    topology: Topology,
    conditions: Conditions,
    zones: Zones,
    chunks: Ints,
    source: Indices,
    first: Ints,
    destination: Indices,
    steps: bool,
) -> Jobs:
    # The root of a sum may be among its contributors and destinations.
    if np.any(conditions.reduces):
        first, destination = _without(first, destination, source)
    sizes, size_of = conditions.sizes
    size = size_of[chunks]
    width = np.diff(first)
    class_of_size, smallest = few_sizes(sizes)
    size_class = class_of_size[size]
    net = network(topology, sizes, steps)

    zone = zones.of_chunks(conditions)[chunks]
    row = zone.astype(np.int32)
    distance = np.zeros(len(chunks), np.int64)
    remaining = np.where(zones.allowed, 0, NEVER)
    single = np.flatnonzero(width == 1)
    if len(single):
        target = destination[first[single]]
        # From everywhere to a target it takes as long as from there to everywhere on the transposed
        # network.
        backward = network(topology.transpose(), sizes, steps)
        ends = (target, size_class[single], zone[single])
        table, row_of = _times_from(backward, *ends, smallest, zones)
        remaining = np.concatenate([remaining, table])
        row[single] = row_of + len(zones)
        distance[single] = table[row_of, source[single]]
    several = np.flatnonzero(width > 1)
    if len(several):
        ends = (source[several], size_class[several], zone[several])
        table, row_of = _times_from(net, *ends, smallest, zones)
        begin, targets = take_rows(first, destination, several)
        times = table[np.repeat(row_of, width[several]), targets]
        distance[several] = np.maximum.reduceat(times, begin[:-1])
    return Jobs(
        topology=topology,
        net=net,
        chunk=chunks.astype(np.int32),
        source=source,
        size=size,
        piece=conditions.piece[chunks],
        first=first,
        destination=destination,
        row=row,
        remaining=remaining,
        zones=len(zones),
        distance=distance,
    )


def _without(first: Ints, values: Indices, member: Indices) -> tuple[Ints, Indices]:
    """Lists without one of their members each."""
    owner = np.repeat(np.arange(len(member)), np.diff(first))
    keep = values != member[owner]
    if np.all(keep):
        return first, values
    return offsets_of(np.bincount(owner[keep], minlength=len(member))), values[keep]


def _times_from(
    net: Network, devices: Indices, size_class: Column, zone: Ints, smallest: Ints, zones: Zones
) -> tuple[Ints, Ints]:
    """Unloaded times from every device, for each class of sizes and zone that occurs with it; and the row of each."""
    keys = (zone * len(smallest) + size_class) * len(zones.allowed[0]) + devices
    used = np.flatnonzero(np.bincount(keys))
    row_of = np.empty(used[-1] + 1, np.int64)
    row_of[used] = np.arange(len(used))
    which, device = np.divmod(used, len(zones.allowed[0]))
    its_zone, its_class = np.divmod(which, len(smallest))
    table = np.empty((len(used), len(zones.allowed[0])), np.int64)
    for one in np.unique(its_zone):
        rows = np.flatnonzero(its_zone == one)
        sizes = smallest[its_class[rows]]
        allowed = zones.allowed[one] if one else None
        table[rows] = unloaded_times(net, device[rows], sizes, allowed)
    return table, row_of[keys]


def _checked(jobs: Jobs, mirrored: bool) -> Jobs:
    """The jobs, if all destinations can be reached, and soon enough for times to fit an int64."""
    unreachable = np.flatnonzero(jobs.distance >= NEVER)
    if len(unreachable):
        raise _unreachable(jobs, int(unreachable[0]), mirrored)
    # Placed one after another, as they are at worst, jobs take their distances in all.
    longest = float(jobs.distance.sum(dtype=np.float64)) * jobs.net.unit
    if jobs.net.limited:
        longest *= jobs.topology.num_devices
    if longest > LONGEST:
        raise InfeasibleError(
            f"{len(jobs)} chunks may take longer than two weeks on {jobs.topology.name}: "
            "too long to schedule"
        )
    return jobs


def _unreachable(jobs: Jobs, job: int, mirrored: bool) -> InfeasibleError:
    source = int(jobs.source[job])
    size_class = jobs.size[job : job + 1].astype(np.int64)
    targets = jobs.destination[jobs.first[job] : jobs.first[job + 1]]
    anywhere = unloaded_times(jobs.net, np.array([source]), size_class)[0]
    confined = bool(np.all(anywhere[targets] < NEVER))
    times = anywhere
    # The rows of zones say which devices belong to them; of one destination there is no doubt which it is.
    if confined and len(targets) > 1:
        inside = jobs.remaining[jobs.row[job]] < NEVER
        times = unloaded_times(jobs.net, np.array([source]), size_class, inside)[0]
    target = int(targets[np.argmax(times[targets] >= NEVER)])
    sender, receiver = (target, source) if mirrored else (source, target)
    return no_way(jobs.topology, int(jobs.chunk[job]), sender, receiver, confined)
