"""The best ring: a short round tour through a group, over links that it does not need twice."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints
from pccl.analysis.baselines.grids import Grid
from pccl.analysis.baselines.plan import Task, UnsupportedError
from pccl.analysis.baselines.routes import ranges
from pccl.analysis.baselines.tour_kernels import improve_tour
from pccl.topology.core import transmission_time

__all__ = ["best_tour"]

PASSES = 30  # over all pairs of places; on a thousand NPUs that is a fraction of a second
STARTS = 200_000  # pairs of places that all starting points together may look at


def best_tour(task: Task) -> Ints:
    """The members of a group in the order of the best ring among a few: as given, along rows, and by local search."""
    n, cost = len(task.members), task.times
    tours = [np.arange(n), *_along_rows(task)]
    times = [_time(task, tour) for tour in tours]
    # No tour can do better than everyone sending to the nearest, as round a Hamiltonian cycle.
    nearest = int(np.partition(cost, min(1, n - 1), axis=1)[:, min(1, n - 1)].sum())
    if n > 3 and min(times)[0] > nearest:
        starts = min(n, max(1, STARTS // (n * n)))
        tours += [
            _improved(cost, _nearest_first(cost, start * n // starts)) for start in range(starts)
        ]
        times += [_time(task, tour) for tour in tours[len(times) :]]
    return tours[times.index(min(times))]


def _time(task: Task, tour: Ints) -> tuple[int, int]:
    """About how long a chunk takes once round: as fast as it travels, or as links used more than once let it."""
    members, topology = task.members[tour], task.topology
    paths, path = task.router.paths(members, np.roll(members, -1))
    link = paths.link[ranges(paths.first[path], paths.length[path])]
    duration = transmission_time(task.size, topology.bandwidth[link])
    travel = int((duration + topology.latency[link]).sum())
    hold = np.bincount(link, duration + np.where(topology.exclusive, topology.latency, 0)[link])
    return max(travel, int(hold.max(initial=0)) * len(tour)), travel


def _along_rows(task: Task) -> list[Ints]:
    """On a grid with an even dimension: to and fro along the others, and back along the places that were left out."""
    try:
        grid = Grid.of(task)
    except UnsupportedError:
        return []
    cells = grid.member.reshape(grid.sizes)
    tours = []
    for dimension in np.flatnonzero(grid.sizes % 2 == 0).tolist():
        across = np.moveaxis(cells, dimension, 0)
        rows = np.array([_snake(across[i]) for i in range(len(across))])
        inner = np.where(np.arange(len(rows))[:, None] % 2, rows[:, :0:-1], rows[:, 1:])
        tours.append(np.concatenate([inner.ravel(), rows[::-1, 0]]))
    return tours


def _snake(cells: Ints) -> Ints:
    """All cells of a grid, one neighbour after another."""
    if cells.ndim == 1:
        return cells
    rows = [_snake(cells[i]) for i in range(len(cells))]
    return np.concatenate([row[::-1] if i % 2 else row for i, row in enumerate(rows)])


def _nearest_first(cost: Ints, start: int) -> Ints:
    """Go to the nearest member not yet visited, again and again."""
    cost = cost.copy()
    tour = np.empty(len(cost), np.int64)
    for i in range(len(tour)):
        tour[i] = start
        cost[:, start] = np.iinfo(np.int64).max
        start = int(np.argmin(cost[start]))
    return tour


def _improved(cost: Ints, tour: Ints) -> Ints:
    saved, spare = np.empty((2, len(tour)), np.int64)
    improve_tour(cost, tour, saved, spare, PASSES)
    return tour
