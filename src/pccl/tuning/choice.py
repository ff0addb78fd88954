"""Which plan from which size on: every plan at every size, and the fewest that lose little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pccl._arrays import Floats
from pccl.algorithm import Algorithm
from pccl.analysis import time_at
from pccl.errors import PcclError


@dataclass(frozen=True)
class Range:
    """Sizes that one plan serves, by their places, the last one included."""

    plan: int
    first: int
    last: int


def times_of(plans: Sequence[Algorithm], sizes: Sequence[int]) -> Floats:
    """Picoseconds that each plan takes at each size, which all of its collectives have; infinite where it cannot."""
    return np.array([[_time(plan, size) for size in sizes] for plan in plans])


def _time(plan: Algorithm, size: int) -> float:
    try:
        return float(time_at(plan, *[size] * len(plan.collectives)))
    except PcclError:
        # Planned for so few bytes that some members had none; or buffers of switches are too small for more.
        return np.inf


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
    topology = algorithm.topology
    parts = []
    for number, collective in enumerate(algorithm.collectives):
        chunks = algorithm.conditions.collective == number
        own = algorithm.transfers.of_chunks(chunks)
        # Chunks are numbered anew, from the first of their own.
        chunk = own.chunk - np.argmax(chunks)
        follows = own.follows if topology.plain else None
        columns = (chunk, own.link, own.start, own.reduce)
        part = Algorithm.build(topology, [collective], *columns, follows=follows)
        parts.append(replace(part, provenance=algorithm.provenance))
    return parts
