"""Batches of messages as threadblocks of MSCCL++: streams between them, and the order of their work.

Every event (a send, a receipt, a copy) has a position in one order of the whole program that respects all
dependencies, and every threadblock works in that order: whatever waits, waits for something earlier, so that nothing
can wait in a circle. Batches from one threadblock to another form a stream, with a channel of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from pccl._arrays import Bools, Ints, inverse
from pccl.errors import PcclError
from pccl.formats.lowering import Program
from pccl.formats.mscclpp.batches import Batches, single
from pccl.formats.mscclpp.packing_kernels import fill_streams
from pccl.formats.mscclpp.plan import (
    MAX_BUFFERS,
    MAX_CHANNELS,
    MAX_CHANNELS_OF_OP,
    MAX_OPS,
    MAX_SEMAPHORES_OF_OP,
)

SENDER, RECEIVER, COPIER = range(3)
# Operations that at least one end needs for a message.
CHEAPEST = 3
MEND = (
    "use fewer chunks (or a smaller group), or allow more threadblocks (max_threadblocks, --max-threadblocks) if a GPU "
    "runs so many at once"
)
# Most messages in a batch, and streams to fill a threadblock (smaller ones pack better): from the best to what fits.
TRIES = ((1, 1), (1, 4), (2, 4), (4, 4), (8, 4), (16, 4))


@dataclass(eq=False)
class Stream:
    """Batches from one threadblock to another, in the order in which both handle them."""

    src: int
    dst: int
    port: bool
    cost: list[int]  # operations at the sender and at the receiver
    batches: list[int] = field(default_factory=list)


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
    position
        Per event: as in batches.
    """

    program: Program
    batches: Batches
    blocks: list[list[Block]]
    streams: list[Stream]
    stream_of: list[Stream]
    block_of: list[Block]
    answered: set[int]
    position: list[int]

    def done(self, event: int) -> int:
        """The position at which an event is known to be complete: for some sends, when they are answered."""
        return self.position[event + len(self.batches) if event in self.answered else event]


def arrange(program: Program, *, box: int, most: int) -> Schedule:
    """Divide a program among threadblocks, at most `most` on a rank; ports connect boxes of `box` ranks each."""
    singles = single(program, box)
    # Every message is a put, however many of them share a signal.
    hopeless = np.bincount(singles.src).max(initial=0) > most * MAX_OPS
    for together, cut in TRIES[-1:] if hopeless else TRIES:
        last = (together, cut) == TRIES[-1]
        batches = singles if together == 1 else singles.joined(together)
        answered = batches.port & (batches.followers[: len(batches)] > 0)
        costs = _costs(batches, answered)
        if not last and _overfull(batches, costs, most):
            continue
        streams, stream_of = _streams(batches, costs, cut)
        try:
            blocks, block_of = _blocks(program, batches, streams, most)
            break
        except PcclError:
            if last:
                raise
    answers = set(np.flatnonzero(answered).tolist())
    position = batches.position.tolist()
    return Schedule(program, batches, blocks, streams, stream_of, block_of, answers, position)


def _costs(batches: Batches, answered: Bools) -> Ints:
    """Per batch: how many operations its sender and its receiver need at most."""
    count = len(batches)
    waits = -(-batches.needs[: 2 * count] // MAX_SEMAPHORES_OF_OP)
    tells = -(-batches.followers[: 2 * count] // MAX_SEMAPHORES_OF_OP)
    messages = np.array([len(batch) for batch in batches.messages], np.int64)
    batch_of = np.repeat(np.arange(count), messages)
    inside = np.array([message for batch in batches.messages for message in batch], np.int64)
    staged = np.bincount(batch_of[np.array(batches.staged, np.bool_)[inside]], minlength=count)
    # A sender waits and synchronizes, puts, and signals after a synchronization if the put does not; it tells others.
    send = waits[:count] + (waits[:count] > 0) + messages + 2 * ~batches.port + tells[:count]
    # A receiver waits for the signal and others, synchronizes, takes what is staged, and tells others.
    told = tells[count:]
    receipt = 1 + waits[count:] + (staged > 0) + staged + (told > 0) + told
    costs: Ints = np.stack([send, receipt], axis=1) + 2 * answered[:, None]
    return costs


def _overfull(batches: Batches, costs: Ints, most: int) -> bool:
    """Whether a rank has more operations than its threadblocks have room for, however they are packed."""
    load = np.bincount(np.concatenate([batches.src, batches.dst]), costs.T.ravel())
    return bool(load.max(initial=0) > most * MAX_OPS)


def _room(memory: int, ports: int) -> int:
    """Operations left in a threadblock beside the handshakes of its streams, and the answers to ports at the end."""
    return MAX_OPS - 2 * -(-memory // MAX_CHANNELS_OF_OP) - 3 * -(-ports // MAX_CHANNELS_OF_OP) - 2


def _streams(batches: Batches, costs: Ints, cut: int) -> tuple[list[Stream], list[Stream]]:
    """Streams between pairs of ranks that fit into a threadblock each; signals have no names, so order must agree."""
    count = len(batches)
    ranks = int(max(batches.src.max(initial=0), batches.dst.max(initial=0))) + 1
    order = np.argsort(batches.position[:count])
    arrival = batches.position[count : 2 * count][order]
    src, dst, port = batches.src[order], batches.dst[order], batches.port[order]
    room = np.where(port, _room(0, 1), _room(1, 0)) // cut
    send, receipt = costs[order].T
    oldest = np.full(ranks**2, -1, np.int64)
    younger, last, stream_of = np.empty((3, count), np.int64)
    total = np.empty((count, 2), np.int64)
    fill_streams(
        src * ranks + dst, arrival, send, receipt, room, CHEAPEST, oldest, younger, total, last, stream_of,
    )  # fmt: skip
    first = np.unique(stream_of, return_index=True)[1].tolist()
    found = [
        Stream(int(src[i]), int(dst[i]), bool(port[i]), total[stream].tolist())
        for stream, i in enumerate(first)
    ]
    for i, stream in zip(order.tolist(), stream_of.tolist(), strict=True):
        found[stream].batches.append(i)
    listed = stream_of[inverse(order)].tolist()
    return found, [found[stream] for stream in listed]


def _blocks(
    program: Program, batches: Batches, streams: list[Stream], most: int
) -> tuple[list[list[Block]], list[Block]]:
    """Threadblocks: one for each end of a stream as long as there are enough, otherwise several streams share one."""
    count = len(batches)
    position = batches.position.tolist()
    block_of: list[Block] = [Block(0, 0, 0)] * len(position)
    copies: dict[int, list[int]] = defaultdict(list)
    for k, rank in enumerate(program.copies.rank.tolist()):
        copies[rank].append(2 * count + k)
    ends: dict[tuple[int, int], list[Stream]] = defaultdict(list)
    for stream in streams:
        ends[stream.src, SENDER].append(stream)
        ends[stream.dst, RECEIVER].append(stream)
    blocks: list[list[Block]] = []
    for rank in range(len(program.npus)):
        copying = _copiers(rank, sorted(copies[rank], key=position.__getitem__), batches)
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


def _copiers(rank: int, copies: list[int], batches: Batches) -> list[Block]:
    blocks: list[Block] = []
    left = 0
    for event in copies:
        acquire = -(-int(batches.needs[event]) // MAX_SEMAPHORES_OF_OP)
        release = -(-int(batches.followers[event]) // MAX_SEMAPHORES_OF_OP)
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
        return [
            Block(rank, role, 0, [s]) for role, ends in enumerate((sent, received)) for s in ends
        ]
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
    blocks = [Block(rank, role, 0) for _ in range(max(count, 1))]
    peers: list[set[int]] = [set() for _ in blocks]
    ports = [0] * len(blocks)
    least = [(0, k) for k in range(len(blocks))]  # a heap
    for stream in sorted(streams, key=lambda stream: -stream.cost[role]):
        cost = stream.cost[role]
        full: list[tuple[int, int]] = []
        while least:
            load, k = heappop(least)
            used = len(blocks[k].streams) + 1
            over = ports[k] + stream.port
            # A sender reaches the output and the scratch of every peer.
            buffers = 0 if role == RECEIVER else 2 * len(peers[k] | {stream.dst})
            fits = load + cost <= _room(used - over, over)
            if fits and used <= MAX_CHANNELS and buffers <= MAX_BUFFERS:
                break
            full.append((load, k))
        else:
            raise PcclError(_too_much(rank, role, streams, count))
        blocks[k].streams.append(stream)
        peers[k].add(stream.dst)
        ports[k] = over
        for entry in (*full, (load + cost, k)):
            heappush(least, entry)
    return [block for block in blocks if block.streams]


def _too_much(rank: int, role: int, streams: Sequence[Stream], count: int) -> str:
    batches = sum(len(s.batches) for s in streams)
    ops = sum(s.cost[role] for s in streams)
    verb = "sends" if role == SENDER else "receives"
    return (
        f"rank {rank} {verb} {batches:,} batches of messages, {ops:,} operations, but a threadblock of MSCCL++ has "
        f"room for {MAX_OPS} and {count} threadblocks are left for that; {MEND}"
    )
