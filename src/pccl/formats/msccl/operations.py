"""What the threadblocks of a file will do: both ends of every run of messages, and copies, in units of the file."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from pccl._arrays import Ints, offsets_by_owner, offsets_of
from pccl.formats.lowering import Program
from pccl.formats.msccl.runs import Runs
from pccl.formats.msccl.targets import MOST_COUNT
from pccl.formats.msccl.units import Units

__all__ = [
    "COPYING",
    "RECEIVING",
    "SENDING",
    "TYPES",
    "Lanes",
    "Operations",
    "needs_of",
    "operations",
]


RECEIVING, SENDING, COPYING = 0, 1, 2  # ways
TYPES = ("s", "r", "rrc", "cpy")


@dataclass(frozen=True, eq=False)
class Lanes:
    """Which queue every message stands in, numbered for each pair of ranks, and every copy, for each rank."""

    messages: Ints
    copies: Ints


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
    (rank, way, peer, lane, kind, src_rank, src_buffer, src_offset, dst_rank, dst_buffer, dst_offset, size,
     time) = tasks.T  # fmt: skip
    count = size // units.unit
    pieces = -(-count // MOST_COUNT)
    once = np.repeat(np.arange(len(tasks)), pieces)
    done = np.tile(
        (np.arange(len(once)) - (np.cumsum(pieces) - pieces)[once]) * MOST_COUNT, units.instances
    )
    task, instance = (
        np.tile(once, units.instances),
        np.repeat(np.arange(units.instances), len(once)),
    )
    src, dst = (
        units.offset(on[task], buffer[task], offset[task] // units.unit, count[task], instance)
        + done
        for on, buffer, offset in (
            (src_rank, src_buffer, src_offset),
            (dst_rank, dst_buffer, dst_offset),
        )
    )
    return Operations(
        task, instance, rank[task], way[task], peer[task], lane[task], kind[task], src_buffer[task], src,
        dst_buffer[task], dst, np.minimum(MOST_COUNT, count[task] - done), time[task],
    )  # fmt: skip


def _ends(program: Program, lanes: Lanes, runs: Runs) -> Ints:
    """Both ends of every run, one after the other."""
    first, m = runs.first, program.messages
    src, dst, lane, adds = m.src[first], m.dst[first], lanes.messages[first], m.reduce[first]
    read, write, add = (
        (rank, buffer[first], offset[first])
        for rank, buffer, offset in (
            (src, m.read_buffer, m.read_offset), (dst, m.write_buffer, m.write_offset),
            (dst, m.add_buffer, m.add_offset),
        )
    )  # fmt: skip
    mine = (np.where(adds, *pair) for pair in zip(add, read, strict=True))
    whole = offsets_of(m.bytes[runs.messages])
    size = whole[runs.offsets[1:]] - whole[runs.offsets[:-1]]
    sends = _table(src, SENDING, dst, lane, TYPES.index("s"), *read, *write, size, runs.start)
    kind = np.where(adds, TYPES.index("rrc"), TYPES.index("r"))
    receipts = _table(dst, RECEIVING, src, lane, kind, *mine, *write, size, runs.arrival)
    return np.stack([sends, receipts], axis=1).reshape(-1, sends.shape[1])


def _copies(program: Program, lanes: Lanes) -> Ints:
    c = program.copies
    return _table(c.rank, COPYING, -1, lanes.copies, TYPES.index("cpy"), c.rank, c.read_buffer, c.read_offset, c.rank,
                  c.write_buffer, c.write_offset, c.bytes, c.time)  # fmt: skip


def _table(*columns: Ints | int) -> Ints:
    return np.stack(np.broadcast_arrays(*columns), axis=1)


def needs_of(program: Program, runs: Runs, work: Operations) -> tuple[Ints, Ints]:
    """Pairs of operations of one instance, in any order given: the first has to be complete before the second."""
    run, copies = runs.run_of, np.arange(len(program.copies))
    task_of = np.concatenate([2 * run, 2 * run + 1, 2 * len(runs) + copies])
    total = 2 * len(runs) + len(copies)
    before, after = np.divmod(
        np.unique(task_of[program.before] * total + task_of[program.after]), total
    )
    where = np.lexsort((work.task, work.instance))
    instances = int(work.instance.max(initial=-1)) + 1
    offsets = offsets_by_owner(work.task[where[: len(work) // max(instances, 1)]], total)
    pieces = np.diff(offsets)
    combined = pieces[before] * pieces[after]  # every piece waits for every other
    pair = np.repeat(np.arange(len(before)), combined)
    nth = np.arange(len(pair)) - (np.cumsum(combined) - combined)[pair]
    piece, of = np.divmod(nth, pieces[after][pair])
    shift = np.arange(instances)[:, None] * offsets[-1]
    first, then = (
        where[(offsets[task][pair] + part + shift).ravel()]
        for task, part in ((before, piece), (after, of))
    )
    return first, then
