"""Streams packed into threadblocks: evenly if there is room, and otherwise into as few as possible."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate
from typing import NamedTuple

from pccl.formats.mscclpp.plan import MAX_BUFFERS, MAX_CHANNELS, MAX_CHANNELS_OF_OP, MAX_OPS

SENDER, RECEIVER, COPIER = range(3)
MEND = (
    "use fewer chunks (or a smaller group), or allow more threadblocks (max_threadblocks, --max-threadblocks) if a GPU "
    "runs so many at once"
)


class Full(NamedTuple):
    """Why a rank has too few threadblocks, and how many it would need."""

    reason: str
    needed: int


@dataclass(eq=False)
class Stream:
    """Batches from one threadblock to another, in the order in which both handle them.

    `cost` has the operations at the sender and at the receiver.
    """

    src: int
    dst: int
    port: bool
    cost: list[int]
    batches: list[int] = field(default_factory=list)


@dataclass(eq=False)
class Block:
    """A threadblock: what it does, in order, and over which streams.

    `load` has the operations of its streams, `ports` how many of them go over ports, `peers` where they go to.
    """

    role: int
    streams: list[Stream] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    load: int = 0
    ports: int = 0
    peers: set[int] = field(default_factory=set)

    def add(self, stream: Stream) -> Block:
        """Return the threadblock with one more stream."""
        self.streams.append(stream)
        self.load += stream.cost[self.role]
        self.ports += stream.port
        self.peers.add(stream.dst)
        return self

    def fits(self, stream: Stream) -> bool:
        """Whether there is room for one more stream."""
        count = len(self.streams) + 1
        ports = self.ports + stream.port
        load = self.load + stream.cost[self.role]
        if count > MAX_CHANNELS or load > room_of(count - ports, ports):
            return False
        # A sender reaches the output and the scratch of every peer.
        peers = len(self.peers) + (stream.dst not in self.peers)
        return self.role == RECEIVER or 2 * peers <= MAX_BUFFERS


def room_of(memory: int, ports: int) -> int:
    """Operations left in a threadblock beside the handshakes of its streams, and the answers to ports at the end."""
    # A signal and a wait for up to eight streams each; ports wait or signal once more at the end. Two are left
    # for the synchronizations around those.
    return MAX_OPS - 2 * -(-memory // MAX_CHANNELS_OF_OP) - 3 * -(-ports // MAX_CHANNELS_OF_OP) - 2


def share(rank: int, sent: list[Stream], received: list[Stream], most: int) -> list[Block] | Full:
    """A threadblock for each stream if there are enough, otherwise as many as there are, evenly loaded."""
    sides = (sent, received)
    if len(sent) + len(received) <= most:
        return [Block(role).add(stream) for role, streams in enumerate(sides) for stream in streams]
    load = [sum(stream.cost[role] for stream in streams) for role, streams in enumerate(sides)]
    # No way of packing can help: say so without trying.
    if sum(load) > most * MAX_OPS:
        role = SENDER if load[SENDER] > load[RECEIVER] else RECEIVER
        left = round(most * load[role] / sum(load))
        return Full(_too_much(rank, role, sides[role], left), -(-sum(load) // MAX_OPS))
    # Threadblocks in proportion to the work, at least one for each side.
    for_senders = max(min(round(most * load[SENDER] / max(sum(load), 1)), most - 1), 1)
    count = [for_senders, max(most - for_senders, 1)]
    even = [spread(role, sides[role], count[role]) for role in (SENDER, RECEIVER)]
    if None not in even:
        return [block for side in even if side for block in side]
    # Without caring for their loads, as few as possible for one side; what is left is for the other.
    filled = [fill(role, streams) for role, streams in enumerate(sides)]
    for role, other in ((SENDER, RECEIVER), (RECEIVER, SENDER)):
        rest = spread(other, sides[other], most - len(filled[role]))
        if rest is not None:
            return [*filled[role], *rest]
    role = even.index(None)
    return Full(_too_much(rank, role, sides[role], count[role]), sum(map(len, filled)))


def spread(role: int, streams: list[Stream], count: int) -> list[Block] | None:
    """Streams, the longest first, each to the least loaded threadblock that has room; None if one finds no room."""
    blocks = [Block(role) for _ in range(count)]
    least = [(0, k) for k in range(len(blocks))]  # a heap
    for stream in _longest_first(role, streams):
        full: list[tuple[int, int]] = []
        most = room_of(1, 0) - stream.cost[role]
        # The others have even less room for its operations.
        while least and least[0][0] <= most:
            load, k = heappop(least)
            if blocks[k].fits(stream):
                break
            # It may have room for a shorter stream later.
            full.append((load, k))
        else:
            return None
        for entry in (*full, (blocks[k].add(stream).load, k)):
            heappush(least, entry)
    return [block for block in blocks if block.streams]


def fill(role: int, streams: list[Stream]) -> list[Block]:
    """Threadblocks one after the other, each with the longest stream that is left and what else fills it best."""
    left: dict[int, list[Stream]] = defaultdict(list)
    for stream in _longest_first(role, streams):
        left[stream.cost[role]].append(stream)
    blocks: list[Block] = []
    while left:
        longest = next(iter(left))
        first = left[longest].pop()
        block = Block(role).add(first)
        for cost in fullest(room_of(not first.port, first.port) - longest, left):
            # It may have room for the operations, but not for one more channel or buffer.
            if block.fits(left[cost][-1]):
                block.add(left[cost].pop())
        blocks.append(block)
        left = {cost: those for cost, those in left.items() if those}
    return blocks


def fullest(room: int, left: Mapping[int, Sequence[object]]) -> list[int]:
    """The costs of streams that fill a room best, the longest first; `left` has the streams of each cost.

    Examples
    --------
    >>> fullest(32, {26: "a", 17: "bc", 16: "de"})
    [16, 16]
    """
    room = max(room, 0)
    costs = [cost for cost, those in left.items() for _ in those[: room // cost]]
    # Before and after each cost the sums that those so far can have, as bits.
    sums = list(accumulate(costs, lambda sums, cost: sums | sums << cost, initial=1))
    total = (sums[-1] & (2 << room) - 1).bit_length() - 1
    chosen = []
    for cost, without in zip(reversed(costs), reversed(sums[:-1]), strict=True):
        if not without >> total & 1:
            chosen.append(cost)
            total -= cost
    return chosen[::-1]


def _longest_first(role: int, streams: list[Stream]) -> list[Stream]:
    return sorted(streams, key=lambda stream: -stream.cost[role])


def _too_much(rank: int, role: int, streams: Sequence[Stream], count: int) -> str:
    batches = sum(len(s.batches) for s in streams)
    ops = sum(s.cost[role] for s in streams)
    verb = "sends" if role == SENDER else "receives"
    return (
        f"rank {rank} {verb} {batches:,} batches of messages, {ops:,} operations, but a threadblock of MSCCL++ has "
        f"room for {MAX_OPS} and {count} threadblocks are left for that; {MEND}"
    )
