"""Plans for switches that do less than others, or more: several searches, the best of which counts.

Where switches hold few chunks, one search keeps within these limits, and another knows none: what it finds is played on
the network as it is, each transfer as soon as there is room for it. Where limits seldom bind, that is quicker.

Where switches can multiply or add, another search has them only pass messages on: while a switch adds, partial sums
cannot pass through it to be exchanged, which is quicker for small data.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pccl.algorithm import Algorithm
from pccl.algorithm import verify as check
from pccl.algorithm.timing import move_up, planned_starts, times_of
from pccl.bounds import lower_bound
from pccl.collective import Collective
from pccl.errors import InfeasibleError, PcclError, VerificationError
from pccl.settings import Settings
from pccl.synthesis.budget import effort_of
from pccl.synthesis.fitting import Fitting, Plan, with_switches
from pccl.synthesis.incumbent import Log
from pccl.synthesis.neighbours import classes_of, finishes_of, is_better
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
) -> Plan:
    """The best plan of all searches."""
    begin = time.perf_counter()
    deadline = None if settings.time_limit is None else begin + settings.time_limit
    task = _Task(tuple(collectives), settings, progress, log, deadline)
    # For a runtime, switches do what that has them do; and one pass is one search.
    if settings.target is not None or effort_of(settings).work == 0:
        return task.within_limits(topology)
    return task.with_and_without_abilities(topology)


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


@dataclass(frozen=True)
class _Task:
    """What is to be planned, on one network or another, and until when."""

    collectives: tuple[Collective, ...]
    settings: Settings
    progress: Progress
    log: Log | None
    deadline: float | None

    def with_and_without_abilities(self, topology: Topology) -> Plan:
        """The best plan, where switches do all they can, or only pass messages on."""
        plain = with_switches(topology, multicast=False, reduce=False)
        if plain is topology:
            return self.within_limits(topology)
        plan = self._first().within_limits(topology)
        bound = lower_bound(plain, *self.collectives, quick=True)
        if plan.interrupted or self._is_over() or bound.value >= plan.algorithm.duration:
            return plan
        try:
            other = self._second().within_limits(plain)
        except (InfeasibleError, KeyboardInterrupt):
            return plan
        return self._better(other, plan)

    def within_limits(self, topology: Topology) -> Plan:
        """The best plan of a search within the limits of switches, and of one that knows none, if there are limits."""
        if not topology.limited or effort_of(self.settings).work == 0:
            return self._searched(topology)
        plan = self._first()._searched(topology)
        if plan.interrupted or self._is_over():
            return plan
        roomy = topology.derived(buffer=np.full_like(topology.buffer, UNLIMITED))
        try:
            other = self._second()._searched(roomy)
        except KeyboardInterrupt:
            return plan
        # For some runtimes switches can do less than they could.
        limited = other.algorithm.topology.derived(buffer=topology.buffer)
        held_up = play_within_limits(other.algorithm, limited)
        if held_up is None:
            return plan
        origin = f"{other.origin}, held up where switches are full"
        return self._better(replace(other, algorithm=held_up, origin=origin), plan)

    def _first(self) -> _Task:
        """The same for the first of two searches, which must not take all the time."""
        if self.deadline is None:
            return self
        now = time.perf_counter()
        return replace(self, deadline=now + SHARE_OF_FIRST * (self.deadline - now))

    def _second(self) -> _Task:
        """The same for the second, which begins anew: what it finds is no news yet."""
        return replace(self, log=None)

    def _is_over(self) -> bool:
        return self.deadline is not None and time.perf_counter() >= self.deadline

    def _searched(self, topology: Topology) -> Plan:
        settings = self.settings
        if self.deadline is not None:
            left = self.deadline - time.perf_counter()
            settings = replace(settings, time_limit=max(left, 1e-3))
        return Fitting(topology, self.collectives, settings, self.progress, self.log).run()

    def _better(self, other: Plan, plan: Plan) -> Plan:
        """Of two plans the one that suits the collectives better, with the bound of the second.

        That holds for all that switches can do.
        """
        if self._is_better(other.algorithm, plan.algorithm):
            return replace(other, bound=plan.bound)
        return replace(plan, interrupted=other.interrupted)

    def _is_better(self, one: Algorithm, other: Algorithm) -> bool:
        """Whether a plan takes less time, or suits several collectives better."""
        if len(self.collectives) < 2 or self.settings.target is not None:
            return self._time(one) < self._time(other)
        classes = classes_of(one.topology, one.collectives)
        return is_better(finishes_of(one), finishes_of(other), classes)

    def _time(self, algorithm: Algorithm) -> float:
        """What a plan is judged by: its time in the runtime that is named, if one is."""
        if self.settings.target is None:
            return float(algorithm.duration)
        try:
            return TARGETS[self.settings.target].time_of(algorithm)
        except PcclError:
            # It has no room for this one.
            return math.inf
