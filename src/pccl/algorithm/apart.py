"""Partial sums kept apart: none comes in to an NPU that has yet to send what it held before.

A transfer carries what its sender holds when it starts. Where sums are exchanged, one that comes in too early would be
counted twice: so it waits for a moment, at its sender or in the last switch on its way. A copy takes the place of what
was there before; so what is to be added to it waits as well, and a copy waits for what it is meant to replace.
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
    lands, sent_before, landed_before = _rivals(transfers, inputs, planned)
    not_before = np.zeros(len(transfers), np.int64)
    for _ in range(MOST_ROUNDS):
        ends = start + times.travel
        latest = np.maximum(sent_before.latest(start), landed_before.latest(ends))
        early = ends[lands] <= latest
        if not np.any(early):
            return start
        rows = lands[early]
        # Just after the last of its rivals has left, or has come in.
        not_before[rows] = latest[early] + 1 - times.travel[rows]
        start = _served(transfers, inputs, times, start, not_before)
    return None


class _Rivals(NamedTuple):
    """What has to happen before transfers land.

    Attributes
    ----------
    rows
        Transfers, by place.
    place
        Of each of them, as a number that rises.
    last
        Per transfer that lands: the last in `rows` that comes before it, as do those before that at the same place; -1
        if there are none.
    """

    rows: Ints
    place: Ints
    last: Ints

    def latest(self, moments: Ints) -> Ints:
        """Per transfer that lands: the latest moment of those that come before it, -1 if there are none."""
        # A running maximum; the number of the place makes it begin anew at each.
        base = self.place * (int(moments.max(initial=0)) + 1)
        latest = np.maximum.accumulate(base + moments[self.rows]) - base
        return np.where(self.last >= 0, np.append(latest, -1)[self.last], -1)


def _rivals(t: Transfers, inputs: Inputs, planned: Ints) -> tuple[Ints, _Rivals, _Rivals]:
    """The transfers that end where their chunk is kept, and what has to leave, and to land, before each of them."""
    first_place = t.chunk * np.int64(t.topology.num_devices)
    # Those that land, by place and in their order there, and how many land before each.
    lands = np.flatnonzero(~t.comes_to_pass)
    lands_at = first_place[lands] + t.dst[lands]
    by_place = np.lexsort((planned[lands], lands_at))
    lands = lands[by_place]
    lands_at = lands_at[by_place]
    rank = _ranks(lands_at)
    before = np.zeros(len(t), np.int64)
    before[lands] = rank
    # Per transfer that leaves: how many have landed there by then, which its newest input tells.
    leaves = np.flatnonzero(~t.passes_on)
    newest = inputs.newest[leaves]
    landed = np.where(newest >= 0, before[newest] + 1, 0)
    leaves_from = first_place[leaves] + t.src[leaves]
    by_state = np.lexsort((landed, leaves_from))
    # A place and a count as one number, so that one search finds both.
    width = int(before.max(initial=0)) + 2
    states = (leaves_from * width + landed)[by_state]
    last = np.searchsorted(states, lands_at * width + rank, side="right") - 1
    place = leaves_from[by_state]
    # What is found may be of a smaller place, where nothing leaves this one.
    is_here = (last >= 0) & (place[last] == lands_at)
    sent_before = _Rivals(leaves[by_state], _numbered(place), np.where(is_here, last, -1))
    # Sums come in any order, but all of them after the copy that they are added to.
    row = np.arange(len(lands))
    copied = np.maximum.accumulate(np.where(t.reduce[lands], -1, row))
    preceding = np.where(t.reduce[lands], copied, row - 1)
    is_here = preceding >= row - rank
    landed_before = _Rivals(lands, _numbered(lands_at), np.where(is_here, preceding, -1))
    return lands, sent_before, landed_before


def _numbered(keys: Ints) -> Ints:
    """Of sorted keys: how many different ones come before each."""
    return np.cumsum(np.append(False, keys[1:] != keys[:-1])[: len(keys)])


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
