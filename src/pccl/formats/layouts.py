"""Where chunks lie in the buffers of the ranks, collective by collective, as NCCL and MPI define them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Indices, Ints
from pccl.collective import AllToAllV, Collective, Conditions, Custom
from pccl.errors import PcclError

__all__ = ["Layout", "lay_out"]


@dataclass(frozen=True, eq=False)
class Layout:
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


def lay_out(
    collective: Collective, conditions: Conditions, rank_of: Ints, ranks: int, padded: bool = False
) -> Layout:
    """Lay out one collective.

    Parameters
    ----------
    collective, conditions
        The collective, and its conditions alone.
    rank_of
        Per device: its rank, or -1.
    ranks
        How many ranks there are; more than members where others only relay.
    padded
        For an all-to-all of unequal shares: whether every share has the room of the largest.

    Examples
    --------
    >>> import pccl
    >>> gather = pccl.AllGather("4kB", chunks=2)
    >>> layout = lay_out(gather, gather.conditions(pccl.topology.ring(2)), np.arange(2), 2)
    >>> layout.input_offset.tolist(), layout.output_offset.tolist()
    ([0, 1000, 0, 1000], [0, 1000, 2000, 3000])
    """
    if isinstance(collective, AllToAllV):
        return _lay_out_unequal(collective, conditions, rank_of, ranks, padded)
    if isinstance(collective, Custom):
        return _lay_out_custom(collective, conditions, rank_of, ranks)
    chunk = int(conditions.bytes[0]) if len(conditions) else int(collective.size)
    within, share = conditions.piece.astype(np.int64) * chunk, chunk * collective.pieces
    source, destination = (
        rank_of[_first(ids, offsets)]
        for ids, offsets in (
            (conditions.source_ids, conditions.source_offsets),
            (conditions.destination_ids, conditions.destination_offsets),
        )
    )
    members = np.flatnonzero(
        np.isin(np.arange(ranks), rank_of[_members(collective, conditions, rank_of)])
    )
    one, each = np.full(ranks, share), np.full(ranks, share * ranks)
    zero, position = np.zeros(ranks, np.int64), np.arange(ranks) * share
    kind = collective.kind
    if kind == "all-gather":
        own = _rows(members, share, 0, position[members])
        return Layout(within, source * share + within, one, each, position, own)
    if kind == "reduce-scatter":
        return Layout(destination * share + within, within, each, one, -position, _none())
    if kind == "all-reduce":
        place, whole = np.arange(len(conditions)) * chunk, np.full(ranks, len(conditions) * chunk)
        return Layout(place, place, whole, whole, zero, _none())
    if kind == "all-to-all":
        own = _rows(members, share, position[members], position[members])
        return Layout(destination * share + within, source * share + within, each, each, zero, own)
    if kind in ("broadcast", "reduce", "send-recv"):
        own = _rows(np.unique(source), share, 0, 0) if kind == "broadcast" else _none()
        return Layout(within, within, one, one, None if kind == "send-recv" else zero, own)
    root = np.unique(source if kind == "scatter" else destination)
    if kind == "scatter":
        return Layout(
            destination * share + within,
            within,
            each,
            one,
            None,
            _rows(root, share, position[root], 0),
        )
    if kind == "gather":
        return Layout(
            within, source * share + within, one, each, None, _rows(root, share, 0, position[root])
        )
    raise PcclError(f"nobody has said where the chunks of {kind} lie in buffers")


def _lay_out_unequal(
    collective: AllToAllV, conditions: Conditions, rank_of: Ints, ranks: int, padded: bool
) -> Layout:
    """Shares one after another, in the order of the ranks at their other end."""
    shares = np.zeros((ranks, ranks), np.int64)
    member = rank_of[_members(collective, conditions, rank_of)]
    shares[np.ix_(member, member)] = np.array(collective.matrix, np.int64).reshape(
        len(member), len(member)
    )
    room = np.full_like(shares, shares.max(initial=0)) if padded else shares
    sent, received = np.cumsum(room, axis=1) - room, (np.cumsum(room, axis=0) - room).T
    source, destination = rank_of[conditions.source_ids], rank_of[conditions.destination_ids]
    within = conditions.piece.astype(np.int64) * conditions.bytes
    kept = member[shares[member, member] > 0]
    own = np.stack([kept, shares[kept, kept], sent[kept, kept], received[kept, kept]], axis=1)
    return Layout(
        sent[source, destination] + within,
        received[destination, source] + within,
        room.sum(axis=1),
        room.sum(axis=0),
        np.zeros(ranks, np.int64) if len(conditions.sizes[0]) == 1 and np.ptp(room) == 0 else None,
        own,
    )


def _lay_out_custom(
    collective: Custom, conditions: Conditions, rank_of: Ints, ranks: int
) -> Layout:
    """Every chunk has a place of its own, the same on all ranks, in the order of the pattern."""
    place = np.cumsum(conditions.bytes) - conditions.bytes
    whole = np.full(ranks, int(conditions.bytes.sum()))
    own = [
        (rank_of[source], int(row.size), place[i], place[i])
        for i, row in enumerate(collective.pattern)
        if not row.reduces
        for source in conditions.sources(i)
        if source in tuple(row.destinations)  # type: ignore[arg-type]
    ]
    return Layout(place, place, whole, whole, None, np.array(own, np.int64).reshape(-1, 4))


def _members(collective: Collective, conditions: Conditions, rank_of: Ints) -> Ints:
    """The devices of the group, in its order."""
    if collective.group is not None:
        return np.array(collective.ranks, np.int64)
    if collective.kind == "all-to-all-v" or not len(
        conditions
    ):  # some members may send and receive nothing
        return np.flatnonzero(rank_of >= 0)
    return np.unique(np.concatenate([conditions.source_ids, conditions.destination_ids])).astype(
        np.int64
    )


def _first(ids: Indices, offsets: Ints) -> Indices:
    """The first of each list; where a list is empty, whatever follows it."""
    return (
        ids[np.minimum(offsets[:-1], max(len(ids) - 1, 0))]
        if len(ids)
        else np.zeros(len(offsets) - 1, np.int32)
    )


def _rows(rank: Ints, size: int, read: Ints | int, write: Ints | int) -> Ints:
    return np.stack(np.broadcast_arrays(rank, size, read, write), axis=1).astype(np.int64)


def _none() -> Ints:
    return np.zeros((0, 4), np.int64)
