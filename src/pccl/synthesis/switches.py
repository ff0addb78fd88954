"""Plans for switches that do less than others, or more: several searches, the best of which counts.

Where switches hold few chunks, one search keeps within these limits, and another knows none: what it finds is played on
the network as it is, each transfer as soon as there is room for it. Where limits seldom bind, that is quicker.

Where switches can multiply or add, another search has them only pass messages on: while a switch adds, partial sums
cannot pass through it to be exchanged, which is quicker for small data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pccl.algorithm import Algorithm, Bound
from pccl.algorithm import verify as check
from pccl.algorithm.timing import move_up, planned_starts, times_of
from pccl.bounds import lower_bound
from pccl.collective import Collective
from pccl.errors import InfeasibleError, PcclError, VerificationError
from pccl.settings import Settings
from pccl.synthesis.budget import effort_of
from pccl.synthesis.clock import Clock
from pccl.synthesis.fitting import Fitting, with_switches
from pccl.synthesis.incumbent import Entry, Log
from pccl.synthesis.judging import TOLERATED, Plan, is_shorter
from pccl.synthesis.neighbours import SAME, classes_of, finishes_of, is_better
from pccl.synthesis.problem import Progress
from pccl.targets import TARGETS
from pccl.topology import Topology
from pccl.topology.parts import UNLIMITED

# Of a time limit, the share for the first of two searches.
SHARE_OF_FIRST = 0.6


def find_plan(
    topology: Topology,
    collectives: Sequence[Collective],
    settings: Settings,
    progress: Progress,
    log: Log | None,
    clock: Clock,
) -> Plan:
    """The best plan of all searches."""
    task = _Task(tuple(collectives), settings, progress, log, clock, clock.limit)
    # For a runtime, switches do what that has them do; and one pass is one search.
    if settings.target is not None or effort_of(settings).work == 0:
        plan = task.within_limits(topology)
    else:
        plan = task.with_and_without_abilities(topology)
    if plan.interrupted and log is not None:
        bound = plan.bound or lower_bound(topology, *collectives, quick=True)
        log(
            Entry(
                clock.elapsed, plan.origin, plan.algorithm.duration, bound.value, interrupted=True
            )
        )
    return plan


def play_within_limits(algorithm: Algorithm, topology: Topology) -> Algorithm | None:
    """The same transfers where switches have limits, each as early as there is room; None if they block each other."""
    transfers = replace(algorithm.transfers, topology=topology)
    times = times_of(transfers, topology, transfers.transmission)
    try:
        played = move_up(transfers.timed(planned_starts(transfers, topology, times)))
        found = replace(algorithm, topology=topology, transfers=played)
        # Where partial sums are exchanged, one that is held up may be added to what it must not be.
        check(found)
    except (InfeasibleError, VerificationError):
        return None
    return found


def _share_worth_it(algorithm: Algorithm) -> float:
    """How many times as long a plan may take that all runtimes can keep to, as its switches only pass messages on.

    One that needs nothing of switches either may still rely on their being able to: there it is not known which message
    is which. It is as good only if it takes no longer.
    """
    return TOLERATED if algorithm.needs else 1.0


@dataclass(frozen=True)
class _Task:
    """What is to be planned, on one network or another, and until when."""

    collectives: tuple[Collective, ...]
    settings: Settings
    progress: Progress
    log: Log | None
    clock: Clock
    deadline: float | None  # seconds on the clock

    def with_and_without_abilities(self, topology: Topology) -> Plan:
        """The best plan, where switches do all they can, or only pass messages on."""
        plain = with_switches(topology, multicast=False, reduce=False)
        if plain is topology:
            return self.within_limits(topology)
        plan = self._first().within_limits(topology)
        if plan.interrupted or self._is_too_late_for(plan):
            return plan
        try:
            bound = lower_bound(plain, *self.collectives, quick=True)
            if not self._may_be_worth_it(bound, plan.algorithm):
                return plan
            other = self._second().within_limits(plain)
        except InfeasibleError:
            return plan
        except KeyboardInterrupt:
            return replace(plan, interrupted=True)
        if self._suits_more_runtimes(other.algorithm, plan.algorithm):
            return replace(other, bound=plan.bound)
        return self._better(other, plan)

    def within_limits(self, topology: Topology) -> Plan:
        """The best plan of a search within the limits of switches, and of one that knows none, if there are limits."""
        if not topology.limited or effort_of(self.settings).work == 0:
            return self._searched(topology)
        plan = self._first()._searched(topology)
        if plan.interrupted or self._is_too_late_for(plan):
            return plan
        roomy = topology.derived(buffer=np.full_like(topology.buffer, UNLIMITED))
        try:
            other = self._second()._searched(roomy)
            # For some runtimes switches can do less than they could.
            limited = other.algorithm.topology.derived(buffer=topology.buffer)
            held_up = play_within_limits(other.algorithm, limited)
        except KeyboardInterrupt:
            return replace(plan, interrupted=True)
        if held_up is None:
            return plan
        origin = f"{other.origin}, held up where switches are full"
        return self._better(replace(other, algorithm=held_up, origin=origin), plan)

    def _first(self) -> _Task:
        """The same for the first of two searches, which must not take all the time."""
        return replace(self, deadline=self.clock.part_until(self.deadline, SHARE_OF_FIRST))

    def _second(self) -> _Task:
        """The same for the second, which begins anew: what it finds is no news yet."""
        return replace(self, log=None)

    def _is_too_late_for(self, plan: Plan) -> bool:
        """Whether there is no time left for a second search, whose first pass, which nothing cuts short, is as long."""
        if self.deadline is None:
            return False
        return self.clock.is_past(self.deadline - plan.first_pass)

    def _searched(self, topology: Topology) -> Plan:
        given = (self.settings, self.progress, self.log, self.clock, self.deadline)
        return Fitting(topology, self.collectives, *given).run()

    def _better(self, other: Plan, plan: Plan) -> Plan:
        """Of two plans the one that suits the collectives better, with the bound of the second.

        That holds for all that switches can do.
        """
        if self._is_better(other.algorithm, plan.algorithm):
            return replace(other, bound=plan.bound)
        return replace(plan, interrupted=other.interrupted)

    def _is_better(self, one: Algorithm, other: Algorithm) -> bool:
        """Whether a plan takes less time, if it is worth its chunks, or suits several collectives better."""
        time_of_one = self._time(one)
        time_of_other = self._time(other)
        if len(self.collectives) < 2:
            return is_shorter(one, other, (time_of_one, time_of_other), self.collectives)
        if self.settings.target is not None and time_of_one > (1 + SAME) * time_of_other:
            return False
        classes = classes_of(one.topology, one.collectives)
        return is_better(finishes_of(one), finishes_of(other), classes)

    def _may_be_worth_it(self, bound: Bound, found: Algorithm) -> bool:
        """Whether it may be worth it to search with switches that only pass messages on, where that is the bound."""
        if with_switches(found.topology, multicast=False, reduce=False) is found.topology:
            return bound.value < found.duration
        return bound.value <= _share_worth_it(found) * found.duration

    def _suits_more_runtimes(self, plain: Algorithm, able: Algorithm) -> bool:
        """Whether a plan for switches that only pass messages on is hardly slower than one for all that they can do."""
        return bool(np.all(finishes_of(plain) <= _share_worth_it(able) * finishes_of(able)))

    def _time(self, algorithm: Algorithm) -> float:
        """What a plan is judged by: its time in the runtime that is named, if one is."""
        if self.settings.target is None:
            return float(algorithm.duration)
        try:
            return TARGETS[self.settings.target].time_of(algorithm)
        except PcclError:
            # It has no room for this one.
            return math.inf
