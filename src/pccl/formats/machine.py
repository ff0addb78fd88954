"""What the interpreters of both runtimes share: they run files that neither of them has written.

Problems are values: a kind that programs can act on, a place, and one line for people. The memory holds the buffers of
all ranks, who has touched which place since when, and so finds races. A promise is what every rank must end with: the
collective that a file says it is, made anew and laid out in its chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum, auto
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Column, Ints
from pccl._memory import free_memory
from pccl.collective import COLLECTIVES, Collective, Promise
from pccl.errors import CollectiveError, FormatError
from pccl.units import Bytes, counted, size_text

# --- problems ---------------------------------------------------------------------------------------------------------


class Kind(Enum):
    """What sort of problem it is."""

    TEXT = auto()  # readers would reject it, or take it for something else
    RULE = auto()  # a limit is exceeded, an index is out of range, a part is missing
    DEFECT = auto()  # it is allowed, but the runtime gets it wrong
    CONNECTION = auto()  # the two ends of a connection do not fit
    DEADLOCK = auto()
    RACE = auto()
    UNWRITTEN = auto()  # a read of what nothing has been written to
    HANDSHAKE = auto()  # a rank is reached that may not have started, or may be done
    COUNTER = auto()  # a counter does not end as it began, so that the next run goes wrong
    RESULT = auto()  # the collective promises something else


class Place(NamedTuple):
    """Where a problem is; -1 stands for all of them."""

    rank: int = -1
    threadblock: int = -1
    step: int = -1


_EVERYWHERE = Place()


@dataclass(frozen=True)
class Problem:
    """One problem; as text it is one line, which names the place in the words of the file."""

    kind: Kind
    text: str
    place: Place = _EVERYWHERE

    def __str__(self) -> str:
        return self.text


class Problems:
    """Problems in the order in which they were found, each of them once."""

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}

    def add(self, kind: Kind, text: str, place: Place = _EVERYWHERE) -> None:
        """Add a problem unless it is known already."""
        self.keep(Problem(kind, text, place))

    def keep(self, problem: Problem) -> None:
        """Add a problem that was made elsewhere, unless it is known already."""
        self._found[problem] = None

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


# --- memory and clocks ------------------------------------------------------------------------------------------------

# Per line: all its events up to this number are complete.
Clock: TypeAlias = NDArray[np.signedinteger[Any]]


class Line:
    """One line of execution, such as a threadblock, and its vector clock.

    Attributes
    ----------
    index
        Which of the lines it is.
    clock
        What is ordered before whatever this line does next. It is never changed but replaced, so that others may keep
        it.

    Parameters
    ----------
    index
        Which of the lines it is.
    lines, events
        How many lines there are, and how many events one has at most.
    """

    __slots__ = ("_heard", "clock", "index")

    def __init__(self, index: int, lines: int, events: int = 2**31 - 1) -> None:
        self.index = index
        # With few events in a line, clocks are small, which makes a difference where there are thousands of lines.
        self.clock: Clock = np.full(lines, -1, np.min_scalar_type(-events - 1))
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
        # What a line does itself is always in order.
        self.clock[self.index] = until


# What a memory takes for a cell, measured on small ones; what reads and writes it comes on top.
BYTES_PER_CELL = 150

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
    """All buffers as one row of cells, which hold exact values.

    A value stands for the contributions that it is made of. Numbers modulo 2**64 add up without rounding, in any order,
    and sums of different contributions differ (but for an accident, once in 10**19), so that a wrong result cannot look
    right.

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
            # In place, the smaller buffer has no cells of its own.
            small, large = sorted("io", key=size.__getitem__)
            for buffer in (large, small, "s"):
                if in_place and buffer == small:
                    shift = 0 if size[small] == size[large] else rank * size[small]
                    self.first[rank, small] = self.first[rank, large] + shift * parts
                else:
                    self.first[rank, buffer] = total
                    total += size[buffer] * parts
        needed = total * BYTES_PER_CELL
        free = free_memory()
        if needed > free:
            raise FormatError(
                f"the buffers have {total:,} chunks or parts of chunks in all; to run them takes "
                f"{size_text(needed)} of memory, and {size_text(free)} is free"
            )
        self.values: Column = np.empty(total, dtype)
        # A byte for each cell, which is found faster than an array of truth values is searched.
        self._known = bytearray(total)
        self._writer = [_NOBODY] * total
        self._readers: list[list[Access]] = [[] for _ in range(total)]

    def cells(self, rank: int, buffer: str, begin: int, size: int) -> slice:
        """The cells of some chunks of a buffer."""
        first = self.first[rank, buffer] + begin * self.parts
        return slice(first, first + size * self.parts)

    def name(self, rank: int, cell: int) -> str:
        """What files call a cell; in place, it may have two names."""
        offsets = {buffer: cell - self.first[rank, buffer] for buffer in self.sizes[rank]}
        return " = ".join(
            f"{buffer}[{offset}]"
            for buffer, offset in offsets.items()
            if 0 <= offset < self.sizes[rank][buffer]
        )

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
            # Nearly all that is read has been there from the beginning.
            if when >= 0 and when > clock[writer]:
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
            if when >= 0 and when > clock[writer]:
                found.append(Conflict(cell, writer, when, "writes"))
            for reader, when in self._readers[cell]:
                # What an event reads itself, it reads before it writes.
                if when > clock[reader] and (reader, when) != access:
                    found += [Conflict(cell, reader, when, "reads")]
            self._writer[cell] = access
            # What comes after this write is ordered after the reads before it, or is in conflict with the write.
            self._readers[cell].clear()
        self.values[cells] = values
        self.know(cells)
        return found


# --- promises ---------------------------------------------------------------------------------------------------------

# The collectives by their names in the files of runtimes.
BY_NAME: Mapping[str, type[Collective]] = {
    kind.nccl_name: kind for kind in COLLECTIVES.values() if kind.nccl_name is not None
}


def promise_of(
    name: str,
    ranks: int,
    members: Sequence[int],
    *,
    inputs: Sequence[int] | None = None,
    largest: int = 0,
    **said: Any,
) -> Promise:
    """What a collective promises when its buffers have so many chunks; a byte stands for a chunk.

    Parameters
    ----------
    name
        What files call the collective.
    ranks, members
        How many ranks there are, and those that take part, in the order of the group.
    inputs, largest
        Per rank the chunks of its input; or, without that, the chunks of the largest buffer.
    **said
        Parameters of some collectives, such as the root; those that this one does not have are left out.
    """
    kind = BY_NAME[name]
    # A file may say a root, or a matrix, that its collective has no use for.
    parameters = {field.name for field in fields(kind) if field.init}

    def promise(size: int) -> Promise:
        given = {"size": Bytes(size), "group": members, **said}
        collective = kind(**{key: given[key] for key in parameters & given.keys()})
        return collective.promise(np.arange(ranks), ranks)

    try:
        # One chunk for each member shows how many shares the buffers have: some have one for every rank as well.
        one = promise(len(members))
        if inputs is None:
            shares, chunks = max(one.input_bytes.max(), one.output_bytes.max()), largest
        else:
            giver = one.contributor_ranks[0] if len(one.contributor_ranks) else members[0]
            shares, chunks = one.input_bytes[giver], inputs[giver]
        size, rest = divmod(chunks * len(members), max(int(shares), 1))
        found = promise(size)
        # All ranks have buffers of one size in a file, unless the collective says otherwise.
        uneven = kind.has_one_size and (np.ptp(found.input_bytes) or np.ptp(found.output_bytes))
        if rest or uneven:
            raise FormatError(
                f"{counted(chunks, 'chunk')} cannot be divided into {counted(shares, 'share')}"
            )
        return found
    except (CollectiveError, FormatError) as error:
        raise FormatError(f"the buffers do not fit {name}: {error}") from None


def unfit_buffers(promise: Promise, sizes: Sequence[Mapping[str, int]]) -> Iterator[str]:
    """Say which buffers have not as many chunks as the promise needs; one without any has one that means nothing."""
    for buffer, name, ranks, chunks in (
        ("i", "input", promise.contributor_ranks, promise.input_bytes),
        ("o", "output", promise.rank, promise.output_bytes),
    ):
        for rank in np.unique(ranks).tolist():
            there = sizes[rank][buffer]
            wanted = max(int(chunks[rank]), 1)
            if there != wanted:
                yield f"rank {rank} has {there} {name} chunks, not {wanted}"


def wrong_outputs(
    promise: Promise, inputs: Sequence[Column], memory: Memory
) -> Iterator[tuple[int, Ints]]:
    """The ranks that end with something else than they are promised, and the chunks of their outputs that are wrong."""
    for rank, (chunks, values) in enumerate(promise.expected(inputs)):
        if len(chunks):
            differs = memory.content(rank, "o")[chunks] != values
            wrong = chunks[differs.any(axis=1)]
            if len(wrong):
                yield rank, np.sort(wrong)
