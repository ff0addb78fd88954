"""The buffers of all ranks, holding exact values, and who has touched which place since when.

A value stands for the contributions that it is made of. Numbers modulo 2**64 add up without rounding, in any order, and
sums of different contributions differ (but for an accident, once in 10**19), so that a wrong result cannot look right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pccl._arrays import Column, Indices

# Per line: all its events up to this number are complete.
Clock = Indices


class Line:
    """One line of execution, such as a threadblock, and its vector clock.

    Attributes
    ----------
    index
        Which of the lines it is.
    clock
        What is ordered before whatever this line does next. It is never changed but replaced, so that others may keep
        it.
    """

    __slots__ = ("_heard", "clock", "index")

    def __init__(self, index: int, lines: int) -> None:
        self.index = index
        self.clock: Clock = np.full(lines, -1, np.int32)
        self._heard: Clock | None = None

    def hear(self, clock: Clock) -> None:
        """Learn what another line knew; it counts from the next synchronization on."""
        self._heard = clock if self._heard is None else np.maximum(self._heard, clock)

    def synchronize(self, until: int) -> None:
        """Put all events of its own up to `until`, and all that it has heard of, before what comes next."""
        if self._heard is None:
            self.clock = self.clock.copy()
        else:
            self.clock = np.maximum(self.clock, self._heard)
            self._heard = None
        self.clock[self.index] = until


# A line, and the number of an event on it.
Access = tuple[int, int]
_NOBODY: Access = (0, -1)


class Conflict(NamedTuple):
    """Another access to a cell that nothing orders before the one that was tried."""

    cell: int
    line: int
    event: int
    does: str


class Memory:
    """All buffers as one row of cells.

    A cell is the smallest piece that operations tell apart: a chunk, or one of equal parts of it. In place, the smaller
    of input and output lies in the larger one, as NCCL defines it: at the beginning if they are equal, otherwise where
    the share of the rank is.

    Parameters
    ----------
    sizes
        Per rank: the chunks of its buffers ``i``, ``o`` and ``s``.
    in_place
        Whether input and output are one.
    parts
        How many cells a chunk has.
    dtype
        Of the values; they have to know how to be added.
    """

    def __init__(
        self,
        sizes: Sequence[Mapping[str, int]],
        in_place: bool,
        parts: int = 1,
        dtype: Any = np.uint64,
    ) -> None:
        self.sizes = sizes
        self.parts = parts
        self.first: dict[tuple[int, str], int] = {}
        total = 0
        for rank, size in enumerate(sizes):
            small, large = sorted("io", key=size.__getitem__)
            for buffer in (large, small, "s"):
                if in_place and buffer == small:
                    shift = 0 if size[small] == size[large] else rank * size[small]
                    self.first[rank, small] = self.first[rank, large] + shift * parts
                else:
                    self.first[rank, buffer] = total
                    total += size[buffer] * parts
        self.values: Column = np.empty(total, dtype)
        # A byte for each cell, which is found faster than an array of truth values is searched.
        self._known = bytearray(total)
        self._writer = [_NOBODY] * total
        self._readers: list[list[Access]] = [[] for _ in range(total)]

    def cells(self, rank: int, buffer: str, begin: int, size: int) -> slice:
        """The cells of some chunks of a buffer."""
        first = self.first[rank, buffer] + begin * self.parts
        return slice(first, first + size * self.parts)

    def content(self, rank: int, buffer: str) -> Column:
        """What is in a buffer now, one row per chunk."""
        values = self.values[self.cells(rank, buffer, 0, self.sizes[rank][buffer])]
        return values.reshape(-1, self.parts).copy()

    def fill(self, seed: int) -> list[Column]:
        """Put numbers into all inputs, which are returned, and others, which mean nothing, everywhere else."""
        random = np.random.default_rng(seed)
        self.values[:] = random.integers(0, 2**64, len(self.values), np.uint64)
        for rank, size in enumerate(self.sizes):
            self.know(self.cells(rank, "i", 0, size["i"]))
        return [self.content(rank, "i") for rank in range(len(self.sizes))]

    def know(self, cells: slice) -> None:
        """Note that there is something in cells."""
        self._known[cells] = b"\1" * (cells.stop - cells.start)

    def first_unknown(self, cells: slice) -> int:
        """Which of some cells is the first that nothing has been written to, counted from zero; -1 if there is none."""
        found = self._known.find(0, cells.start, cells.stop)
        return found - cells.start if found >= 0 else -1

    def read(self, line: Line, event: int, cells: slice) -> list[Conflict]:
        """Note that an event of a line reads cells; returns what may write them at the same time."""
        clock = line.clock
        access = (line.index, event)
        found = []
        for cell in range(cells.start, cells.stop):
            writer, when = self._writer[cell]
            if when > clock[writer]:
                found.append(Conflict(cell, writer, when, "writes"))
            self._readers[cell].append(access)
        return found

    def write(self, line: Line, event: int, cells: slice, values: Column) -> list[Conflict]:
        """Let an event of a line write cells; returns what may read or write them at the same time."""
        clock = line.clock
        access = (line.index, event)
        found = []
        for cell in range(cells.start, cells.stop):
            writer, when = self._writer[cell]
            if when > clock[writer]:
                found.append(Conflict(cell, writer, when, "writes"))
            for reader, when in self._readers[cell]:
                # What an event reads itself, it reads before it writes.
                if when > clock[reader] and (reader, when) != access:
                    found += [Conflict(cell, reader, when, "reads")]
            self._writer[cell] = access
            self._readers[cell].clear()
        self.values[cells] = values
        self.know(cells)
        return found
