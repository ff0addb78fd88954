"""Lanes, which are queues between two ranks, and runs: the messages of a lane that travel as one.

There are so many lanes that independent routes do not wait for each other: messages that came from different
neighbours, or go different ways, stand in different queues. In none of them does a message overtake another, so that a
queue has the same order at both ends; only where channels are few do messages wait for others. A run is made of
messages that lie side by side at both ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pccl._arrays import Bools, Ints, count_within, distinct, take_rows
from pccl.formats.lowering import SCRATCH, Messages, Program
from pccl.formats.msccl.joining_kernels import cut_groups, find_windows
from pccl.formats.msccl.targets import MOST_COUNT, Target
from pccl.formats.msccl.units import Units

# Threadblocks of a rank; all of them run at once, and take compute units from whatever else does.
ENOUGH = 64


class Lanes(NamedTuple):
    """Which queue every message stands in, numbered for each pair of ranks, and every copy, for each rank."""

    messages: Ints
    copies: Ints


def choose_lanes(program: Program, instances: int, target: Target, channels: int | None) -> Lanes:
    """Lanes for all messages: one for each independent route, or fewer to keep threadblocks and channels few.

    With a number of `channels`, messages may have to wait for those in front of them: see :func:`in_turn`.
    """
    m = program.messages
    lanes = _independent(program)
    # Fewer lanes until both limits hold; those beyond are folded onto the first ones.
    most = int(lanes.max(initial=0)) + 1
    limit = most if channels is None else min(most, channels)
    while limit > 1:
        blocks = distinct((m.src * len(program.npus) + m.dst) * limit + lanes % limit) // limit
        load = np.bincount(np.concatenate(np.divmod(blocks, len(program.npus)))) * instances
        if load.max() < min(ENOUGH, target.threadblocks) and limit * instances <= target.channels:
            break
        limit -= 1
    folded = lanes % limit
    if channels is None:
        folded = _without_overtaking(m, folded)
    return Lanes(folded, np.zeros(len(program.copies), np.int64))


def in_turn(program: Program, lanes: Lanes) -> Program:
    """The program with messages that arrive no earlier than those in front of them, as a queue has it."""
    m = program.messages
    order = np.lexsort((lanes.messages, m.dst, m.src))
    columns = (m.src, m.dst, lanes.messages)
    queue = np.cumsum(_changes(*(column[order] for column in columns))) if len(m) else order
    # The largest so far, of each queue by itself: each begins above all that the one before it can have.
    span = int(m.arrival.max(initial=0)) + 1
    arrival = np.empty(len(m), np.int64)
    arrival[order] = np.maximum.accumulate(m.arrival[order] + queue * span) - queue * span
    return replace(program, messages=replace(m, arrival=arrival))


def split_lanes(
    program: Program, lanes: Lanes, runs: Runs, parts: dict[tuple[int, int, int], int]
) -> Lanes:
    """Deal the messages of these lanes (sender, receiver, lane) out to so many; (rank, -1, lane) stands for copies."""
    m = program.messages
    first = runs.first
    messages = lanes.messages.copy()
    copies = lanes.copies.copy()
    pair = m.src * len(program.npus) + m.dst
    # Per pair of ranks: the first number that no lane has.
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
        # Copies do not depend on each other: they are dealt out anew, to one more than before.
        copies[mine] = np.arange(len(mine)) % (int(copies[mine].max()) + 2)
    return Lanes(messages, copies)


def _independent(program: Program) -> Ints:
    """One lane per route and per neighbour that the message came from; -1 stands for the rank itself."""
    m = program.messages
    count = len(m)
    # Receipts that sends wait for: those pass on what they have received.
    feeds = (program.before >= count) & (program.before < 2 * count) & (program.after < count)
    before = program.before[feeds] - count
    after = program.after[feeds]
    # Of several, that counts which arrives last, and the first of those: what is assigned last stays.
    last = np.lexsort((-np.arange(len(before)), m.arrival[before], after))
    came = np.full(count, -1, np.int64)
    came[after[last]] = m.src[before[last]]
    ranks = len(program.npus)
    pair = m.src * ranks + m.dst
    kind = (pair * (int(m.route.max(initial=0)) + 1) + m.route) * (ranks + 1) + came + 1
    _, first, which = np.unique(kind, return_index=True, return_inverse=True)
    # Each pair numbers its lanes in the order in which they are first used.
    number = np.empty(len(first), np.int64)
    number[np.lexsort((first, pair[first]))] = count_within(np.bincount(pair[first]))
    return number[which]


def _without_overtaking(messages: Messages, lanes: Ints) -> Ints:
    """The same lanes, but a message that would overtake stands in the next where it does not."""
    last: dict[tuple[int, int, int], int] = {}
    found = lanes.copy()
    columns = (messages.src, messages.dst, lanes, messages.arrival)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for i, (src, dst, lane, arrival) in enumerate(rows):
        # A message that arrives before the one in front of it would have to wait for it.
        while last.get((src, dst, lane), -1) > arrival:
            lane += 1
        last[src, dst, lane] = arrival
        found[i] = lane
    return found


# --- runs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Runs:
    """Messages that travel as one, lane by lane and in the order in which they are sent.

    Attributes
    ----------
    messages, offsets
        The messages of run `r` are ``messages[offsets[r]:offsets[r + 1]]``, the first in memory first.
    start, arrival
        Per run: when it leaves, and when all of it has arrived.
    """

    messages: Ints
    offsets: Ints
    start: Ints
    arrival: Ints

    def __len__(self) -> int:
        return len(self.start)

    @property
    def first(self) -> Ints:
        """Per run: the first of its messages."""
        found: Ints = self.messages[self.offsets[:-1]]
        return found

    @property
    def run_of(self) -> Ints:
        """Per message: its run."""
        found = np.empty(len(self.messages), np.int64)
        found[self.messages] = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        return found


def runs_of(program: Program, units: Units, lanes: Ints, joined: bool = True) -> Runs:
    """Messages joined with neighbours in memory, unless they are not to be.

    Only messages of a window are joined: all of them are there when the first starts, and none is used before the last
    has arrived. So the plan stays as good as it was, and events keep their order in time.
    """
    m = program.messages
    if not len(m):
        return Runs(*(np.zeros(count, np.int64) for count in (0, 1, 0, 0)))
    order = np.lexsort((lanes, m.dst, m.src))
    lane: Ints = np.cumsum(_changes(*(column[order] for column in (m.src, m.dst, lanes))))
    start = m.start[order]
    arrival = m.arrival[order]
    opens = np.ones(len(m), np.bool_)
    # If instances cut chunks, neighbours in the program are apart in the file.
    if units.together and joined:
        ready = _when_ready(program)[order]
        used = _when_used(program)[order]
        find_windows(lane, start, arrival, ready, used, opens)
    window = np.cumsum(opens) - 1
    # Within a window, what lies side by side and may be one step is a group.
    kind = [column[order] for column in _kinds(program, units)]
    inside = np.lexsort((m.read_offset[order], *reversed(kind), window))
    begins = _changes(window[inside], *(column[inside] for column in kind))
    rows = order[inside]
    offset = m.read_offset[rows] // units.unit
    size = m.bytes[rows] // units.unit
    # A gap in memory ends a group.
    begins[1:] |= offset[1:] != offset[:-1] + size[:-1]
    cut_groups(offset, size, begins, MOST_COUNT)
    # Groups become runs; where a window joins nothing, its messages keep their times and the order of the plan.
    first = np.flatnonzero(begins)
    windows = np.flatnonzero(opens)
    one = inside[first]
    window_of = window[one]
    alone = (np.bincount(window_of) == np.diff(windows, append=len(m)))[window_of]
    leave = np.where(alone, start[one], start[windows][window_of])
    land = np.where(alone, arrival[one], np.maximum.reduceat(arrival, windows)[window_of])
    place = np.where(alone, one, np.minimum.reduceat(start[inside], first))
    by = np.lexsort((place, window_of))
    offsets, messages = take_rows(np.append(first, len(m)), rows, by)
    return Runs(messages, offsets, leave[by], land[by])


def _changes(*columns: Ints) -> Bools:
    """Where something differs from the row before; the first row does."""
    found = np.ones(len(columns[0]), np.bool_)
    found[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return found


def _kinds(program: Program, units: Units) -> list[Ints]:
    """What messages must have in common to be one step."""
    m = program.messages
    shared = [
        m.reduce,
        m.read_buffer,
        m.write_buffer,
        m.add_buffer,
        m.write_offset - m.read_offset,
        np.where(m.reduce, m.add_offset - m.read_offset, 0),
    ]
    if units.instances == 1 or not units.share:
        return shared
    # Instances put shares apart.
    across = units.share * units.unit
    places = (
        (m.read_buffer, m.read_offset),
        (m.write_buffer, m.write_offset),
        (m.add_buffer, m.add_offset),
    )
    return shared + [np.where(buffer == SCRATCH, 0, offset // across) for buffer, offset in places]


def _times(program: Program) -> Ints:
    return np.concatenate([program.messages.start, program.messages.arrival, program.copies.time])


def _when_ready(program: Program) -> Ints:
    """Per message: when its sender has it and may send it."""
    ready = np.zeros(2 * len(program.messages) + len(program.copies), np.int64)
    np.maximum.at(ready, program.after, _times(program)[program.before])
    return ready[: len(program.messages)]


def _when_used(program: Program) -> Ints:
    """Per message: when its receiver first needs it, at the latest."""
    count = len(program.messages)
    # What is added to it has to come later. At the same time, two runs could each have to come before the other.
    is_receipt = (program.after >= count) & (program.after < 2 * count)
    needed = _times(program)[program.after] - is_receipt
    used = np.full(2 * count + len(program.copies), np.iinfo(np.int64).max)
    np.minimum.at(used, program.before, needed)
    return used[count : 2 * count]
