"""Partial sums kept apart: none comes in to an NPU that has yet to send what it held before.

A transfer carries what its sender holds when it starts. Where sums are exchanged, one that comes in too early would be
counted twice: so it waits for a moment, at its sender or in the last switch on its way.
"""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints
from pccl.algorithm.core import Transfers
from pccl.algorithm.timing import Times
from pccl.algorithm.timing_kernels import Inputs, serve_as_planned

# To let one wait may bring another one in too early; after so many rounds there is no hope.
MOST_ROUNDS = 100


def kept_apart(
    transfers: Transfers, inputs: Inputs, times: Times, start: Ints, planned: Ints
) -> Ints | None:
    """Starts in about the same order, at which no sum comes in too early; None if there are none.

    In which order transfers are meant to arrive is said by `planned`, and what they are meant to carry by `inputs`.
    """
    t = transfers
    count = len(t)
    # Of all that comes to a device, and of all that leaves it: what is meant to come before.
    place = t.chunk * np.int64(t.topology.num_devices)
    lands = np.flatnonzero(~t.comes_to_pass)
    leaves = np.flatnonzero(~t.passes_on)
    before = np.zeros(count, np.int64)
    lands_at = place[lands] + t.dst[lands]
    by_place = np.lexsort((planned[lands], lands_at))
    before[lands[by_place]] = _ranks(lands_at[by_place])
    seen = np.where(inputs.newest[leaves] >= 0, before[inputs.newest[leaves]] + 1, 0)
    leaves_from = place[leaves] + t.src[leaves]
    by_state = np.lexsort((seen, leaves_from))
    width = int(before.max(initial=0)) + 2
    states = (leaves_from * width + seen)[by_state]
    # The last state from which something leaves before this one lands.
    state = np.searchsorted(states, lands_at * width + before[lands], side="right") - 1
    known = (state >= 0) & (states[state] // width == lands_at)

    not_before = np.zeros(count, np.int64)
    for _ in range(MOST_ROUNDS):
        longest = int(start.max(initial=0)) + 1
        # The latest start from each place up to each state: the number of the place makes each begin anew.
        own = states // width * longest
        latest = np.maximum.accumulate(own + start[leaves[by_state]])[state] - own[state]
        early = known & (start[lands] + times.travel[lands] <= latest)
        if not np.any(early):
            return start
        rows = lands[early]
        not_before[rows] = latest[early] + 1 - times.travel[rows]
        start = _served(t, inputs, times, start, not_before)
    return None


def _ranks(keys: Ints) -> Ints:
    """Of sorted keys: how many of the same come before each."""
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    return np.arange(len(keys)) - np.repeat(first, np.diff(np.append(first, len(keys))))


def _served(t: Transfers, inputs: Inputs, times: Times, start: Ints, not_before: Ints) -> Ints:
    """Starts as early as the order of these lets them, but not before some moments."""
    count = len(t)
    rows = np.arange(count)
    # A moment is what a transfer that nobody sees takes, over a link of its own; the real one waits for it.
    link = np.concatenate([t.link, t.topology.num_links + rows]).astype(np.int32)
    hold = np.append(times.hold, np.zeros(count, np.int64))
    travel = np.append(times.travel, not_before)
    waits = Inputs(
        np.append(count + rows, np.full(count, -1)), np.append(inputs.previous, inputs.newest)
    )
    order = np.append(count + rows, np.argsort(start, kind="stable"))
    free = np.zeros(t.topology.num_links + count, np.int64)
    begins, arrival = np.zeros((2, 2 * count), np.int64)
    serve_as_planned(order, link, waits, hold, travel, free, begins, arrival)
    return begins[:count]
