"""Threadblocks: who does which operation, on which channel, and what waits for what on a rank.

Each lane between two ranks is a sending threadblock on one and a receiving one on the other. Copies have threadblocks
of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pccl._arrays import Bools, Ints, offsets_by_owner, offsets_of
from pccl.errors import InternalError, PcclError
from pccl.formats.lowering import Program
from pccl.formats.lowering.ordering import sorted_events
from pccl.formats.lowering.ordering_kernels import find_waits
from pccl.formats.msccl.lanes import choose_lanes, split_lanes
from pccl.formats.msccl.operations import RECEIVING, SENDING, Operations, needs_of, operations
from pccl.formats.msccl.runs import Runs, runs_of
from pccl.formats.msccl.targets import MOST_COUNT, MOST_DEPENDED_ON, MOST_NODES, MOST_PEERS, Target
from pccl.formats.msccl.units import Units

__all__ = ["Threadblocks", "arrange"]


@dataclass(frozen=True, eq=False)
class Threadblocks:
    """All threadblocks, rank by rank, and what they do.

    Attributes
    ----------
    rank, send, recv, chan, lane
        Per threadblock; the peers are -1 where there is none.
    number
        Per threadblock: what it is called on its rank.
    work, block, position
        All operations by threadblock and in order; per operation its threadblock, and its place there.
    wait_offsets, waits
        Operation `i` waits for those in ``waits[wait_offsets[i]:wait_offsets[i + 1]]``.
    """

    rank: Ints
    send: Ints
    recv: Ints
    chan: Ints
    lane: Ints
    number: Ints
    work: Operations
    block: Ints
    position: Ints
    wait_offsets: Ints
    waits: Ints

    def __len__(self) -> int:
        return len(self.rank)

    @property
    def channels(self) -> int:
        """How many channels there are."""
        return int(self.chan.max()) + 1

    @property
    def per_rank(self) -> Ints:
        """How many threadblocks each rank has; all have one at least."""
        return np.bincount(self.rank)

    @property
    def steps_of(self) -> Ints:
        """Per operation: its steps in the file; every wait beyond the first needs one of its own."""
        return np.maximum(1, np.diff(self.wait_offsets))

    @property
    def steps(self) -> Ints:
        """Per threadblock: its steps in the file."""
        return np.bincount(self.block, self.steps_of, len(self)).astype(np.int64)

    @property
    def awaited(self) -> Bools:
        """Per operation: whether others wait for it."""
        return np.bincount(self.waits, minlength=len(self.work)) > 0


def arrange(
    program: Program, units: Units, target: Target, channels: int | None = None
) -> Threadblocks:
    """The threadblocks of all ranks, within the limits of the target."""
    lanes = choose_lanes(program, units.instances, target, channels)
    while True:
        runs = runs_of(program, units, lanes.messages)
        blocks = _blocks(program, units, operations(program, units, lanes, runs))
        _check(blocks, program, units, target)
        if blocks.steps.max() <= target.steps:
            blocks = _with_waits(program, runs, blocks)
            _check(blocks, program, units, target)
        if blocks.steps.max() <= target.steps:
            return _numbered(blocks)
        before, lanes = lanes, split_lanes(program, lanes, runs, _too_long(blocks, target))
        if np.array_equal(before.messages, lanes.messages) and np.array_equal(
            before.copies, lanes.copies
        ):
            raise PcclError(_indivisible(blocks, target))


def _blocks(program: Program, units: Units, work: Operations) -> Threadblocks:
    """Operations put into threadblocks, in the order of their times; a rank without any has one that does nothing."""
    by_time = np.argsort(work.time, kind="stable")
    key = np.zeros(len(work), np.int64)
    for column in (work.rank, work.instance, work.way, work.peer + 1, work.lane):
        key = key * (int(column.max(initial=0)) + 1) + column
    _, first, which = np.unique(key[by_time], return_index=True, return_inverse=True)
    example = by_time[first]
    idle = np.setdiff1d(np.arange(len(program.npus)), work.rank)
    order = np.lexsort((np.concatenate([first, idle]), np.concatenate([work.rank[example], idle])))
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    block = number[which]
    by_block = np.argsort(block, kind="stable")
    instance, way, peer, lane, rank = (
        np.concatenate([column[example], np.full(len(idle), other)])[order]
        for column, other in (
            (work.instance, 0),
            (work.way, -1),
            (work.peer, -1),
            (work.lane, 0),
            (work.rank, 0),
        )
    )
    rank[number[len(example) :]] = idle
    send, recv = (np.where(way == this, peer, -1) for this in (SENDING, RECEIVING))
    chan = _channels(program, units, rank, way, peer, lane, instance)
    block, nothing = block[by_block], np.zeros(0, np.int64)
    position = np.arange(len(block)) - offsets_by_owner(block, len(order))[block]
    return Threadblocks(
        rank, send, recv, chan, lane, np.arange(len(order)), work.taken(by_time[by_block]), block, position,
        np.zeros(len(block) + 1, np.int64), nothing,
    )  # fmt: skip


def _channels(
    program: Program, units: Units, rank: Ints, way: Ints, peer: Ints, lane: Ints, instance: Ints
) -> Ints:
    """One for each lane and instance, or several, by how far apart ranks are, so that none has too many peers."""
    pairs = np.unique(program.messages.src * len(program.npus) + program.messages.dst)
    peers = max(
        (int(np.bincount(ends).max(initial=0)) for ends in np.divmod(pairs, len(program.npus))),
        default=0,
    )
    sides = -(-len(program.npus) // MOST_PEERS) if peers > MOST_PEERS else 1
    ahead = np.where(way == SENDING, peer - rank, rank - peer) % len(program.npus)
    side = ahead // MOST_PEERS if sides > 1 else 0
    return np.where(peer >= 0, (lane * sides + side) * units.instances + instance, 0)


def _with_waits(program: Program, runs: Runs, blocks: Threadblocks) -> Threadblocks:
    """What every operation has to wait for beyond what it knows already from those before it, on its own rank."""
    work, block, count = blocks.work, blocks.block, len(blocks.work)
    first, then = needs_of(program, runs, work)
    apart = block[first] != block[then]
    first, then = first[apart], then[apart]
    by = np.lexsort((first, -work.time[first], then))
    first, then = first[by], then[by]
    follows = np.flatnonzero(blocks.position > 0)
    order = sorted_events(
        work.time, np.concatenate([first, follows - 1]), np.concatenate([then, follows])
    )
    if len(order) < count:
        rank = work.rank[np.setdiff1d(np.arange(count), order)[0]]
        raise InternalError(f"rank {rank}: operations wait for each other in a circle")
    needs, waits = offsets_by_owner(then, count), np.zeros(len(first), np.bool_)
    order = order[np.argsort(work.rank[order], kind="stable")]
    begin, ranks = offsets_of(blocks.per_rank), len(program.npus)
    local, done = block - begin[work.rank], offsets_by_owner(work.rank, ranks)
    for rank in range(ranks):
        low, high, size = int(done[rank]), int(done[rank + 1]), int(begin[rank + 1] - begin[rank])
        known, history = np.full((size, size), -1, np.int64), np.empty((high - low, size), np.int64)
        find_waits(
            order[low:high], low, local, blocks.position, needs, first, known, history, waits
        )
    return replace(blocks, wait_offsets=offsets_by_owner(then[waits], count), waits=first[waits])


def _numbered(blocks: Threadblocks) -> Threadblocks:
    """Threadblocks that others wait for get the first numbers, as only few numbers can be waited for."""
    idle = np.bincount(blocks.block[blocks.awaited], minlength=len(blocks)) == 0
    order = np.lexsort((np.arange(len(blocks)), blocks.recv < 0, idle, blocks.rank))
    number = np.empty(len(blocks), np.int64)
    number[order] = np.arange(len(blocks))
    begin = np.cumsum(blocks.per_rank) - blocks.per_rank
    return replace(blocks, number=number - begin[blocks.rank])


# --- limits -----------------------------------------------------------------------------------------------------------


def _too_long(blocks: Threadblocks, target: Target) -> dict[tuple[int, int, int], int]:
    """Lanes with too many steps (sender, receiver or -1 for copies, lane), and how many each should become."""
    found: dict[tuple[int, int, int], int] = {}
    steps = blocks.steps
    for b in np.flatnonzero(steps > target.steps).tolist():
        rank, send, recv = (int(column[b]) for column in (blocks.rank, blocks.send, blocks.recv))
        lane = (*((recv, rank) if recv >= 0 else (rank, send)), int(blocks.lane[b]))
        found[lane] = max(found.get(lane, 0), -(-int(steps[b]) // target.steps))
    return found


def _indivisible(blocks: Threadblocks, target: Target) -> str:
    rank = int(blocks.rank[np.argmax(blocks.steps)])
    return (
        f"rank {rank} needs {blocks.steps.max()} steps for one message or copy, more than the {target.steps} of a "
        f"threadblock of {target.runtime}, as a step moves at most {MOST_COUNT} chunks; use shares with a larger "
        "common divisor, or the format mscclpp"
    )


def _check(blocks: Threadblocks, program: Program, units: Units, target: Target) -> None:
    """Raise, naming the limit and what would help, if splitting further cannot end well."""
    if blocks.channels > target.channels:
        raise PcclError(
            f"it takes more than {target.channels} channels with {target.steps} steps to a threadblock, the limits of "
            f"{target.runtime}; {_fewer(program, units)}"
        )
    own = blocks.per_rank
    awaited = np.bincount(blocks.rank[np.unique(blocks.block[blocks.awaited])], minlength=len(own))
    nodes = 1 + len(own) + own + np.bincount(blocks.rank, blocks.steps, len(own)).astype(np.int64)
    broken = (own > target.threadblocks) | (awaited > MOST_DEPENDED_ON + 1) | (nodes > MOST_NODES)
    if not broken.any():
        return
    rank = int(np.argmax(broken))
    if own[rank] > target.threadblocks:
        peers = len(np.setdiff1d(blocks.send[blocks.rank == rank], [-1]))
        raise PcclError(
            f"rank {rank} needs {own[rank]} threadblocks to send to {peers} others, more than the "
            f"{target.threadblocks} of {target.runtime}; use fewer channels or instances, a sparser schedule, or "
            "another target"
        )
    if awaited[rank] > MOST_DEPENDED_ON + 1:
        raise PcclError(
            f"rank {rank}: others wait for {awaited[rank]} of its threadblocks, more than the {MOST_DEPENDED_ON + 1} "
            f"that the runtimes can number; {_fewer(program, units)}"
        )
    raise PcclError(
        f"rank {rank} needs {nodes[rank]:,} elements in the file or more, but the runtimes read {MOST_NODES:,}; "
        f"{_fewer(program, units)}"
    )


def _fewer(program: Program, units: Units) -> str:
    """What makes a file smaller."""
    many = [
        name
        for name, count in (("chunks", program.collective.pieces), ("instances", units.instances))
        if count > 1
    ]
    if many:
        return f"use fewer {' or '.join(many)}"
    return (
        "its ranks pass on too many messages: use a smaller group, a network with shorter ways, "
        "or the format mscclpp"
    )
