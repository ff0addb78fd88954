"""Compiled loops that find which messages travel as one."""

from __future__ import annotations

from pccl._arrays import Bools, Ints
from pccl._kernels import kernel


@kernel
def find_windows(
    lane: Ints, start: Ints, arrival: Ints, ready: Ints, used: Ints, begins: Bools
) -> None:
    """Which messages begin a window: all of one are there when its first starts, and none is used before all are."""
    first, least = 0, 0
    for i in range(len(lane)):
        fits = i > 0 and lane[i] == lane[first] and ready[i] <= start[first] and least >= arrival[i]
        begins[i] = not fits
        if not fits:
            first, least = i, used[i]
        least = min(least, used[i])


@kernel
def cut_groups(offset: Ints, size: Ints, begins: Bools, most: int) -> None:
    """Begin a new group wherever one would become larger than `most`."""
    first = 0
    for i in range(len(offset)):
        if not begins[i] and offset[i] + size[i] - offset[first] > most:
            begins[i] = True
        if begins[i]:
            first = i
