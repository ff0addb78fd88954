"""Reads Chakra execution traces, ours or not, and refuses those that no simulator could run to their end.

The traces of a folder are one program: a node sends, receives or computes when all nodes that it names are done. What a
node sends, exactly one node of the other rank must receive: the same tag and the same size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from pccl.errors import FormatError
from pccl.export import chakra

__all__ = ["Node", "Trace", "read"]

_NAMES = {chakra.COMPUTE: "computes", chakra.SEND: "sends", chakra.RECEIVE: "receives"}
_INTEGERS = {7: "int32", 9: "int64", 11: "uint32", 13: "uint64"}  # of AttributeProto; zigzag and fixed ones are below
_ZIGZAG, _FIXED, _BOOL, _STRING = (15, 17), (19, 21, 23, 25), 27, 29


class Node(NamedTuple):
    """One thing that a rank does.

    Attributes
    ----------
    kind
        One of the types of Chakra for a computation, a send or a reception.
    waits_for
        Numbers of the nodes of the same rank that come first.
    duration
        Of a computation, in picoseconds.
    peer, tag, size
        Of a message: the other rank, what both ends call it, and bytes.
    chunk, reduce, route
        Of a message that we wrote: its chunk, whether it is added, and the links that it takes.
    """

    rank: int
    id: int
    name: str
    kind: int
    waits_for: tuple[int, ...]
    duration: int
    peer: int
    tag: int
    size: int
    chunk: int | None
    reduce: bool
    route: tuple[int, ...]

    def __str__(self) -> str:
        return f"rank {self.rank}: node {self.id} ({self.name!r}, {_NAMES[self.kind]})"


@dataclass(frozen=True)
class Trace:
    """The traces of all ranks.

    Attributes
    ----------
    nodes
        Of all ranks, by number and rank.
    messages
        Pairs of places in `nodes`: which node sends, and which receives.
    about
        What :mod:`pccl.export.chakra` has noted: the topology, its NPUs, and the collectives; or nothing.
    """

    nodes: tuple[Node, ...]
    messages: tuple[tuple[int, int], ...]
    num_ranks: int
    about: dict[str, Any]


def read(folder: str | Path, prefix: str = chakra.TRACE) -> Trace:
    """Read the files ``<prefix>.<rank>.et`` of a folder.

    Examples
    --------
    >>> import pccl, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = pccl.export(pccl.synthesize(pccl.topology.ring(4), pccl.AllGather("4MiB")), folder, "chakra")
    >>> len(read(folder).messages)
    12
    """
    paths = _paths(Path(folder), prefix)
    nodes, about = list[Node](), dict[str, Any]()
    for rank, path in enumerate(paths):
        try:
            head, *contents = _delimited(path.read_bytes())
            about = about or _about(head)
            found = [_node(rank, content) for content in contents]
            _check_rank(found, len(paths))
        except OSError as error:
            raise FormatError(f"{path}: {error.strerror}") from None
        except (FormatError, UnicodeDecodeError, RecursionError) as error:
            raise FormatError(f"{path}: {error}") from None
        nodes += found
    nodes.sort(key=lambda node: (node.id, node.rank))
    return Trace(tuple(nodes), tuple(_matched(nodes, Path(folder))), len(paths), about)


def _paths(folder: Path, prefix: str) -> list[Path]:
    ranks = {}
    for path in folder.glob(f"{prefix}.*.et") if folder.is_dir() else ():
        number = re.fullmatch(r"\.(\d+)\.et", path.name.removeprefix(prefix))
        if number:
            ranks[int(number[1])] = path
    if not ranks:
        raise FormatError(f"{folder}: there is no {prefix}.0.et")
    for rank in range(max(ranks) + 1):
        if rank not in ranks:
            raise FormatError(f"{folder}: there is a {prefix}.{max(ranks)}.et but no {prefix}.{rank}.et")
    return [ranks[rank] for rank in sorted(ranks)]


# --- what is in a file ------------------------------------------------------------------------------------------------


def _node(rank: int, content: bytes) -> Node:
    values: dict[str, Any] = {}
    number, name, kind, duration, waits_for = 0, "", 0, 0, []
    for tag, value in _fields(content):
        if tag == chakra.ID:
            number = _int(value)
        elif tag == chakra.NAME:
            name = _bytes(value).decode()
        elif tag == chakra.TYPE:
            kind = _int(value)
        elif tag in (chakra.CONTROL, chakra.DATA):
            waits_for += [value] if isinstance(value, int) else _varints(value)
        elif tag == chakra.DURATION:
            duration = _int(value)
        elif tag == chakra.ATTRIBUTE:
            values.update([_attribute(_bytes(value))])
    if kind not in _NAMES:
        raise FormatError(f"node {number} ({name!r}) has type {kind}; a collective only computes, sends and receives")
    peer = _peer(rank, number, kind, values)
    return Node(
        rank, number, name, kind, tuple(waits_for), max(duration * 10**6, 1000), peer, values.get("comm_tag", -1),
        values.get("comm_size", 0), values.get("pccl_chunk"), bool(values.get("pccl_reduce")),
        tuple(values.get("pccl_route", ())),
    )  # fmt: skip


def _peer(rank: int, number: int, kind: int, values: dict[str, Any]) -> int:
    """The other end of a message, whose attributes are all there and make sense."""
    if kind == chakra.COMPUTE:
        return -1
    own, other = ("comm_src", "comm_dst") if kind == chakra.SEND else ("comm_dst", "comm_src")
    for name in (other, "comm_tag", "comm_size"):
        if type(values.get(name)) is not int:
            raise FormatError(f"node {number}, which {_NAMES[kind]}, has no whole number {name!r}")
    if values.get(own, rank) != rank:
        raise FormatError(f"node {number}, which {_NAMES[kind]}, has {own} {values[own]}, but is a node of rank {rank}")
    if values["comm_size"] <= 0:
        raise FormatError(f"node {number}, which {_NAMES[kind]}, has comm_size {values['comm_size']}")
    return int(values[other])


def _check_rank(nodes: list[Node], num_ranks: int) -> None:
    known = {node.id for node in nodes}
    if not nodes:
        raise FormatError("there is no node in it; a rank with nothing to do needs one that computes")
    if len(known) < len(nodes):
        seen: set[int] = set()
        twice = next(node.id for node in nodes if node.id in seen or seen.add(node.id))  # type: ignore[func-returns-value]
        raise FormatError(f"there are two nodes {twice}")
    for node in nodes:
        for other in node.waits_for:
            if other not in known:
                raise FormatError(f"node {node.id} waits for node {other}, which is not there")
        if node.kind != chakra.COMPUTE and (node.peer == node.rank or not 0 <= node.peer < num_ranks):
            raise FormatError(f"node {node.id} {_NAMES[node.kind]}, but there is no other rank {node.peer}")


def _matched(nodes: list[Node], folder: Path) -> Iterator[tuple[int, int]]:
    """Pairs of sends and receptions that agree on both ranks, the tag and the size."""
    receptions: dict[tuple[int, ...], int] = {}
    for i, node in enumerate(nodes):
        if node.kind == chakra.RECEIVE:
            end = (node.peer, node.rank, node.tag, node.size)
            if end in receptions:
                other = nodes[receptions[end]].id
                raise FormatError(f"{folder}: {node}: node {other} receives the same tag and size from the same rank")
            receptions[end] = i
    open_ends = dict(receptions)
    for i, node in enumerate(nodes):
        if node.kind == chakra.SEND:
            end = (node.rank, node.peer, node.tag, node.size)
            if end not in open_ends:
                raise FormatError(f"{folder}: {node}: {_unmatched(node, end in receptions, nodes)}")
            yield i, open_ends.pop(end)
    for i in open_ends.values():
        raise FormatError(f"{folder}: {nodes[i]}: {_unmatched(nodes[i], False, nodes)}")


def _unmatched(node: Node, twice: bool, nodes: list[Node]) -> str:
    verb, ended = ("sends to", "receive") if node.kind == chakra.SEND else ("receives from", "send")
    what = f"it {verb} rank {node.peer} {node.size} bytes with tag {node.tag}"
    if twice:
        return f"{what}, and so does another node"
    opposite = chakra.SEND + chakra.RECEIVE - node.kind
    others = (n for n in nodes if (n.kind, n.rank, n.peer) == (opposite, node.peer, node.rank))
    near = [n for n in others if n.tag == node.tag or n.size == node.size]
    hint = f" (its node {near[0].id} has tag {near[0].tag} and {near[0].size} bytes)" if near else ""
    return f"{what}, which that rank does not {ended}{hint}"


def _about(head: bytes) -> dict[str, Any]:
    """What we have noted in the metadata; nothing in those of others."""
    for tag, value in _fields(head):
        if tag == 2:
            name, noted = _attribute(_bytes(value))
            if name == "pccl":
                try:
                    return dict(json.loads(noted))
                except (TypeError, ValueError) as error:
                    raise FormatError(f"the metadata 'pccl' cannot be read: {error}") from None
    return {}


# --- the wire format --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=100_000)  # most attributes are those of other nodes, byte for byte
def _attribute(content: bytes) -> tuple[str, Any]:
    name, result = "", cast(Any, None)
    for tag, value in _fields(content):
        if tag == 1:
            name = _bytes(value).decode()
        elif tag in _INTEGERS and isinstance(value, int):
            result = value - 2**64 if value >= 2**63 else value
        elif tag in _ZIGZAG and isinstance(value, int):
            result = value >> 1 ^ -(value & 1)
        elif tag in _FIXED:
            result = int.from_bytes(_bytes(value), "little", signed=tag > 21)
        elif tag == _BOOL:
            result = bool(value)
        elif tag == _STRING:
            result = _bytes(value).decode()
        elif tag == chakra.INT64_LIST:
            lists = (x for t, x in _fields(_bytes(value)) if t == 1)
            result = tuple(y for x in lists for y in ([x] if isinstance(x, int) else _varints(x)))
    return name, result


def _delimited(data: bytes) -> Iterator[bytes]:
    at = 0
    if not data:
        raise FormatError("the file is empty")
    while at < len(data):
        length, at = _varint(data, at)
        if at + length > len(data):
            raise FormatError(f"the file ends within a message that begins at byte {at}")
        yield data[at : at + length]
        at += length


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        value: int | bytes
        if key & 7 == 0:
            value, at = _varint(data, at)
        elif key & 7 in (1, 2, 5):
            length = {1: 8, 5: 4}.get(key & 7)
            if length is None:
                length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
            if at > len(data):
                raise FormatError("a field is longer than the message that it is in")
        else:
            raise FormatError(f"this is no protocol buffer: a field of wire type {key & 7}")
        yield key >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise FormatError("a number does not end")


def _varints(data: bytes) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        values.append(value)
    return values


def _int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise FormatError("this is no Chakra trace: a text or a message where a number belongs")
    return value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise FormatError("this is no Chakra trace: a number where a text or a message belongs")
    return value
