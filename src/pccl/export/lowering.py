"""From transfers over links to a program of the ranks: messages between NPUs, and where their data lies.

A way through switches becomes one message. A switch that sends a chunk to several NPUs stands for a message to each of
them; a switch that adds partial sums stands for a message from each contributor, and the receiver adds them. Times are
the planned ones: they say in which order a rank touches a place of its buffers, and so what has to wait for what.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pccl.algorithm import Algorithm
from pccl.collective import AllToAll, AllToAllV, Collective, Conditions
from pccl.collective.groups import format_group
from pccl.errors import PcclError
from pccl.export.layouts import Layout, lay_out
from pccl.export.tracing import Trace, trace

__all__ = ["INPUT", "OUTPUT", "SCRATCH", "Copies", "Messages", "Program", "lower"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

INPUT, OUTPUT, SCRATCH = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Messages:
    """One row per message from one rank to another, ordered by start.

    Attributes
    ----------
    chunk, bytes
        Row of the conditions of the whole algorithm, and its size.
    src, dst, route
        Ranks, and which of the ways from one to the other it takes, counted from zero for each pair.
    start, arrival
        When it was planned to leave its sender and to have arrived, in picoseconds.
    reduce
        Whether the receiver writes the sum of the message and what lies at `add`; otherwise it writes the message.
    read_buffer, read_offset
        Where the sender reads it.
    write_buffer, write_offset
        Where the receiver writes it.
    add_buffer, add_offset
        What the receiver adds; the place written to, unless this is the first addition to a rank's own input.
    """

    chunk: Ints
    bytes: Ints
    src: Ints
    dst: Ints
    route: Ints
    start: Ints
    arrival: Ints
    reduce: Bools
    read_buffer: Ints
    read_offset: Ints
    write_buffer: Ints
    write_offset: Ints
    add_buffer: Ints
    add_offset: Ints

    def __len__(self) -> int:
        return len(self.chunk)


@dataclass(frozen=True, eq=False)
class Copies:
    """One row per copy inside a rank: what it keeps for itself, and what could not be received in place."""

    rank: Ints
    bytes: Ints
    time: Ints
    read_buffer: Ints
    read_offset: Ints
    write_buffer: Ints
    write_offset: Ints

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True, eq=False)
class Program:
    """What the ranks do.

    Sending message ``m`` is event ``m``, receiving it is event ``len(messages) + m``, and copy ``k`` is event
    ``2 * len(messages) + k``.

    Attributes
    ----------
    collective
        What it is for.
    npus
        Per rank: the NPU it runs on.
    members
        The ranks that take part in the collective, in the order of the group; others only relay.
    messages, copies
        What happens.
    before, after
        Pairs of events of the same rank: the first has to be complete before the second begins.
    input_bytes, output_bytes, scratch_bytes
        Per rank: the size of its buffers.
    """

    collective: Collective
    npus: Ints
    members: Ints
    messages: Messages
    copies: Copies
    before: Ints
    after: Ints
    input_bytes: Ints
    output_bytes: Ints
    scratch_bytes: Ints


def lower(
    algorithm: Algorithm,
    *,
    collective: int | None = None,
    in_place: bool | None = False,
    all_ranks: bool = False,
    padded: bool = False,
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
        For an all-to-all of unequal shares: whether every share has the room of the largest in the buffers.

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(4, unidirectional=True)
    >>> program = lower(pccl.synthesize(ring, pccl.AllGather("4kB")))
    >>> len(program.messages), len(program.copies), program.output_bytes.tolist()
    (12, 4, [4000, 4000, 4000, 4000])
    """
    which = _which(algorithm, collective)
    task = algorithm.collectives[which]
    rows = np.flatnonzero(algorithm.conditions.collective == which)
    conditions = task.conditions(algorithm.topology)
    npus, members, rank_of = _ranks(algorithm, task, all_ranks)
    layout = lay_out(task, conditions, rank_of, len(npus), padded)
    if in_place is not False and layout.shift is None:
        raise PcclError(f"{task.kind} has no form in place; export it out of place")
    if in_place is None and isinstance(task, AllToAll | AllToAllV):
        raise PcclError(f"{task.kind}: no program is right both in place and out of place; say which")
    found = trace(algorithm, rows)
    _refuse_outsiders(algorithm, task, found, rank_of)
    builder = _Builder(conditions, found, layout, rank_of, len(npus), int(rows[0]) if len(rows) else 0)
    if in_place:
        builder.make_room()
    messages, copies, scratch = builder.messages(), builder.copies(bool(in_place)), builder.scratch_bytes
    shifts = ([] if in_place else [None]) + ([] if in_place is False else [layout.shift])
    edges = [_order(messages, copies, found.sequence, shift) for shift in shifts]
    before, after = np.unique(np.concatenate(edges), axis=0).T
    return Program(
        task, npus, members, messages, copies, before, after, layout.input_bytes, layout.output_bytes, scratch
    )


class _Builder:
    """Gives every chunk a place on every rank that it comes to."""

    def __init__(
        self, conditions: Conditions, found: Trace, layout: Layout, rank_of: Ints, ranks: int, first: int
    ) -> None:
        self.conditions, self.found, self.layout, self.ranks, self.first = conditions, found, layout, ranks, first
        self.src, self.dst = rank_of[found.src], rank_of[found.dst]
        self.count = max(len(conditions), 1)
        chunk_of = np.repeat(np.arange(len(conditions)), conditions.num_destinations)
        self.wanted = np.unique(rank_of[conditions.destination_ids] * self.count + chunk_of)
        # Where a rank keeps a chunk that it has received: in its output, or in a slot of its scratch buffer.
        kept = np.unique(self.dst * self.count + found.chunk)
        self.slots = kept[~np.isin(kept, self.wanted)]
        self.moved = np.zeros(0, np.int64)  # rows of `wanted` chunks that have to be copied from scratch at the end
        self.moved_at = np.zeros(0, np.int64)

    def make_room(self) -> None:
        """In place, what arrives where something else is still to be sent from goes to scratch first."""
        chunk, layout = self.found.chunk, self.layout
        reads = np.flatnonzero(self.found.from_input)
        place, index = np.unique(
            np.stack([self.src[reads], layout.input_offset[chunk[reads]]], axis=1), axis=0, return_inverse=True
        )
        last = np.zeros(len(place), np.int64)
        np.maximum.at(last, index.reshape(-1), self.found.start[reads])
        reader = np.zeros(len(place), np.int64)
        reader[index.reshape(-1)] = chunk[reads]
        busy = {tuple(row): (when, who) for row, when, who in zip(place.tolist(), last, reader, strict=True)}
        assert layout.shift is not None
        moved, times = [], []
        key = self.dst * self.count + chunk
        for m in np.flatnonzero(np.isin(key, self.wanted)).tolist():
            where = int(layout.output_offset[chunk[m]] - layout.shift[self.dst[m]])
            until, who = busy.get((int(self.dst[m]), where), (-1, -1))
            if who not in (-1, chunk[m]) and until >= self.found.start[m]:
                moved.append(int(key[m]))
                times.append(max(int(until), int(self.found.arrival[m])) + 1)
        self.moved, first = np.unique(np.array(moved, np.int64), return_index=True)
        self.moved_at = np.array(times, np.int64)[first]
        self.slots = np.unique(np.concatenate([self.slots, self.moved]))

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
        own = np.zeros((0, 4), np.int64) if in_place else np.concatenate([layout.own, self._sums_of_one()])
        rank, chunk = self.moved // self.count, self.moved % self.count
        offset = self._slot_offset(self.moved)
        moved = (rank, self.conditions.bytes[chunk], self.moved_at, np.full(len(rank), SCRATCH), offset,
                 np.full(len(rank), OUTPUT), layout.output_offset[chunk])  # fmt: skip
        kept = (own[:, 0], own[:, 1], np.zeros(len(own), np.int64), np.full(len(own), INPUT), own[:, 2],
                np.full(len(own), OUTPUT), own[:, 3])  # fmt: skip
        return Copies(*(np.concatenate(pair).astype(np.int64) for pair in zip(kept, moved, strict=True)))

    def _sums_of_one(self) -> Ints:
        """Destinations of a sum that nobody else sends anything to: they are its only contributor."""
        sums = self.wanted[self.conditions.reduces[self.wanted % self.count]] if len(self.wanted) else self.wanted
        alone = sums[~np.isin(sums, self.dst * self.count + self.found.chunk)]
        rank, chunk = alone // self.count, alone % self.count
        layout = self.layout
        return np.stack(
            [rank, self.conditions.bytes[chunk], layout.input_offset[chunk], layout.output_offset[chunk]], 1
        )

    def _place(self, rank: Ints, chunk: Ints, in_input: Bools) -> tuple[Ints, Ints]:
        key = rank * self.count + chunk
        in_scratch = np.isin(key, self.slots)
        buffer = np.where(in_input, INPUT, np.where(in_scratch, SCRATCH, OUTPUT))
        offset = np.where(in_input, self.layout.input_offset[chunk], self.layout.output_offset[chunk])
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
            raise PcclError(f"the algorithm runs {count} collectives, but a program is for one; say which, from 0 on")
        return 0
    if not 0 <= collective < count:
        raise PcclError(f"there is no collective {collective}; the algorithm has {count}, counted from 0")
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


def _order(messages: Messages, copies: Copies, sequence: Ints, shift: Ints | None) -> Ints:
    """Pairs of events that touch the same place of a rank, at least one of them writing, in their planned order."""
    count, m, c = len(messages), messages, copies
    sends, receives, copied = np.split(np.arange(2 * count + len(c)), [count, 2 * count])
    # Event, rank, buffer, offset, time, order among equals.
    writes = [
        (receives, m.dst, m.write_buffer, m.write_offset, m.arrival, sequence),
        (copied, c.rank, c.write_buffer, c.write_offset, c.time, copied),
    ]
    reads = [
        (sends, m.src, m.read_buffer, m.read_offset, m.start, sequence),
        *((receives[r], m.dst[r], m.add_buffer[r], m.add_offset[r], m.arrival[r], sequence[r])
          for r in [np.flatnonzero(m.reduce & (m.add_buffer == INPUT))]),
        (copied, c.rank, c.read_buffer, c.read_offset, c.time, copied),
    ]  # fmt: skip
    event, rank, buffer, offset, time, order = (np.concatenate(column) for column in zip(*writes, *reads, strict=True))
    is_write = np.arange(len(event)) < count + len(c)
    if shift is not None:  # the input is a part of the output, or the other way round
        offset = np.where(buffer == INPUT, offset + shift[rank], offset)
        buffer = np.where(buffer == INPUT, OUTPUT, buffer)
    place = np.unique(np.stack([rank, buffer, offset], axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    kept = _without_own(event, place, is_write, int(copied[0]) if len(copied) else len(event) + 1)
    by = np.flatnonzero(kept)
    by = by[np.lexsort((order[by], ~is_write[by], time[by], place[by]))]
    return _conflicts(event[by], place[by], is_write[by])


def _without_own(event: Ints, place: Ints, is_write: Bools, first_copy: int) -> Bools:
    """Leave out reads of what the same event writes; and a copy of a place onto itself, which does nothing, at all."""
    key = event * (int(place.max(initial=0)) + 1) + place
    read_too = np.isin(key, key[~is_write]) & is_write
    own = ~is_write & np.isin(key, key[is_write])
    idle = read_too & (event >= first_copy)
    return ~(own | idle)


def _conflicts(event: Ints, place: Ints, writes: Bools) -> Ints:
    """Neighbours in conflict, of accesses sorted by place and order."""
    index = np.arange(len(event))
    last = np.maximum.accumulate(np.where(writes, index, -1)) if len(index) else index
    before_me = np.concatenate([[-1], last[:-1]]) if len(index) else index
    follows = np.flatnonzero((before_me >= 0) & (place[before_me] == place))
    then = np.where(writes, index, len(index))
    ahead = np.minimum.accumulate(then[::-1])[::-1] if len(index) else index
    waits = np.flatnonzero(~writes & (ahead < len(index)) & (place[np.minimum(ahead, len(index) - 1)] == place))
    pairs = np.concatenate(
        [np.stack([event[before_me[follows]], event[follows]], 1), np.stack([event[waits], event[ahead[waits]]], 1)]
    )
    different: Ints = pairs[pairs[:, 0] != pairs[:, 1]]
    return different
