"""From transfers over links to a program of the ranks: messages between NPUs, and where their data lies.

A way through switches becomes one message. A switch that sends a chunk to several NPUs stands for a message to each of
them; a switch that adds partial sums stands for a message from each contributor, and the receiver adds them. Of several
receivers of a whole sum, the first adds and sends it to the others. Times are the planned ones: they say in which order
a rank touches a place of its buffers, and so what has to wait for what.
"""

from __future__ import annotations

import numpy as np

from pccl._arrays import Bools, Ints
from pccl.algorithm import Algorithm
from pccl.collective import BufferLayout, Collective, Conditions
from pccl.collective.groups import format_group
from pccl.errors import PcclError
from pccl.formats.ordering import order_of
from pccl.formats.program import INPUT, OUTPUT, SCRATCH, Copies, Messages, Program
from pccl.formats.tracing import Trace, trace

__all__ = ["INPUT", "OUTPUT", "SCRATCH", "Copies", "Messages", "Program", "lower"]


def lower(
    algorithm: Algorithm,
    *,
    collective: int | None = None,
    in_place: bool | None = False,
    all_ranks: bool = False,
    padded: bool | None = None,
) -> Program:
    """Turn one collective of an algorithm into a program for its ranks.

    Parameters
    ----------
    algorithm
        Any algorithm that the verifier accepts.
    collective
        Which of its collectives; may be left out if there is one.
    in_place
        Whether input and output share one buffer; ``None`` for a program that is right in both cases (which an
        all-to-all has not).
    all_ranks
        Whether all NPUs of the topology are ranks; otherwise only the members of the group, in its order.
    padded
        Whether everything is as large as the largest of its kind: chunks that differ because the size does not divide,
        and the room of the shares of an all-to-all-v. ``None`` for the first alone, which runtimes need that count in
        chunks; ``False`` for neither.

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(4, unidirectional=True)
    >>> program = lower(pccl.synthesize(ring, pccl.AllGather("4kB", chunks=1)))
    >>> len(program.messages), len(program.copies), program.output_bytes.tolist()
    (12, 4, [4000, 4000, 4000, 4000])
    """
    which = _which(algorithm, collective)
    task = algorithm.collectives[which]
    rows = np.flatnonzero(algorithm.conditions.collective == which)
    npus, members, rank_of = _ranks(algorithm, task, all_ranks)
    # The same chunks, perhaps larger: the ranks send what pads them as well.
    laid_out = task if padded is False else task.with_equal_chunks(len(members))
    conditions = laid_out.conditions(algorithm.topology)
    layout = laid_out.layout(conditions, rank_of, len(npus), bool(padded))
    if in_place is not False and layout.shift is None:
        raise PcclError(f"{task.kind} has no form in place; export it out of place")
    if in_place is None and task.in_place_differs:
        raise PcclError(
            f"{task.kind}: no program is right both in place and out of place; say which"
        )
    found = trace(algorithm, rows)
    _refuse_outsiders(algorithm, task, found, rank_of)
    builder = _Builder(
        conditions, found, layout, rank_of, len(npus), int(rows[0]) if len(rows) else 0
    )
    if in_place and layout.shift is not None:
        builder.make_room(layout.shift)
    messages, copies, scratch = (
        builder.messages(),
        builder.copies(bool(in_place)),
        builder.scratch_bytes,
    )
    shifts = ([] if in_place else [None]) + ([] if in_place is False else [layout.shift])
    edges = [order_of(messages, copies, found.sequence, shift) for shift in shifts]
    before, after = _unique(np.concatenate(edges), 2 * len(messages) + len(copies))
    return Program(
        task,
        npus,
        members,
        messages,
        copies,
        before,
        after,
        layout.input_bytes,
        layout.output_bytes,
        scratch,
        padding=int(laid_out.size) - int(task.size),
    )


def _unique(pairs: Ints, events: int) -> tuple[Ints, Ints]:
    before, after = np.divmod(np.unique(pairs[:, 0] * events + pairs[:, 1]), max(events, 1))
    return before, after


class _Builder:
    """Gives every chunk a place on every rank that it comes to."""

    def __init__(
        self,
        conditions: Conditions,
        found: Trace,
        layout: BufferLayout,
        rank_of: Ints,
        ranks: int,
        first: int,
    ) -> None:
        self.conditions, self.found, self.layout, self.ranks, self.first = (
            conditions,
            found,
            layout,
            ranks,
            first,
        )
        self.src, self.dst = rank_of[found.src], rank_of[found.dst]
        self.count = max(len(conditions), 1)
        chunk_of = np.repeat(np.arange(len(conditions)), conditions.num_destinations)
        self.wanted = np.unique(rank_of[conditions.destination_ids] * self.count + chunk_of)
        # Where a rank keeps a chunk that it has received: in its output, or in a slot of its scratch buffer.
        kept = np.unique(self.dst * self.count + found.chunk)
        self.slots = kept[~np.isin(kept, self.wanted)]
        self.moved = np.zeros(
            0, np.int64
        )  # rows of `wanted` chunks that have to be copied from scratch at the end
        self.moved_at = np.zeros(0, np.int64)

    def make_room(self, shift: Ints) -> None:
        """In place, what arrives where something else is still to be sent from goes to scratch first."""
        found, busy = self.found, self._last_reads()
        key = self.dst * self.count + found.chunk
        where = self.layout.output_offset[found.chunk] - shift[self.dst]
        moved: dict[int, int] = {}
        for m in np.flatnonzero(np.isin(key, self.wanted)).tolist():
            until, reader = busy.get((int(self.dst[m]), int(where[m])), (-1, -1))
            if reader not in (-1, found.chunk[m]) and until >= found.start[m]:
                moved[int(key[m])] = max(until, int(found.arrival[m])) + 1
        self.moved = np.array(sorted(moved), np.int64)
        self.moved_at = np.array([moved[place] for place in sorted(moved)], np.int64)
        self.slots = np.unique(np.concatenate([self.slots, self.moved]))

    def _last_reads(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Per rank and place of its input: when it is last sent from, and with which chunk."""
        reads = np.flatnonzero(self.found.from_input)
        chunk = self.found.chunk[reads]
        columns = (self.src[reads], self.layout.input_offset[chunk], self.found.start[reads], chunk)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return {
            (rank, place): (start, chunk) for rank, place, start, chunk in rows
        }  # messages are ordered by start

    @property
    def scratch_bytes(self) -> Ints:
        """Per rank: the room that its slots take."""
        size = self.conditions.bytes[self.slots % self.count] if len(self.slots) else np.zeros(0)
        return np.bincount(self.slots // self.count, size, self.ranks).astype(np.int64)

    def messages(self) -> Messages:
        """Every message with its places, ordered by start."""
        found, chunk = self.found, self.found.chunk
        read = self._place(self.src, chunk, found.from_input)
        write = self._place(self.dst, chunk, np.zeros(len(chunk), np.bool_))
        add = self._place(self.dst, chunk, found.adds_input)
        size = self.conditions.bytes[chunk] if len(chunk) else np.zeros(0, np.int64)
        return Messages(
            chunk + self.first, size, self.src, self.dst, found.route, found.start, found.arrival, found.reduce,
            *read, *write, *add,
        )  # fmt: skip

    def copies(self, in_place: bool) -> Copies:
        """What ranks keep for themselves, and what is moved out of scratch at last."""
        layout = self.layout
        own = (
            np.zeros((0, 4), np.int64)
            if in_place
            else np.concatenate([layout.own, self._sums_of_one()])
        )
        rank, chunk = self.moved // self.count, self.moved % self.count
        offset = self._slot_offset(self.moved)
        moved = (rank, self.conditions.bytes[chunk], self.moved_at, np.full(len(rank), SCRATCH), offset,
                 np.full(len(rank), OUTPUT), layout.output_offset[chunk])  # fmt: skip
        kept = (own[:, 0], own[:, 1], np.zeros(len(own), np.int64), np.full(len(own), INPUT), own[:, 2],
                np.full(len(own), OUTPUT), own[:, 3])  # fmt: skip
        return Copies(
            *(np.concatenate(pair).astype(np.int64) for pair in zip(kept, moved, strict=True))
        )

    def _sums_of_one(self) -> Ints:
        """Destinations of a sum that nobody else sends anything to: they are its only contributor."""
        sums = (
            self.wanted[self.conditions.reduces[self.wanted % self.count]]
            if len(self.wanted)
            else self.wanted
        )
        alone = sums[~np.isin(sums, self.dst * self.count + self.found.chunk)]
        rank, chunk = alone // self.count, alone % self.count
        layout = self.layout
        return np.stack(
            [
                rank,
                self.conditions.bytes[chunk],
                layout.input_offset[chunk],
                layout.output_offset[chunk],
            ],
            1,
        )

    def _place(self, rank: Ints, chunk: Ints, in_input: Bools) -> tuple[Ints, Ints]:
        key = rank * self.count + chunk
        in_scratch = np.isin(key, self.slots)
        buffer = np.where(in_input, INPUT, np.where(in_scratch, SCRATCH, OUTPUT))
        offset = np.where(
            in_input, self.layout.input_offset[chunk], self.layout.output_offset[chunk]
        )
        return buffer, np.where(buffer == SCRATCH, self._slot_offset(key), offset)

    def _slot_offset(self, key: Ints) -> Ints:
        """Slots of a rank follow each other in the order of chunks, so that neighbours can travel together."""
        if not len(self.slots):
            return np.zeros(len(key), np.int64)
        size = self.conditions.bytes[self.slots % self.count]
        end, rank = np.cumsum(size), self.slots // self.count
        first = np.searchsorted(rank, rank)
        start = end - size - (end - size)[first]
        found: Ints = start[np.minimum(np.searchsorted(self.slots, key), len(self.slots) - 1)]
        return found


def _which(algorithm: Algorithm, collective: int | None) -> int:
    count = len(algorithm.collectives)
    if collective is None:
        if count != 1:
            raise PcclError(
                f"the algorithm runs {count} collectives, but a program is for one; say which, from 0 on"
            )
        return 0
    if not 0 <= collective < count:
        raise PcclError(
            f"there is no collective {collective}; the algorithm has {count}, counted from 0"
        )
    return collective


def _ranks(algorithm: Algorithm, task: Collective, all_ranks: bool) -> tuple[Ints, Ints, Ints]:
    """The NPU of each rank, the ranks of the group's members, and the rank of each device (or -1)."""
    everyone = algorithm.topology.npus
    group = everyone if task.group is None else np.array(task.ranks, np.int64)
    npus = everyone if all_ranks else group
    rank_of = np.full(algorithm.topology.num_devices, -1, np.int64)
    rank_of[npus] = np.arange(len(npus))
    return npus, rank_of[group], rank_of


def _refuse_outsiders(algorithm: Algorithm, task: Collective, found: Trace, rank_of: Ints) -> None:
    ends = np.unique(np.concatenate([found.src, found.dst]))
    outside = ends[rank_of[ends] < 0] if len(ends) else ends
    if len(outside):
        who = ", ".join(algorithm.topology.device_text(int(device)) for device in outside[:3])
        more = f" and {len(outside) - 3} more" if len(outside) > 3 else ""
        raise PcclError(
            f"{task.kind}: the schedule relays through {who}{more} outside the group of {len(task.ranks)} NPUs "
            f"({format_group(task.ranks)}); export it over all ranks (all_ranks=True, --all-ranks) or synthesize it on "
            "a topology restricted to the group"
        )
