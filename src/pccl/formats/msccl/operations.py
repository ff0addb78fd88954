"""What the threadblocks of a file will do: both ends of every run of messages, and copies, in units of the file."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from pccl._arrays import Ints, count_within, distinct, offsets_by_owner, offsets_of
from pccl.formats.lowering import Program
from pccl.formats.msccl.lanes import Lanes, Runs
from pccl.formats.msccl.targets import MOST_COUNT
from pccl.formats.msccl.units import Units

# Ways.
RECEIVING, SENDING, COPYING = range(3)
TYPES = ("s", "r", "rrc", "cpy")


@dataclass(frozen=True, eq=False)
class Operations:
    """One row per end of a run, or copy; several where it is too large for one step, and for each instance.

    Attributes
    ----------
    task
        Sending run `r` is task ``2 * r``, receiving it is the one after, and copies follow.
    instance, rank, way, peer, lane
        Who does it: these stand for a threadblock. The peer of copies is -1.
    type
        Which of :data:`TYPES`.
    src_buffer, src_offset, dst_buffer, dst_offset, cnt
        Where it reads and writes, in chunks of the file.
    time
        When it was planned.
    """

    task: Ints
    instance: Ints
    rank: Ints
    way: Ints
    peer: Ints
    lane: Ints
    type: Ints
    src_buffer: Ints
    src_offset: Ints
    dst_buffer: Ints
    dst_offset: Ints
    cnt: Ints
    time: Ints

    def __len__(self) -> int:
        return len(self.task)

    def taken(self, rows: Ints) -> Operations:
        """These rows, in this order."""
        return Operations(*(getattr(self, column.name)[rows] for column in fields(self)))


def operations(program: Program, units: Units, lanes: Lanes, runs: Runs) -> Operations:
    """All operations: instance by instance, and task by task."""
    tasks = np.concatenate([_ends(program, lanes, runs), _copies(program, lanes)])
    count = tasks[:, -2] // units.unit
    # A step moves only so many chunks, so that large tasks take several.
    pieces = -(-count // MOST_COUNT)
    task = np.tile(np.repeat(np.arange(len(tasks)), pieces), units.instances)
    instance = np.repeat(np.arange(units.instances), int(pieces.sum()))
    done = np.tile(count_within(pieces) * MOST_COUNT, units.instances)
    rank, way, peer, lane, kind, *places, _, time = tasks[task].T
    size = count[task]
    src, dst = (
        units.offset(on, buffer, offset // units.unit, size, instance) + done
        for on, buffer, offset in (places[:3], places[3:])
    )
    counts = np.minimum(MOST_COUNT, size - done)
    return Operations(
        task, instance, rank, way, peer, lane, kind, places[1], src, places[4], dst, counts, time
    )


def _ends(program: Program, lanes: Lanes, runs: Runs) -> Ints:
    """Both ends of every run, one after the other."""
    first = runs.first
    m = program.messages
    src, dst, lane, adds = m.src[first], m.dst[first], lanes.messages[first], m.reduce[first]
    read = (src, m.read_buffer[first], m.read_offset[first])
    write = (dst, m.write_buffer[first], m.write_offset[first])
    add = (dst, m.add_buffer[first], m.add_offset[first])
    # What a receipt reads is what it adds; the other receipts read nothing.
    added = (np.where(adds, one, other) for one, other in zip(add, read, strict=True))
    whole = offsets_of(m.bytes[runs.messages])
    size = np.diff(whole[runs.offsets])
    kind = np.where(adds, TYPES.index("rrc"), TYPES.index("r"))
    sends = _table(src, SENDING, dst, lane, TYPES.index("s"), *read, *write, size, runs.start)
    receipts = _table(dst, RECEIVING, src, lane, kind, *added, *write, size, runs.arrival)
    return np.stack([sends, receipts], axis=1).reshape(-1, sends.shape[1])


def _copies(program: Program, lanes: Lanes) -> Ints:
    c = program.copies
    read = (c.rank, c.read_buffer, c.read_offset)
    write = (c.rank, c.write_buffer, c.write_offset)
    kind = TYPES.index("cpy")
    return _table(c.rank, COPYING, -1, lanes.copies, kind, *read, *write, c.bytes, c.time)


def _table(*columns: Ints | int) -> Ints:
    return np.stack(np.broadcast_arrays(*columns), axis=1)


def needs_of(program: Program, runs: Runs, work: Operations) -> tuple[Ints, Ints]:
    """Pairs of operations of one instance, in any order given: the first has to be complete before the second."""
    copies = np.arange(len(program.copies))
    run = runs.run_of
    task_of = np.concatenate([2 * run, 2 * run + 1, 2 * len(runs) + copies])
    total = 2 * len(runs) + len(copies)
    # Messages of one run wait for the same: each pair of tasks counts once.
    pairs = distinct(task_of[program.before] * total + task_of[program.after])
    before, after = np.divmod(pairs, total)
    # By instance and task, wherever operations are now.
    where = np.lexsort((work.task, work.instance))
    instances = int(work.instance.max(initial=-1)) + 1
    # All instances have the same operations: where those of each task begin in the first of them.
    offsets = offsets_by_owner(work.task[where[: len(work) // max(instances, 1)]], total)
    pieces = np.diff(offsets)
    # Every piece waits for every other.
    combined = pieces[before] * pieces[after]
    pair = np.repeat(np.arange(len(before)), combined)
    earlier, later = np.divmod(count_within(combined), pieces[after][pair])
    shift = np.arange(instances)[:, None] * offsets[-1]
    first = where[(offsets[before][pair] + earlier + shift).ravel()]
    then = where[(offsets[after][pair] + later + shift).ravel()]
    return first, then
