"""What the threadblocks of a file will do: messages of a program in units of the file, neighbours joined into one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pccl.export.lowering import SCRATCH, Program
from pccl.export.msccl.targets import MOST_COUNT

__all__ = ["Lanes", "Operation", "Run", "Units", "operations", "runs_of"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Units:
    """How bytes of a program become chunks of a file."""

    unit: int  # bytes, before instances cut it
    share: int  # units of a share; 0 if instances cut chunks and not shares
    per_loop: int  # units of the larger buffer
    scratch: Ints  # per rank
    instances: int

    @classmethod
    def of(cls, program: Program, share: int, instances: int, apart: bool = False) -> Units:
        """The largest chunks that everything is a multiple of; `share` is in bytes.

        Instances have a block of every share each, so that what lies side by side in an instance stays side by side. If
        chunks stay `apart`, instances cut each of them instead, so that the beginning of a share stays its beginning.
        """
        m, c = program.messages, program.copies
        columns = (m.bytes, m.read_offset, m.write_offset, m.add_offset, c.bytes, c.read_offset, c.write_offset)
        unit = math.gcd(share, *(int(np.gcd.reduce(column)) for column in columns if len(column)))
        whole = int(max(program.input_bytes.max(), program.output_bytes.max()))
        block = 0 if apart and instances > 1 else share // unit
        return cls(unit, block, whole // unit, program.scratch_bytes // unit, instances)

    @property
    def together(self) -> bool:
        """Whether neighbours in the program are neighbours in the file."""
        return self.share > 0 or self.instances == 1

    def place(self, rank: int, buffer: int, offset: int, size: int, instance: int) -> tuple[int, int]:
        """Where an instance has its part of something, in the file."""
        if not self.share:
            return buffer, offset * self.instances + instance * size
        if buffer == SCRATCH:
            return buffer, instance * int(self.scratch[rank]) + offset
        share, within = divmod(offset, self.share)
        return buffer, (share * self.instances + instance) * self.share + within


@dataclass(frozen=True, eq=False)
class Lanes:
    """Which queue every message stands in, numbered for each pair of ranks, and every copy, for each rank."""

    messages: Ints
    copies: Ints


@dataclass(slots=True)
class Operation:
    """One end of a message, or a copy, of one instance; offsets and `cnt` are in chunks of the file."""

    rank: int
    type: str
    src: tuple[int, int]
    dst: tuple[int, int]
    cnt: int
    time: int
    events: list[int]
    lane: tuple[int, int, int, int]  # the threadblock that will do it: instance, way, peer (or -1), lane


RECEIVING, SENDING, COPYING = 0, 1, 2  # ways


def operations(program: Program, units: Units, lanes: Lanes, runs: list[Run]) -> list[Operation]:
    """All operations of all instances."""
    m, unit = program.messages, units.unit
    columns = (lanes.messages, m.src, m.dst, m.reduce, m.bytes // unit,
               m.read_buffer, m.read_offset // unit, m.write_buffer, m.write_offset // unit,
               m.add_buffer, m.add_offset // unit)  # fmt: skip
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    found = []
    for instance in range(units.instances):
        for run in runs:
            found += _ends(units, run, rows, instance)
        found += _copies(program, units, lanes.copies, instance)
    return found


class Run(NamedTuple):
    """Messages that travel as one, the first in memory first; when they leave, and when all have arrived."""

    messages: list[int]
    start: int
    arrival: int


class _Row(NamedTuple):
    """What matters of one message for whether it can travel with others."""

    lane: tuple[int, ...]
    kind: tuple[int, ...]  # the same for those that can be one step
    message: int
    offset: int
    size: int
    start: int
    arrival: int
    ready: int
    used: int


def runs_of(program: Program, units: Units, lanes: Ints) -> list[Run]:
    """Messages joined with neighbours in memory, lane by lane and in the order in which they are sent.

    Only messages of a window are joined: all of them are there when the first starts, and none is used before the last
    has arrived. So the plan stays as good as it was, and events keep their order in time.
    """
    runs: list[Run] = []
    window: list[_Row] = []
    used = 0
    for row in _rows(program, units, lanes):
        fits = window and row.lane == window[0].lane and row.ready <= window[0].start and used >= row.arrival
        if not (fits and units.together):
            runs += _joined(window)
            window, used = [], row.used
        window.append(row)
        used = min(used, row.used)
    return runs + _joined(window)


def _rows(program: Program, units: Units, lanes: Ints) -> list[_Row]:
    m, unit = program.messages, units.unit
    order = np.lexsort((np.arange(len(m)), lanes, m.dst, m.src))
    lane = (m.src, m.dst, lanes)
    kind = (m.reduce, m.read_buffer, m.write_buffer, m.add_buffer, m.write_offset - m.read_offset,
            np.where(m.reduce, m.add_offset - m.read_offset, 0), *_shares(program, units))  # fmt: skip
    rest = (np.arange(len(m)), m.read_offset // unit, m.bytes // unit, m.start, m.arrival, _when_ready(program),
            _when_used(program))  # fmt: skip
    tuples = (zip(*(x[order].tolist() for x in columns), strict=True) for columns in (lane, kind, rest))
    return [_Row(where, what, *others) for where, what, others in zip(*tuples, strict=True)]


def _joined(window: list[_Row]) -> list[Run]:
    """The messages of a window, neighbours joined; in the order of the plan if there are none."""
    groups: list[list[_Row]] = []
    for row in sorted(window, key=lambda row: (row.kind, row.offset)):
        last = groups[-1][-1] if groups else None
        follows = last is not None and last.kind == row.kind and last.offset + last.size == row.offset
        if follows and row.offset + row.size - groups[-1][0].offset <= MOST_COUNT:
            groups[-1].append(row)
        else:
            groups.append([row])
    if len(groups) == len(window):
        return [Run([row.message], row.start, row.arrival) for row in window]
    start, arrival = window[0].start, max(row.arrival for row in window)
    groups.sort(key=lambda group: min(row.start for row in group))
    return [Run([row.message for row in group], start, arrival) for group in groups]


def _shares(program: Program, units: Units) -> list[Ints]:
    """The shares that places are in, where instances put shares apart."""
    if units.instances == 1 or not units.share:
        return []
    m, across = program.messages, units.share * units.unit
    places = ((m.read_buffer, m.read_offset), (m.write_buffer, m.write_offset), (m.add_buffer, m.add_offset))
    return [np.where(buffer == SCRATCH, 0, offset // across) for buffer, offset in places]


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


def _ends(units: Units, run: Run, rows: list[tuple[int, ...]], instance: int) -> list[Operation]:
    """Both ends of messages that travel as one; cut into several where they are too large for one step."""
    lane, src, dst, adds, _, *places = rows[run.messages[0]]
    count, received = sum(rows[i][4] for i in run.messages), [len(rows) + i for i in run.messages]
    read = units.place(src, places[0], places[1], count, instance)
    write = units.place(dst, places[2], places[3], count, instance)
    local = units.place(dst, places[4], places[5], count, instance) if adds else read
    found = []
    for done in range(0, count, MOST_COUNT):
        cnt = min(MOST_COUNT, count - done)
        there, here, mine = ((buffer, offset + done) for buffer, offset in (read, write, local))
        found += [
            Operation(src, "s", there, here, cnt, run.start, run.messages, (instance, SENDING, dst, lane)),
            Operation(dst, "rrc" if adds else "r", mine, here, cnt, run.arrival, received,
                      (instance, RECEIVING, src, lane)),
        ]  # fmt: skip
    return found


def _copies(program: Program, units: Units, lanes: Ints, instance: int) -> list[Operation]:
    c, unit, first = program.copies, units.unit, 2 * len(program.messages)
    found = []
    for k in range(len(c)):
        rank, count = int(c.rank[k]), int(c.bytes[k]) // unit
        src = units.place(rank, int(c.read_buffer[k]), int(c.read_offset[k]) // unit, count, instance)
        dst = units.place(rank, int(c.write_buffer[k]), int(c.write_offset[k]) // unit, count, instance)
        lane = (instance, COPYING, -1, int(lanes[k]))
        for done in range(0, count, MOST_COUNT):
            places = (src[0], src[1] + done), (dst[0], dst[1] + done)
            cnt = min(MOST_COUNT, count - done)
            found.append(Operation(rank, "cpy", *places, cnt, int(c.time[k]), [first + k], lane))
    return found
