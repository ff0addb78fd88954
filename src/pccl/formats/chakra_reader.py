"""Reads Chakra execution traces, ours or not, and refuses those that no simulator could run to their end.

The traces of a folder are one program: a node sends, receives or computes when all nodes that it names are done. What a
node sends, exactly one node of the other rank must receive: the same tag and the same size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pccl._arrays import Bools, Ints
from pccl.errors import FormatError
from pccl.formats.chakra import writer as chakra
from pccl.formats.chakra_files import ABSENT, KINDS, Nodes, read_nodes

__all__ = ["Trace", "read"]


@dataclass(frozen=True, eq=False)
class Trace:
    """The traces of all ranks; nodes are known by their rows.

    Attributes
    ----------
    nodes
        The nodes of all ranks, in columns.
    peer
        Per node: the rank at the other end of its message.
    before, after
        Pairs of nodes of which the second waits for the first.
    sends, receptions
        Pairs of nodes that are the two ends of a message, by number and rank of the first.
    num_ranks
        How many ranks there are.
    about
        What :mod:`pccl.formats.chakra` has noted: the topology, its NPUs, and the collectives; or nothing.
    """

    nodes: Nodes
    peer: Ints
    before: Ints
    after: Ints
    sends: Ints
    receptions: Ints
    num_ranks: int
    about: dict[str, Any]


def read(folder: str | Path, prefix: str = chakra.TRACE) -> Trace:
    """Read the files ``<prefix>.<rank>.et`` of a folder.

    Examples
    --------
    >>> import pccl, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = pccl.export(pccl.synthesize(pccl.topology.ring(4), pccl.AllGather("4MiB", chunks=1)), folder, "chakra")
    >>> len(read(folder).sends)
    12
    """
    paths = _paths(Path(folder), prefix)
    nodes, about = read_nodes(paths)
    peer = _peers(nodes, len(paths))
    before, after = _dependencies(nodes)
    sends, receptions = _messages(nodes, peer)
    return Trace(nodes, peer, before, after, sends, receptions, len(paths), about)


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
            raise FormatError(
                f"{folder}: there is a {prefix}.{max(ranks)}.et but no {prefix}.{rank}.et"
            )
    return [ranks[rank] for rank in sorted(ranks)]


def _peers(nodes: Nodes, num_ranks: int) -> Ints:
    """The other end of each message, whose attributes are all there and make sense; -1 for computations."""
    _refuse(nodes, ~np.isin(nodes.kind, list(KINDS)), "cannot be part of a collective")
    peer, given = np.full(len(nodes), -1, np.int64), nodes.attributes
    for kind, own, other in (
        (chakra.SEND, "comm_src", "comm_dst"),
        (chakra.RECEIVE, "comm_dst", "comm_src"),
    ):
        rows = nodes.kind == kind
        for name in (other, "comm_tag", "comm_size"):
            _refuse(nodes, rows & (given[name] == ABSENT), f"has no whole number {name!r}")
        foreign = rows & (given[own] != ABSENT) & (given[own] != nodes.rank)
        _refuse(nodes, foreign, f"has {own} {{}}, but is in the file of another rank", given[own])
        peer[rows] = given[other][rows]
        nobody = rows & ((peer < 0) | (peer >= num_ranks) | (peer == nodes.rank))
        _refuse(nodes, nobody, "names rank {}, but there is no other rank of that number", peer)
        _refuse(nodes, rows & (given["comm_size"] <= 0), "has comm_size {}", given["comm_size"])
    return peer


def _dependencies(nodes: Nodes) -> tuple[Ints, Ints]:
    """Pairs of rows of which the second waits for the first."""
    codes = np.unique(np.concatenate([nodes.id, nodes.waits.value]), return_inverse=True)[
        1
    ].reshape(-1)
    own = nodes.rank * len(codes) + codes[: len(nodes)]
    asked = nodes.rank[nodes.waits.node] * len(codes) + codes[len(nodes) :]
    order = np.argsort(own, kind="stable")
    twice = np.zeros(len(nodes), np.bool_)
    twice[order[1:]] = own[order[1:]] == own[order[:-1]]
    _refuse(nodes, twice, "has the number of another node")
    place = np.minimum(np.searchsorted(own[order], asked), len(nodes) - 1)
    missing = np.flatnonzero(own[order][place] != asked)
    if len(missing):
        row, wanted = int(nodes.waits.node[missing[0]]), nodes.waits.value[missing[0]]
        raise nodes.error(row, f"waits for node {wanted}, which is not there")
    return order[place], nodes.waits.node


def _messages(nodes: Nodes, peer: Ints) -> tuple[Ints, Ints]:
    """Pairs of sends and receptions that agree on both ranks, the tag and the size."""
    tag, size = nodes.attributes["comm_tag"], nodes.attributes["comm_size"]
    sides = []
    for kind, src, dst in ((chakra.SEND, nodes.rank, peer), (chakra.RECEIVE, peer, nodes.rank)):
        rows = np.flatnonzero(nodes.kind == kind)
        rows = rows[np.lexsort((size[rows], tag[rows], dst[rows], src[rows]))]
        keys = np.stack([src[rows], dst[rows], tag[rows], size[rows]])
        same = np.flatnonzero(np.all(keys[:, 1:] == keys[:, :-1], axis=0))
        if len(same):
            first, second = rows[same[0]], rows[same[0] + 1]
            raise nodes.error(
                int(second),
                f"{_what(nodes, peer, int(second))}, and so does node {nodes.id[first]}",
            )
        sides.append((rows, keys))
    (sends, sent), (receptions, received) = sides
    if sent.shape != received.shape or not np.array_equal(sent, received):
        raise _unmatched(nodes, peer, sides)
    order = np.lexsort((nodes.rank[sends], nodes.id[sends]))
    return sends[order], receptions[order]


def _what(nodes: Nodes, peer: Ints, row: int) -> str:
    verb = "sends to" if nodes.kind[row] == chakra.SEND else "receives from"
    size, tag = nodes.attributes["comm_size"][row], nodes.attributes["comm_tag"][row]
    return f"{verb} rank {peer[row]} {size} bytes with tag {tag}"


def _unmatched(nodes: Nodes, peer: Ints, sides: list[tuple[Ints, Ints]]) -> FormatError:
    """The first message with only one end, and what comes near to its other end."""
    (sends, sent), (receptions, received) = sides
    both = min(len(sends), len(receptions))
    k = int(np.argmax(np.append(np.any(sent[:, :both] != received[:, :both], axis=0), True)))
    # Both are in order, so that of two that differ the smaller one has no counterpart.
    is_send = k == len(receptions) or (k < len(sends) and tuple(sent[:, k]) < tuple(received[:, k]))
    (rows, keys), (others, other_keys) = sides if is_send else sides[::-1]
    same = other_keys == keys[:, k : k + 1]
    matched = set(map(tuple, keys.T.tolist()))
    near = np.flatnonzero(same[0] & same[1] & (same[2] | same[3]))
    near = others[[i for i in near.tolist() if tuple(other_keys[:, i].tolist()) not in matched]]
    hint = f"; its node {nodes.id[near[0]]} {_what(nodes, peer, int(near[0]))}" if len(near) else ""
    verb = "receive" if is_send else "send"
    return nodes.error(
        int(rows[k]), f"{_what(nodes, peer, int(rows[k]))}, which that rank does not {verb}{hint}"
    )


def _refuse(nodes: Nodes, wrong: Bools, text: str, values: Ints | None = None) -> None:
    if np.any(wrong):
        row = int(np.argmax(wrong))
        raise nodes.error(row, text.format(*([] if values is None else [values[row]])))
