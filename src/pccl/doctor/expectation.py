"""What a run of nccl-tests should take in our model, on the network as it should be and with one fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from pccl._arrays import Floats
from pccl.algorithm import Algorithm
from pccl.analysis import baselines, simulate
from pccl.bounds import Bound, lower_bound
from pccl.collective import COLLECTIVES, Collective
from pccl.doctor.faults import Fault, faults_of
from pccl.errors import PcclError
from pccl.topology import Topology
from pccl.units import Bytes

# How many times slower a fault is tried; between them, times are interpolated.
FACTORS = (1.0, 1.5, 2.5, 8.0)
# NCCL does not treat all NPUs alike, even where the network does: so many of those that look alike are tried.
REPRESENTATIVES = 4
# Transfers in plans of which only one is made anew.
LONG = 10_000
Progress = Callable[[int, int, str], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """What was run: a collective of one kind in a group, at these sizes."""

    kind: str
    group: tuple[int, ...]
    sizes: tuple[int, ...]

    def collective(self, size: int) -> Collective:
        """The collective at one size, left to be cut as it is best."""
        made: Collective = COLLECTIVES[self.kind](Bytes(size), self.group)
        return made


@dataclass
class Expectation:
    """What runs take in our model; whatever was computed once is kept."""

    topology: Topology
    plans: dict[tuple[str, tuple[int, ...], int], Algorithm] = field(default_factory=dict)
    bounds: dict[tuple[str, tuple[int, ...], int], Bound] = field(default_factory=dict)
    used: dict[tuple[str, tuple[int, ...], int], set[int]] = field(default_factory=dict)
    stand_ins: dict[tuple[Run, int], dict[tuple[int, ...], Fault]] = field(default_factory=dict)
    curves: dict[tuple[Run, tuple[int, ...], float], Floats] = field(default_factory=dict)

    def plan(self, run: Run, size: int) -> Algorithm:
        """What NCCL would do at this size: the best of its algorithms."""
        key = (run.kind, run.group, size)
        if key not in self.plans:
            self.plans[key] = best_of_nccl(self.topology, run.collective(size))
        return self.plans[key]

    def bound(self, run: Run, size: int) -> Bound:
        """What nobody can beat at this size."""
        key = (run.kind, run.group, size)
        if key not in self.bounds:
            self.bounds[key] = lower_bound(self.topology, run.collective(size), quick=True)
        return self.bounds[key]

    def healthy(self, run: Run) -> Floats:
        """Seconds at each size, if nothing is wrong."""
        return np.array([int(self.plan(run, size).duration) for size in run.sizes]) / 1e12

    def slow(self, run: Run, fault: Fault, factor: float) -> Floats:
        """Seconds at each size, if a fault makes links slower, of which NCCL knows nothing."""
        tried = self.stand_in(run, fault)
        if factor == 1 or tried is None:
            return self.healthy(run)
        key = (run, tried.links, factor)
        if key not in self.curves:
            world = tried.slowed(self.topology, factor)
            times = [
                int(simulate(self.plan(run, size), "fifo", topology=world).finish)
                for size in run.sizes
            ]
            self.curves[key] = np.array(times) / 1e12
        return self.curves[key]

    def missing(self, run: Run, fault: Fault) -> Floats | None:
        """Seconds at each size, if links are gone and NCCL does without them; None if it cannot."""
        tried = self.stand_in(run, fault, gone=True)
        if tried is None:
            return self.healthy(run)
        key = (run, tried.links, np.inf)
        if key not in self.curves:
            try:
                left = self.topology.without(links=tried.links)
                plans = [best_of_nccl(left, run.collective(size)) for size in run.sizes]
            except PcclError:
                return None
            self.curves[key] = np.array([int(plan.duration) for plan in plans]) / 1e12
        return self.curves[key]

    def stand_in(self, run: Run, fault: Fault, *, gone: bool = False) -> Fault | None:
        """The fault to simulate for this one: a few stand for all that look alike in this run alone.

        None if nothing of the run goes over the links of the fault.
        """
        # What is gone makes NCCL plan anew, which takes long if plans are large.
        most = 1 if gone and self.length(run) > LONG else REPRESENTATIVES
        key = (run, most)
        if key not in self.stand_ins:
            self.stand_ins[key] = self._stand_ins(run, most)
        return self.stand_ins[key].get(fault.links)

    def length(self, run: Run) -> int:
        """How many transfers plans for a run have: the more, the longer it takes to plan and to simulate."""
        return sum(len(self.plan(run, size).transfers) for size in run.sizes)

    def _stand_ins(self, run: Run, most: int) -> dict[tuple[int, ...], Fault]:
        """What stands in, by the links of a fault, for faults that the run meets."""
        used = set().union(*(self._used(run, size) for size in run.sizes))
        classes: dict[int, list[Fault]] = {}
        for fault in faults_of(self.topology, [run.group]):
            if not used.isdisjoint(fault.links):
                classes.setdefault(fault.colour, []).append(fault)
        found = {}
        for alike in classes.values():
            few = spread(alike, most)
            for place, fault in enumerate(alike):
                # Those that are counted near each other mostly take the same place in a plan.
                found[fault.links] = few[place * len(few) // len(alike)]
        return found

    def _used(self, run: Run, size: int) -> set[int]:
        key = (run.kind, run.group, size)
        if key not in self.used:
            self.used[key] = set(np.unique(self.plan(run, size).transfers.link).tolist())
        return self.used[key]


def best_of_nccl(topology: Topology, collective: Collective) -> Algorithm:
    """The quickest of the algorithms that NCCL has for a collective.

    Examples
    --------
    >>> import pccl
    >>> best_of_nccl(pccl.topology.parse_topology("h100:2"), pccl.AllReduce("1MiB")).provenance.method
    'baseline nccl-tree, timed by fifo or oldest first'
    """
    found = []
    problem: PcclError | None = None
    for entry in baselines():
        if entry.mixes or collective.kind not in entry.today:
            continue
        try:
            # What chooses by itself into how many chunks to cut is left to do so.
            pieces = None if entry.pipelined else 1
            found.append(entry.run(topology, [replace(collective, chunks=pieces)]))
        except PcclError as error:
            problem = error
    if not found:
        raise problem or PcclError(f"NCCL has no algorithm for {collective.kind}")
    return min(found, key=lambda algorithm: int(algorithm.duration))


def spread(sizes: Sequence[T], most: int) -> tuple[T, ...]:
    """Some of the sizes, or of anything else, evenly spread; the first and the last are among them.

    Examples
    --------
    >>> spread([1, 2, 4, 8, 16, 32, 64], 3)
    (1, 8, 64)
    """
    if len(sizes) <= most:
        return tuple(sizes)
    places = np.unique(np.linspace(0, len(sizes) - 1, most).round().astype(int))
    return tuple(sizes[place] for place in places.tolist())
