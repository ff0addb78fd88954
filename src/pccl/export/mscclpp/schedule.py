"""A lowered program as threadblocks of MSCCL++: streams between them, the order of their work, and semaphores.

A message is a put into the memory of its receiver, so it lands when its sender sends. One that is added to something,
or could land on what is still in use, goes to a place of its own in scratch, from where the receiver takes it.

Every event (a send, a receipt, a copy) has a position in one order of the whole program that respects all
dependencies, and every threadblock works in that order: whatever waits, waits for something earlier, so that nothing
can wait in a circle. Messages from one threadblock to another form a stream, with a channel of its own.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from numpy.typing import NDArray

from pccl.errors import PcclError
from pccl.export.lowering import Messages, Program
from pccl.export.mscclpp.rules import MAX_BUFFERS, MAX_CHANNELS, MAX_CHANNELS_OF_OP, MAX_OPS

__all__ = ["Block", "Schedule", "Stream", "arrange"]

Ints = NDArray[np.int64]
SENDER, RECEIVER, COPIER = range(3)
CHEAPEST = 3  # operations that at least one end needs for a message
MEND = (
    "use fewer chunks, or allow more threadblocks (max_threadblocks, --max-threadblocks) if a GPU runs so many at once"
)
CUTS = (1, 2, 4)  # streams fill a threadblock; or parts of one, which pack better where threadblocks are scarce


@dataclass(eq=False)
class Stream:
    """Messages from one threadblock to another, in the order in which both handle them."""

    src: int
    dst: int
    port: bool
    messages: list[int] = field(default_factory=list)
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
    blocks
        Per rank.
    streams
        All, in the order in which channels are numbered.
    stream_of
        Per message.
    block_of
        Per event; events are numbered as in the program.
    staged
        Per message: whether it lands in scratch, at a place of its own.
    before
        Per event: the events of its rank that must be complete before it.
    answered
        Messages over port channels whose sender must know that they have been read, because something overwrites them.
    position
        Per event.
    """

    program: Program
    blocks: list[list[Block]]
    streams: list[Stream]
    stream_of: list[Stream]
    block_of: list[Block]
    staged: list[bool]
    before: list[list[int]]
    answered: set[int]
    position: list[int]

    def done(self, event: int) -> int:
        """The position at which an event is known to be complete: for some sends, when they are answered."""
        return self.position[event + len(self.program.messages) if event in self.answered else event]


def arrange(program: Program, *, box: int, most: int) -> Schedule:
    """Divide a program among threadblocks, at most `most` on a rank; ports connect boxes of `box` ranks each."""
    m, count = program.messages, len(program.messages)
    before: list[list[int]] = [[] for _ in range(2 * count + len(program.copies))]
    for first, then in zip(program.before.tolist(), program.after.tolist(), strict=True):
        before[then].append(first)
    ports = (m.src // box != m.dst // box).tolist()
    position = _positions(program, before, ports)
    staged = [bool(x) for x in m.reduce]
    for i in range(count):
        if not staged[i] and before[count + i]:
            staged[i] = not _all_precede(before[count + i], i, count, before, position)
            if not staged[i]:
                before[count + i] = []  # whoever sends it knows that they are done
    needed = {first for events in before for first in events}
    answered = {i for i in range(count) if ports[i] and i in needed}
    costs = _costs(count, before, staged, needed, answered, ports)
    for cut in CUTS:
        streams, stream_of = _streams(m, costs, position, ports, cut)
        try:
            blocks, block_of = _blocks(program, streams, position, before, needed, most)
        except PcclError:
            if cut == CUTS[-1]:
                raise
        else:
            break
    return Schedule(program, blocks, streams, stream_of, block_of, staged, before, answered, position)


def _positions(program: Program, before: list[list[int]], ports: list[bool]) -> list[int]:
    """A place for every event in one order that respects all dependencies; by planned time, as far as they allow.

    What is sent over a port may be overwritten when it has been received, not when it has been sent.
    """
    m, count, total = program.messages, len(program.messages), len(before)
    time = np.concatenate([m.start, m.arrival, program.copies.time]).tolist()
    after: list[list[int]] = [[] for _ in range(total)]
    missing = [len(events) for events in before]
    for then, events in enumerate(before):
        for first in events:
            after[first + count if first < count and ports[first] else first].append(then)
    for i in range(count):
        after[i].append(count + i)
        missing[count + i] += 1
    ready = [(time[event], event) for event in range(total) if not missing[event]]
    heapq.heapify(ready)
    position, next_one = [-1] * total, 0
    while ready:
        _, event = heapq.heappop(ready)
        position[event], next_one = next_one, next_one + 1
        for then in after[event]:
            missing[then] -= 1
            if not missing[then]:
                heapq.heappush(ready, (time[then], then))
    if next_one < total:
        over = (
            " over ports; export it out of place, or with all ranks in one box" if any(ports) else "; verify it first"
        )
        raise PcclError(f"messages of the algorithm would wait for each other in a circle{over}")
    return position


def _all_precede(events: list[int], event: int, count: int, before: list[list[int]], position: list[int]) -> bool:
    """Whether all these events are complete, for certain, when another one begins."""
    missing, oldest = set(events), min(position[e] for e in events)
    seen, queue = {event}, [event]
    while queue and missing:
        one = queue.pop()
        missing.discard(one)
        sources = [*before[one], one - count] if count <= one < 2 * count else before[one]
        for earlier in sources:
            if earlier not in seen and position[earlier] >= oldest:
                seen.add(earlier)
                queue.append(earlier)
    return not missing


def _costs(
    count: int, before: list[list[int]], staged: list[bool], needed: set[int], answered: set[int], ports: list[bool]
) -> list[tuple[int, int]]:
    """Per message: how many operations its sender and its receiver need at most."""
    costs = []
    for i in range(count):
        put, answer = (1 if ports[i] else 3), i in answered
        send = put + (2 if before[i] else 0) + (i in needed) + 2 * answer
        receipt = 1 + bool(before[count + i]) + 2 * staged[i] + 2 * (count + i in needed) + 2 * answer
        costs.append((send, receipt))
    return costs


def _room(streams: Sequence[Stream]) -> int:
    """Operations left in a threadblock beside the handshakes of its streams, and the answers to ports at the end."""
    ports = sum(stream.port for stream in streams)
    memory = len(streams) - ports
    return MAX_OPS - 2 * ceil(memory / MAX_CHANNELS_OF_OP) - 3 * ceil(ports / MAX_CHANNELS_OF_OP) - 2


def _streams(
    messages: Messages, costs: list[tuple[int, int]], position: list[int], ports: list[bool], cut: int
) -> tuple[list[Stream], list[Stream]]:
    """Streams between pairs of ranks that fit into a threadblock each; signals have no names, so order must agree."""
    found: list[Stream] = []
    growing: dict[tuple[int, int], list[Stream]] = defaultdict(list)
    src, dst, count = messages.src.tolist(), messages.dst.tolist(), len(messages)
    stream_of: list[Stream] = [Stream(0, 0, port=False)] * count
    for i in sorted(range(count), key=position.__getitem__):
        pair, arrival, new = growing[src[i], dst[i]], position[count + i], Stream(src[i], dst[i], ports[i])
        room = _room([new]) // cut
        for stream in pair:
            if stream.last < arrival and all(c + d <= room for c, d in zip(stream.cost, costs[i], strict=True)):
                break
        else:
            stream = new
            pair.append(stream)
            found.append(stream)
        stream.messages.append(i)
        stream.cost = [c + d for c, d in zip(stream.cost, costs[i], strict=True)]
        stream.last, stream_of[i] = arrival, stream
        if max(stream.cost) + CHEAPEST > room:
            pair.remove(stream)
    return found, stream_of


def _blocks(
    program: Program, streams: list[Stream], position: list[int], before: list[list[int]], needed: set[int], most: int
) -> tuple[list[list[Block]], list[Block]]:
    """Threadblocks: one for each end of a stream as long as there are enough, otherwise several streams share one."""
    count = len(program.messages)
    block_of: list[Block] = [Block(0, 0, 0)] * len(before)
    copies: dict[int, list[int]] = defaultdict(list)
    for k, rank in enumerate(program.copies.rank.tolist()):
        copies[rank].append(2 * count + k)
    ends: dict[tuple[int, int], list[Stream]] = defaultdict(list)
    for stream in streams:
        ends[stream.src, SENDER].append(stream)
        ends[stream.dst, RECEIVER].append(stream)
    blocks: list[list[Block]] = []
    for rank in range(len(program.npus)):
        copying = _copiers(rank, sorted(copies[rank], key=position.__getitem__), before, needed)
        sides = _share(rank, ends[rank, SENDER], ends[rank, RECEIVER], most - len(copying))
        own = [*sides, *copying]
        if len(own) > most:
            what = f"{len(own)} threadblocks, {len(copying)} of them for {len(copies[rank])} copies"
            raise PcclError(f"rank {rank} needs {what}, but may have {most}; {MEND}")
        for number, block in enumerate(own):
            block.number = number
            ways = block.role * count
            block.events += [ways + i for stream in block.streams for i in stream.messages]
            block.events.sort(key=position.__getitem__)
            for event in block.events:
                block_of[event] = block
        blocks.append(own)
    return blocks, block_of


def _copiers(rank: int, copies: list[int], before: list[list[int]], needed: set[int]) -> list[Block]:
    blocks: list[Block] = []
    left = 0
    for event in copies:
        cost = 1 + 2 * bool(before[event]) + 2 * (event in needed)
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
    messages, ops = sum(len(s.messages) for s in streams), sum(s.cost[role] for s in streams)
    verb = "sends" if role == SENDER else "receives"
    return (
        f"rank {rank} {verb} {messages:,} messages, {ops:,} operations, but a threadblock of MSCCL++ has room for "
        f"{MAX_OPS} and {count} threadblocks are left for that; {MEND}"
    )
