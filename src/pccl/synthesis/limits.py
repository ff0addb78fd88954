"""Plans for switches that hold few chunks: made within the limits, or as if there were none and then held up.

Some methods and improvements know no limits. What they find is played on the network as it is, each transfer as soon as
there is room for it: where limits seldom bind, that is quicker than what is found within them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pccl.algorithm import Algorithm
from pccl.algorithm import verify as check
from pccl.algorithm.timing import move_up, planned_starts, times_of
from pccl.collective import Collective
from pccl.errors import InfeasibleError, PcclError, VerificationError
from pccl.settings import Settings
from pccl.synthesis.budget import effort_of
from pccl.synthesis.fitting import Fitting, Plan
from pccl.synthesis.incumbent import Log
from pccl.synthesis.problem import Progress
from pccl.targets import TARGETS
from pccl.topology import Topology
from pccl.topology.parts import UNLIMITED


def find_plan(
    topology: Topology,
    collectives: Sequence[Collective],
    settings: Settings,
    progress: Progress,
    log: Log | None,
) -> Plan:
    """The best plan of a search within the limits of switches, and of one that knows none, if there are limits."""
    begin = time.perf_counter()
    plan = Fitting(topology, collectives, settings, progress, log).run()
    if not topology.limited or effort_of(settings).work == 0:
        return plan
    if settings.time_limit is not None:
        left = settings.time_limit - (time.perf_counter() - begin)
        if left <= 0:
            return plan
        settings = replace(settings, time_limit=left)
    # For some runtimes switches can do less than they could.
    limited = plan.algorithm.topology
    roomy = limited.derived(buffer=np.full_like(limited.buffer, UNLIMITED))
    try:
        other = Fitting(roomy, collectives, settings, progress, None).run()
    except KeyboardInterrupt:
        return plan
    held_up = play_within_limits(other.algorithm, limited)
    if held_up is None or _time(held_up, settings) >= _time(plan.algorithm, settings):
        return plan
    return Plan(held_up, f"{other.origin}, held up where switches are full", plan.bound)


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


def _time(algorithm: Algorithm, settings: Settings) -> float:
    """What a plan is judged by: its time in the runtime that is named, if one is."""
    if settings.target is None:
        return float(algorithm.duration)
    try:
        return TARGETS[settings.target].time_of(algorithm)
    except PcclError:
        # It has no room for this one.
        return math.inf
