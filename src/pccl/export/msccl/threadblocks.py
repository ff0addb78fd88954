"""Threadblocks: who does which operation, on which channel, and what waits for what on a rank.

Each lane between two ranks is a sending threadblock on one and a receiving one on the other. Copies have threadblocks
of their own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from pccl.errors import InternalError, PcclError
from pccl.export.lowering import Program
from pccl.export.msccl.lanes import choose_lanes, split_lanes
from pccl.export.msccl.operations import RECEIVING, SENDING, Operation, Units, operations, runs_of
from pccl.export.msccl.targets import MOST_DEPENDED_ON, MOST_NODES, MOST_PEERS, Target

__all__ = ["Block", "arrange"]

Ints = NDArray[np.int64]


@dataclass
class Block:
    """One threadblock: its operations, and for each of them the (block, position) pairs it has to wait for."""

    rank: int
    send: int
    recv: int
    chan: int
    operations: list[Operation] = field(default_factory=list)
    waits: list[list[tuple[int, int]]] = field(default_factory=list)
    depended_on: set[int] = field(default_factory=set)

    @property
    def steps(self) -> int:
        """Steps in the file: every wait beyond the first needs one of its own."""
        return sum(max(1, len(waits)) for waits in self.waits) if self.waits else len(self.operations)


def arrange(program: Program, units: Units, target: Target, channels: int | None = None) -> list[list[Block]]:
    """Per rank: its threadblocks in the order of their numbers, within the limits of the target."""
    lanes = choose_lanes(program, units.instances, target, channels)
    while True:
        runs = runs_of(program, units, lanes.messages)
        ranks = _blocks(program, units, operations(program, units, lanes, runs))
        _check(ranks, units, target)
        long = _too_long(ranks, target)
        if not long:
            for blocks in ranks:
                _find_waits(program, blocks)
            _check(ranks, units, target)
            long = _too_long(ranks, target)
        if not long:
            return [_numbered(blocks) for blocks in ranks]
        lanes = split_lanes(program, lanes, runs, long)


def _blocks(program: Program, units: Units, everything: list[Operation]) -> list[list[Block]]:
    """Operations put into threadblocks, in the order of their times."""
    ranks = len(program.npus)
    sides = _sides(program)
    found: list[dict[tuple[int, ...], Block]] = [{} for _ in range(ranks)]
    for operation in sorted(everything, key=lambda operation: operation.time):
        mine = found[operation.rank]
        if operation.lane not in mine:
            instance, way, peer, lane = operation.lane
            ahead = (peer - operation.rank if way == SENDING else operation.rank - peer) % ranks
            side = ahead // MOST_PEERS if sides > 1 else 0
            chan = (lane * sides + side) * units.instances + instance if peer >= 0 else 0
            send, recv = (peer if way == this else -1 for this in (SENDING, RECEIVING))
            mine[operation.lane] = Block(operation.rank, send, recv, chan)
        mine[operation.lane].operations.append(operation)
    return [list(blocks.values()) or [Block(rank, -1, -1, 0)] for rank, blocks in enumerate(found)]


def _sides(program: Program) -> int:
    """Into how many channels a lane is cut, by how far apart its ranks are, so that none has too many peers."""
    pairs = np.unique(np.stack([program.messages.src, program.messages.dst], axis=1), axis=0)
    peers = max((int(np.bincount(ends).max(initial=0)) for ends in pairs.T), default=0)
    return -(-len(program.npus) // MOST_PEERS) if peers > MOST_PEERS else 1


def _find_waits(program: Program, blocks: list[Block]) -> None:
    """What every operation has to wait for beyond what it knows already from those before it, on its own rank."""
    needs = _needs(program, blocks)
    known = [np.full(len(blocks), -1, np.int64) for _ in blocks]  # per block: how far it knows the others to be
    history: list[list[Ints]] = [[] for _ in blocks]
    for block in blocks:
        block.waits = [[] for _ in block.operations]
    for b, position in _in_order(blocks, needs):
        for other, at in sorted(needs[b, position], key=lambda place: (-_time(blocks, place), place)):
            if known[b][other] < at:
                blocks[b].waits[position].append((other, at))
                blocks[other].depended_on.add(at)
                np.maximum(known[b], history[other][at], out=known[b])
        known[b][b] = position
        history[b].append(known[b].copy())


def _needs(program: Program, blocks: list[Block]) -> dict[tuple[int, int], set[tuple[int, int]]]:
    """Per operation, given as block and position: those of other blocks that have to come before it."""
    where: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for b, block in enumerate(blocks):
        for position, operation in enumerate(block.operations):
            for event in operation.events:
                where[event, operation.lane[0]].append((b, position))
    before = _before(program, {event for event, _ in where})
    return {
        (b, position): {
            place for event in operation.events for first in before[event]
            for place in where[first, operation.lane[0]] if place[0] != b
        }
        for b, block in enumerate(blocks) for position, operation in enumerate(block.operations)
    }  # fmt: skip


def _before(program: Program, events: set[int]) -> dict[int, list[int]]:
    mine = np.zeros(2 * len(program.messages) + len(program.copies), np.bool_)
    mine[list(events)] = True
    chosen = mine[program.after]
    before: dict[int, list[int]] = defaultdict(list)
    for first, then in zip(program.before[chosen].tolist(), program.after[chosen].tolist(), strict=True):
        before[then].append(first)
    return before


def _in_order(blocks: list[Block], needs: dict[tuple[int, int], set[tuple[int, int]]]) -> list[tuple[int, int]]:
    """All operations of a rank, each after those it needs, and otherwise by time."""
    followers: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    missing = {place: len(mine) + (place[1] > 0) for place, mine in needs.items()}
    for place, mine in needs.items():
        for other in mine:
            followers[other].append(place)
    ready = [(_time(blocks, place), place) for place, count in missing.items() if not count]
    heapify(ready)
    order: list[tuple[int, int]] = []
    while ready:
        _, (b, position) = heappop(ready)
        order.append((b, position))
        ahead = [(b, position + 1)] if position + 1 < len(blocks[b].operations) else []
        for place in followers[b, position] + ahead:
            missing[place] -= 1
            if not missing[place]:
                heappush(ready, (_time(blocks, place), place))
    if len(order) < len(needs):
        raise InternalError(f"rank {blocks[0].rank}: operations wait for each other in a circle")
    return order


def _time(blocks: list[Block], place: tuple[int, int]) -> int:
    return blocks[place[0]].operations[place[1]].time


def _numbered(blocks: list[Block]) -> list[Block]:
    """Blocks in their final order, those that others wait for first, as only few numbers can be waited for."""
    order = sorted(range(len(blocks)), key=lambda b: (not blocks[b].depended_on, blocks[b].recv < 0, b))
    where = {old: new for new, old in enumerate(order)}
    for block in blocks:
        block.waits = [[(where[b], at) for b, at in waits] for waits in block.waits]
    return [blocks[b] for b in order]


# --- limits -----------------------------------------------------------------------------------------------------------


def _too_long(ranks: list[list[Block]], target: Target) -> dict[tuple[int, int, int], int]:
    """Lanes with too many steps (sender, receiver or -1 for copies, lane), and how many each should become."""
    found: dict[tuple[int, int, int], int] = {}
    for block in (block for blocks in ranks for block in blocks if block.steps > target.steps):
        ends = (block.recv, block.rank) if block.recv >= 0 else (block.rank, block.send)
        lane = (*ends, block.operations[0].lane[3])
        found[lane] = max(found.get(lane, 0), -(-block.steps // target.steps))
    return found


def _check(ranks: list[list[Block]], units: Units, target: Target) -> None:
    """Raise, naming the limit and what would help, if splitting further cannot end well."""
    channels = 1 + max(block.chan for blocks in ranks for block in blocks)
    if channels > target.channels:
        raise PcclError(
            f"it takes more than {target.channels} channels with {target.steps} steps to a threadblock, the limits of "
            f"{target.runtime}; use fewer chunks{' or instances' if units.instances > 1 else ''}"
        )
    for rank, blocks in enumerate(ranks):
        if len(blocks) > target.threadblocks:
            peers = len({block.send for block in blocks} - {-1})
            raise PcclError(
                f"rank {rank} needs {len(blocks)} threadblocks to send to {peers} others, more than the "
                f"{target.threadblocks} of {target.runtime}; use fewer channels or instances, a sparser schedule, or "
                "another target"
            )
        waited = sum(bool(block.depended_on) for block in blocks)
        if waited > MOST_DEPENDED_ON + 1:
            raise PcclError(
                f"rank {rank}: others wait for {waited} of its threadblocks, more than the {MOST_DEPENDED_ON + 1} that "
                "the runtimes can number; use fewer channels or instances"
            )
        nodes = 1 + len(ranks) + len(blocks) + sum(block.steps for block in blocks)
        if nodes > MOST_NODES:
            raise PcclError(
                f"rank {rank} needs {nodes:,} elements in the file or more, but the runtimes read {MOST_NODES:,}; use "
                "fewer chunks or instances"
            )
