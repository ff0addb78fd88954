"""Batches of messages as threadblocks of MSCCL++: streams between them, and the order of their work.

Every event (a send, a receipt, a copy) has a position in one order of the whole program that respects all
dependencies, and every threadblock works in that order: whatever waits, waits for something earlier, so that nothing
can wait in a circle. Batches from one threadblock to another form a stream, with a channel of its own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from pccl._arrays import Bools, Ints, distinct
from pccl.errors import PcclError
from pccl.formats.lowering import Program
from pccl.formats.mscclpp.batches import Batches, single
from pccl.formats.mscclpp.joining import MOST_TOGETHER, Joining
from pccl.formats.mscclpp.packing import (
    COPIER,
    MEND,
    RECEIVER,
    SENDER,
    Block,
    Full,
    Stream,
    room_of,
    share,
)
from pccl.formats.mscclpp.packing_kernels import fill_streams
from pccl.formats.mscclpp.plan import (
    MAX_OPS,
    MAX_SEMAPHORES_OF_OP,
)

# Operations that at least one end needs for a message.
CHEAPEST = 3
# Streams to fill a threadblock; short ones pack better, long ones need fewer channels.
LONG = 1
SHORT = 4
# Of the operations of all threadblocks, the share that is filled without joining more messages than necessary; where
# that leaves streams without a place, rank by rank a smaller one, at most so many times as large.
FILLED = 0.89
SHRINK = 0.97
ROUNDS = 10


@dataclass(eq=False)
class Schedule:
    """The threadblocks of all ranks.

    Attributes
    ----------
    batches
        What is sent and received.
    streams
        All, in the order in which channels are numbered.
    blocks
        Per rank.
    answered
        Batches over ports whose sender must know that they have been read, because something overwrites them.
    """

    program: Program
    batches: Batches
    streams: list[Stream]
    blocks: list[list[Block]]
    answered: set[int]

    def __post_init__(self) -> None:
        self.position: list[int] = self.batches.position.tolist()
        self.stream_of = {i: stream for stream in self.streams for i in stream.batches}

    def done(self, event: int) -> int:
        """The position at which an event is known to be complete: for some sends, when they are answered."""
        return self.position[event + len(self.batches) if event in self.answered else event]


def arrange(program: Program, *, box: int, most: int) -> Schedule:
    """Divide a program among threadblocks, at most `most` on a rank; ports connect boxes of `box` ranks each."""
    _refuse_hopeless(program, box, most)
    singles = single(program, box)
    load = _load(program, singles, _costs(singles))
    # Single messages run earliest. Nothing is packed in vain: operations take room in any case.
    overfull = load.max(initial=0) > most * MAX_OPS
    for cut in () if overfull else (LONG, SHORT):
        found, failed = _arranged(program, singles, cut, most)
        if found is not None:
            return found
    # Joining them is for ranks that have no room otherwise.
    room = np.full(len(load), int(FILLED * most * MAX_OPS))
    fewest = len(singles)
    joining = Joining(singles, load)
    for _ in range(ROUNDS):
        batches = joining.within(room)
        found, failed = _arranged(program, batches, SHORT, most)
        if found is not None:
            return found
        # Nothing is left that could be joined.
        if len(batches) == fewest:
            break
        fewest = len(batches)
        for rank, full in failed.items():
            room[rank] *= min(SHRINK, most / full.needed)
    raise PcclError(next(iter(failed.values())).reason)


def expected_load(program: Program) -> Ints:
    """Per rank: about how many operations it has if messages go one by one, without finding out which are staged."""
    m = program.messages
    count = len(m)
    ranks = len(program.npus)
    events = 2 * count + len(program.copies.rank)
    waits = np.bincount(program.after, minlength=events) > 0
    tells = np.bincount(program.before, minlength=events) > 0
    # As in `_costs`: what waits, or is waited for, takes two operations more.
    sends = 3 + 2 * waits[:count]
    receipts = 1 + 2 * m.reduce + 2 * tells[count : 2 * count]
    load: Ints = np.bincount(program.copies.rank, minlength=ranks)
    np.add.at(load, m.src, sends)
    np.add.at(load, m.dst, receipts)
    return load


def _refuse_hopeless(program: Program, box: int, most: int) -> None:
    """Raise if a rank has too much to do however its messages are joined; finding out by joining them takes long."""
    m = program.messages
    ranks = len(program.npus)
    pair = m.src * ranks + m.dst

    def batches(which: Ints | Bools) -> Ints:
        """Per sender and receiver: in how many batches these messages are at least."""
        count = np.bincount(pair[which], minlength=ranks**2)
        return -(-count // MOST_TOGETHER).reshape(ranks, ranks)

    # What a send waits for cannot turn out to be needless.
    waiting = program.after < len(m)
    heard = program.before[waiting] - len(m)
    heard = distinct(heard[(heard >= 0) & (heard < len(m))])
    every = batches(np.arange(len(m)))
    boxes = np.arange(ranks) // box
    by_memory = boxes[:, np.newaxis] == boxes
    # As in `_costs`: a put each, and what is added is taken from where it has landed; a batch is signalled and waited
    # for, and whoever waits for others or tells others synchronizes.
    sending = 2 * by_memory * every + 2 * batches(distinct(program.after[waiting]))
    receiving = every + 2 * batches(heard) + batches(m.reduce)
    least = np.bincount(m.src, minlength=ranks) + np.bincount(m.dst[m.reduce], minlength=ranks)
    least += np.bincount(program.copies.rank, minlength=ranks)
    least += sending.sum(axis=1) + receiving.sum(axis=0)
    if least.max(initial=0) > most * MAX_OPS:
        raise PcclError(
            f"rank {least.argmax()} needs {least.max():,} operations or more, but a threadblock of MSCCL++ has room "
            f"for {MAX_OPS} and a rank may have {most} of them; {MEND}"
        )


def _arranged(
    program: Program, batches: Batches, cut: int, most: int
) -> tuple[Schedule | None, dict[int, Full]]:
    """The threadblocks for these batches; or none, and the ranks that have too few, with the reason."""
    costs = _costs(batches)
    streams = _streams(batches, costs, cut)
    blocks, failed = _blocks(program, batches, costs.tolist(), streams, most)
    if failed:
        return None, failed
    answered = {*np.flatnonzero(batches.answered).tolist()}
    return Schedule(program, batches, streams, blocks, answered), {}


def _costs(batches: Batches) -> Ints:
    """Per event: how many operations it needs at most."""
    count = len(batches)
    answered = batches.answered
    waits = -(-batches.needs // MAX_SEMAPHORES_OF_OP)
    tells = -(-batches.followers // MAX_SEMAPHORES_OF_OP)
    messages = np.array([len(batch) for batch in batches.messages], np.int64)
    is_staged = batches.staged.__getitem__
    staged = np.array([sum(map(is_staged, batch)) for batch in batches.messages], np.int64)
    # All wait for others, work, and tell others; in between they synchronize.
    costs: Ints = waits + tells
    sends, receipts, copies = np.split(np.arange(len(costs)), [count, 2 * count])
    # A sender puts, and signals after a synchronization if the put does not.
    costs[sends] += (waits[sends] > 0) + messages + 2 * ~batches.port + 2 * answered
    # A receiver waits for the signal, and takes what is staged.
    costs[receipts] += 1 + (staged > 0) + staged + (tells[receipts] > 0) + 2 * answered
    costs[copies] += 1 + (waits[copies] > 0) + (tells[copies] > 0)
    return costs


def _load(program: Program, batches: Batches, costs: Ints) -> Ints:
    """Per rank: the operations of all that it does."""
    owner = np.concatenate([batches.src, batches.dst, program.copies.rank])
    load: Ints = np.zeros(len(program.npus), np.int64)
    np.add.at(load, owner, costs)
    return load


def _streams(batches: Batches, costs: Ints, cut: int) -> list[Stream]:
    """Streams between pairs of ranks that fit into a threadblock each; signals have no names, so order must agree."""
    count = len(batches)
    src = batches.src
    dst = batches.dst
    ranks = int(max(src.max(initial=0), dst.max(initial=0))) + 1
    order = np.argsort(batches.position[:count])
    arrival = batches.position[count + order]
    # A stream goes into one threadblock, together with others if it is cut short.
    room = np.where(batches.port, room_of(0, 1), room_of(1, 0)) // cut
    oldest = np.full(ranks**2, -1, np.int64)
    younger, last, stream_of = np.empty((3, count), np.int64)
    total = np.empty((count, 2), np.int64)
    fill_streams(
        (src * ranks + dst)[order], arrival, costs[order], costs[count + order], room[order], CHEAPEST, oldest,
        younger, total, last, stream_of,
    )  # fmt: skip
    # Streams are numbered in the order of their first batches.
    _, firsts = np.unique(stream_of, return_index=True)
    ends = (column[order[firsts]].tolist() for column in (src, dst, batches.port))
    streams = [Stream(*one) for one in zip(*ends, total[: len(firsts)].tolist(), strict=True)]
    for i, number in zip(order.tolist(), stream_of.tolist(), strict=True):
        streams[number].batches.append(i)
    return streams


def _blocks(
    program: Program, batches: Batches, costs: list[int], streams: list[Stream], most: int
) -> tuple[list[list[Block]], dict[int, Full]]:
    """Threadblocks: one for each end of a stream as long as there are enough, otherwise several streams share one.

    Also the ranks that have too few of them, with the reason.
    """
    count = len(batches)
    place = batches.position.tolist().__getitem__
    copies: dict[int, list[int]] = defaultdict(list)
    for event, rank in enumerate(program.copies.rank.tolist(), 2 * count):
        copies[rank].append(event)
    ends: dict[tuple[int, int], list[Stream]] = defaultdict(list)
    for stream in streams:
        ends[stream.src, SENDER].append(stream)
        ends[stream.dst, RECEIVER].append(stream)
    blocks: list[list[Block]] = []
    failed: dict[int, Full] = {}
    for rank in range(len(program.npus)):
        # Copies need not wait for any channel, and get threadblocks of their own.
        copying = _copiers(sorted(copies[rank], key=place), costs)
        sides = share(rank, ends[rank, SENDER], ends[rank, RECEIVER], most - len(copying))
        if isinstance(sides, Full):
            failed[rank] = sides._replace(needed=sides.needed + len(copying))
            continue
        own = [*sides, *copying]
        if len(own) > most:
            what = f"{len(own)} threadblocks, {len(copying)} of them for {len(copies[rank])} copies"
            reason = f"rank {rank} needs {what}, but may have {most}; {MEND}"
            failed[rank] = Full(reason, len(own))
        for block in own:
            first = block.role * count
            block.events += [first + i for stream in block.streams for i in stream.batches]
            block.events.sort(key=place)
        blocks.append(own)
    return blocks, failed


def _copiers(copies: list[int], costs: list[int]) -> list[Block]:
    blocks: list[Block] = []
    left = 0
    for event in copies:
        if costs[event] > left:
            blocks.append(Block(COPIER))
            left = MAX_OPS
        blocks[-1].events.append(event)
        left -= costs[event]
    return blocks
