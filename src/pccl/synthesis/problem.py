"""What every method starts from: the network, the jobs, and the bound to measure against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np

from pccl._arrays import Indices
from pccl.bounds import Bound, bound_of
from pccl.collective import Conditions
from pccl.network import Network, network, steps_help
from pccl.synthesis.jobs import Jobs, centers, gathering, reducing, roots, turned
from pccl.topology import Topology

__all__ = ["ROOTS", "Problem", "Report"]

Report: TypeAlias = Callable[[int, int, str], None]
MOST_FLOODED = 20_000_000  # chunks times devices
ROOTS = (
    "spread",
    "center",
)  # where sums with several destinations are collected: in turn at each of them, or midway


@dataclass
class Problem:
    """A topology and conditions, and what follows from them; computed once, on demand."""

    topology: Topology
    conditions: Conditions
    seed: int
    report: Report
    _jobs: dict[tuple[str, bool], tuple[Jobs, Jobs]] = field(default_factory=dict)

    @cached_property
    def net(self) -> Network:
        """The network with exact times."""
        return network(self.topology, self.conditions.sizes[0])

    @cached_property
    def steps(self) -> bool:
        """Whether to count time in steps first, as long as transfers are being placed."""
        return steps_help(self.net)

    def jobs(self, root: str, steps: bool) -> tuple[Jobs, Jobs]:
        """What is to be reduced, and what is to be spread."""
        if (root, steps) not in self._jobs:
            what = self.topology, self.conditions, self._root(root), steps
            self._jobs[root, steps] = reducing(*what), gathering(*what)
        return self._jobs[root, steps]

    @cached_property
    def turned_jobs(self) -> Jobs | None:
        """What is to be spread, seen backwards in time, if every chunk has one source and one destination."""
        return turned(self.topology, self.conditions)

    def _root(self, root: str) -> Indices:
        place = roots(self.topology, self.conditions)
        return place if root == "spread" else centers(self.topology, self.conditions, place)

    @cached_property
    def quick_bound(self) -> Bound:
        """A bound that takes no time to speak of, for the chunks as they are."""
        return bound_of(self.topology, self.conditions, whole_chunks=True, quick=True)

    @cached_property
    def bound(self) -> Bound:
        """The best bound for the chunks as they are."""
        return bound_of(self.topology, self.conditions, whole_chunks=True)

    @property
    def known_bound(self) -> Bound:
        """The best bound there has been time for so far."""
        return self.bound if "bound" in vars(self) else self.quick_bound

    @cached_property
    def collects_and_spreads(self) -> bool:
        """Whether some sums have several destinations, as in an All-Reduce."""
        return bool(np.any(self.conditions.reduces & (self.conditions.num_destinations > 1)))

    @cached_property
    def any_single(self) -> bool:
        """Whether some job has just one destination."""
        return any(jobs.any_single for jobs in self.jobs("spread", self.steps))

    @cached_property
    def any_several(self) -> bool:
        """Whether some job has several destinations."""
        return any(
            bool(np.any(np.diff(jobs.first) > 1)) for jobs in self.jobs("spread", self.steps)
        )

    @cached_property
    def dense(self) -> bool:
        """Whether most NPUs take part, so that there is little to gain from detours."""
        takes_part = np.zeros(self.topology.num_devices, np.bool_)
        takes_part[self.conditions.source_ids] = takes_part[self.conditions.destination_ids] = True
        return 2 * int(takes_part.sum()) > self.topology.num_npus

    @cached_property
    def even(self) -> bool:
        """Whether all links are alike."""
        return len(np.unique(self.topology.bandwidth)) == 1

    @cached_property
    def floods(self) -> bool:
        """Whether flooding, which spreads chunks to relays as well, would still be quick."""
        return len(self.conditions) * self.topology.num_devices <= MOST_FLOODED

    @cached_property
    def transfers(self) -> int:
        """About how many transfers there will be."""
        return sum(
            int(jobs.distance[jobs.row > 0].sum() / max(float(jobs.net.travel.mean()), 1))
            + len(jobs.destination)
            for jobs in self.jobs("spread", self.steps)
            if len(jobs.destination)
        )
