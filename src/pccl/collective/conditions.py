"""Conditions: what every chunk of every collective starts from and where it has to end, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pccl._arrays import Bools, Column, Indices, Ints, offsets_of


@dataclass(frozen=True, eq=False)
class Conditions:
    """One row per chunk; a million rows are normal.

    Attributes
    ----------
    collective
        Index of the collective that the chunk belongs to.
    bytes
        Size of the chunk.
    piece
        Which piece of its share the chunk is, counted from zero; the pieces of a share are listed in a row.
    reduces
        Whether the chunk is the sum of what all its sources contribute; otherwise it has one source.
    source_offsets, source_ids
        The sources of chunk ``i`` are ``source_ids[source_offsets[i]:source_offsets[i + 1]]``.
    destination_offsets, destination_ids
        Likewise the NPUs that must end with the chunk; one that has it from the start is not listed.
    """

    collective: Indices
    bytes: Ints
    piece: Indices
    reduces: Bools
    source_offsets: Ints
    source_ids: Indices
    destination_offsets: Ints
    destination_ids: Indices

    def __post_init__(self) -> None:
        # Cached properties would go wrong if a column changed behind them.
        for f in fields(self):
            getattr(self, f.name).setflags(write=False)

    def __len__(self) -> int:
        return len(self.bytes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Conditions):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
        )

    __hash__ = None  # type: ignore[assignment]

    def sources(self, chunk: int) -> Indices:
        """NPUs that hold the chunk at the start: one, or all contributors of a reduction."""
        return self.source_ids[self.source_offsets[chunk] : self.source_offsets[chunk + 1]]

    def destinations(self, chunk: int) -> Indices:
        """NPUs that must hold the whole chunk at the end."""
        return self.destination_ids[
            self.destination_offsets[chunk] : self.destination_offsets[chunk + 1]
        ]

    @cached_property
    def num_destinations(self) -> Ints:
        """How many destinations each chunk has."""
        return np.diff(self.destination_offsets)

    @cached_property
    def sizes(self) -> tuple[Ints, Indices]:
        """The different chunk sizes, ascending, and for each chunk which of them it has."""
        # The usual case, without sorting.
        if len(self) and np.all(self.bytes == self.bytes[0]):
            return self.bytes[:1], np.zeros(len(self), np.int32)
        values, of_chunk = np.unique(self.bytes, return_inverse=True)
        return values, of_chunk.reshape(-1).astype(np.int32)

    @cached_property
    def share(self) -> Ints:
        """Which share each chunk is a piece of; shares are counted as they are listed, without those of no bytes."""
        return np.cumsum(self.piece == 0, dtype=np.int64) - 1

    @cached_property
    def within_share(self) -> Ints:
        """Where each chunk begins in its share, in bytes."""
        # Bytes before each chunk, less those before its share, whose pieces are listed in a row.
        start: Ints = np.cumsum(self.bytes) - self.bytes
        start_of_share: Ints = start[self.piece == 0]
        return start - start_of_share[self.share]

    @classmethod
    def of(
        cls,
        size: ArrayLike,
        piece: ArrayLike,
        sources: Column,
        destinations: Column,
        reduces: bool = False,
    ) -> Conditions:
        """Build the rows of one collective; ``sources`` and ``destinations`` have one row per chunk."""
        count = len(sources)
        return cls(
            collective=np.zeros(count, np.int32),
            bytes=np.broadcast_to(np.asarray(size, np.int64), (count,)),
            piece=np.broadcast_to(np.asarray(piece, np.int32), (count,)),
            reduces=np.full(count, reduces),
            source_offsets=np.arange(count + 1, dtype=np.int64) * sources.shape[1],
            source_ids=sources.astype(np.int32, copy=False).ravel(),
            destination_offsets=np.arange(count + 1, dtype=np.int64) * destinations.shape[1],
            destination_ids=destinations.astype(np.int32, copy=False).ravel(),
        )

    @classmethod
    def join(cls, parts: Sequence[Conditions]) -> Conditions:
        """Stack the rows of several collectives and number the collectives."""
        # The usual case, in which no column of a million rows is copied.
        if len(parts) == 1:
            return replace(parts[0], collective=np.zeros(len(parts[0]), np.int32))
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("bytes", "piece", "reduces", "source_ids", "destination_ids")
        }
        # Offsets count from the beginning of all rows, so they follow anew from the widths.
        for name in ("source_offsets", "destination_offsets"):
            widths = [np.diff(getattr(part, name)) for part in parts]
            joined[name] = offsets_of(np.concatenate(widths))
        number = np.arange(len(parts), dtype=np.int32)
        return cls(collective=np.repeat(number, [len(part) for part in parts]), **joined)
