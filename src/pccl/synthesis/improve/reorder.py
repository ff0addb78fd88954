"""Reordering: what could start late in a schedule goes last next time, and some things change at random."""

from __future__ import annotations

import numpy as np

from pccl.synthesis.methods import Orders
from pccl.synthesis.schedule import COLLECT, Schedule


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
            times = -(schedule.start + schedule.travel)[rows]
        else:
            times = schedule.moved_down().start[rows]
        first = schedule.first[low : high + 1] - rows.start
        key = np.zeros(high - low)
        used = np.flatnonzero(np.diff(first))  # a chunk that is where it should be has no transfers
        key[used] = np.minimum.reduceat(times, first[used])
        key += rng.normal(0, noise * schedule.end, len(key))
        orders[phase] = np.argsort(key, kind="stable")
    return orders
