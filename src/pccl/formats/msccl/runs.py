"""Runs: messages that lie side by side at both ends, and travel as one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Bools, Ints, offsets_of
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
    m, unit = program.messages, units.unit
    if not len(m):
        return Runs(*(np.zeros(count, np.int64) for count in (0, 1, 0, 0)))
    order = np.lexsort((lanes, m.dst, m.src))
    lane: Ints = np.cumsum(_changes(*(column[order] for column in (m.src, m.dst, lanes))))
    start, arrival = m.start[order], m.arrival[order]
    opens = np.ones(len(m), np.bool_)
    if units.together:
        find_windows(
            lane, start, arrival, _when_ready(program)[order], _when_used(program)[order], opens
        )
    window = np.cumsum(opens) - 1
    offset, size = m.read_offset[order] // unit, m.bytes[order] // unit
    kind = [column[order] for column in _kinds(program, units)]
    inside = np.lexsort((offset, *reversed(kind), window))
    begins = _changes(window[inside], *(column[inside] for column in kind))
    offset, size = offset[inside], size[inside]
    begins[1:] |= offset[1:] != offset[:-1] + size[:-1]
    cut_groups(offset, size, begins, MOST_COUNT)
    return _joined(
        order, inside, start, arrival, window, np.flatnonzero(opens), np.flatnonzero(begins)
    )


def _joined(
    order: Ints, inside: Ints, start: Ints, arrival: Ints, window: Ints, opens: Ints, begins: Ints
) -> Runs:  # fmt: skip
    """Runs from groups, which begin at these places of `inside`; in the order of the plan where nothing is joined."""
    window_of = window[inside[begins]]
    joins = np.bincount(window_of) < np.diff(opens, append=len(order))
    leave = np.where(joins, start[opens], 0)[window_of]
    land = np.where(joins, np.maximum.reduceat(arrival, opens), 0)[window_of]
    alone, one = ~joins[window_of], inside[begins]
    leave[alone], land[alone] = start[one[alone]], arrival[one[alone]]
    place = np.where(alone, one, np.minimum.reduceat(start[inside], begins))
    by = np.lexsort((place, window_of))
    sizes = np.diff(begins, append=len(order))[by]
    offsets = offsets_of(sizes)
    rows = np.arange(len(order)) + np.repeat(begins[by] - offsets[:-1], sizes)
    return Runs(order[inside[rows]], offsets, leave[by], land[by])


def _changes(*columns: Ints) -> Bools:
    """Where something differs from the row before; the first row does."""
    found = np.ones(len(columns[0]), np.bool_)
    found[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return found


def _kinds(program: Program, units: Units) -> list[Ints]:
    """What messages must have in common to be one step."""
    m = program.messages
    shared = [m.reduce, m.read_buffer, m.write_buffer, m.add_buffer, m.write_offset - m.read_offset,
              np.where(m.reduce, m.add_offset - m.read_offset, 0)]  # fmt: skip
    if units.instances == 1 or not units.share:
        return shared
    across = units.share * units.unit  # instances put shares apart
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
