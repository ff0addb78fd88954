"""Batches of messages as threadblocks of MSCCL++: streams between them, and the order of their work.

Every event (a send, a receipt, a copy) has a position in one order of the whole program that respects all
dependencies, and every threadblock works in that order: whatever waits, waits for something earlier, so that nothing
can wait in a circle. Batches from one threadblock to another form a stream, with a channel of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from pccl.errors import PcclError
from pccl.export.lowering import Program
from pccl.export.mscclpp.batches import Batches, single
from pccl.export.mscclpp.rules import MAX_BUFFERS, MAX_CHANNELS, MAX_CHANNELS_OF_OP, MAX_OPS, MAX_SEMAPHORES_OF_OP

__all__ = ["Block", "Schedule", "Stream", "arrange"]

SENDER, RECEIVER, COPIER = range(3)
CHEAPEST = 3  # operations that at least one end needs for a message
MEND = (
    "use fewer chunks, or allow more threadblocks (max_threadblocks, --max-threadblocks) if a GPU runs so many at once"
)
# Most messages in a batch, and streams to fill a threadblock (smaller ones pack better): from the best to what fits.
TRIES = ((1, 1), (1, 4), (2, 4), (4, 4), (8, 4), (16, 4))


@dataclass(eq=False)
class Stream:
    """Batches from one threadblock to another, in the order in which both handle them."""

    src: int
    dst: int
    port: bool
    batches: list[int] = field(default_factory=list)
    cost: list[int] = field(default_factory=lambda: [0, 0])  # operations at the sender and at the receiver
    last: int = -1  # position of the last receipt


@dataclass(eq=False)
class Block:
    """A threadblock: what it does, in order, and over which streams."""

    rank: int
    role: int
    number: int
    streams: list[Stream] = field(default_factory=list)
    events: list[int] = field(default_factory=list)


@dataclass(eq=False)
class Schedule:
    """The threadblocks of all ranks, and what their events wait for.

    Attributes
    ----------
    batches
        What is sent and received.
    blocks
        Per rank.
    streams
        All, in the order in which channels are numbered.
    stream_of
        Per batch.
    block_of
        Per event; events are numbered as those of batches.
    answered
        Batches over ports whose sender must know that they have been read, because something overwrites them.
    """

    program: Program
    batches: Batches
    blocks: list[list[Block]]
    streams: list[Stream]
    stream_of: list[Stream]
    block_of: list[Block]
    answered: set[int]

    def done(self, event: int) -> int:
        """The position at which an event is known to be complete: for some sends, when they are answered."""
        return self.batches.position[event + len(self.batches) if event in self.answered else event]


def arrange(program: Program, *, box: int, most: int) -> Schedule:
    """Divide a program among threadblocks, at most `most` on a rank; ports connect boxes of `box` ranks each."""
    singles = single(program, box)
    for together, cut in TRIES:
        batches = singles if together == 1 else singles.joined(together)
        needed = Counter(first for events in batches.before for first in events)
        answered = {i for i in range(len(batches)) if batches.port[i] and i in needed}
        costs, last = _costs(batches, needed, answered), (together, cut) == TRIES[-1]
        if not last and _overfull(batches, costs, most):
            continue
        streams, stream_of = _streams(batches, costs, cut)
        try:
            blocks, block_of = _blocks(program, batches, streams, needed, most)
            break
        except PcclError:
            if last:
                raise
    return Schedule(program, batches, blocks, streams, stream_of, block_of, answered)


def _costs(batches: Batches, needed: Counter[int], answered: set[int]) -> list[tuple[int, int]]:
    """Per batch: how many operations its sender and its receiver need at most."""
    costs, count = [], len(batches)
    for i, messages in enumerate(batches.messages):
        staged = sum(batches.staged[m] for m in messages)
        acquire, release = (
            [ceil(size / MAX_SEMAPHORES_OF_OP) for size in sizes]
            for sizes in (map(len, (batches.before[i], batches.before[count + i])), (needed[i], needed[count + i]))
        )
        answer = 2 * (i in answered)
        send = acquire[0] + bool(acquire[0]) + len(messages) + 2 * (not batches.port[i]) + release[0] + answer
        receipt = 1 + acquire[1] + bool(staged) + staged + bool(release[1]) + release[1] + answer
        costs.append((send, receipt))
    return costs


def _overfull(batches: Batches, costs: list[tuple[int, int]], most: int) -> bool:
    """Whether a rank has more operations than its threadblocks have room for, however they are packed."""
    load: Counter[int] = Counter()
    for src, dst, (send, receipt) in zip(batches.src, batches.dst, costs, strict=True):
        load[src] += send
        load[dst] += receipt
    return max(load.values(), default=0) > most * MAX_OPS


def _room(streams: Sequence[Stream]) -> int:
    """Operations left in a threadblock beside the handshakes of its streams, and the answers to ports at the end."""
    ports = sum(stream.port for stream in streams)
    memory = len(streams) - ports
    return MAX_OPS - 2 * ceil(memory / MAX_CHANNELS_OF_OP) - 3 * ceil(ports / MAX_CHANNELS_OF_OP) - 2


def _streams(batches: Batches, costs: list[tuple[int, int]], cut: int) -> tuple[list[Stream], list[Stream]]:
    """Streams between pairs of ranks that fit into a threadblock each; signals have no names, so order must agree."""
    found: list[Stream] = []
    growing: dict[tuple[int, int], list[Stream]] = defaultdict(list)
    src, dst, position, count = batches.src, batches.dst, batches.position, len(batches)
    stream_of: list[Stream] = [Stream(0, 0, port=False)] * count
    for i in sorted(range(count), key=position.__getitem__):
        pair, arrival, new = growing[src[i], dst[i]], position[count + i], Stream(src[i], dst[i], batches.port[i])
        room = _room([new]) // cut
        for stream in pair:
            if stream.last < arrival and all(c + d <= room for c, d in zip(stream.cost, costs[i], strict=True)):
                break
        else:
            stream = new
            pair.append(stream)
            found.append(stream)
        stream.batches.append(i)
        stream.cost = [c + d for c, d in zip(stream.cost, costs[i], strict=True)]
        stream.last, stream_of[i] = arrival, stream
        if max(stream.cost) + CHEAPEST > room:
            pair.remove(stream)
    return found, stream_of


def _blocks(
    program: Program, batches: Batches, streams: list[Stream], needed: Counter[int], most: int
) -> tuple[list[list[Block]], list[Block]]:
    """Threadblocks: one for each end of a stream as long as there are enough, otherwise several streams share one."""
    count, position = len(batches), batches.position
    block_of: list[Block] = [Block(0, 0, 0)] * len(batches.before)
    copies: dict[int, list[int]] = defaultdict(list)
    for k, rank in enumerate(program.copies.rank.tolist()):
        copies[rank].append(2 * count + k)
    ends: dict[tuple[int, int], list[Stream]] = defaultdict(list)
    for stream in streams:
        ends[stream.src, SENDER].append(stream)
        ends[stream.dst, RECEIVER].append(stream)
    blocks: list[list[Block]] = []
    for rank in range(len(program.npus)):
        copying = _copiers(rank, sorted(copies[rank], key=position.__getitem__), batches, needed)
        sides = _share(rank, ends[rank, SENDER], ends[rank, RECEIVER], most - len(copying))
        own = [*sides, *copying]
        if len(own) > most:
            what = f"{len(own)} threadblocks, {len(copying)} of them for {len(copies[rank])} copies"
            raise PcclError(f"rank {rank} needs {what}, but may have {most}; {MEND}")
        for number, block in enumerate(own):
            block.number = number
            ways = block.role * count
            block.events += [ways + i for stream in block.streams for i in stream.batches]
            block.events.sort(key=position.__getitem__)
            for event in block.events:
                block_of[event] = block
        blocks.append(own)
    return blocks, block_of


def _copiers(rank: int, copies: list[int], batches: Batches, needed: Counter[int]) -> list[Block]:
    blocks: list[Block] = []
    left = 0
    for event in copies:
        acquire, release = (ceil(n / MAX_SEMAPHORES_OF_OP) for n in (len(batches.before[event]), needed[event]))
        cost = 1 + acquire + bool(acquire) + release + bool(release)
        if cost > left:
            blocks.append(Block(rank, COPIER, 0))
            left = MAX_OPS
        blocks[-1].events.append(event)
        left -= cost
    return blocks


def _share(rank: int, sent: list[Stream], received: list[Stream], most: int) -> list[Block]:
    """A threadblock for each stream if there are enough, otherwise as many as there are, evenly loaded."""
    if len(sent) + len(received) <= most:
        return [Block(rank, role, 0, [s]) for role, ends in enumerate((sent, received)) for s in ends]
    load = [sum(stream.cost[role] for stream in ends) for role, ends in enumerate((sent, received))]
    if sum(load) > most * MAX_OPS:
        role, ends = (SENDER, sent) if load[0] > load[1] else (RECEIVER, received)
        raise PcclError(_too_much(rank, role, ends, round(most * load[role] / sum(load))))
    for_senders = min(max(round(most * load[0] / max(sum(load), 1)), 1), most - 1)
    found = []
    for role, ends, room in ((SENDER, sent, for_senders), (RECEIVER, received, most - for_senders)):
        if ends:
            found += _pack(rank, role, ends, min(room, len(ends)))
    return found


def _pack(rank: int, role: int, streams: list[Stream], count: int) -> list[Block]:
    """Streams, the longest first, each to the least loaded threadblock that has room."""
    blocks, load = [Block(rank, role, 0) for _ in range(max(count, 1))], [0] * max(count, 1)
    for stream in sorted(streams, key=lambda stream: -stream.cost[role]):
        cost = stream.cost[role]
        fits = [
            k for k, block in enumerate(blocks)
            if load[k] + cost <= _room([*block.streams, stream]) and _connects(block, stream)
        ]  # fmt: skip
        if not fits:
            raise PcclError(_too_much(rank, role, streams, count))
        k = min(fits, key=load.__getitem__)
        blocks[k].streams.append(stream)
        load[k] += cost
    return [block for block in blocks if block.streams]


def _connects(block: Block, stream: Stream) -> bool:
    """Whether a threadblock has a channel left, and remote buffers: each peer has an output and scratch."""
    peers = {s.dst for s in block.streams} | {stream.dst}
    return len(block.streams) < MAX_CHANNELS and (block.role == RECEIVER or 2 * len(peers) <= MAX_BUFFERS)


def _too_much(rank: int, role: int, streams: Sequence[Stream], count: int) -> str:
    batches, ops = sum(len(s.batches) for s in streams), sum(s.cost[role] for s in streams)
    verb = "sends" if role == SENDER else "receives"
    return (
        f"rank {rank} {verb} {batches:,} batches of messages, {ops:,} operations, but a threadblock of MSCCL++ has "
        f"room for {MAX_OPS} and {count} threadblocks are left for that; {MEND}"
    )
