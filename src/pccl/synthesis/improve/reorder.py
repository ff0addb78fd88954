"""Reordering: what could start late in a schedule goes last next time, and some things change at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pccl.synthesis.improve.base import Aim, Improvement
from pccl.synthesis.improve.retime import AS_IT_IS
from pccl.synthesis.methods import Orders
from pccl.synthesis.schedule import COLLECT, Schedule

# Of learned orders, as a share of the duration, in turn.
NOISES = (0.02, 0.05, 0.1, 0.05)


class Reorder(Improvement):
    """The same method again, in an order that the schedule teaches; where it has none, with another seed."""

    def improved(self, schedule: Schedule, aim: Aim) -> Schedule:
        """What the method finds this time."""
        problem = schedule.problem
        method = replace(schedule.origin.method, seed=aim.seed)
        has_order = "order" in method.obeys and aim.settings.order is None
        if not has_order:
            # A method that times its transfers well needs no other times.
            timing = AS_IT_IS if method.in_time else None
            return aim.polish(method.find(problem), timing)
        noise = NOISES[aim.seed % len(NOISES)]
        orders = learned_orders(schedule, noise, aim.seed)
        # What was best for the schedule is best for those like it, and the other ways take time.
        timing = schedule.origin.timing or AS_IT_IS
        return aim.polish(method.find(problem, orders), timing)


def learned_orders(schedule: Schedule, noise: float, seed: int) -> Orders:
    """Orders of jobs by how early they must start if the schedule is to take no longer, with some noise.

    What finished last had to start early, and goes first next time (squeaky wheel). Jobs that collect are placed
    backwards in time, so of them those go first that are complete last.
    """
    rng = np.random.default_rng(seed)
    orders: Orders = {}
    for phase in schedule.phases:
        rows = schedule.rows(phase)
        low, high = schedule.trees(phase)
        if phase == COLLECT:
            arrival = schedule.start + schedule.travel
            times = -arrival[rows]
        else:
            # As late as all can start: what then still starts early has no time to lose.
            times = schedule.moved_down().start[rows]
        # Per tree: its first transfer, among those of the phase.
        first = schedule.first[low : high + 1] - rows.start
        # A chunk that is where it should be has no transfers.
        used = np.flatnonzero(np.diff(first))
        earliest = np.zeros(high - low)
        earliest[used] = np.minimum.reduceat(times, first[used])
        blurred = earliest + rng.normal(0, noise * schedule.end, len(earliest))
        orders[phase] = np.argsort(blurred, kind="stable")
    return orders
