"""Partial sums kept apart: none comes in to an NPU that has yet to send what it held before.

A transfer carries what its sender holds when it starts. Where sums are exchanged, one that comes in too early would be
counted twice: so it waits for a moment, at its sender or in the last switch on its way.
"""

from __future__ import annotations

from typing import NamedTuple

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
    order = _order(transfers, inputs, planned)
    lands = order.lands
    has_rivals = order.last >= 0
    not_before = np.zeros(len(transfers), np.int64)
    for _ in range(MOST_ROUNDS):
        latest = _latest_before(order, start)
        arrival = start[lands] + times.travel[lands]
        early = has_rivals & (arrival <= latest)
        if not np.any(early):
            return start
        rows = lands[early]
        # Just after the last of those that must not carry it has left.
        not_before[rows] = latest[early] + 1 - times.travel[rows]
        start = _served(transfers, inputs, times, start, not_before)
    return None


class _Order(NamedTuple):
    """What is meant to leave a device before what lands there.

    Attributes
    ----------
    lands
        Transfers that end where their chunk is kept.
    leaves
        Transfers that begin where their chunk is kept, by place; those of a place by how much has landed there by then.
    place
        Per transfer that leaves: its chunk and the device that it leaves, as one number.
    last
        Per transfer that lands: the last in `leaves` that is meant to leave before, or -1 if none is.
    """

    lands: Ints
    leaves: Ints
    place: Ints
    last: Ints


def _order(t: Transfers, inputs: Inputs, planned: Ints) -> _Order:
    first_place = t.chunk * np.int64(t.topology.num_devices)
    # Per transfer that lands: how many land at the same place before it.
    lands = np.flatnonzero(~t.comes_to_pass)
    lands_at = first_place[lands] + t.dst[lands]
    by_place = np.lexsort((planned[lands], lands_at))
    before = np.zeros(len(t), np.int64)
    before[lands[by_place]] = _ranks(lands_at[by_place])
    # Per transfer that leaves: how many have landed there by then, which its newest input tells.
    leaves = np.flatnonzero(~t.passes_on)
    newest = inputs.newest[leaves]
    landed = np.where(newest >= 0, before[newest] + 1, 0)
    leaves_from = first_place[leaves] + t.src[leaves]
    by_state = np.lexsort((landed, leaves_from))
    # A place and a count as one number, so that one search finds both.
    width = int(before.max(initial=0)) + 2
    states = (leaves_from * width + landed)[by_state]
    last = np.searchsorted(states, lands_at * width + before[lands], side="right") - 1
    place = leaves_from[by_state]
    # What is found may be of a smaller place, where nothing leaves this one.
    is_here = (last >= 0) & (place[last] == lands_at)
    return _Order(lands, leaves[by_state], place, np.where(is_here, last, -1))


def _latest_before(order: _Order, start: Ints) -> Ints:
    """Per transfer that lands: the latest start of those that are meant to leave before it, if there are any."""
    # A running maximum; the number of the place, which rises, makes it begin anew at each.
    longest = int(start.max(initial=0)) + 1
    base = order.place * longest
    latest = np.maximum.accumulate(base + start[order.leaves])
    return latest[order.last] - base[order.last]


def _ranks(keys: Ints) -> Ints:
    """Of sorted keys: how many of the same come before each."""
    is_new = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
    first = np.flatnonzero(is_new)
    counts = np.diff(np.append(first, len(keys)))
    return np.arange(len(keys)) - np.repeat(first, counts)


def _served(t: Transfers, inputs: Inputs, times: Times, start: Ints, not_before: Ints) -> Ints:
    """Starts as early as the order of these lets them, but not before some moments."""
    count = len(t)
    rows = np.arange(count)
    # A moment is what a transfer that nobody sees takes, over a link of its own; the real one waits for it.
    link = np.concatenate([t.link, t.topology.num_links + rows]).astype(np.int32)
    hold = np.append(times.hold, np.zeros(count, np.int64))
    travel = np.append(times.travel, not_before)
    moments = count + rows
    waits = Inputs(
        np.append(moments, np.full(count, -1)), np.append(inputs.previous, inputs.newest)
    )
    order = np.append(moments, np.argsort(start, kind="stable"))
    free = np.zeros(t.topology.num_links + count, np.int64)
    begins = np.zeros(2 * count, np.int64)
    arrival = np.zeros(2 * count, np.int64)
    serve_as_planned(order, link, waits, hold, travel, free, begins, arrival)
    return begins[:count]
