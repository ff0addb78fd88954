"""The bytes of Chakra execution traces as columns, one row per node, for millions of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Bools, Ints
from pccl.errors import FormatError
from pccl.formats import chakra_kernels
from pccl.formats.chakra import writer as chakra

__all__ = ["ABSENT", "ATTRIBUTES", "KINDS", "Nodes", "read_nodes"]

Bytes: TypeAlias = NDArray[np.uint8]
KINDS = {chakra.COMPUTE: "computes", chakra.SEND: "sends", chakra.RECEIVE: "receives"}
ATTRIBUTES = ("comm_size", "comm_src", "comm_dst", "comm_tag", "pccl_chunk", "pccl_reduce")
ABSENT = np.iinfo(np.int64).min  # the value of an attribute that a node does not have
# How AttributeProto writes whole numbers, by its fields: as they are, zigzag, or in bytes, with a sign or without.
_PLAIN, _ZIGZAG, _UNSIGNED, _SIGNED = (7, 9, 11, 13, chakra.BOOL), (15, 17), (19, 21), (23, 25)
_NUMBERS, _TEXTS = (chakra.ID, chakra.TYPE, chakra.DURATION), (chakra.NAME, chakra.ATTRIBUTE)


class Pairs(NamedTuple):
    """Lists of numbers: the node that each belongs to, and the number."""

    node: Ints
    value: Ints


@dataclass(frozen=True, eq=False)
class Nodes:
    """What the files of all ranks say, as they say it.

    Attributes
    ----------
    rank, id, kind, duration
        Whose node it is, its number there, its type, and how long it computes (picoseconds).
    attributes
        By name, the whole numbers that we know of; `ABSENT` where a node has none.
    waits, route
        For which numbers of its rank a node waits; and the links that a message takes.
    """

    paths: Sequence[Path]
    data: Bytes
    rank: Ints
    id: Ints
    kind: Ints
    duration: Ints
    attributes: dict[str, Ints]
    waits: Pairs
    route: Pairs
    name: tuple[Ints, Ints]

    def __len__(self) -> int:
        return len(self.rank)

    def text(self, row: int) -> str:
        """How messages name a node."""
        name = self.data[self.name[0][row] : self.name[1][row]].tobytes().decode(errors="replace")
        kind = int(self.kind[row])
        return f"rank {self.rank[row]}: node {self.id[row]} ({name!r}, {KINDS.get(kind, f'of type {kind}')})"

    def error(self, row: int, text: str) -> FormatError:
        """What is wrong with a node."""
        return FormatError(f"{self.paths[self.rank[row]]}: {self.text(row)} {text}")


class _Fields(NamedTuple):
    """Fields of messages: whose, which, and a number; or, where `stop` is not -1, bytes from `value` to `stop`."""

    owner: Ints
    tag: Ints
    value: Ints
    stop: Ints

    def where(self, chosen: Bools) -> _Fields:
        return _Fields(*(column[chosen] for column in self))


def read_nodes(paths: Sequence[Path]) -> tuple[Nodes, dict[str, Any]]:
    """Read the file of every rank: their nodes, and what we have noted in the first."""
    data, begin, end, rank = _load(paths)

    def refuse(message: int, text: str) -> FormatError:
        return FormatError(f"{paths[rank[message]]}: {text}")

    is_head = np.append(True, rank[1:] != rank[:-1])
    about = _about(data, begin[0], end[0], refuse)
    begin, end, rank = begin[~is_head], end[~is_head], rank[~is_head]
    idle = np.setdiff1d(np.arange(len(paths)), rank)
    if len(idle):
        raise FormatError(
            f"{paths[idle[0]]}: there is no node in it; a rank with nothing to do needs one that computes"
        )
    fields = _fields(data, begin, end, refuse)
    is_text = fields.stop >= 0
    wrong = np.where(np.isin(fields.tag, _NUMBERS), is_text, np.isin(fields.tag, _TEXTS) & ~is_text)
    if np.any(wrong):
        k = int(np.argmax(wrong))
        raise refuse(
            int(fields.owner[k]),
            f"field {fields.tag[k]} of a node is of the wrong type; is this a Chakra trace?",
        )
    name = (
        _last(fields, chakra.NAME, len(rank), 0),
        _last(fields._replace(value=fields.stop), chakra.NAME, len(rank), 0),
    )
    attributes, route = _attributes(data, fields, len(rank), refuse)
    nodes = Nodes(
        paths, data, rank, _last(fields, chakra.ID, len(rank), 0), _last(fields, chakra.TYPE, len(rank), 0),
        np.maximum(_last(fields, chakra.DURATION, len(rank), 0) * 10**6, 1000), attributes,
        _lists(data, fields.where(np.isin(fields.tag, (chakra.CONTROL, chakra.DATA))), refuse), route, name,
    )  # fmt: skip
    return nodes, about


def _load(paths: Sequence[Path]) -> tuple[Bytes, Ints, Ints, Ints]:
    """All files in one buffer, where each of their messages begins and ends, and of which rank it is."""
    contents, begins, ends, counts, size = [], [], [], [], 0
    for path in paths:
        try:
            content = np.frombuffer(path.read_bytes(), np.uint8)
        except OSError as error:
            raise FormatError(f"{path}: {error.strerror}") from None
        none = np.empty(0, np.int64)
        count = chakra_kernels.read_lengths(content, none, none)
        if count < 1:
            raise FormatError(
                f"{path}: {'the file ends within a message' if count else 'the file is empty'}"
            )
        begin, end = np.empty((2, count), np.int64)
        chakra_kernels.read_lengths(content, begin, end)
        contents.append(content)
        begins.append(begin + size)
        ends.append(end + size)
        counts.append(count)
        size += len(content)
    ranks = np.repeat(np.arange(len(paths)), counts)
    return np.concatenate(contents), np.concatenate(begins), np.concatenate(ends), ranks


_Refuse: TypeAlias = Callable[[int, str], FormatError]


def _fields(data: Bytes, begin: Ints, end: Ints, refuse: _Refuse) -> _Fields:
    none = np.empty(0, np.int64)
    count = chakra_kernels.read_fields(data, begin, end, none, none, none, none)
    if count < 0:
        raise refuse(-1 - count, "a message in it is malformed; is this a Chakra trace?")
    fields = _Fields(*np.empty((4, count), np.int64))
    if count:
        chakra_kernels.read_fields(data, begin, end, *fields)
    return fields


def _last(fields: _Fields, tag: int, count: int, default: int) -> Ints:
    """Per owner the value of a field; the last one counts, as protocol buffers have it."""
    values, chosen = np.full(count, default, np.int64), fields.tag == tag
    values[fields.owner[chosen]] = fields.value[chosen]
    return values


def _lists(data: Bytes, fields: _Fields, refuse: _Refuse) -> Pairs:
    """Numbers that are given one by one, or several in one field."""
    packed = fields.where(fields.stop >= 0)
    none = np.empty(0, np.int64)
    count = chakra_kernels.read_varints(data, packed.value, packed.stop, none, none)
    if count < 0:
        raise refuse(
            int(packed.owner[-1 - count]),
            "a list of numbers in it is malformed; is this a Chakra trace?",
        )
    place, value = np.empty((2, count), np.int64)
    if count:
        chakra_kernels.read_varints(data, packed.value, packed.stop, place, value)
    single = fields.where(fields.stop < 0)
    owner, value = (
        np.concatenate([single.owner, packed.owner[place]]),
        np.concatenate([single.value, value]),
    )
    order = np.argsort(owner, kind="stable")
    return Pairs(owner[order], value[order])


def _attributes(
    data: Bytes, fields: _Fields, count: int, refuse: _Refuse
) -> tuple[dict[str, Ints], Pairs]:
    """The attributes that we know, by name, and the routes."""
    given = fields.where(fields.tag == chakra.ATTRIBUTE)

    def refuse_attribute(attribute: int, text: str) -> FormatError:
        return refuse(int(given.owner[attribute]), text)

    inner = _fields(data, given.value, given.stop, refuse_attribute)
    named = inner.where((inner.tag == 1) & (inner.stop >= 0))
    number = _numbers(data, inner, len(given.owner))
    values = {}
    for name in ATTRIBUTES:
        values[name] = np.full(count, ABSENT, np.int64)
        chosen = named.owner[_spelled(data, named, name)]
        values[name][given.owner[chosen]] = number[chosen]
    routed = np.zeros(len(given.owner), np.bool_)
    routed[named.owner[_spelled(data, named, "pccl_route")]] = True
    lists = inner.where((inner.tag == chakra.INT64_LIST) & routed[inner.owner] & (inner.stop >= 0))

    def refuse_list(place: int, text: str) -> FormatError:
        return refuse_attribute(int(lists.owner[place]), text)

    links = _fields(data, lists.value, lists.stop, refuse_list)
    route = _lists(data, links.where(links.tag == 1), refuse_list)
    return values, Pairs(given.owner[lists.owner[route.node]], route.value)


def _spelled(data: Bytes, named: _Fields, name: str) -> Ints:
    """Which of these texts are this name, compared letter by letter."""
    places = np.flatnonzero(named.stop - named.value == len(name))
    for i, letter in enumerate(name.encode()):
        places = places[data[named.value[places] + i] == letter]
    return places


def _numbers(data: Bytes, fields: _Fields, count: int) -> Ints:
    """Per attribute its whole number, or `ABSENT`."""
    numbers, is_text = np.full(count, ABSENT, np.int64), fields.stop >= 0
    for tags, bytewise, read in (
        (_PLAIN, False, lambda f: f.value),
        (_ZIGZAG, False, lambda f: (f.value >> 1) ^ -(f.value & 1)),
        (_UNSIGNED, True, lambda f: _little_endian(data, f, "u")),
        (_SIGNED, True, lambda f: _little_endian(data, f, "i")),
    ):
        chosen = fields.where(np.isin(fields.tag, tags) & (is_text == bytewise))
        numbers[chosen.owner] = read(chosen)
    return numbers


def _little_endian(data: Bytes, fields: _Fields, sign: str) -> Ints:
    values = np.full(len(fields.owner), ABSENT, np.int64)
    for width in (4, 8):
        rows = np.flatnonzero(fields.stop - fields.value == width)
        content = data[fields.value[rows, None] + np.arange(width)]
        values[rows] = np.ascontiguousarray(content).view(f"<{sign}{width}")[:, 0]
    return values


def _about(data: Bytes, begin: int, end: int, refuse: _Refuse) -> dict[str, Any]:
    """What we have noted in the metadata; nothing in those of others."""
    head = _fields(data, np.array([begin]), np.array([end]), refuse)
    notes = head.where((head.tag == 2) & (head.stop >= 0))
    inner = _fields(data, notes.value, notes.stop, lambda _, text: refuse(0, text))
    texts = {
        (int(f[0]), int(f[1])): data[f[2] : f[3]].tobytes()
        for f in zip(*inner, strict=True)
        if f[3] >= 0
    }
    for note in range(len(notes.owner)):
        if texts.get((note, 1)) == b"pccl":
            try:
                return dict(json.loads(texts.get((note, chakra.STRING), b"")))
            except (TypeError, ValueError, RecursionError) as error:
                raise refuse(0, f"the metadata 'pccl' cannot be read: {error}") from None
    return {}
