"""Learning from the best solution so far: what could start late goes last, and some things change at random."""

from __future__ import annotations

import numpy as np

from pccl.synthesis.methods import Orders, Solution
from pccl.synthesis.problem import Problem
from pccl.synthesis.retiming import Timetable

__all__ = ["learned_orders"]


def learned_orders(problem: Problem, solution: Solution, noise: float, seed: int) -> Orders:
    """Orders of jobs by how early they must start if the solution is to take no longer, with some noise.

    What finished last had to start early, and goes first next time (squeaky wheel). Jobs that reduce are placed
    backwards in time, so of them those go first that are complete last.
    """
    table = Timetable.of(problem.topology, solution.net, solution.parts, len(problem.conditions))
    start, rng = table.moves.start, np.random.default_rng(seed)
    times = {True: -(start + table.travel), False: table.moved_down(start)}
    orders, low = {}, 0
    for jobs, placed, reduces in solution.parts:
        rows, low = slice(low, low + len(placed)), low + len(placed)
        key = np.zeros(len(jobs))
        used = np.flatnonzero(
            np.diff(placed.first)
        )  # a chunk that is where it should be has no transfers
        key[placed.job[used]] = np.minimum.reduceat(times[reduces][rows], placed.first[used])
        orders[reduces] = np.argsort(
            key + rng.normal(0, noise * table.end(start), len(key)), kind="stable"
        )
    return orders
