"""Load over time: for how long links, or whatever else is held, are held in each of many equal intervals."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Column, Floats, Ints

# Entries looked at together, so that the memory needed does not grow with their number.
BLOCK = 2**21


def held_time(
    row: Column, start: Ints, hold: Ints, *, rows: int, intervals: int, width: float
) -> Floats:
    """Return, per row and interval, for how long the row is held.

    Parameters
    ----------
    row
        Per entry: what is held, such as the link of a transfer; several entries may hold a row at the same time.
    start, hold
        Per entry: since when, and for how long. What is held after the last interval does not count.
    rows, intervals, width
        How many rows and intervals there are, and how long an interval is.

    Examples
    --------
    >>> row, start, hold = np.array([0, 1, 1]), np.array([0, 5, 20]), np.array([15, 10, 99])
    >>> held_time(row, start, hold, rows=2, intervals=3, width=10).tolist()
    [[10.0, 5.0, 0.0], [5.0, 5.0, 10.0]]
    """
    shape = rows, intervals
    rest = np.zeros(rows * intervals)
    held = np.zeros(rows * intervals, np.int64)
    # From its start on, an entry fills the rest of that interval and all later ones; its end takes that back.
    for begin in range(0, len(row), BLOCK):
        block = slice(begin, begin + BLOCK)
        end = start[block] + hold[block]
        for moment, sign in ((start[block], 1), (end, -1)):
            # What lies beyond the last interval begins and ends at its end, and so takes nothing of
            # it.
            inside = np.minimum(moment, intervals * width)
            interval = np.minimum((inside / width).astype(np.int64), intervals - 1)
            cell = row[block].astype(np.int64) * intervals + interval
            rest += sign * np.bincount(cell, (interval + 1) * width - inside, len(rest))
            held += sign * np.bincount(cell, minlength=len(held))
    # Whoever began in an earlier interval, and did not end there, holds this one from its
    # beginning.
    held_before = np.cumsum(held.reshape(shape), axis=1) - held.reshape(shape)
    return rest.reshape(shape) + width * held_before
