"""Collectives that run at the same time, one by one: when each is done, and how good that is for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl.algorithm import Algorithm
from pccl.analysis.comparison import bandwidths
from pccl.bounds import Bound, lower_bound
from pccl.bounds.patience import Patience
from pccl.collective import Collective
from pccl.topology.parts import NPU
from pccl.units import Picoseconds

# Seconds for the bounds of all of them, each of which takes about a third of a second on a few boxes.
TIME_FOR_BOUNDS = 20.0


@dataclass(frozen=True)
class CollectiveRow:
    """What becomes of one collective among others.

    Attributes
    ----------
    collective
        Which one.
    begin
        When its first transfer starts.
    finish
        When the last of its chunks arrives.
    algorithm_bandwidth, bus_bandwidth
        Until then, in bytes per second, as nccl-tests defines them.
    bound
        What it takes at least, however it is cut, if it has the network for itself.
    relayed
        How many of its transfers go to NPUs that do not take part in it.
    bound_cut_short
        Whether the search for its bound was ended by a limit, so that it may take longer.
    """

    collective: Collective
    begin: Picoseconds
    finish: Picoseconds
    algorithm_bandwidth: float
    bus_bandwidth: float
    bound: Picoseconds
    relayed: int
    bound_cut_short: bool = False


def each_collective(
    algorithm: Algorithm, most: int | None = None, time_limit: float = TIME_FOR_BOUNDS
) -> tuple[CollectiveRow, ...]:
    """Return what becomes of each of the collectives that an algorithm is for, or of so many of the first.

    After `time_limit` seconds, searches for bounds are cut short.

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(4, latency="0ns", bandwidth="1GB/s")
    >>> both = pccl.synthesize(ring, pccl.SendRecv("1kB", (0, 1), chunks=1), pccl.AllGather("40kB", chunks=1))
    >>> [str(row.finish) for row in pccl.each_collective(both)]
    ['1us', '20us']
    """
    topology = algorithm.topology
    t = algorithm.transfers
    of = algorithm.conditions.collective[t.chunk]
    shown = algorithm.collectives[:most]
    # Those that are alike, in groups that may differ, mostly take the same; but not always.
    keys = [(one.kind, one.size, tuple(one.members(topology.npus).tolist())) for one in shown]
    patience = Patience.of(time_limit)
    known: dict[tuple[object, ...], Bound] = {}
    rows = []
    for number, (key, collective) in enumerate(zip(keys, shown, strict=True)):
        own = np.flatnonzero(of == number)
        # What sends nothing begins and is done at once.
        begin = Picoseconds(t.start[own].min()) if len(own) else Picoseconds(0)
        finish = Picoseconds(t.arrival[own].max(initial=0))
        members = collective.members(topology.npus)
        outside = (topology.kind[t.dst[own]] == NPU) & ~np.isin(t.dst[own], members)
        if key not in known:
            known[key] = lower_bound(topology, collective.uncut(), time_limit=patience.left)
        rate, bus = bandwidths(collective, len(members), finish)
        relayed = int(np.count_nonzero(outside))
        bound = known[key]
        proven = (bound.value, relayed, bound.cut_short)
        rows.append(CollectiveRow(collective, begin, finish, rate, bus, *proven))
    return tuple(rows)
