"""From an algorithm to a program of the ranks: messages between them, and where their data lies.

Times are the planned ones: they say in which order a rank touches a place of its buffers, and so what has to wait for
what.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pccl._arrays import Bools, Ints, distinct
from pccl.algorithm import Algorithm
from pccl.collective import BufferLayout, Collective, Conditions
from pccl.collective.groups import format_group
from pccl.errors import PcclError
from pccl.formats.lowering.deliveries import Deliveries, follow
from pccl.formats.lowering.ordering import order_of
from pccl.formats.lowering.program import INPUT, OUTPUT, SCRATCH, Copies, Messages, Program
from pccl.units import counted


def lower(
    algorithm: Algorithm,
    *,
    collective: int | None = None,
    in_place: bool | None = False,
    all_ranks: bool | None = False,
    padded: bool | None = None,
    spare: bool = True,
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
        Whether all NPUs of the topology are ranks; otherwise only the members of the group, in its order. ``None`` for
        all only where some outside the group relay.
    padded
        Whether everything is as large as the largest of its kind: chunks that differ because the size does not divide,
        and the room of the shares of an all-to-all-v. ``None`` for the first alone, which runtimes need that count in
        chunks; ``False`` for neither.
    spare
        Whether ranks that only relay have shares in the buffers as well, because some runtimes count shares by ranks;
        otherwise they have neither input nor output.

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(4, unidirectional=True)
    >>> program = lower(pccl.synthesize(ring, pccl.AllGather("4kB", chunks=1)))
    >>> len(program.messages), len(program.copies), program.output_bytes.tolist()
    (12, 4, [4000, 4000, 4000, 4000])
    """
    task = chosen_collective(algorithm, collective)
    which = collective or 0
    # The chunks of a collective follow one another in the conditions of the algorithm.
    first, end = np.searchsorted(algorithm.conditions.collective, [which, which + 1]).tolist()
    delivered = follow(algorithm, first, end)
    outside = _outsiders(algorithm, task, delivered)
    if all_ranks is False and len(outside):
        raise PcclError(_relays(algorithm, task, outside))
    npus, members, rank_of = _ranks(algorithm, task, bool(all_ranks or len(outside)))
    # The same chunks, perhaps larger: the ranks send what pads them as well.
    laid_out = task if padded is False else task.with_equal_chunks(len(members))
    conditions = laid_out.conditions(algorithm.topology)
    if spare:
        layout = laid_out.layout(conditions, rank_of, len(npus), bool(padded))
    else:
        layout = member_layout(laid_out, conditions, npus, members)
    # A shift says where the input lies in the output; without one they cannot be one buffer.
    if in_place is not False and layout.shift is None:
        raise PcclError(f"{task.kind} has no form in place; export it out of place")
    if in_place is None and task.in_place_differs:
        raise PcclError(
            f"{task.kind}: no program is right both in place and out of place; say which"
        )
    places = Places(conditions, layout, delivered, delivered.chunk - first, rank_of, len(npus))
    if in_place and layout.shift is not None:
        places.make_room(layout.shift)
    sent, received = places.find(places.src), places.find(places.dst)
    messages = Messages(
        delivered.chunk,
        places.bytes[places.chunk],
        places.src,
        places.dst,
        delivered.routes(),
        delivered.start,
        delivered.arrival,
        delivered.reduce,
        *places.or_input(sent, delivered.from_input),
        *received,
        *places.or_input(received, delivered.adds_input),
    )
    copies = places.copies(bool(in_place))
    # A program for both cases keeps the order that either of them needs.
    shifts = [None, layout.shift] if in_place is None else [layout.shift if in_place else None]
    edges = [order_of(messages, copies, delivered.sequence, shift) for shift in shifts]
    events = 2 * len(messages) + len(copies)
    first_event, second_event = np.concatenate(edges).T
    # Each pair once, although both cases may need it.
    pairs = distinct(first_event * events + second_event)
    before, after = np.divmod(pairs, max(events, 1))
    return Program(
        collective=task,
        npus=npus,
        members=members,
        messages=messages,
        copies=copies,
        before=before,
        after=after,
        input_bytes=layout.input_bytes,
        output_bytes=layout.output_bytes,
        scratch_bytes=places.scratch_bytes,
        enlarged=laid_out,
        delivered=delivered if len(algorithm.collectives) == 1 else None,
    )


def member_layout(
    collective: Collective, conditions: Conditions, npus: Ints, members: Ints
) -> BufferLayout:
    """Say where chunks lie if only the `members` of these ranks have inputs and outputs.

    Shares are in the order of the group.
    """
    number = np.full(int(npus.max()) + 1, -1, np.int64)
    number[npus[members]] = np.arange(len(members))
    inner = collective.layout(conditions, number, len(members))

    def spread(values: Ints) -> Ints:
        found = np.zeros(len(npus), np.int64)
        found[members] = values
        return found

    own = inner.own.copy()
    own[:, 0] = members[own[:, 0]]
    return replace(
        inner,
        input_bytes=spread(inner.input_bytes),
        output_bytes=spread(inner.output_bytes),
        shift=None if inner.shift is None else spread(inner.shift),
        own=own,
    )


def chosen_collective(algorithm: Algorithm, which: int | None) -> Collective:
    """Return the collective to write; a file is for one of them."""
    count = len(algorithm.collectives)
    if which is None and count != 1:
        raise PcclError(
            f"a file is for one of the {count} collectives, and the algorithm runs {count} at once; say which, counted "
            "from 0 (collective=0, --collective 0)"
        )
    if not 0 <= (which or 0) < count:
        raise PcclError(f"there is no collective {which}; there are {count}, counted from 0")
    return algorithm.collectives[which or 0]


def _ranks(algorithm: Algorithm, task: Collective, all_ranks: bool) -> tuple[Ints, Ints, Ints]:
    """Return the NPU of each rank, the ranks of the group's members, and the rank of each device (or -1)."""
    everyone = algorithm.topology.npus
    group = task.members(everyone)
    npus = everyone if all_ranks else group
    rank_of = np.full(algorithm.topology.num_devices, -1, np.int64)
    rank_of[npus] = np.arange(len(npus))
    return npus, rank_of[group], rank_of


def _outsiders(algorithm: Algorithm, task: Collective, delivered: Deliveries) -> Ints:
    """NPUs outside the group that relay something."""
    ends = np.unique(np.concatenate([delivered.src, delivered.dst]))
    return np.setdiff1d(ends, task.members(algorithm.topology.npus))


def _relays(algorithm: Algorithm, task: Collective, outside: Ints) -> str:
    """Why a file for the group alone cannot be: only ranks have buffers."""
    who = ", ".join(algorithm.topology.device_text(int(device)) for device in outside[:3])
    more = f" and {len(outside) - 3} more" if len(outside) > 3 else ""
    return (
        f"{task.kind}: the schedule relays through {who}{more} outside the group of {counted(len(task.ranks), 'NPU')} "
        f"({format_group(task.ranks)}); export it over all ranks (all_ranks=True, --all-ranks) or synthesize it on "
        "a topology restricted to the group"
    )


class Places:
    """Places of all chunks of a collective on all ranks; a chunk on a rank is known as ``rank * count + chunk``.

    A rank sends what it began with from its input. What it receives goes to its output, if the collective promises it
    there, and otherwise to a slot of its own in the scratch buffer.

    Parameters
    ----------
    conditions, layout
        The chunks of the collective, and where they lie in inputs and outputs.
    delivered, chunk
        What the ranks send to one another, and which of these chunks each delivery carries.
    rank_of, ranks
        Per device its rank, and how many ranks there are.
    """

    def __init__(
        self,
        conditions: Conditions,
        layout: BufferLayout,
        delivered: Deliveries,
        chunk: Ints,
        rank_of: Ints,
        ranks: int,
    ) -> None:
        self.bytes = conditions.bytes.astype(np.int64)
        self.reduces = conditions.reduces
        self.layout = layout
        self.delivered = delivered
        self.chunk = chunk
        self.src = rank_of[delivered.src]
        self.dst = rank_of[delivered.dst]
        self.ranks = ranks
        self.count = max(len(conditions), 1)
        # Chunks on ranks that promise them in their outputs.
        wanted_chunk = np.repeat(np.arange(len(conditions)), conditions.num_destinations)
        self.wanted = distinct(rank_of[conditions.destination_ids] * self.count + wanted_chunk)
        self.received = self.dst * self.count + chunk
        kept = distinct(self.received)
        # What a rank receives only to send it on has no place in its output.
        self.slots = kept[~np.isin(kept, self.wanted)]
        # What has to be copied from scratch to the output at the end, and when that may be.
        self.moved = np.zeros(0, np.int64)
        self.moved_at = np.zeros(0, np.int64)

    def make_room(self, shift: Ints) -> None:
        """With input and output in one buffer: receive in scratch what would land on something still to be sent."""
        span = int(self.layout.input_bytes.max(initial=0)) + 1
        reads = np.flatnonzero(self.delivered.from_input)[::-1]
        read_place = self.src[reads] * span + self.layout.input_offset[self.chunk[reads]]
        # Deliveries are ordered by start: the first one from behind is the last to read a place.
        places, first = np.unique(read_place, return_index=True)
        last = reads[first]
        arriving = np.flatnonzero(np.isin(self.received, self.wanted))
        offset = self.layout.output_offset[self.chunk[arriving]] - shift[self.dst[arriving]]
        place = self.dst[arriving] * span + offset
        there = (offset >= 0) & (offset < span) & np.isin(place, places)
        arriving = arriving[there]
        reader = last[np.searchsorted(places, place[there])]
        until = self.delivered.start[reader]
        # A chunk may replace itself: its sum takes the place of its input.
        in_use = self.chunk[reader] != self.chunk[arriving]
        in_use &= until >= self.delivered.start[arriving]
        key = self.received[arriving[in_use]]
        free = np.maximum(until, self.delivered.arrival[arriving])[in_use] + 1
        # Some arrive more than once; the last time counts.
        self.moved, which = np.unique(key, return_inverse=True)
        self.moved_at = np.zeros(len(self.moved), np.int64)
        np.maximum.at(self.moved_at, which, free)
        self.slots = distinct(np.concatenate([self.slots, self.moved]))

    @property
    def scratch_bytes(self) -> Ints:
        """Per rank: the size of its scratch buffer."""
        size = self._sizes(self.slots)
        return np.bincount(self.slots // self.count, size, self.ranks).astype(np.int64)

    def find(self, rank: Ints) -> tuple[Ints, Ints]:
        """Return buffer and offset of where each rank would receive the chunk of each delivery."""
        key = rank * self.count + self.chunk
        slot = np.searchsorted(self.slots, key)
        # What has no slot may come behind all that have one.
        has_slot = np.append(self.slots, -1)[slot] == key
        offset = np.append(self._slot_offset, 0)[slot]
        output = self.layout.output_offset[self.chunk]
        return np.where(has_slot, SCRATCH, OUTPUT), np.where(has_slot, offset, output)

    def or_input(self, place: tuple[Ints, Ints], in_input: Bools) -> tuple[Ints, Ints]:
        """Return the same, but for what the rank has in its input only."""
        buffer, offset = place
        input_offset = self.layout.input_offset[self.chunk]
        return np.where(in_input, INPUT, buffer), np.where(in_input, input_offset, offset)

    def copies(self, in_place: bool) -> Copies:
        """Return what ranks keep for themselves, and what is moved out of scratch at last."""
        # A destination of a sum to which nobody sends anything is its only contributor.
        alone = self.wanted[~np.isin(self.wanted, self.received)]
        alone = alone[self.reduces[alone % self.count]]
        summed = self._rows(alone, self.layout.input_offset[alone % self.count])
        own = np.concatenate([self.layout.own, summed])
        chunk = np.concatenate([np.full(len(self.layout.own), -1), alone % self.count])
        # What is kept is where it belongs already.
        if in_place:
            own = own[:0]
            chunk = chunk[:0]
        moved = self._rows(self.moved, self._slot_offset[np.searchsorted(self.slots, self.moved)])
        rank, size, read, write = np.concatenate([own, moved]).T
        kept = np.arange(len(rank)) < len(own)
        return Copies(
            np.concatenate([chunk, self.moved % self.count]),
            rank,
            size,
            np.concatenate([np.zeros(len(own), np.int64), self.moved_at]),
            np.where(kept, INPUT, SCRATCH),
            read,
            np.full(len(kept), OUTPUT),
            write,
        )

    def _rows(self, key: Ints, read: Ints) -> Ints:
        """Return rank and size of copies of chunks, and where they are read and written."""
        write = self.layout.output_offset[key % self.count]
        return np.stack([key // self.count, self._sizes(key), read, write], axis=1)

    def _sizes(self, key: Ints) -> Ints:
        return self.bytes[key % self.count]

    @property
    def _slot_offset(self) -> Ints:
        """Slots of a rank follow each other in the order of chunks, so that neighbours can travel together."""
        size = self._sizes(self.slots)
        begin = np.cumsum(size) - size
        rank = self.slots // self.count
        begin -= begin[np.searchsorted(rank, rank)]
        return begin
