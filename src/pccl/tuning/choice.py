"""Which plan from which size on: every plan at every size, and the fewest that lose little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pccl._arrays import Floats
from pccl.algorithm import Algorithm, Transfers
from pccl.analysis import of_size, simulate
from pccl.collective import compile_conditions
from pccl.units import Bytes


@dataclass(frozen=True)
class Range:
    """Sizes that one plan serves, by their places, the last one included."""

    plan: int
    first: int
    last: int


def time_at(algorithm: Algorithm, size: int) -> float:
    """How long a plan takes if its data have another size: the same transfers, in the same order; picoseconds.

    It is infinite for data of fewer elements than the plan has chunks.

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(4, latency="0ns", bandwidth="1GB/s")
    >>> plan = pccl.synthesize(ring, pccl.AllGather("4kB", chunks=1))
    >>> plan.duration, time_at(plan, 8000), time_at(plan, 3)
    (Picoseconds(2000000), 4000000.0, inf)
    """
    collectives = of_size(algorithm.collectives, Bytes(size))
    conditions = compile_conditions(algorithm.topology, collectives)
    if len(conditions) != len(algorithm.conditions):
        return np.inf
    topology = algorithm.topology
    ratio = size / int(algorithm.collectives[0].size)
    if ratio > 1:
        # As many times slower links are to the same plan as many times larger data.
        bandwidth = np.maximum(topology.bandwidth / ratio, 1).astype(np.int64)
        slower = replace(topology, bandwidth=bandwidth)
        return float(simulate(algorithm, topology=slower).finish)
    # What is smaller is only ever early, so that the planned starts still say what waits for what.
    t = algorithm.transfers
    follows = t.follows if topology.plain else None
    moved = Transfers.of(topology, conditions, t.chunk, t.link, t.start, t.reduce, follows)
    return float(simulate(replace(algorithm, transfers=moved, bound=None)).finish)


def times_of(plans: Sequence[Algorithm], sizes: Sequence[int]) -> Floats:
    """Picoseconds that each plan takes at each size."""
    return np.array([[time_at(plan, size) for size in sizes] for plan in plans])


def fewest(times: Floats, loss: float) -> list[Range]:
    """The fewest ranges of sizes, each with a plan that loses at most this share at any of them.

    Parameters
    ----------
    times
        Per plan and size; every size has one that can serve it.

    Examples
    --------
    >>> times = np.array([[1.0, 2.0, 9.0], [3.0, 2.01, 4.0], [9.0, 9.0, 3.99]])
    >>> fewest(times, 0.02)
    [Range(plan=0, first=0, last=1), Range(plan=2, first=2, last=2)]
    """
    fine = times <= (1 + loss) * times.min(axis=0)
    ranges = []
    first = 0
    while first < times.shape[1]:
        # How far each plan gets from here; taking the one that gets farthest is never a mistake.
        reach = np.array([np.argmin(row) if not row.all() else len(row) for row in fine[:, first:]])
        last = first + int(reach.max()) - 1
        able = np.flatnonzero(reach == reach.max())
        lost = (times[able, first : last + 1] / times[:, first : last + 1].min(axis=0)).sum(axis=1)
        ranges.append(Range(int(able[np.argmin(lost)]), first, last))
        first = last + 1
    return ranges


def split(algorithm: Algorithm) -> list[Algorithm]:
    """One plan for each of the collectives that run at the same time, as each group calls its own.

    Examples
    --------
    >>> import pccl
    >>> rows = pccl.device_mesh(dp=2, tp=2)["tp"]
    >>> mesh = pccl.topology.mesh(2, 2)
    >>> both = pccl.synthesize(mesh, *(pccl.AllGather("4kB", group, chunks=1) for group in rows))
    >>> [(plan.collectives[0].ranks, len(plan.transfers)) for plan in split(both)]
    [((0, 1), 2), ((2, 3), 2)]
    """
    if len(algorithm.collectives) == 1:
        return [algorithm]
    t = algorithm.transfers
    of = algorithm.conditions.collective[t.chunk]
    parts = []
    for number, collective in enumerate(algorithm.collectives):
        own = np.flatnonzero(of == number)
        # Chunks and rows are numbered anew, from the first of their own.
        chunks = np.flatnonzero(algorithm.conditions.collective == number)
        follows = None
        if not t.first_in_first_out:
            place = np.full(len(t) + 1, -1)
            place[own] = np.arange(len(own))
            # What follows nothing stays so: -1 is the last place, which is no row.
            follows = place[t.follows[own]]
        part = Algorithm.build(
            algorithm.topology,
            [collective],
            t.chunk[own] - (chunks[0] if len(chunks) else 0),
            t.link[own],
            t.start[own],
            t.reduce[own],
            follows=follows,
        )
        parts.append(replace(part, provenance=algorithm.provenance))
    return parts
