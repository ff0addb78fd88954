"""Threadblocks: who does which operation, on which channel, and what waits for what on a rank.

Each lane between two ranks is a sending threadblock on one and a receiving one on the other. Copies have threadblocks
of their own.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from pccl._arrays import Bools, Ints, distinct, inverse, offsets_by_owner, offsets_of
from pccl.errors import InternalError, PcclError
from pccl.formats.lowering import Program
from pccl.formats.lowering.kernels import find_waits
from pccl.formats.lowering.ordering import sorted_events
from pccl.formats.msccl.lanes import Runs, choose_lanes, in_turn, runs_of, split_lanes
from pccl.formats.msccl.operations import (
    RECEIVING,
    SENDING,
    Operations,
    needs_of,
    operations,
)
from pccl.formats.msccl.targets import MOST_COUNT, MOST_DEPENDED_ON, MOST_NODES, MOST_PEERS, Target
from pccl.formats.msccl.units import Units
from pccl.units import counted


class _CircleError(InternalError):
    """Operations wait for each other."""


@dataclass(frozen=True, eq=False)
class Threadblocks:
    """All threadblocks, rank by rank, and what they do; ranks without anything to do have none.

    Attributes
    ----------
    ranks
        How many ranks there are.
    own, chan
        Per threadblock: its first operation, which says whose it is, and its channel.
    number
        Per threadblock: what it is called on its rank.
    work, block, position
        All operations by threadblock and in order; per operation its threadblock, and its place there.
    lanes
        Per message: which of the lanes between its ranks it is in.
    wait_offsets, waits
        Operation `i` waits for those in ``waits[wait_offsets[i]:wait_offsets[i + 1]]``.
    """

    ranks: int
    own: Operations
    chan: Ints
    number: Ints
    work: Operations
    block: Ints
    position: Ints
    lanes: Ints
    wait_offsets: Ints
    waits: Ints

    def __len__(self) -> int:
        return len(self.own)

    @property
    def channels(self) -> int:
        """How many channels there are."""
        return int(self.chan.max(initial=0)) + 1

    @property
    def per_rank(self) -> Ints:
        """How many threadblocks each rank has."""
        return np.bincount(self.own.rank, minlength=self.ranks)

    @property
    def steps_of(self) -> Ints:
        """Per operation: its steps in the file; every wait beyond the first needs one of its own."""
        return np.maximum(1, np.diff(self.wait_offsets))

    @property
    def steps(self) -> Ints:
        """Per threadblock: its steps in the file."""
        return np.bincount(self.block, self.steps_of, len(self)).astype(np.int64)

    @property
    def most_steps(self) -> int:
        """The steps of the longest threadblock."""
        return int(self.steps.max(initial=0))

    @property
    def awaited(self) -> Bools:
        """Per operation: whether others wait for it."""
        return np.bincount(self.waits, minlength=len(self.work)) > 0


def arrange(
    program: Program,
    units: Units,
    target: Target,
    channels: int | None = None,
    joined: bool = True,
) -> Threadblocks:
    """The threadblocks of all ranks, within the limits of the target, and of the channels between two ranks.

    Messages that lie side by side are joined, unless they are not to be.
    """
    try:
        return _arranged(program, units, target, channels, joined)
    except PcclError:
        # Fewer threadblocks may do, if messages then wait for others.
        if channels is None:
            with suppress(PcclError):
                return _arranged(program, units, target, 1, joined, strictly=False)
        raise


def _arranged(
    program: Program,
    units: Units,
    target: Target,
    channels: int | None,
    joined: bool,
    strictly: bool = True,
) -> Threadblocks:
    """The same; with so many channels between two ranks, or more if that is not meant strictly."""
    lanes = choose_lanes(program, units.instances, target, channels)
    if channels is not None:
        program = in_turn(program, lanes)
    while True:
        runs = runs_of(program, units, lanes.messages, joined)
        _check_ends(program, units, runs)
        blocks = _blocks(program, units, operations(program, units, lanes, runs))
        _check(blocks, program, units, target)
        # Waits need steps of their own, and take time to find: not before the rest fits.
        if blocks.most_steps <= target.steps:
            try:
                blocks = _with_waits(program, runs, blocks)
            except _CircleError as circle:
                if channels is None:
                    raise
                raise PcclError(
                    f"with {counted(channels, 'channel')} between two ranks, messages would wait for each other in a "
                    f"circle ({circle}); allow more channels (channels, --channels)"
                ) from None
            _check(blocks, program, units, target)
        if blocks.most_steps <= target.steps:
            return _numbered(replace(blocks, lanes=lanes.messages))
        before = lanes
        lanes = split_lanes(program, lanes, runs, _too_long(blocks, target))
        if strictly and channels is not None and lanes.messages.max(initial=0) >= channels:
            raise PcclError(
                f"with {counted(channels, 'channel')} between two ranks, a threadblock would have {blocks.most_steps} "
                f"steps, more than the {target.steps} of {target.runtime}; allow more channels (channels, --channels)"
            )
        # What was not split further would not fit in the next round either.
        if all(map(np.array_equal, before, lanes)):
            raise PcclError(_indivisible(blocks, target))


def _blocks(program: Program, units: Units, work: Operations) -> Threadblocks:
    """Operations put into threadblocks, in the order of their times."""
    work = work.taken(np.argsort(work.time, kind="stable"))
    # One number for all that makes a threadblock.
    owner = np.zeros(len(work), np.int64)
    for column in (work.rank, work.instance, work.way, work.peer + 1, work.lane):
        owner = owner * (int(column.max(initial=0)) + 1) + column
    # Rank by rank, threadblocks are numbered in the order in which they have something to do.
    _, first, which = np.unique(owner, return_index=True, return_inverse=True)
    order = np.lexsort((first, work.rank[first]))
    block = inverse(order)[which]
    own = work.taken(first[order])
    by_block = np.argsort(block, kind="stable")
    block = block[by_block]
    return Threadblocks(
        ranks=len(program.npus),
        own=own,
        chan=_channels(program, units, own),
        number=np.arange(len(own)),
        work=work.taken(by_block),
        block=block,
        position=np.arange(len(block)) - offsets_by_owner(block, len(own))[block],
        lanes=np.zeros(0, np.int64),
        wait_offsets=np.zeros(len(block) + 1, np.int64),
        waits=np.zeros(0, np.int64),
    )


def _channels(program: Program, units: Units, own: Operations) -> Ints:
    """One for each lane and instance, or several, by how far apart ranks are, so that none has too many peers."""
    ranks = len(program.npus)
    pairs = distinct(program.messages.src * ranks + program.messages.dst)
    peers = max(int(np.bincount(ends).max(initial=0)) for ends in np.divmod(pairs, ranks))
    # Peers are told apart by how far ahead they are, and no channel has more of them than the runtimes keep.
    sides = -(-ranks // MOST_PEERS) if peers > MOST_PEERS else 1
    ahead = np.where(own.way == SENDING, own.peer - own.rank, own.rank - own.peer) % ranks
    side = ahead // MOST_PEERS if sides > 1 else 0
    channel = (own.lane * sides + side) * units.instances + own.instance
    return np.where(own.peer >= 0, channel, 0)


def _with_waits(program: Program, runs: Runs, blocks: Threadblocks) -> Threadblocks:
    """Find what every operation has to wait for beyond what it knows already from those before it, on its own rank."""
    work = blocks.work
    block = blocks.block
    count = len(work)
    first, then = needs_of(program, runs, work)
    # Operations of one threadblock follow each other anyway.
    apart = block[first] != block[then]
    first, then = first[apart], then[apart]
    # The latest need comes first: who has waited for it often knows of the others.
    by = np.lexsort((first, -work.time[first], then))
    first, then = first[by], then[by]
    # All needs, and the order inside threadblocks, have to fit one order in time.
    follows = np.flatnonzero(blocks.position > 0)
    order = sorted_events(
        work.time, np.concatenate([first, follows - 1]), np.concatenate([then, follows])
    )
    if len(order) < count:
        rank = work.rank[np.setdiff1d(np.arange(count), order)[0]]
        raise _CircleError(f"rank {rank}: operations wait for each other in a circle")
    order = order[np.argsort(work.rank[order], kind="stable")]
    needs = offsets_by_owner(then, count)
    waits = np.zeros(len(first), np.bool_)
    begin = offsets_of(blocks.per_rank)
    local = block - begin[work.rank]
    done = offsets_by_owner(work.rank, blocks.ranks).tolist()
    for rank, size in enumerate(blocks.per_rank.tolist()):
        low, high = done[rank], done[rank + 1]
        # Ranks are looked at one by one: no rank waits for what happens on another but by its messages.
        known = np.full((size, size), -1, np.int64)
        history = np.empty((high - low, size), np.int64)
        find_waits(
            order[low:high], low, local, blocks.position, needs, first, known, history, waits
        )
    return replace(blocks, wait_offsets=offsets_by_owner(then[waits], count), waits=first[waits])


def _numbered(blocks: Threadblocks) -> Threadblocks:
    """Threadblocks that others wait for get the first numbers, as only few numbers can be waited for."""
    idle = np.bincount(blocks.block[blocks.awaited], minlength=len(blocks)) == 0
    own = blocks.own
    order = np.lexsort((own.way != RECEIVING, idle, own.rank))
    return replace(blocks, number=inverse(order) - offsets_of(blocks.per_rank)[own.rank])


# --- limits -----------------------------------------------------------------------------------------------------------


def _too_long(blocks: Threadblocks, target: Target) -> dict[tuple[int, int, int], int]:
    """Lanes with too many steps (sender, receiver or -1 for copies, lane), and how many each should become."""
    found: dict[tuple[int, int, int], int] = {}
    parts = -(-blocks.steps // target.steps)
    long = np.flatnonzero(parts > 1)
    own = blocks.own
    columns = (own.rank, own.peer, own.way, own.lane, parts)
    for rank, peer, way, lane, count in np.stack(columns, 1)[long].tolist():
        ends = (peer, rank) if way == RECEIVING else (rank, peer)
        found[*ends, lane] = max(found.get((*ends, lane), 0), count)
    return found


def _indivisible(blocks: Threadblocks, target: Target) -> str:
    rank = blocks.own.rank[np.argmax(blocks.steps)]
    return (
        f"rank {rank} needs {blocks.most_steps} steps for one message or copy, more than the {target.steps} of a "
        f"threadblock of {target.runtime}, as a step moves at most {MOST_COUNT} chunks; use shares with a larger "
        "common divisor (for an all-to-all-v, plan it with --round), or the format mscclpp"
    )


def _check(blocks: Threadblocks, program: Program, units: Units, target: Target) -> None:
    """Raise, naming the limit and what would help, if splitting further cannot end well."""
    if blocks.channels > target.channels:
        raise PcclError(
            f"it takes more than {target.channels} channels with {target.steps} steps to a threadblock, the limits of "
            f"{target.runtime}; {_fewer(program, units)}"
        )
    ranks = blocks.ranks
    owner = blocks.own.rank
    blocks_of = blocks.per_rank
    awaited = np.bincount(owner[np.unique(blocks.block[blocks.awaited])], minlength=ranks)
    steps = np.bincount(owner, blocks.steps, ranks).astype(np.int64)
    for rank in np.flatnonzero(blocks_of > target.threadblocks)[:1]:
        peers = blocks.own.peer[(owner == rank) & (blocks.own.way == SENDING)]
        raise PcclError(
            f"rank {rank} needs {blocks_of[rank]} threadblocks to send to {len(np.unique(peers))} others, more than "
            f"the {target.threadblocks} of {target.runtime}; use fewer channels or instances, a sparser schedule, or "
            "another target"
        )
    for rank in np.flatnonzero(awaited > MOST_DEPENDED_ON + 1)[:1]:
        raise PcclError(
            f"rank {rank}: others wait for {awaited[rank]} of its threadblocks, more than the {MOST_DEPENDED_ON + 1} "
            f"that the runtimes can number; {_fewer(program, units)}"
        )
    _check_elements(program, units, blocks_of, steps)


def _check_ends(program: Program, units: Units, runs: Runs) -> None:
    """Raise if both ends of all runs, and copies, are too many by themselves: that is soon known."""
    m = program.messages
    who = np.concatenate([m.src[runs.first], m.dst[runs.first], program.copies.rank])
    steps = units.instances * np.bincount(who, minlength=len(program.npus))
    _check_elements(program, units, np.ones_like(steps), steps)


def _check_elements(program: Program, units: Units, blocks: Ints, steps: Ints) -> None:
    """Raise if a rank with so many threadblocks and steps has too many elements in the file."""
    # A rank without anything to do has a threadblock all the same.
    elements = 1 + len(program.npus) + np.maximum(blocks, 1) + steps
    for rank in np.flatnonzero(elements > MOST_NODES)[:1]:
        raise PcclError(
            f"rank {rank} needs {elements[rank]:,} elements in the file or more, but the runtimes read "
            f"{MOST_NODES:,}; {_fewer(program, units)}"
        )


def _fewer(program: Program, units: Units) -> str:
    """What makes a file smaller."""
    counts = {"chunks": program.collective.pieces, "instances": units.instances}
    many = " or ".join(name for name, count in counts.items() if count > 1)
    if many:
        return f"use fewer {many}"
    return (
        "its ranks pass on too many messages: use a smaller group, a network with shorter ways, "
        "or the format mscclpp"
    )
