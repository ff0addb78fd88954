"""The collectives: small immutable descriptions of what a process group wants.

Sizes count the buffer of one NPU as nccl-tests does: the whole gathered or scattered array for All-Gather,
Reduce-Scatter and All-to-All (its own share included). ``chunks`` cuts every share into equal pieces that travel
separately. Without a ``group`` a collective spans all NPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pccl._arrays import Ints
from pccl.collective.base import Collective, yes_or_no
from pccl.collective.conditions import Conditions
from pccl.errors import CollectiveError
from pccl.units import Bytes, parse, whole

__all__ = [
    "AllGather",
    "AllReduce",
    "AllToAll",
    "AllToAllV",
    "Broadcast",
    "Gather",
    "Reduce",
    "ReduceScatter",
    "Scatter",
    "SendRecv",
]


class AllGather(Collective):
    """Every NPU ends with the shares of all.

    Examples
    --------
    >>> AllGather(size="8MiB", group=range(4), chunks=2)
    AllGather(size=Bytes(8388608), group=(0, 1, 2, 3), chunks=2)
    """

    kind = "all-gather"

    def _conditions(self, group: Ints) -> Conditions:
        n, size = len(group), self._cut(len(group))
        sources = np.repeat(group[:, None], self.pieces, axis=0)
        destinations = np.repeat(_others(group), self.pieces, axis=0)
        return Conditions.of(size, np.tile(np.arange(self.pieces), n), sources, destinations)


class ReduceScatter(Collective):
    """Every NPU ends with the sum of all NPUs' values for its own share."""

    kind = "reduce-scatter"

    def _conditions(self, group: Ints) -> Conditions:
        n, size = len(group), self._cut(len(group))
        sources = np.broadcast_to(group, (n * self.pieces, n))
        destinations = np.repeat(group[:, None], self.pieces, axis=0)
        return Conditions.of(
            size, np.tile(np.arange(self.pieces), n), sources, destinations, reduces=True
        )


class AllReduce(Collective):
    """Every NPU ends with the sum of all NPUs' values for the whole buffer."""

    kind = "all-reduce"

    def _conditions(self, group: Ints) -> Conditions:
        n, size = len(group), self._cut(len(group))
        members = np.broadcast_to(group, (n * self.pieces, n))
        return Conditions.of(
            size, np.tile(np.arange(self.pieces), n), members, members, reduces=True
        )


class AllToAll(Collective):
    """Every NPU sends a share of its own to every other."""

    kind = "all-to-all"

    def _conditions(self, group: Ints) -> Conditions:
        n, size = len(group), self._cut(len(group))
        sources = np.repeat(group, (n - 1) * self.pieces)[:, None]
        destinations = np.repeat(_others(group).ravel(), self.pieces)[:, None]
        return Conditions.of(
            size, np.tile(np.arange(self.pieces), n * (n - 1)), sources, destinations
        )


@dataclass(frozen=True)
class AllToAllV(Collective):
    """An All-to-All of unequal shares.

    Parameters
    ----------
    matrix
        ``matrix[i][j]`` is what the i-th member of the group sends to the j-th, in bytes (or as text with a unit). What
        a member keeps for itself, on the diagonal, needs no transfer.
    group, chunks
        As for all collectives.

    Examples
    --------
    >>> AllToAllV([[0, "1KiB"], [2048, 0]]).matrix
    ((0, 1024), (2048, 0))
    """

    size: Bytes = field(init=False)
    matrix: Sequence[Sequence[int | str]] = ()
    kind = "all-to-all-v"

    def __init__(
        self,
        matrix: Sequence[Sequence[int | str]],
        group: Iterable[int] | None = None,
        chunks: int | None = None,
    ) -> None:
        for name, value in (("matrix", matrix), ("group", group), ("chunks", chunks)):
            self._set(name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        try:
            rows = [list(row) for row in self.matrix]
        except TypeError:
            raise CollectiveError(
                f"{self.kind}: the matrix must be a list of rows, not {self.matrix!r}"
            ) from None
        self._set("matrix", tuple(tuple(self._entry(entry) for entry in row) for row in rows))
        for i, row in enumerate(self.matrix):
            if len(row) != len(self.matrix):
                raise CollectiveError(
                    f"{self.kind}: row {i} has {len(row)} entries; the matrix must be square"
                )
        self._set("size", Bytes(max((sum(map(int, row)) for row in self.matrix), default=0)))
        self._check_shared()
        if self.group is not None:
            self._check_fits(len(self.ranks))

    def _entry(self, entry: int | str) -> int:
        if not isinstance(entry, str):
            count = whole(entry)
            if count is None or count < 0:
                raise CollectiveError(
                    f"{self.kind}: the matrix holds {entry!r}; bytes are whole and not negative"
                )
            entry = Bytes(count)
        return int(parse(Bytes, entry, f"entry of the matrix of {self.kind}"))

    def _check_fits(self, members: int) -> None:
        if members != len(self.matrix):
            rows = len(self.matrix)
            raise CollectiveError(
                f"{self.kind}: the matrix is {rows} x {rows}, but the group has {members} members"
            )

    def _conditions(self, group: Ints) -> Conditions:
        self._check_fits(len(group))
        matrix = np.array(self.matrix, np.int64).reshape(len(group), len(group))
        uneven = np.argwhere(matrix % self.pieces)
        if len(uneven):
            i, j = uneven[0].tolist()
            raise CollectiveError(
                f"{self.kind}: {matrix[i, j]} bytes from member {i} to {j} do not divide into {self.pieces} chunks"
            )
        i, j = np.nonzero(matrix * (1 - np.eye(len(group), dtype=np.int64)))
        sources, destinations = (np.repeat(group[k], self.pieces)[:, None] for k in (i, j))
        sizes = np.repeat(matrix[i, j] // self.pieces, self.pieces)
        return Conditions.of(sizes, np.tile(np.arange(self.pieces), len(i)), sources, destinations)

    def to_dict(self) -> dict[str, Any]:
        """Plain data that :func:`collective_from_dict` reads back."""
        return {name: value for name, value in super().to_dict().items() if name != "size"}


@dataclass(frozen=True)
class _Rooted(Collective):
    """A collective with one NPU that is special; the first of the group unless said otherwise."""

    root: int | None = None

    def _check_shared(self) -> None:
        if self.root is not None:
            root = whole(self.root)
            if root is None:
                raise CollectiveError(
                    f"{self.kind}: the root must be the number of an NPU, not {self.root!r}"
                )
            self._set("root", root)
        super()._check_shared()

    def _check_group(self, group: tuple[int, ...]) -> None:
        super()._check_group(group)
        if self.root is not None and self.root not in group:
            raise CollectiveError(f"{self.kind}: root {self.root} is not in the group")

    def _root_and_rest(self, group: Ints) -> tuple[Ints, Ints]:
        root = group[0] if self.root is None else self.root
        if root not in group:
            raise CollectiveError(f"{self.kind}: root {root} is not in the group")
        return np.array([root]), group[group != root]


class Broadcast(_Rooted):
    """Every NPU ends with the buffer of the root."""

    kind = "broadcast"

    def _conditions(self, group: Ints) -> Conditions:
        (root, rest), size = self._root_and_rest(group), self._cut(1)
        pieces = np.arange(self.pieces)
        return Conditions.of(size, pieces, _rows(root, self.pieces), _rows(rest, self.pieces))


class Reduce(_Rooted):
    """The root ends with the sum of all NPUs' buffers."""

    kind = "reduce"

    def _conditions(self, group: Ints) -> Conditions:
        (root, _), size = self._root_and_rest(group), self._cut(1)
        pieces = np.arange(self.pieces)
        return Conditions.of(
            size, pieces, _rows(group, self.pieces), _rows(root, self.pieces), reduces=True
        )


class Scatter(_Rooted):
    """The root sends every NPU a share of its own; size is the buffer of the root."""

    kind = "scatter"

    def _conditions(self, group: Ints) -> Conditions:
        (root, rest), size = self._root_and_rest(group), self._cut(len(group))
        destinations = np.repeat(rest, self.pieces)[:, None]
        pieces = np.tile(np.arange(self.pieces), len(rest))
        return Conditions.of(size, pieces, _rows(root, len(destinations)), destinations)


class Gather(_Rooted):
    """The root collects a share from every NPU; size is the buffer of the root."""

    kind = "gather"

    def _conditions(self, group: Ints) -> Conditions:
        (root, rest), size = self._root_and_rest(group), self._cut(len(group))
        sources = np.repeat(rest, self.pieces)[:, None]
        pieces = np.tile(np.arange(self.pieces), len(rest))
        return Conditions.of(size, pieces, sources, _rows(root, len(sources)))


@dataclass(frozen=True)
class SendRecv(Collective):
    """Every member of the group sends its buffer to the next: a plain send for two, pipeline stages for more.

    Parameters
    ----------
    size, group, chunks
        As for all collectives.
    cyclic
        Whether the last member sends to the first, as in the test of that name in nccl-tests.
    """

    cyclic: bool = False
    kind = "send-recv"

    def _check_shared(self) -> None:
        super()._check_shared()
        self._set("cyclic", yes_or_no(self.cyclic, f"{self.kind}: cyclic"))

    def _conditions(self, group: Ints) -> Conditions:
        if len(group) < 2:
            raise CollectiveError(
                f"{self.kind} needs a sender and a receiver; the group has one member"
            )
        size = self._cut(1)
        ahead = np.roll(group, -1) if self.cyclic else group[1:]
        sources = np.repeat(group[: len(ahead)], self.pieces)[:, None]
        destinations = np.repeat(ahead, self.pieces)[:, None]
        return Conditions.of(
            size, np.tile(np.arange(self.pieces), len(ahead)), sources, destinations
        )


def _others(group: Ints) -> Ints:
    """Row i: the group without its i-th member."""
    n = len(group)
    columns = np.arange(n - 1)[None, :]
    return group[columns + (columns >= np.arange(n)[:, None])]


def _rows(row: Ints, count: int) -> Ints:
    return np.broadcast_to(row, (count, len(row)))
