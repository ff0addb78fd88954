"""Lanes: queues between two ranks, so many that independent routes do not wait for each other.

Messages that came from different neighbours, or go different ways, stand in different queues. In none of them does a
message overtake another, so that a queue has the same order at both ends.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from pccl._arrays import Ints
from pccl.formats.lowering import Messages, Program
from pccl.formats.msccl.runs import Runs
from pccl.formats.msccl.targets import Target

# Threadblocks of a rank; all of them run at once, and take compute units from whatever else does.
ENOUGH = 64


class Lanes(NamedTuple):
    """Which queue every message stands in, numbered for each pair of ranks, and every copy, for each rank."""

    messages: Ints
    copies: Ints


def choose_lanes(program: Program, instances: int, target: Target, channels: int | None) -> Lanes:
    """Lanes for all messages: one for each independent route, or fewer to keep threadblocks and channels few."""
    m = program.messages
    lanes = _independent(program)
    most = int(lanes.max(initial=0)) + 1
    limit = most if channels is None else min(most, channels)
    while limit > 1:
        blocks = np.unique((m.src * len(program.npus) + m.dst) * limit + lanes % limit) // limit
        load = np.bincount(np.concatenate(np.divmod(blocks, len(program.npus)))) * instances
        if load.max() < min(ENOUGH, target.threadblocks) and limit * instances <= target.channels:
            break
        limit -= 1
    return Lanes(_without_overtaking(m, lanes % limit), np.zeros(len(program.copies), np.int64))


def split_lanes(
    program: Program, lanes: Lanes, runs: Runs, parts: dict[tuple[int, int, int], int]
) -> Lanes:
    """Deal the messages of these lanes (sender, receiver, lane) out to so many; (rank, -1, lane) stands for copies."""
    m = program.messages
    first = runs.first
    messages = lanes.messages.copy()
    copies = lanes.copies.copy()
    pair = m.src * len(program.npus) + m.dst
    free = np.zeros(len(program.npus) ** 2, np.int64)
    np.maximum.at(free, pair, lanes.messages + 1)
    run_of = runs.run_of
    for (src, dst, lane), count in parts.items():
        if dst < 0:
            continue
        between = src * len(program.npus) + dst
        numbers = np.array([lane, *range(free[between], free[between] + count - 1)])
        free[between] += count - 1
        # As a whole, and in turns, so that the order of the plan stays; runs of a lane follow each other.
        mine = np.flatnonzero((pair[first] == between) & (lanes.messages[first] == lane))
        inside = np.flatnonzero((run_of >= mine[0]) & (run_of <= mine[-1]))
        messages[inside] = numbers[(run_of[inside] - mine[0]) % count]
    for rank in {rank for rank, peer, _ in parts if peer < 0}:
        mine = np.flatnonzero(program.copies.rank == rank)
        copies[mine] = np.arange(len(mine)) % (int(copies[mine].max()) + 2)
    return Lanes(messages, copies)


def _independent(program: Program) -> Ints:
    """One lane per route and per neighbour that the message came from; -1 stands for the rank itself."""
    m = program.messages
    count = len(m)
    feeds = (program.before >= count) & (program.before < 2 * count) & (program.after < count)
    before = program.before[feeds] - count
    after = program.after[feeds]
    # Of several, that counts which arrives last, and the first of those: what is assigned last stays.
    last = np.lexsort((-np.arange(len(before)), m.arrival[before], after))
    came = np.full(count, -1, np.int64)
    came[after[last]] = m.src[before[last]]
    lanes = np.zeros(count, np.int64)
    known: dict[tuple[int, int], dict[tuple[int, int], int]] = defaultdict(dict)
    columns = (m.src, m.dst, m.route, came)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for i, (src, dst, route, origin) in enumerate(rows):
        mine = known[src, dst]
        lanes[i] = mine.setdefault((route, origin), len(mine))
    return lanes


def _without_overtaking(messages: Messages, lanes: Ints) -> Ints:
    """The same lanes, but a message that would overtake stands in the next where it does not."""
    last: dict[tuple[int, int, int], int] = {}
    found = lanes.copy()
    columns = (messages.src, messages.dst, lanes, messages.arrival)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for i, (src, dst, lane, arrival) in enumerate(rows):
        while last.get((src, dst, lane), -1) > arrival:
            lane += 1
        last[src, dst, lane] = arrival
        found[i] = lane
    return found
