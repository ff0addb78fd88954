"""Rings: shares go round the group, in its own order or along a short tour that needs no link twice."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints, inverse, take_rows
from pccl.schemes.dimensions import Grid
from pccl.schemes.sends import Sends, Trees, lay_trees
from pccl.schemes.tree_kernels import improve_tour
from pccl.schemes.workload import UnsupportedError, Workload

# Passes over all pairs of places; on a thousand NPUs that is a fraction of a second.
PASSES = 30
# Pairs of places that all starting points together may look at.
STARTS = 200_000


def ring(workload: Workload) -> Sends:
    """Shares go round the group in its own order."""
    return _around(workload, np.arange(len(workload.members)))


def best_ring(workload: Workload) -> Sends:
    """Shares go round the group in the best order that a quick search finds."""
    return _around(workload, best_tour(workload))


def _around(workload: Workload, tour: Ints) -> Sends:
    n = len(tour)
    place = inverse(tour)
    distance = (place - place[workload.roots][:, None]) % n

    def trees(inward: bool) -> Trees:
        """Every member has the same neighbour in all trees, except that roots have no parent."""
        neighbour = tour[(place + 1) % n] if inward else tour[place - 1]
        parent = np.where(distance > 0, neighbour, -1)
        return Trees(parent, -distance % n if inward else distance)

    return lay_trees(workload, trees)


def best_tour(workload: Workload) -> Ints:
    """The members of a group in the order of the best ring among a few: as given, along rows, and by local search."""
    n = len(workload.members)
    cost = workload.times
    tours = [np.arange(n), *_along_rows(workload)]
    times = [_time(workload, tour) for tour in tours]
    # No tour can do better than everyone sending to the nearest, as round a Hamiltonian cycle.
    nearest = int(np.partition(cost, min(1, n - 1), axis=1)[:, min(1, n - 1)].sum())
    if n > 3 and min(times)[0] > nearest:
        starts = min(n, max(1, STARTS // (n * n)))
        for start in range(starts):
            tour = improved(cost, nearest_first(cost, start * n // starts))
            tours.append(tour)
            times.append(_time(workload, tour))
    return tours[times.index(min(times))]


def _time(workload: Workload, tour: Ints) -> tuple[int, int]:
    """About how long a chunk takes once round: as fast as it travels, or as links used more than once let it."""
    members = workload.members[tour]
    paths, path = workload.paths(members, np.roll(members, -1))
    _, link = take_rows(*paths, path)
    hold, travel = workload.link_times
    once_round = int(travel[link].sum())
    busiest = np.bincount(link, hold[link]).max(initial=0)
    return max(once_round, int(busiest) * len(tour)), once_round


def _along_rows(workload: Workload) -> list[Ints]:
    """On a grid with an even dimension: forth and back along the others, then home over the places left out."""
    try:
        grid = Grid.of(workload)
    except UnsupportedError:
        return []
    tours = []
    for dimension, size in enumerate(grid.member.shape):
        if size % 2:
            continue
        rows = np.array([_snake(row) for row in np.moveaxis(grid.member, dimension, 0)])
        # The first place of every row is kept for the way home.
        inner = rows[:, 1:].copy()
        inner[1::2] = inner[1::2, ::-1]
        tours.append(np.concatenate([inner.ravel(), rows[::-1, 0]]))
    return tours


def _snake(cells: Ints) -> Ints:
    """All cells of a grid, one neighbour after another."""
    if cells.ndim == 1:
        return cells
    rows = [_snake(row) for row in cells]
    rows[1::2] = [row[::-1] for row in rows[1::2]]
    return np.concatenate(rows)


def nearest_first(cost: Ints, start: int) -> Ints:
    """Go to the nearest member not yet visited, again and again."""
    cost = cost.copy()
    tour = np.empty(len(cost), np.int64)
    for i in range(len(tour)):
        tour[i] = start
        cost[:, start] = np.iinfo(np.int64).max
        start = int(np.argmin(cost[start]))
    return tour


def improved(cost: Ints, tour: Ints) -> Ints:
    """The tour after a local search, which changes it in place."""
    improve_tour(cost, tour, np.empty_like(tour), PASSES)
    return tour
