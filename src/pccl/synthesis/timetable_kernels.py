"""Routes scheduled again from scratch: each free link takes the ready transfer that matters most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Ints
from pccl._heap_kernels import pop, pop_key, push, push_key
from pccl._kernels import inlined, kernel
from pccl.errors import InternalError
from pccl.network.graph_kernels import Network
from pccl.synthesis.schedule_kernels import Moves


class Queues(NamedTuple):
    """Per lane a heap of ready transfers, the least rank first; all in one array."""

    first: Ints  # where the heap of each lane begins
    count: Ints  # per lane
    rank: Ints
    transfer: Ints
    idle: Ints  # per lane: whether it is free
    touched: Ints  # lanes that something has happened to


class Waiting(NamedTuple):
    """What waits for what: transfers from a slot are followers[first[slot] : first[slot + 1]]."""

    first: Ints
    followers: Ints
    missing: Ints  # per slot: transfers that have yet to arrive there


@kernel
def serve_by_rank(
    net: Network,
    moves: Moves,
    waiting: Waiting,
    rank: Ints,
    queues: Queues,
    heap: Ints,
    start: Ints,
) -> None:
    """Start every transfer; without ranks, in the order in which they become ready."""
    count = len(moves.arc)
    events = np.int64(0)
    sequence = np.int64(0)
    touched = np.int64(0)
    for slot in range(len(waiting.missing)):
        if waiting.missing[slot] == 0:
            touched, sequence = release(net, moves, waiting, rank, queues, slot, touched, sequence)
    time = np.int64(0)
    for _ in range(2 * count + 1):
        for k in range(touched):
            lane = queues.touched[k]
            # A lane may be noted more than once; after the first time it is busy.
            if queues.idle[lane] == 1 and queues.count[lane] > 0:
                i = take(queues, lane)
                start[i] = time
                queues.idle[lane] = 0
                size = moves.size[i]
                kind = net.kind[moves.arc[i]]
                events = push(heap, events, time + net.hold[size, kind], 0, count + lane)
                events = push(heap, events, time + net.travel[size, kind], 1, i)
        if events == 0:
            return
        touched = np.int64(0)
        time = heap[0, 0]
        # All that happens now comes before what it leads to.
        while events > 0 and heap[0, 0] == time:
            events = pop(heap, events)
            event = heap[events, 2]
            if event >= count:
                lane = event - count
                queues.idle[lane] = 1
                queues.touched[touched] = lane
                touched += 1
                continue
            slot = moves.receiver[event]
            waiting.missing[slot] -= 1
            if waiting.missing[slot] == 0:
                touched, sequence = release(
                    net, moves, waiting, rank, queues, slot, touched, sequence
                )
    raise InternalError("transfers arrive or free their links more than once")


@inlined
def release(
    net: Network,
    moves: Moves,
    waiting: Waiting,
    rank: Ints,
    queues: Queues,
    slot: int,
    touched: int,
    sequence: int,
) -> tuple[int, int]:
    """Queue what a complete slot lets go."""
    for k in range(waiting.first[slot], waiting.first[slot + 1]):
        i = waiting.followers[k]
        lane = net.lane[moves.arc[i]]
        put(queues, lane, rank[i] if len(rank) > 0 else sequence, i)
        sequence += 1
        if queues.idle[lane] == 1:
            queues.touched[touched] = lane
            touched += 1
    return touched, sequence


@kernel
def put(queues: Queues, lane: int, rank: int, transfer: int) -> None:
    """Add a transfer to the heap of a lane."""
    low = queues.first[lane]
    high = queues.first[lane + 1]
    count = queues.count[lane]
    queues.count[lane] = push_key(
        queues.rank[low:high], queues.transfer[low:high], count, rank, transfer
    )


@kernel
def take(queues: Queues, lane: int) -> int:
    """Remove the transfer of the least rank from the heap of a lane."""
    low = queues.first[lane]
    high = queues.first[lane + 1]
    taken = queues.transfer[low]
    count = queues.count[lane]
    queues.count[lane] = pop_key(queues.rank[low:high], queues.transfer[low:high], count)
    return taken


@kernel
def weigh(net: Network, moves: Moves, order: Ints, tail: Ints, followers: Ints) -> None:
    """Per slot: how long the longest way on takes, and how many transfers follow, going backwards through an order."""
    # What follows a transfer starts later, so that it has been weighed when the transfer is.
    for k in range(len(order) - 1, -1, -1):
        i = order[k]
        sender = moves.sender[i]
        receiver = moves.receiver[i]
        travel = net.travel[moves.size[i], net.kind[moves.arc[i]]]
        tail[sender] = max(tail[sender], tail[receiver] + travel)
        followers[sender] += followers[receiver] + 1
