"""Runs: messages that lie side by side at both ends, and travel as one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Bools, Ints, take_rows
from pccl.formats.lowering import SCRATCH, Program
from pccl.formats.msccl.joining_kernels import cut_groups, find_windows
from pccl.formats.msccl.targets import MOST_COUNT
from pccl.formats.msccl.units import Units


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


def runs_of(program: Program, units: Units, lanes: Ints) -> Runs:
    """Messages joined with neighbours in memory.

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
    if units.together:
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
    """Per message: when its receiver first needs it."""
    count = len(program.messages)
    used = np.full(2 * count + len(program.copies), np.iinfo(np.int64).max)
    np.minimum.at(used, program.before, _times(program)[program.after])
    return used[count : 2 * count]
