"""The collectives: small immutable descriptions of what a process group wants.

Sizes count the buffer of one NPU as nccl-tests does: the whole gathered or scattered array for All-Gather,
Reduce-Scatter and All-to-All (its own share included). ``chunks`` cuts every share into equal pieces that travel
separately. Without a ``group`` a collective spans all NPUs.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pccl.collective.conditions import Conditions
from pccl.collective.groups import format_group
from pccl.errors import CollectiveError
from pccl.topology import Topology
from pccl.units import Bytes, Size, parse

__all__ = [
    "COLLECTIVES",
    "AllGather",
    "AllReduce",
    "AllToAll",
    "AllToAllV",
    "Broadcast",
    "Collective",
    "Condition",
    "Custom",
    "Gather",
    "Reduce",
    "ReduceScatter",
    "Scatter",
    "SendRecv",
    "collective_from_dict",
    "compile_conditions",
]

Ints = NDArray[np.int64]
_MOST_CHUNKS = 2**31 - 1  # pieces are numbered in 32 bits


@dataclass(frozen=True)
class Collective:
    """What all collectives share; use one of the kinds.

    Parameters
    ----------
    size
        Buffer of one NPU, for example ``"8MiB"``.
    group
        The NPUs that take part, in the order of their ranks; ``None`` for all of them.
    chunks
        Into how many pieces every share is cut.
    """

    size: Size
    group: Iterable[int] | None = None
    chunks: int = 1

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        self._set("size", parse(Bytes, self.size, f"size of {self.kind}"))
        if self.size == 0:
            raise CollectiveError(f"{self.kind} has a size of 0; it must be positive")
        self._check_shared()

    def _check_shared(self) -> None:
        if self.group is not None:
            self._set("group", _npus(self.group, f"{self.kind}: the group"))
            self._check_group(self.ranks)
        chunks = None if isinstance(self.chunks, bool) else _whole(self.chunks)
        if chunks is None or chunks < 1:
            raise CollectiveError(f"{self.kind}: chunks must be a positive whole number, not {self.chunks!r}")
        if chunks > _MOST_CHUNKS:
            raise CollectiveError(f"{self.kind}: {chunks} chunks are too many; {_MOST_CHUNKS} is the limit")
        self._set("chunks", chunks)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The group as a tuple; empty when it spans all NPUs."""
        return tuple(self.group) if self.group is not None else ()

    def conditions(self, topology: Topology) -> Conditions:
        """One condition per chunk, on this topology."""
        if self.group is None:
            return self._conditions(topology.npus)
        for rank in self.ranks:
            check_npu(topology, rank, self.kind)
        return self._conditions(np.array(self.ranks, np.int64))

    def _conditions(self, group: Ints) -> Conditions:
        raise NotImplementedError

    def _check_group(self, group: tuple[int, ...]) -> None:
        if not group:
            raise CollectiveError(f"{self.kind}: the group is empty")
        if len(set(group)) < len(group):
            twice = next(rank for i, rank in enumerate(group) if rank in group[:i])
            raise CollectiveError(f"{self.kind}: NPU {twice} appears twice in the group")

    def _cut(self, shares: int) -> int:
        """Bytes of one chunk when the buffer consists of this many shares."""
        size, parts = int(self.size), shares * self.chunks
        if size % parts:
            near = Bytes(max(1, round(size / parts)) * parts)
            raise CollectiveError(
                f"{self.kind}: size {self.size} does not divide into {shares} x {self.chunks} chunks; try {near}"
            )
        return size // parts

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __str__(self) -> str:
        """One line for people."""
        who = "all NPUs" if self.group is None else f"{len(self.ranks)} NPUs ({_shortened(format_group(self.ranks))})"
        return f"{self.kind} of {self.size} among {who}, {self.chunks} {'chunk' if self.chunks == 1 else 'chunks'}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data that :func:`collective_from_dict` reads back."""
        data: dict[str, Any] = {"kind": self.kind}
        for f in fields(self):
            value = getattr(self, f.name)
            if value != f.default:
                data[f.name] = str(value) if isinstance(value, Bytes) else _plain(value)
        return data


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
        sources = np.repeat(group[:, None], self.chunks, axis=0)
        destinations = np.repeat(_others(group), self.chunks, axis=0)
        return Conditions.of(size, np.tile(np.arange(self.chunks), n), sources, destinations)


class ReduceScatter(Collective):
    """Every NPU ends with the sum of all NPUs' values for its own share."""

    kind = "reduce-scatter"

    def _conditions(self, group: Ints) -> Conditions:
        n, size = len(group), self._cut(len(group))
        sources = np.broadcast_to(group, (n * self.chunks, n))
        destinations = np.repeat(group[:, None], self.chunks, axis=0)
        return Conditions.of(size, np.tile(np.arange(self.chunks), n), sources, destinations, reduces=True)


class AllReduce(Collective):
    """Every NPU ends with the sum of all NPUs' values for the whole buffer."""

    kind = "all-reduce"

    def _conditions(self, group: Ints) -> Conditions:
        n, size = len(group), self._cut(len(group))
        members = np.broadcast_to(group, (n * self.chunks, n))
        return Conditions.of(size, np.tile(np.arange(self.chunks), n), members, members, reduces=True)


class AllToAll(Collective):
    """Every NPU sends a share of its own to every other."""

    kind = "all-to-all"

    def _conditions(self, group: Ints) -> Conditions:
        n, size = len(group), self._cut(len(group))
        sources = np.repeat(group, (n - 1) * self.chunks)[:, None]
        destinations = np.repeat(_others(group).ravel(), self.chunks)[:, None]
        return Conditions.of(size, np.tile(np.arange(self.chunks), n * (n - 1)), sources, destinations)


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
        self, matrix: Sequence[Sequence[int | str]], group: Iterable[int] | None = None, chunks: int = 1
    ) -> None:
        for name, value in (("matrix", matrix), ("group", group), ("chunks", chunks)):
            self._set(name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        try:
            rows = [list(row) for row in self.matrix]
        except TypeError:
            raise CollectiveError(f"{self.kind}: the matrix must be a list of rows, not {self.matrix!r}") from None
        self._set("matrix", tuple(tuple(self._entry(entry) for entry in row) for row in rows))
        for i, row in enumerate(self.matrix):
            if len(row) != len(self.matrix):
                raise CollectiveError(f"{self.kind}: row {i} has {len(row)} entries; the matrix must be square")
        self._set("size", Bytes(max((sum(map(int, row)) for row in self.matrix), default=0)))
        self._check_shared()
        if self.group is not None:
            self._check_fits(len(self.ranks))

    def _entry(self, entry: int | str) -> int:
        if not isinstance(entry, str):
            count = _whole(entry)
            if count is None or count < 0:
                raise CollectiveError(f"{self.kind}: the matrix holds {entry!r}; bytes are whole and not negative")
            entry = Bytes(count)
        return int(parse(Bytes, entry, f"entry of the matrix of {self.kind}"))

    def _check_fits(self, members: int) -> None:
        if members != len(self.matrix):
            rows = len(self.matrix)
            raise CollectiveError(f"{self.kind}: the matrix is {rows} x {rows}, but the group has {members} members")

    def _conditions(self, group: Ints) -> Conditions:
        self._check_fits(len(group))
        matrix = np.array(self.matrix, np.int64).reshape(len(group), len(group))
        uneven = np.argwhere(matrix % self.chunks)
        if len(uneven):
            i, j = uneven[0].tolist()
            raise CollectiveError(
                f"{self.kind}: {matrix[i, j]} bytes from member {i} to {j} do not divide into {self.chunks} chunks"
            )
        i, j = np.nonzero(matrix * (1 - np.eye(len(group), dtype=np.int64)))
        sources, destinations = (np.repeat(group[k], self.chunks)[:, None] for k in (i, j))
        sizes = np.repeat(matrix[i, j] // self.chunks, self.chunks)
        return Conditions.of(sizes, np.tile(np.arange(self.chunks), len(i)), sources, destinations)

    def to_dict(self) -> dict[str, Any]:
        """Plain data that :func:`collective_from_dict` reads back."""
        return {name: value for name, value in super().to_dict().items() if name != "size"}


@dataclass(frozen=True)
class _Rooted(Collective):
    """A collective with one NPU that is special; the first of the group unless said otherwise."""

    root: int | None = None

    def _check_shared(self) -> None:
        if self.root is not None:
            root = _whole(self.root)
            if root is None:
                raise CollectiveError(f"{self.kind}: the root must be the number of an NPU, not {self.root!r}")
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
        pieces = np.arange(self.chunks)
        return Conditions.of(size, pieces, _rows(root, self.chunks), _rows(rest, self.chunks))


class Reduce(_Rooted):
    """The root ends with the sum of all NPUs' buffers."""

    kind = "reduce"

    def _conditions(self, group: Ints) -> Conditions:
        (root, _), size = self._root_and_rest(group), self._cut(1)
        pieces = np.arange(self.chunks)
        return Conditions.of(size, pieces, _rows(group, self.chunks), _rows(root, self.chunks), reduces=True)


class Scatter(_Rooted):
    """The root sends every NPU a share of its own; size is the buffer of the root."""

    kind = "scatter"

    def _conditions(self, group: Ints) -> Conditions:
        (root, rest), size = self._root_and_rest(group), self._cut(len(group))
        destinations = np.repeat(rest, self.chunks)[:, None]
        pieces = np.tile(np.arange(self.chunks), len(rest))
        return Conditions.of(size, pieces, _rows(root, len(destinations)), destinations)


class Gather(_Rooted):
    """The root collects a share from every NPU; size is the buffer of the root."""

    kind = "gather"

    def _conditions(self, group: Ints) -> Conditions:
        (root, rest), size = self._root_and_rest(group), self._cut(len(group))
        sources = np.repeat(rest, self.chunks)[:, None]
        pieces = np.tile(np.arange(self.chunks), len(rest))
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
        self._set("cyclic", _yes_or_no(self.cyclic, f"{self.kind}: cyclic"))

    def _conditions(self, group: Ints) -> Conditions:
        if len(group) < 2:
            raise CollectiveError(f"{self.kind} needs a sender and a receiver; the group has one member")
        size = self._cut(1)
        ahead = np.roll(group, -1) if self.cyclic else group[1:]
        sources = np.repeat(group[: len(ahead)], self.chunks)[:, None]
        destinations = np.repeat(ahead, self.chunks)[:, None]
        return Conditions.of(size, np.tile(np.arange(self.chunks), len(ahead)), sources, destinations)


@dataclass(frozen=True)
class Condition:
    """What one chunk of a :class:`Custom` collective starts from and where it must end.

    Parameters
    ----------
    sources
        The NPU that has the chunk, or all contributors of a reduction.
    destinations
        The NPUs that must end with it.
    size
        Bytes of the chunk, with a unit.
    reduces
        Whether the sources contribute to a sum.
    """

    sources: int | Iterable[int]
    destinations: int | Iterable[int]
    size: Size
    reduces: bool = False

    def __post_init__(self) -> None:
        for name in ("sources", "destinations"):
            value, one = getattr(self, name), _whole(getattr(self, name))
            ranks = _npus(value, f"{name} of a condition") if one is None else (one,)
            object.__setattr__(self, name, ranks)
            if not ranks or len(set(ranks)) < len(ranks):
                raise CollectiveError(f"a condition with {name} {list(ranks)}: there must be some, each only once")
        object.__setattr__(self, "reduces", _yes_or_no(self.reduces, "reduces of a condition"))
        object.__setattr__(self, "size", parse(Bytes, self.size, "size of a condition"))
        if self.size == 0:
            raise CollectiveError("a condition has a size of 0; it must be positive")
        if not self.reduces and len(self.sources) != 1:  # type: ignore[arg-type]
            raise CollectiveError(f"a condition that does not reduce has one source, not {self.sources}")


@dataclass(frozen=True)
class Custom(Collective):
    """Any pattern at all, condition by condition.

    Examples
    --------
    >>> Custom([Condition(0, [1, 2], "1MiB"), Condition([1, 2], 0, "4KiB", reduces=True)]).group
    (0, 1, 2)
    """

    size: Bytes = field(init=False)
    group: tuple[int, ...] = field(init=False)
    chunks: int = field(init=False, default=1)
    pattern: Sequence[Condition] = ()
    kind = "custom"

    def __init__(self, pattern: Iterable[Condition | Mapping[str, Any]]) -> None:
        rows = tuple(row if isinstance(row, Condition) else Condition(**row) for row in pattern)
        if not rows:
            raise CollectiveError(f"{self.kind}: there is no condition")
        members = {rank for row in rows for rank in (*_ranks(row.sources), *_ranks(row.destinations))}
        self._set("pattern", rows)
        self._set("group", tuple(sorted(members)))
        self._set("size", Bytes(sum(int(row.size) for row in rows)))
        self._set("chunks", 1)

    def _conditions(self, group: Ints) -> Conditions:  # noqa: ARG002
        parts = []
        for row in self.pattern:
            sources, destinations = np.array(_ranks(row.sources)), np.array(_ranks(row.destinations))
            if not row.reduces:
                destinations = destinations[destinations != sources[0]]
            parts.append(Conditions.of(int(row.size), 0, sources[None], destinations[None], row.reduces))
        return Conditions.join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain data that :func:`collective_from_dict` reads back."""
        rows = [
            {
                "sources": list(_ranks(row.sources)),
                "destinations": list(_ranks(row.destinations)),
                "size": str(row.size),
                "reduces": row.reduces,
            }
            for row in self.pattern
        ]
        return {"kind": self.kind, "pattern": rows}


COLLECTIVES: dict[str, type[Collective]] = {
    cls.kind: cls
    for cls in (
        AllGather, ReduceScatter, AllReduce, AllToAll, AllToAllV, Broadcast, Reduce, Scatter, Gather, SendRecv, Custom,
    )
}  # fmt: skip


def compile_conditions(topology: Topology, collectives: Sequence[Collective]) -> Conditions:
    """Conditions of all collectives together, checked against the topology.

    Examples
    --------
    >>> import pccl
    >>> conditions = compile_conditions(pccl.topology.ring(4), [AllGather(size="4KiB")])
    >>> len(conditions), conditions.sources(1).tolist(), conditions.destinations(1).tolist()
    (4, [1], [0, 2, 3])
    """
    if not collectives:
        raise CollectiveError("there is nothing to do: give at least one collective")
    for collective in collectives:
        if not isinstance(collective, Collective):
            raise CollectiveError(f"{collective!r} is not a collective")
    return Conditions.join([collective.conditions(topology) for collective in collectives])


def collective_from_dict(data: Mapping[str, Any]) -> Collective:
    """Build a collective from plain data: its kind, and its parameters by name.

    Examples
    --------
    >>> collective_from_dict({"kind": "broadcast", "size": "1MiB", "root": 2})
    Broadcast(size=Bytes(1048576), group=None, chunks=1, root=2)
    """
    if not isinstance(data, Mapping):
        raise CollectiveError(f"a collective is given by its kind and its parameters, not by {data!r}")
    arguments = dict(data)
    kind = arguments.pop("kind", None)
    if not isinstance(kind, str) or kind not in COLLECTIVES:
        raise CollectiveError(f"there is no collective {kind!r}; there are {', '.join(COLLECTIVES)}")
    try:
        return COLLECTIVES[kind](**arguments)
    except TypeError as error:
        allowed = ", ".join(f.name for f in fields(COLLECTIVES[kind]))
        raise CollectiveError(f"{kind}: {error}; its parameters are {allowed}") from None


def check_npu(topology: Topology, device: int, what: str) -> None:
    """Raise unless the device is an NPU of the topology."""
    if not 0 <= device < topology.num_devices:
        present = _shortened(format_group(topology.npus.tolist()))
        raise CollectiveError(f"{what}: there is no NPU {device} in {topology.name}, which has NPUs {present}")
    if topology.is_switch(device):
        raise CollectiveError(f"{what}: device {device} ({topology.labels[device]}) is a switch, not an NPU")
    if device not in topology.npus:
        raise CollectiveError(f"{what}: NPU {device} is absent from {topology.name}")


def _whole(value: object) -> int | None:
    """The value as an integer of Python, if it is an integer of any kind."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def _npus(value: object, what: str) -> tuple[int, ...]:
    try:
        if not isinstance(value, str | Mapping):
            return tuple(operator.index(rank) for rank in value)  # type: ignore[attr-defined]
    except TypeError:
        pass
    raise CollectiveError(f"{what} must be a list of NPU numbers, not {value!r}")


def _yes_or_no(value: object, what: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise CollectiveError(f"{what} must be true or false, not {value!r}")
    return bool(value)


def _others(group: Ints) -> Ints:
    """Row i: the group without its i-th member."""
    n = len(group)
    columns = np.arange(n - 1)[None, :]
    return group[columns + (columns >= np.arange(n)[:, None])]


def _rows(row: Ints, count: int) -> Ints:
    return np.broadcast_to(row, (count, len(row)))


def _ranks(value: int | Iterable[int]) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


def _plain(value: object) -> object:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _shortened(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
