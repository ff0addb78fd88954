"""Compiled loops of the search for a good ring."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints
from pccl._kernels import kernel

__all__ = ["improve_tour"]


NONE = np.int64(-1)


@kernel
def improve_tour(cost: Ints, tour: Ints, saved: Ints, spare: Ints, passes: int) -> None:
    """Turn stretches of a round tour round, or move short ones elsewhere, for as long as that makes it cheaper.

    Costs may differ between the directions: `saved[k]` is what turning round the first k hops would save.
    """
    better, left = True, passes
    while better and left > 0:
        turned = turn_stretches(cost, tour, saved, spare)
        moved = move_stretches(cost, tour, spare)
        better, left = turned or moved, left - 1


@kernel
def turn_stretches(cost: Ints, tour: Ints, saved: Ints, spare: Ints) -> bool:
    """Reverse tour[i + 1 : j + 1] where that is cheaper."""
    n, better = len(tour), False
    sum_savings(cost, tour, saved)
    for i in range(n - 2):
        for j in range(i + 2, n):
            a, b, c, d = tour[i], tour[i + 1], tour[j], tour[(j + 1) % n]
            if a == d:
                continue
            gain = cost[a, b] + cost[c, d] - cost[a, c] - cost[b, d] + saved[j] - saved[i + 1]
            if gain > 0:
                for k in range(i + 1, j + 1):
                    spare[k] = tour[k]
                for k in range(i + 1, j + 1):
                    tour[k] = spare[i + 1 + j - k]
                sum_savings(cost, tour, saved)
                better = True
    return better


@kernel
def sum_savings(cost: Ints, tour: Ints, saved: Ints) -> None:
    """What turning round the hops up to each place would save."""
    saved[0] = 0
    for k in range(1, len(tour)):
        a, b = tour[k - 1], tour[k]
        saved[k] = saved[k - 1] + cost[a, b] - cost[b, a]


@kernel
def move_stretches(cost: Ints, tour: Ints, spare: Ints) -> bool:
    """Move one, two or three members in a row to between two others, where that is cheaper."""
    n, better = len(tour), False
    for length in range(1, min(3, n - 3) + 1):
        for _ in range(
            n
        ):  # every stretch comes to the front once, as the tour is turned on by one each time
            first, last, before, after = tour[0], tour[length - 1], tour[n - 1], tour[length]
            gain = cost[before, first] + cost[last, after] - cost[before, after]
            best, place = np.int64(0), NONE
            for k in range(length, n - 1):
                a, b = tour[k], tour[k + 1]
                more = cost[a, first] + cost[last, b] - cost[a, b]
                if gain - more > best:
                    best, place = gain - more, k
            if place >= 0:
                for k in range(length):
                    spare[k] = tour[k]
                for k in range(length, place + 1):
                    tour[k - length] = tour[k]
                for k in range(length):
                    tour[place + 1 - length + k] = spare[k]
                better = True
            front = tour[0]
            for k in range(n - 1):
                tour[k] = tour[k + 1]
            tour[n - 1] = front
    return better
