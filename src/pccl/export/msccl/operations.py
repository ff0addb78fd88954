"""What the threadblocks of a file will do: messages of a program in units of the file, neighbours joined into one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pccl.export.lowering import SCRATCH, Program
from pccl.export.msccl.targets import MOST_COUNT

__all__ = ["Lanes", "Operation", "Units", "operations", "runs_of"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Units:
    """How bytes of a program become chunks of a file."""

    unit: int  # bytes, before instances cut it
    share: int  # units of a share, or of a part of it that instances divide among them
    per_loop: int  # units of the larger buffer
    scratch: Ints  # per rank
    instances: int

    @classmethod
    def of(cls, program: Program, share: int, instances: int, interleaved: bool = False) -> Units:
        """The largest chunks that everything is a multiple of; `share` is in bytes.

        Instances have a block of every share each, unless they are interleaved, so that the beginning of a share stays
        its beginning.
        """
        m, c = program.messages, program.copies
        columns = (m.bytes, m.read_offset, m.write_offset, m.add_offset, c.bytes, c.read_offset, c.write_offset)
        unit = math.gcd(share, *(int(np.gcd.reduce(column)) for column in columns if len(column)))
        whole = int(max(program.input_bytes.max(), program.output_bytes.max()))
        block = 1 if interleaved and instances > 1 else share // unit
        return cls(unit, block, whole // unit, program.scratch_bytes // unit, instances)

    def place(self, rank: int, buffer: int, offset: int, instance: int) -> tuple[int, int]:
        """A place in the file. In a block of its own, what lies side by side in an instance stays side by side."""
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


def operations(program: Program, units: Units, lanes: Lanes, runs: list[list[int]]) -> list[Operation]:
    """All operations of all instances."""
    m, unit = program.messages, units.unit
    columns = (lanes.messages, m.src, m.dst, m.start, m.arrival, m.reduce, m.bytes // unit,
               m.read_buffer, m.read_offset // unit, m.write_buffer, m.write_offset // unit,
               m.add_buffer, m.add_offset // unit)  # fmt: skip
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    found = []
    for instance in range(units.instances):
        for run in runs:
            found += _ends(units, run, rows, instance)
        found += _copies(program, units, lanes.copies, instance)
    return found


def runs_of(program: Program, units: Units, lanes: Ints) -> list[list[int]]:
    """Messages that travel as one: neighbours at both ends, which wait for nobody and keep nobody waiting.

    The second must be there when the first starts, and nobody may use the first before the second has arrived: then the
    plan is as good as before, and so is the order of all events in time.
    """
    m = program.messages
    order = np.lexsort((np.arange(len(m)), lanes, m.dst, m.src))
    same = np.stack([m.src, m.dst, lanes, m.reduce, m.read_buffer, m.write_buffer, m.add_buffer], axis=1)[order]
    after = np.ones(len(m), np.bool_)
    after[1:] = (same[1:] == same[:-1]).all(axis=1)
    across = units.share * units.unit if units.instances > 1 else 0
    for buffer, offset, counts in (
        (m.read_buffer, m.read_offset, np.ones(len(m), np.bool_)),
        (m.write_buffer, m.write_offset, np.ones(len(m), np.bool_)),
        (m.add_buffer, m.add_offset, m.reduce[order]),
    ):
        place, end = offset[order], (offset + m.bytes)[order]
        after[1:] &= (end[:-1] == place[1:]) | ~counts[1:]
        if across:  # instances put shares apart
            after &= (buffer[order] == SCRATCH) | (place % across != 0) | ~counts
    return _joined(program, units, order, after)


def _joined(program: Program, units: Units, order: Ints, after: NDArray[np.bool_]) -> list[list[int]]:
    """Neighbours joined as far as their times and sizes allow."""
    m = program.messages
    columns = (order, after, m.bytes[order] // units.unit, m.start[order], m.arrival[order],
               _when_ready(program)[order], _when_used(program)[order])  # fmt: skip
    runs: list[list[int]] = []
    size = begin = needed = 0
    for i, continues, count, start, arrival, ready, used in zip(*(x.tolist() for x in columns), strict=True):
        if runs and continues and size + count <= MOST_COUNT and ready <= begin and needed >= arrival:
            runs[-1].append(i)
            size, needed = size + count, min(needed, used)
        else:
            runs.append([i])
            size, begin, needed = count, start, used
    return runs


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


def _ends(units: Units, run: list[int], rows: list[tuple[int, ...]], instance: int) -> list[Operation]:
    """Both ends of messages that travel as one; cut into several where they are too large for one step."""
    lane, src, dst, start, _, adds, _, *places = rows[run[0]]
    arrival, received = rows[run[-1]][4], [len(rows) + i for i in run]
    read = units.place(src, places[0], places[1], instance)
    write = units.place(dst, places[2], places[3], instance)
    local = units.place(dst, places[4], places[5], instance) if adds else read
    count, kind, found = sum(rows[i][6] for i in run), "rrc" if adds else "r", []
    for done in range(0, count, MOST_COUNT):
        cnt = min(MOST_COUNT, count - done)
        there, here, mine = ((buffer, offset + done) for buffer, offset in (read, write, local))
        found += [
            Operation(src, "s", there, here, cnt, start, run, (instance, SENDING, dst, lane)),
            Operation(dst, kind, mine, here, cnt, arrival, received, (instance, RECEIVING, src, lane)),
        ]
    return found


def _copies(program: Program, units: Units, lanes: Ints, instance: int) -> list[Operation]:
    """Copies, cut where a share ends, as instances put the shares apart."""
    c, unit, first = program.copies, units.unit, 2 * len(program.messages)
    found = []
    for k in range(len(c)):
        rank, count, done = int(c.rank[k]), int(c.bytes[k]) // unit, 0
        while done < count:
            left = units.share - (int(c.write_offset[k]) // unit + done) % units.share
            cnt = min(MOST_COUNT, left, count - done)
            src = units.place(rank, int(c.read_buffer[k]), int(c.read_offset[k]) // unit + done, instance)
            dst = units.place(rank, int(c.write_buffer[k]), int(c.write_offset[k]) // unit + done, instance)
            lane = (instance, COPYING, -1, int(lanes[k]))
            found.append(Operation(rank, "cpy", src, dst, cnt, int(c.time[k]), [first + k], lane))
            done += cnt
    return found
