"""Direct sends: every chunk goes to its one destination by a fixed route, in the order of real exchanges.

Where every NPU sends to every other through switches, that is hard to beat: all keep step, and no link waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from pccl._arrays import inverse
from pccl.synthesis.jobs import SMALL, Jobs
from pccl.synthesis.methods.base import POLISH, Method, Orders
from pccl.synthesis.methods.direct_kernels import walk
from pccl.synthesis.methods.messages import within_limits
from pccl.synthesis.orders import staggered
from pccl.synthesis.problem import Problem
from pccl.synthesis.schedule import SPREAD, Origin, Schedule
from pccl.synthesis.timetable import timed_by_place


@dataclass(frozen=True)
class Direct(Method):
    """Send every chunk by the shortest way, in turn to the next, the next but one, and so on."""

    name: ClassVar[str] = "direct"

    def find(self, problem: Problem, orders: Orders | None = None) -> Schedule:
        """Find a schedule: of the chunks that are ready, each free link takes the first in the order."""
        jobs = problem.jobs(self.root, False)
        spreads = jobs[SPREAD]
        schedule = _routed(spreads, Schedule.nothing(problem, jobs, Origin(self)))
        order = orders[SPREAD] if orders else staggered(spreads, np.random.default_rng(self.seed))
        place = np.repeat(inverse(order), np.diff(schedule.first))
        schedule = timed_by_place(schedule, place)
        if problem.topology.limited:
            schedule = within_limits(schedule)
        return replace(schedule, work=POLISH * len(schedule))

    @classmethod
    def usual(cls, problem: Problem) -> Self:
        """There are no knobs."""
        return cls(seed=problem.seed)

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        """Why the method cannot solve this problem, if it cannot."""
        jobs = problem.jobs(cls.root, False)
        if len(jobs[0]) or jobs[SPREAD].any_several:
            return "sends to one destination only"
        return None

    @classmethod
    def openings(cls, problem: Problem) -> Iterator[tuple[int, Self]]:
        """Exchanges through switches."""
        few = len(problem.conditions) <= SMALL
        switched = len(problem.topology.switches) > 0
        if few and switched and cls.refusal(problem) is None:
            yield 2 if problem.topology.limited else 0, cls.usual(problem)

    @classmethod
    def variants(cls, problem: Problem) -> Iterator[Self]:  # noqa: ARG003
        """None: it has been an opening, or is of no use."""
        yield from ()

    def midway(self) -> Self | None:
        """There are no sums."""
        return None


def _routed(spreads: Jobs, schedule: Schedule) -> Schedule:
    """The schedule with a way for every job, but no times yet."""
    first = np.zeros(len(spreads) + 1, np.int64)
    given = (spreads.net, spreads.remaining, spreads.row, spreads.source, spreads.size)
    walk(*given, first, np.empty(0, np.int32))
    arc = np.empty(first[-1], np.int32)
    walk(*given, first, arc)
    return schedule.with_phase(SPREAD, first, arc, np.zeros(len(arc), np.int64))
