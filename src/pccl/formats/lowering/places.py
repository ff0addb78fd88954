"""Where ranks keep chunks in their buffers.

A rank sends what it began with from its input. What it receives goes to its output, if the collective promises it
there, and otherwise to a slot of its own in the scratch buffer.
"""

from __future__ import annotations

import numpy as np

from pccl._arrays import Bools, Ints
from pccl.collective import BufferLayout, Conditions
from pccl.formats.lowering.deliveries import Deliveries
from pccl.formats.lowering.program import INPUT, OUTPUT, SCRATCH, Copies

__all__ = ["Places"]


class Places:
    """Places of all chunks of a collective on all ranks; a chunk on a rank is known as ``rank * count + chunk``.

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
        wanted_chunk = np.repeat(np.arange(len(conditions)), conditions.num_destinations)
        self.wanted = np.unique(rank_of[conditions.destination_ids] * self.count + wanted_chunk)
        self.received = self.dst * self.count + chunk
        kept = np.unique(self.received)
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
        is_input = (offset >= 0) & (offset < span)
        arriving = arriving[is_input]
        place = self.dst[arriving] * span + offset[is_input]
        at = np.searchsorted(places, place)
        there = np.flatnonzero(np.isin(place, places))
        arriving = arriving[there]
        reader = last[at[there]]
        until = self.delivered.start[reader]
        in_use = self.chunk[reader] != self.chunk[arriving]
        in_use &= until >= self.delivered.start[arriving]
        key = self.received[arriving[in_use]]
        free = np.maximum(until, self.delivered.arrival[arriving])[in_use] + 1
        self.moved, which = np.unique(key, return_inverse=True)
        self.moved_at = np.zeros(len(self.moved), np.int64)
        np.maximum.at(self.moved_at, which, free)
        self.slots = np.unique(np.concatenate([self.slots, self.moved]))

    @property
    def scratch_bytes(self) -> Ints:
        """Per rank: the size of its scratch buffer."""
        size = self._sizes(self.slots)
        return np.bincount(self.slots // self.count, size, self.ranks).astype(np.int64)

    def find(self, rank: Ints, in_input: Bools) -> tuple[Ints, Ints]:
        """Return buffer and offset of the chunk of each delivery on this rank, which may have it in its input only."""
        key = rank * self.count + self.chunk
        buffer = np.where(np.isin(key, self.slots), SCRATCH, OUTPUT)
        offset = np.where(
            buffer == SCRATCH, self._slot_offset(key), self.layout.output_offset[self.chunk]
        )
        input_offset = self.layout.input_offset[self.chunk]
        return np.where(in_input, INPUT, buffer), np.where(in_input, input_offset, offset)

    def copies(self, in_place: bool) -> Copies:
        """Return what ranks keep for themselves, and what is moved out of scratch at last."""
        own = np.concatenate([self.layout.own, self._sums_of_one()])
        if in_place:
            own = own[:0]
        rank, size, read, write = own.T
        moved_chunk = self.moved % self.count
        kept = np.repeat([True, False], [len(own), len(self.moved)])
        return Copies(
            np.concatenate([rank, self.moved // self.count]),
            np.concatenate([size, self._sizes(self.moved)]),
            np.concatenate([np.zeros(len(own), np.int64), self.moved_at]),
            np.where(kept, INPUT, SCRATCH),
            np.concatenate([read, self._slot_offset(self.moved)]),
            np.full(len(kept), OUTPUT),
            np.concatenate([write, self.layout.output_offset[moved_chunk]]),
        )

    def _sums_of_one(self) -> Ints:
        """Return destinations of a sum to which nobody sends anything: each is its only contributor."""
        alone = self.wanted[~np.isin(self.wanted, self.received)]
        alone = alone[self.reduces[alone % self.count]]
        chunk = alone % self.count
        columns = (
            alone // self.count,
            self._sizes(alone),
            self.layout.input_offset[chunk],
            self.layout.output_offset[chunk],
        )
        return np.stack(columns, axis=1)

    def _sizes(self, key: Ints) -> Ints:
        return self.bytes[key % self.count]

    def _slot_offset(self, key: Ints) -> Ints:
        """Slots of a rank follow each other in the order of chunks, so that neighbours can travel together."""
        if not len(self.slots):
            return np.zeros(len(key), np.int64)
        size = self._sizes(self.slots)
        begin = np.cumsum(size) - size
        rank = self.slots // self.count
        begin -= begin[np.searchsorted(rank, rank)]
        found: Ints = begin[np.minimum(np.searchsorted(self.slots, key), len(self.slots) - 1)]
        return found
