"""Routes scheduled again from scratch: each free link takes the ready transfer that matters most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Ints
from pccl._heap_kernels import pop, push
from pccl._kernels import inlined, kernel
from pccl.network.graph_kernels import Network
from pccl.synthesis.kernels.tables import Moves


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
    net: Network, moves: Moves, waiting: Waiting, rank: Ints, queues: Queues, heap: Ints
) -> int:
    """Start every transfer; without ranks, in the order in which they become ready. Returns when the last arrives."""
    count, end = len(moves.arc), np.int64(0)
    events, sequence, touched = np.int64(0), np.int64(0), np.int64(0)
    for slot in range(len(waiting.missing)):
        if waiting.missing[slot] == 0:
            touched, sequence = release(net, moves, waiting, rank, queues, slot, touched, sequence)
    time = np.int64(0)
    while True:
        for k in range(touched):
            lane = queues.touched[k]
            if queues.idle[lane] == 1 and queues.count[lane] > 0:
                i = take(queues, lane)
                size, kind = moves.size[i], net.kind[moves.arc[i]]
                moves.start[i], queues.idle[lane] = time, 0
                arrival = time + net.travel[size, kind]
                end = max(end, arrival)
                events = push(heap, events, time + net.hold[size, kind], 0, count + lane)
                events = push(heap, events, arrival, 1, i)
        if events == 0:
            return end
        touched, time = np.int64(0), heap[0, 0]
        while (
            events > 0 and heap[0, 0] == time
        ):  # all that happens now comes before what it leads to
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
    low, hole = queues.first[lane], queues.count[lane]
    queues.count[lane] += 1
    while hole > 0 and queues.rank[low + ((hole - 1) >> 1)] > rank:
        parent = (hole - 1) >> 1
        queues.rank[low + hole], queues.transfer[low + hole] = (
            queues.rank[low + parent],
            queues.transfer[low + parent],
        )
        hole = parent
    queues.rank[low + hole], queues.transfer[low + hole] = rank, transfer


@kernel
def take(queues: Queues, lane: int) -> int:
    """Remove the transfer of the least rank from the heap of a lane."""
    low, last = queues.first[lane], queues.count[lane] - 1
    taken = queues.transfer[low]
    rank, transfer = queues.rank[low + last], queues.transfer[low + last]
    queues.count[lane] = last
    hole = np.int64(0)
    while 2 * hole + 1 < last:
        child = 2 * hole + 1
        if child + 1 < last and queues.rank[low + child + 1] < queues.rank[low + child]:
            child += 1
        if queues.rank[low + child] >= rank:
            break
        queues.rank[low + hole], queues.transfer[low + hole] = (
            queues.rank[low + child],
            queues.transfer[low + child],
        )
        hole = child
    queues.rank[low + hole], queues.transfer[low + hole] = rank, transfer
    return taken


@kernel
def weigh(net: Network, moves: Moves, order: Ints, tail: Ints, followers: Ints) -> None:
    """Per slot: how long the longest way on takes, and how many transfers follow, going backwards through an order."""
    for k in range(len(order) - 1, -1, -1):
        i = order[k]
        sender, receiver = moves.sender[i], moves.receiver[i]
        tail[sender] = max(
            tail[sender], tail[receiver] + net.travel[moves.size[i], net.kind[moves.arc[i]]]
        )
        followers[sender] += followers[receiver] + 1
