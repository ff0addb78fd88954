"""What every method starts from: the network, the jobs, and the bound to measure against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from pccl._arrays import Bools, Indices
from pccl.bounds import Bound, bound_of
from pccl.bounds.patience import Patience
from pccl.collective import Collective, Conditions
from pccl.network import Network, network, steps_help
from pccl.synthesis.clock import Clock
from pccl.synthesis.jobs import Jobs, jobs_backwards, jobs_that_collect, jobs_that_spread
from pccl.synthesis.roots import Root, find_roots
from pccl.synthesis.zones import Zones, zones_of
from pccl.topology import Topology

Progress: TypeAlias = Callable[[int, int, str], None]  # done, in all, and what is going on
ALIKE = 1 / 256  # chunks whose sizes differ by no more than this share are planned as if equal


@dataclass(eq=False)
class Problem:
    """A topology and collectives cut into chunks, and what follows from them; computed once, on demand."""

    topology: Topology
    collectives: tuple[Collective, ...]
    conditions: Conditions
    seed: int
    progress: Progress
    confined: Bools  # per collective: whether it keeps to its own NPUs
    clock: Clock = field(default_factory=Clock)
    _jobs: dict[tuple[Root, bool], tuple[Jobs, Jobs]] = field(default_factory=dict)

    @cached_property
    def planned(self) -> Conditions:
        """The conditions with sizes that are easy to plan with.

        Where a size does not divide, chunks differ by an element. Planned as if all were as large as the largest,
        they fit together without gaps; and a chunk that is smaller than planned is only ever early.
        """
        # Where sizes differ by more, planning with the largest would waste more than it saves.
        sizes, _ = self.conditions.sizes
        if len(sizes) < 2 or sizes[-1] - sizes[0] > ALIKE * sizes[0]:
            return self.conditions
        return replace(self.conditions, bytes=np.full(len(self.conditions), sizes[-1]))

    @cached_property
    def zones(self) -> Zones:
        """Which devices chunks may pass through."""
        return zones_of(self.topology, self.collectives, self.confined)

    @cached_property
    def net(self) -> Network:
        """The network with exact times."""
        return network(self.topology, self.planned.sizes[0])

    @cached_property
    def steps(self) -> bool:
        """Whether to count time in steps first, as long as transfers are being placed."""
        return steps_help(self.net)

    def jobs(self, root: Root, steps: bool) -> tuple[Jobs, Jobs]:
        """What is to be collected, and what is to be spread."""
        if (root, steps) not in self._jobs:
            roots = find_roots(self.topology, self.planned, self.zones, root)
            self._jobs[root, steps] = self.jobs_from(roots, steps)
        return self._jobs[root, steps]

    def jobs_from(self, roots: Indices, steps: bool) -> tuple[Jobs, Jobs]:
        """The same where trees begin at these devices, one for each chunk."""
        given = (self.topology, self.planned, self.zones, roots, steps)
        return jobs_that_collect(*given), jobs_that_spread(*given)

    @cached_property
    def jobs_backwards(self) -> Jobs | None:
        """What is to be spread, seen backwards in time, if every chunk has one source and one destination."""
        return jobs_backwards(self.topology, self.planned, self.zones)

    # --- how good it can be -------------------------------------------------------------------------------------------

    @cached_property
    def quick_bound(self) -> Bound:
        """A bound that takes no time to speak of, for the chunks as they are."""
        return bound_of(self.topology, self.conditions, whole_chunks=True, quick=True)

    @cached_property
    def bound(self) -> Bound:
        """The best bound for the chunks as they are."""
        found = self._bound_within(self.clock.time_left)
        self.clock.is_cut_short |= found.cut_short
        return found

    def best_bound(self, time_limit: float | None) -> Bound:
        """The same, with so many seconds to find it, if the search had too few."""
        if "bound" in vars(self) and not self.bound.cut_short:
            return self.bound
        return self._bound_within(time_limit)

    def _bound_within(self, time_limit: float | None) -> Bound:
        patience = Patience.of(time_limit)
        return bound_of(self.topology, self.conditions, whole_chunks=True, patience=patience)

    @property
    def known_bound(self) -> Bound:
        """The best bound there has been time for so far."""
        return self.bound if "bound" in vars(self) else self.quick_bound

    # --- what kind of problem it is -----------------------------------------------------------------------------------

    @cached_property
    def collects_and_spreads(self) -> bool:
        """Whether some sums have several destinations, as in an All-Reduce."""
        return bool(np.any(self.conditions.reduces & (self.conditions.num_destinations > 1)))

    @cached_property
    def two_phases(self) -> bool:
        """Whether something is collected and something is spread, be it the same or not; all of it by trees."""
        return self.only_trees and all(len(jobs) for jobs in self._typical_jobs)

    @property
    def _typical_jobs(self) -> tuple[Jobs, Jobs]:
        return self.jobs(Root.IN_TURN, self.steps)

    @cached_property
    def any_single(self) -> bool:
        """Whether some job has just one destination."""
        return any(jobs.any_single for jobs in self._typical_jobs)

    @cached_property
    def only_trees(self) -> bool:
        """Whether jobs have several destinations throughout."""
        some = any(jobs.any_several for jobs in self._typical_jobs)
        return some and not self.any_single

    @cached_property
    def dense(self) -> bool:
        """Whether most NPUs take part, so that there is little to gain from detours."""
        takes_part = np.zeros(self.topology.num_devices, np.bool_)
        takes_part[self.conditions.source_ids] = True
        takes_part[self.conditions.destination_ids] = True
        return 2 * int(takes_part.sum()) > self.topology.num_npus

    @property
    def routes(self) -> tuple[str, ...]:
        """Kinds of routes worth a try: on sparse groups detours are the point, and minimal ones lose."""
        return ("any", "minimal") if self.any_single and self.dense else ("any",)

    @cached_property
    def even(self) -> bool:
        """Whether all links are alike."""
        return len(np.unique(self.topology.bandwidth)) == 1

    @cached_property
    def transfers(self) -> int:
        """About how many transfers there will be."""
        return sum(jobs.hops + len(jobs.destination) for jobs in self._typical_jobs if len(jobs))
