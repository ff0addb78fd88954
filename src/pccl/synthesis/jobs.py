"""From conditions to jobs: one chunk from one device to its destinations, in one direction of time.

A reduction is the mirror image of a broadcast: on the transposed topology, with time running backwards, the sum leaves
its destination and spreads to all contributors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Indices, Ints, offsets_of, take_rows
from pccl.collective import Conditions
from pccl.errors import InfeasibleError
from pccl.network import LONGEST, NEVER, Network, few_sizes, network, no_way, unloaded_times
from pccl.synthesis.kernels import Tasks
from pccl.synthesis.orders import ORDERS
from pccl.topology import Topology

__all__ = ["SMALL", "Jobs", "centers", "gathering", "reducing", "roots", "turned"]

SMALL = 100_000  # with fewer jobs there is time for the best search, and for second opinions


@dataclass(frozen=True)
class Jobs:
    """Jobs in columns, with their unloaded distances on the network they run on."""

    topology: Topology
    net: Network
    chunk: Indices
    source: Indices
    size: Indices
    piece: Indices
    first: Ints
    destination: Indices
    row: Indices
    remaining: Ints
    distance: Ints

    def __len__(self) -> int:
        return len(self.chunk)

    @property
    def any_single(self) -> bool:
        """Whether some job has just one destination, so that its routes may be kept minimal."""
        return bool(np.any(self.row))

    @property
    def _haste(self) -> int:
        """With many jobs, a hop nearer to the destination is worth waiting for half as long as a link is held."""
        if (
            len(self) <= SMALL or self.distance.max() > 2**50
        ):  # times that are multiplied must still fit
            return 0
        return int(128 * self.net.hold.min() / self.net.travel.min())

    def in_order(
        self, order: str | Ints, minimal: bool, release: Ints, seed: int
    ) -> tuple[Ints, Tasks]:
        """The permutation that an order asks for, and the jobs in it as the kernel wants them."""
        if isinstance(order, str):
            order = ORDERS[order](self.distance, self.piece, np.random.default_rng(seed))
        permutation = order
        first, destination = take_rows(self.first, self.destination, permutation)
        remaining, unreachable = _compact(self.remaining)
        return permutation, Tasks(
            source=self.source[permutation],
            release=release[permutation],
            size=self.size[permutation],
            row=self.row[permutation],
            first=first,
            destination=destination,
            remaining=remaining,
            unreachable=unreachable,
            minimal=minimal,
            haste=self._haste,
        )


def roots(topology: Topology, conditions: Conditions) -> Indices:
    """Per chunk: its source, or where a reduction is collected (taking destinations in turn, share by share).

    Where not everybody can be reached from everybody, it is midway instead: a destination need not lead to others.
    """
    root = _in_turn(conditions)
    several = conditions.reduces & (conditions.num_destinations > 1)
    if not np.any(several) or _all_joined(topology, conditions):
        return root
    return centers(topology, conditions, root)


def _all_joined(topology: Topology, conditions: Conditions) -> bool:
    """Whether there is a way from every device that takes part to every other."""
    ends = np.concatenate([conditions.source_ids, conditions.destination_ids])
    one, size = ends[:1].astype(np.int64), np.zeros(1, np.int64)
    return all(
        bool(
            np.all(unloaded_times(network(side, np.ones(1, np.int64)), one, size)[0, ends] < NEVER)
        )
        for side in (topology, topology.transpose())
    )


def _in_turn(conditions: Conditions) -> Indices:
    root = conditions.source_ids[conditions.source_offsets[:-1]]
    reduces = np.flatnonzero(conditions.reduces)
    share = np.cumsum(conditions.piece[reduces] == 0) - 1
    # Shares are counted from the first of their collective, so that every collective starts with its first destination.
    collective = conditions.collective[reduces]
    new = np.flatnonzero(np.diff(collective, prepend=-1))
    share -= np.repeat(share[new], np.diff(np.append(new, len(reduces))))
    begin, width = conditions.destination_offsets[reduces], conditions.num_destinations[reduces]
    root[reduces] = conditions.destination_ids[begin + share % np.maximum(width, 1)]
    return root


def centers(topology: Topology, conditions: Conditions, root: Indices) -> Indices:
    """Like `root`, but sums with several destinations are collected midway between all who take part.

    That may be at a switch. Where several devices are equally good, shares take them in turn.
    """
    root, known = root.copy(), dict[tuple[bytes, bytes], Indices]()
    to, back = (
        network(side, conditions.sizes[0][-1:]) for side in (topology, topology.transpose())
    )
    for number, chunk in enumerate(
        np.flatnonzero(conditions.reduces & (conditions.num_destinations > 1)).tolist()
    ):
        sources, destinations = conditions.sources(chunk), conditions.destinations(chunk)
        members = sources.tobytes(), destinations.tobytes()
        if members not in known:
            # The way from the farthest contributor, then to the farthest destination.
            times = [
                unloaded_times(net, np.asarray(ends, np.int64), np.zeros(len(ends), np.int64)).max(
                    axis=0
                )
                for net, ends in ((to, sources), (back, destinations))
            ]
            total = np.where(np.maximum(*times) < NEVER, times[0] + times[1], NEVER)
            total[~topology.multicast | (topology.buffer > 0)] = (
                NEVER  # a sum would be in the way there
            )
            known[members] = np.flatnonzero(total == total.min()).astype(np.int32)
        root[chunk] = known[members][number % len(known[members])]
    return root


def reducing(topology: Topology, conditions: Conditions, root: Indices, steps: bool) -> Jobs:
    """Mirrored jobs on the transposed topology: from the root of every reduction to its contributors."""
    chunks = np.flatnonzero(conditions.reduces).astype(np.int32)
    contributors = conditions.source_offsets, conditions.source_ids
    return _jobs(
        topology.transpose(), conditions, chunks, root, *contributors, steps, mirrored=True
    )


def gathering(topology: Topology, conditions: Conditions, root: Indices, steps: bool) -> Jobs:
    """Forward jobs: every plain chunk, and the finished sum of every reduction with further destinations."""
    chunks = np.flatnonzero(~conditions.reduces | (conditions.num_destinations > 1)).astype(
        np.int32
    )
    destinations = conditions.destination_offsets, conditions.destination_ids
    return _jobs(topology, conditions, chunks, root, *destinations, steps, mirrored=False)


def turned(topology: Topology, conditions: Conditions) -> Jobs | None:
    """Plain chunks as if they went from their destination to their source; None unless each has one of both."""
    sources, destinations = np.diff(conditions.source_offsets), conditions.num_destinations
    if np.any(conditions.reduces) or np.any(sources != 1) or np.any(destinations != 1):
        return None
    chunks = np.arange(len(conditions), dtype=np.int32)
    ends = conditions.source_offsets, conditions.source_ids
    return _jobs(
        topology.transpose(),
        conditions,
        chunks,
        conditions.destination_ids,
        *ends,
        False,
        mirrored=True,
    )


def _jobs(
    topology: Topology,
    conditions: Conditions,
    chunks: Indices,
    root: Indices,
    offsets: Ints,
    ids: Indices,
    steps: bool,
    mirrored: bool,
) -> Jobs:
    source = root[chunks]
    first, destination = take_rows(offsets, ids, chunks)
    if np.any(
        conditions.reduces
    ):  # the root of a reduction is among its contributors, and its destinations
        first, destination = _without(first, destination, source)
    sizes, size_of = conditions.sizes
    size = size_of[chunks]
    width = np.diff(first)
    class_of_size, representative = few_sizes(sizes)
    classes = class_of_size[size]
    net = network(topology, sizes, steps)

    row = np.zeros(len(chunks), np.int32)
    distance = np.zeros(len(chunks), np.int64)
    single, several = np.flatnonzero(width == 1), np.flatnonzero(width > 1)
    remaining = np.zeros((1, topology.num_devices), np.int64)
    if len(single):
        target = destination[first[single]]
        backward = network(topology.transpose(), sizes, steps)
        table, row_of = _tables(backward, target, classes[single], representative)
        remaining = np.concatenate([remaining, table])
        row[single] = row_of + 1
        distance[single] = table[row_of, source[single]]
    if len(several):
        table, row_of = _tables(net, source[several], classes[several], representative)
        parts = np.repeat(row_of, width[several])
        _, targets = take_rows(first, destination, several)
        distance[several] = np.maximum.reduceat(
            table[parts, targets], offsets_of(width[several])[:-1]
        )
    jobs = Jobs(
        topology, net, chunks, source, size, conditions.piece[chunks], first, destination, row,
        remaining, distance,
    )  # fmt: skip
    if np.any(distance >= NEVER):
        _explain_unreachable(jobs, int(np.argmax(distance >= NEVER)), mirrored)
    # Placed one after another, as they are at worst, jobs take no longer than their distances in all.
    if (
        float(distance.sum(dtype=np.float64))
        * net.unit
        * (topology.num_devices if net.limited else 1)
        > LONGEST
    ):
        raise InfeasibleError(
            f"{len(chunks)} chunks may take longer than two weeks on {topology.name}: too long to schedule"
        )
    return jobs


def _without(first: Ints, values: Indices, member: Indices) -> tuple[Ints, Indices]:
    """Lists without one of their members each."""
    owner = np.repeat(np.arange(len(member)), np.diff(first))
    keep = values != member[owner]
    if np.all(keep):
        return first, values
    return offsets_of(np.bincount(owner[keep], minlength=len(member))), values[keep]


def _tables(
    net: Network, devices: Indices, classes: NDArray[Any], representative: Ints
) -> tuple[Ints, Ints]:
    keys = devices * np.int64(len(representative)) + classes
    used = np.flatnonzero(np.bincount(keys))
    row_of = np.empty(used[-1] + 1, np.int64)
    row_of[used] = np.arange(len(used))
    device, size_class = np.divmod(used, len(representative))
    return unloaded_times(net, device, representative[size_class]), row_of[keys]


def _explain_unreachable(jobs: Jobs, job: int, mirrored: bool) -> None:
    topology, source = jobs.topology, int(jobs.source[job])
    times = unloaded_times(jobs.net, np.array([source]), jobs.size[job : job + 1].astype(np.int64))[
        0
    ]
    targets = jobs.destination[jobs.first[job] : jobs.first[job + 1]]
    target = int(targets[np.argmax(times[targets] >= NEVER)])
    sender, receiver = (target, source) if mirrored else (source, target)
    raise no_way(topology, int(jobs.chunk[job]), sender, receiver)


def _compact(table: Ints) -> tuple[NDArray[Any], int]:
    """Times in 16 bits where they fit: the search looks into this table most, so it should be small."""
    reachable = table < NEVER
    if int(table.max(initial=0, where=reachable)) > 65_000:
        return table, int(NEVER)
    return np.where(reachable, table, 65_535).astype(np.uint16), 65_535
