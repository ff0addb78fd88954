"""Collectives in which every member has something else for every other: All-to-All, with equal shares or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from pccl._arrays import Ints
from pccl.collective.base import Collective, Moves
from pccl.collective.conditions import Conditions
from pccl.collective.layout import BufferLayout, Ranks, kept
from pccl.units import Bytes, Size, parse, size_text, whole

# Shares are enlarged by at most this part, so that their pieces are equal.
_MOST_ENLARGED = 0.01


class _Exchange(Collective):
    """What is sent is said by a matrix: one row for each sender, one column for each receiver."""

    in_place_differs = True

    def _matrix(self, members: int) -> Ints:
        """The bytes that each member of the group sends to each."""
        raise NotImplementedError

    def _moves(self, group: Ints) -> Moves:
        matrix = self._matrix(len(group))
        # What a member keeps for itself needs no transfer. The matrix is made anew by every call,
        # so it may be changed.
        np.fill_diagonal(matrix, 0)
        sender, receiver = np.nonzero(matrix)
        return matrix[sender, receiver], group[sender, None], group[receiver, None]

    def with_matrix(self, matrix: Ints) -> AllToAllV:
        """The same among the same, with other shares, in elements of one byte."""
        return AllToAllV(matrix.tolist(), self.group, self.chunks)

    def _share_sizes(self, group: Ints) -> Ints:
        matrix = self._matrix(len(group))
        np.fill_diagonal(matrix, 0)
        return matrix.ravel()

    def _layout(self, conditions: Conditions, ranks: Ranks, padded: bool = False) -> BufferLayout:
        """Lay shares one after another, in the order of the ranks at their other end."""
        matrix = self._matrix(len(ranks.group))
        # From every rank to every other: the room for it in the input of one and the output of the other. Where shares
        # are to be equal, ranks that only relay have room as well, because runtimes count shares by ranks.
        equal = padded or self.has_one_size
        room = np.full((ranks.count, ranks.count), matrix.max(initial=0) if equal else 0)
        if not padded:
            room[np.ix_(ranks.members, ranks.members)] = matrix
        ahead_in_input = np.cumsum(room, axis=1) - room
        ahead_in_output = np.cumsum(room, axis=0) - room
        who = ranks.of_device[conditions.source_ids], ranks.of_device[conditions.destination_ids]
        oneself = ranks.members, ranks.members
        keeps = np.diagonal(matrix)
        own = kept(ranks.members, keeps, ahead_in_input[oneself], ahead_in_output[oneself])
        # In place, what comes from a rank takes the place of what goes to it, which must be as large.
        in_place = np.array_equal(matrix, matrix.T)
        return BufferLayout(
            ahead_in_input[who] + conditions.within_share,
            ahead_in_output[who] + conditions.within_share,
            input_bytes=room.sum(axis=1),
            output_bytes=room.sum(axis=0),
            shift=np.zeros(ranks.count, np.int64) if in_place else None,
            own=own,
        )


class AllToAll(_Exchange):
    """Every NPU sends a share of its own to every other.

    Where shares cannot be equal, any two members still exchange equally much, and what a member receives is as large as
    what it sends.
    """

    kind = "all-to-all"

    def _matrix(self, members: int) -> Ints:
        # Every row and every column has each share once, so all send and receive the same. The
        # square is symmetric, which is what in-place buffers need.
        place = np.arange(members)
        which = (place[:, None] + place) % members
        matrix: Ints = self._shares(members)[which]
        return matrix


@dataclass(frozen=True)
class AllToAllV(_Exchange):
    """An All-to-All of unequal shares.

    Parameters
    ----------
    matrix
        ``matrix[i][j]`` is what the i-th member of the group sends to the j-th, in bytes (or as text with a unit). What
        a member keeps for itself, on the diagonal, needs no transfer. Lists, arrays and data frames, or the path of a
        ``.csv``, ``.npy`` or ``.parquet`` file.
    group, chunks
        As for all collectives.
    round
        A size such as ``"64KiB"``, of which every share becomes a whole multiple: shares are planned as large as the
        next one, for runtimes whose files count in chunks of one size. Shares of nothing stay so.

    Examples
    --------
    >>> AllToAllV([[0, "1KiB"], [2048, 0]]).matrix
    ((0, 1024), (2048, 0))
    >>> str(AllToAllV([[0, "100B"], [2048, 0]], round="1KiB"))
    'all-to-all-v of 2KiB among all NPUs, in units of 1KiB (924B more in all)'
    """

    size: Bytes = field(init=False)
    matrix: Sequence[Sequence[int | str]] = ()
    round: Size | None = field(default=None, kw_only=True)
    kind = "all-to-all-v"
    has_one_size = False

    # By hand, because the matrix comes first; a generated one would ask for what the base class has
    # before it.
    def __init__(
        self,
        matrix: Sequence[Sequence[int | str]] | str | Path,
        group: Iterable[int] | None = None,
        chunks: int | None = None,
        *,
        round: Size | None = None,
        dtype: str = "uint8",
        priority: int = 0,
        weight: float = 1.0,
        confined: bool = False,
    ) -> None:
        given: dict[str, Any] = {"matrix": matrix, "group": group, "chunks": chunks, "round": round}
        given |= {"dtype": dtype, "priority": priority, "weight": weight, "confined": confined}
        for name, value in given.items():
            self._set(name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        matrix: Any = self.matrix
        if isinstance(matrix, str | Path):
            from pccl.collective.matrices import read_matrix

            matrix = read_matrix(matrix)
        try:
            if hasattr(matrix, "__array__"):
                matrix = np.asarray(matrix).tolist()
            rows = [tuple(self._entry(entry) for entry in row) for row in matrix]
        except TypeError:
            raise self._error(f"the matrix must be a list of rows, not {self.matrix!r}") from None
        self._set("matrix", tuple(rows))
        for i, row in enumerate(self.matrix):
            if len(row) != len(self.matrix):
                entries = "1 entry" if len(row) == 1 else f"{len(row)} entries"
                needed = f"not {len(self.matrix)}, one for each row"
                raise self._error(f"row {i} has {entries}, {needed}; the matrix must be square")
        self._check_shared()
        self._check_round()
        most = max((sum(map(self._rounded, row)) for row in self.matrix), default=0)
        self._set("size", parse(Bytes, Bytes(most), f"what a member of {self.kind} sends"))
        for entry in {self._rounded(entry) for row in self.matrix for entry in row}:
            self._check_elements(entry, "an entry of")
        if self.group is not None:
            self._check_fits(len(self.ranks))

    @cached_property
    def shares(self) -> Ints:
        """What is planned: the matrix, of which every entry is rounded up to whole units."""
        rows = [[self._rounded(entry) for entry in row] for row in self.matrix]
        found = np.array(rows, np.int64).reshape(len(rows), len(rows))
        found.setflags(write=False)
        return found

    @property
    def rounding(self) -> int:
        """By how many bytes the shares are larger in all than the matrix says."""
        return int(self.shares.sum()) - sum(
            map(int, (entry for row in self.matrix for entry in row))
        )

    def with_equal_chunks(self, members: int) -> Self:  # noqa: ARG002
        """The same ratios, enlarged until the pieces of all shares are whole multiples of one size.

        Where that would take more than 1 % more, it stays as it is.

        Examples
        --------
        >>> AllToAllV([[0, "1KiB"], ["2KiB", 0]], chunks=3).with_equal_chunks(2).shares.tolist()
        [[0, 1026], [2052, 0]]
        """
        common = int(np.gcd.reduce(self.shares, axis=None))
        step = self.pieces * self.element
        more = -common % step
        if not more or more > _MOST_ENLARGED * common:
            return self
        enlarged = self.shares // common * (common + more)
        return replace(self, matrix=enlarged.tolist(), round=None)

    def with_elements(self, count: int) -> AllToAllV:
        """The same ratios, with so many elements where a member sends most."""
        ahead = np.cumsum(self.shares, axis=1) * count // max(int(self.size), 1)
        # What lies before a share and what lies before the next, so that a row loses nothing by rounding.
        return self.with_matrix(np.diff(ahead, axis=1, prepend=0))

    def _entry(self, entry: float | str) -> int:
        if not isinstance(entry, str):
            is_whole_float = isinstance(entry, float) and entry.is_integer()
            count = int(entry) if is_whole_float else whole(entry)
            if count is None or count < 0:
                raise self._error(f"the matrix holds {entry!r}; bytes are whole and not negative")
            entry = Bytes(count)
        return int(parse(Bytes, entry, f"entry of the matrix of {self.kind}"))

    def _check_round(self) -> None:
        if self.round is None:
            return
        self._set("round", parse(Bytes, self.round, f"round of {self.kind}"))
        if not self.round:
            raise self._error("round is 0B; shares are rounded up to multiples of a positive size")
        self._check_elements(int(self.round), "a round of")

    def _rounded(self, entry: int | str) -> int:
        unit = int(self.round or 1)
        return -(-int(entry) // unit) * unit

    def _largest_share(self, members: int) -> int:
        self._check_fits(members)
        return int(self.shares.max(initial=0))

    def _check_fits(self, members: int) -> None:
        if members != len(self.matrix):
            rows = len(self.matrix)
            raise self._error(f"the matrix is {rows} x {rows}, but the group has {members} members")

    def _matrix(self, members: int) -> Ints:
        self._check_fits(members)
        return self.shares.copy()

    def __str__(self) -> str:
        """One line for people."""
        text = super().__str__()
        if self.round is None:
            return text
        more = size_text(self.rounding)
        return f"{text}, in units of {self.round} ({more} more in all)"

    def layout(
        self, conditions: Conditions, rank_of: Ints, ranks: int, padded: bool = False
    ) -> BufferLayout:
        """Say where the chunks lie; if `padded`, every share begins a room as large as the largest share."""
        # There is no one size that could be enlarged: instead, every share gets the room of the
        # largest.
        return self._layout(conditions, self._ranks(rank_of, ranks), padded)
