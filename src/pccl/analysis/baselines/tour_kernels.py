"""Compiled loops of the search for a good ring."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints
from pccl._kernels import kernel

__all__ = ["improve_tour"]

LONGEST_STRETCH = 3  # that is moved elsewhere


@kernel
def improve_tour(cost: Ints, tour: Ints, saved: Ints, passes: int) -> None:
    """Turn stretches of a round tour round, or move short ones elsewhere, for as long as that makes it cheaper.

    Costs may differ between the directions: `saved` is scratch space for what turning stretches round would save.
    """
    for _ in range(passes):
        turned = turn_stretches(cost, tour, saved)
        moved = move_stretches(cost, tour)
        if not (turned or moved):
            break


@kernel
def turn_stretches(cost: Ints, tour: Ints, saved: Ints) -> bool:
    """Reverse tour[i + 1 : j + 1] where that is cheaper."""
    n = len(tour)
    better = False
    sum_savings(cost, tour, saved)
    for i in range(n - 2):
        for j in range(i + 2, n):
            before = tour[i]
            first = tour[i + 1]
            last = tour[j]
            after = tour[(j + 1) % n]
            if before == after:
                continue
            gain = cost[before, first] + cost[last, after]
            gain -= cost[before, last] + cost[first, after]
            # The hops inside are made in the other direction.
            gain += saved[j] - saved[i + 1]
            if gain > 0:
                reverse(tour, i + 1, j)
                sum_savings(cost, tour, saved)
                better = True
    return better


@kernel
def sum_savings(cost: Ints, tour: Ints, saved: Ints) -> None:
    """What turning round the hops up to each place would save."""
    saved[0] = 0
    for k in range(1, len(tour)):
        hop = cost[tour[k - 1], tour[k]] - cost[tour[k], tour[k - 1]]
        saved[k] = saved[k - 1] + hop


@kernel
def move_stretches(cost: Ints, tour: Ints) -> bool:
    """Move a few members in a row to between two others, where that is cheaper."""
    n = len(tour)
    better = False
    for length in range(1, min(LONGEST_STRETCH, n - 3) + 1):
        # Every stretch comes to the front once, as the tour is turned on by one each time.
        for _ in range(n):
            first = tour[0]
            last = tour[length - 1]
            before = tour[n - 1]
            after = tour[length]
            gain = cost[before, first] + cost[last, after] - cost[before, after]
            best = np.int64(0)
            place = 0
            for k in range(length, n - 1):
                here = tour[k]
                there = tour[k + 1]
                more = cost[here, first] + cost[last, there] - cost[here, there]
                if gain - more > best:
                    best = gain - more
                    place = k
            if best > 0:
                rotate(tour, length, place + 1)
                better = True
            rotate(tour, 1, n)
    return better


@kernel
def rotate(tour: Ints, by: int, end: int) -> None:
    """Move the first few entries of tour[:end] behind the others; in place that takes three reversals."""
    reverse(tour, 0, by - 1)
    reverse(tour, by, end - 1)
    reverse(tour, 0, end - 1)


@kernel
def reverse(tour: Ints, low: int, high: int) -> None:
    """Turn round what stands from one place to another."""
    while low < high:
        tour[low], tour[high] = tour[high], tour[low]
        low += 1
        high -= 1
