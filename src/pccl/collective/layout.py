"""Where the chunks of a collective lie in the buffers of the ranks, and what every rank is promised.

Every collective says by itself how its buffers lie, as NCCL and MPI define them (``Collective.layout``); here is what
it says. A promise (``Collective.promise``) follows from conditions and
layout alone, so that whoever executes a program can check its results without knowing the collective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from pccl._arrays import Column, Ints, count_within, offsets_by_owner, offsets_of
from pccl.collective.conditions import Conditions


@dataclass(frozen=True, eq=False)
class BufferLayout:
    """Offsets and sizes in bytes; arrays have one entry per chunk of the collective, or per rank.

    Attributes
    ----------
    input_offset, output_offset
        Per chunk: where it lies in the input of its sources, and in the output of its destinations.
    input_bytes, output_bytes
        Per rank: the size of its buffers.
    shift
        Per rank: with input and output in one buffer, byte ``x`` of the input is byte ``x + shift`` of the output;
        ``None`` where that is not defined.
    own
        What stays on its rank and needs no transfer: rows of (rank, bytes, input offset, output offset).
    """

    input_offset: Ints
    output_offset: Ints
    input_bytes: Ints
    output_bytes: Ints
    shift: Ints | None
    own: Ints

    def reversed(self) -> BufferLayout:
        """The layout of what goes the other way: input and output change places."""
        # What was byte x + shift of the output is now byte x + shift of the input, at x in the
        # output.
        shift = None if self.shift is None else -self.shift
        own = self.own[:, [0, 1, 3, 2]]
        offsets = self.output_offset, self.input_offset
        return BufferLayout(*offsets, self.output_bytes, self.input_bytes, shift, own)


@dataclass(frozen=True, eq=False)
class Promise:
    """What every rank must end with, whatever the collective.

    A row says that a part of the output of a rank is a chunk. A chunk is what its contributor has in its input, or the
    sum of what all its contributors have there, at the same offset of each. What no row speaks of may hold anything.

    Attributes
    ----------
    rank, output_offset, bytes, chunk
        Per row: whose output, which part of it, and which chunk.
    input_offset
        Per chunk: where it lies in the input of its contributors.
    contributor_offsets, contributor_ranks
        The contributors of chunk ``c`` are ``contributor_ranks[contributor_offsets[c]:contributor_offsets[c + 1]]``.
    input_bytes, output_bytes
        Per rank: the size of its buffers.

    Notes
    -----
    Chunks are numbered as in the conditions; those that follow are what ranks keep for themselves. Nothing here depends
    on the unit: a collective whose "bytes" are the chunks of a file gives a promise that counts in them.
    """

    rank: Ints
    output_offset: Ints
    bytes: Ints
    chunk: Ints
    input_offset: Ints
    contributor_offsets: Ints
    contributor_ranks: Ints
    input_bytes: Ints
    output_bytes: Ints

    @classmethod
    def of(cls, conditions: Conditions, layout: BufferLayout, rank_of: Ints) -> Promise:
        """What the conditions of one collective promise when its buffers lie in this way."""
        chunk = np.repeat(np.arange(len(conditions)), conditions.num_destinations)
        own_rank, own_bytes, own_input, own_output = layout.own.T
        # What a rank keeps is a chunk, too, with one contributor; so whoever checks needs no other
        # rule for it.
        own_chunk = len(conditions) + np.arange(len(layout.own))
        contributors = [np.diff(conditions.source_offsets), np.ones_like(own_chunk)]
        return cls(
            rank=np.concatenate([rank_of[conditions.destination_ids], own_rank]),
            output_offset=np.concatenate([layout.output_offset[chunk], own_output]),
            bytes=np.concatenate([conditions.bytes[chunk], own_bytes]),
            chunk=np.concatenate([chunk, own_chunk]),
            input_offset=np.concatenate([layout.input_offset, own_input]),
            contributor_offsets=offsets_of(np.concatenate(contributors)),
            contributor_ranks=np.concatenate([rank_of[conditions.source_ids], own_rank]),
            input_bytes=layout.input_bytes,
            output_bytes=layout.output_bytes,
        )

    def contributors(self, chunk: int) -> Ints:
        """The ranks whose inputs make up a chunk: one, or all that are added up."""
        first, last = self.contributor_offsets[chunk : chunk + 2]
        return self.contributor_ranks[first:last]

    def expected(self, inputs: Sequence[Column]) -> list[tuple[Ints, Column]]:
        """Per rank: which places of its output are promised, and what they must hold.

        Parameters
        ----------
        inputs
            The input of every rank, with one value (or row of values) for each byte.

        Examples
        --------
        >>> import pccl
        >>> promise = pccl.AllReduce("2B").promise(np.arange(2), 2)
        >>> places, values = promise.expected([np.array([1, 2]), np.array([10, 20])])[1]
        >>> places.tolist(), values.tolist()
        ([0, 1], [11, 22])
        """
        begins, values = self._sums(inputs)
        # Rows of one rank stay in their order.
        order = np.argsort(self.rank, kind="stable")
        bytes_of_row = self.bytes[order]
        within = count_within(bytes_of_row)
        places = np.repeat(self.output_offset[order], bytes_of_row) + within
        what = values[np.repeat(begins[self.chunk[order]], bytes_of_row) + within]
        # Where each rank begins, in rows and then in bytes.
        rows = offsets_by_owner(self.rank, len(inputs))
        ends = offsets_of(bytes_of_row)[rows].tolist()
        return [(places[low:high], what[low:high]) for low, high in pairwise(ends)]

    def _sums(self, inputs: Sequence[Column]) -> tuple[Ints, Column]:
        """Where each chunk begins, and one after another what chunks are once all their contributors are added up."""
        held = np.concatenate(inputs)
        held_from = offsets_of(np.array([len(each) for each in inputs]))
        size = np.zeros(len(self.input_offset), np.int64)
        size[self.chunk] = self.bytes
        # From here on per byte of a chunk.
        chunk = np.repeat(np.arange(len(size)), size)
        place = self.input_offset[chunk] + count_within(size)
        first = self.contributor_offsets[chunk]
        contributors = self.contributor_offsets[chunk + 1] - first
        values = held[held_from[self.contributor_ranks[first]] + place]
        for number in range(1, int(contributors.max(initial=1))):
            more = np.flatnonzero(contributors > number)
            other = self.contributor_ranks[first[more] + number]
            values[more] += held[held_from[other] + place[more]]
        return offsets_of(size), values


@dataclass(frozen=True, eq=False)
class Ranks:
    """Who is who: the rank of each device (or -1), how many ranks there are, and the devices of the group."""

    of_device: Ints
    count: int
    group: Ints

    @property
    def members(self) -> Ints:
        """The ranks of the group, in its order."""
        return self.of_device[self.group]


def kept(
    rank: ArrayLike = (), size: ArrayLike = 0, read: ArrayLike = 0, write: ArrayLike = 0
) -> Ints:
    """The rows of ``BufferLayout.own`` with these columns; those without any bytes are left out."""
    columns = np.broadcast_arrays(*(np.asarray(c, np.int64) for c in (rank, size, read, write)))
    rows = np.stack(columns, axis=1)
    return rows[rows[:, 1] > 0]
