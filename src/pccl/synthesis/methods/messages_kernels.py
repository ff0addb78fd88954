"""Placing messages one by one, each with all its hops through switches with finite buffers."""

from __future__ import annotations

from typing import NamedTuple

from pccl._arrays import Indices, Ints
from pccl._kernels import kernel
from pccl.errors import InternalError
from pccl.network.graph_kernels import Network
from pccl.synthesis.methods.branch_kernels import fill_stores, room_for
from pccl.synthesis.search_kernels import (
    ARRIVAL,
    DONE,
    PAUSED,
    START,
    World,
    respect_limits,
    take_tree,
)


class Messages(NamedTuple):
    """Messages in the order in which they are placed: rows of message m are row[first[m] : first[m + 1]]."""

    first: Ints
    row: Ints
    job: Indices  # per message
    arc: Indices  # per row
    parent: Ints  # per row: the one that brings what it sends, or -1 where the chunk starts
    start: Ints  # per row, as placed
    arrival: Ints  # per row, as placed


@kernel
def find_heads(
    net: Network, first: Ints, arc: Indices, row_at: Ints, parent: Ints, head: Ints
) -> None:
    """Per transfer: the one that brings what it sends, and the first of its message.

    Transfers of a tree come from its root on, those of a branch together: what a device sends came with the last one
    that got there.
    """
    for tree in range(len(first) - 1):
        for i in range(first[tree], first[tree + 1]):
            sender = net.src[arc[i]]
            if i == first[tree]:
                row_at[sender] = -1
            parent[i] = row_at[sender]
            head[i] = i
            if parent[i] >= 0 and net.store[sender] >= 0:
                head[i] = head[parent[i]]
            row_at[net.dst[arc[i]]] = i


@kernel
def place_in_order(world: World, messages: Messages, begin: int, budget: int) -> tuple[int, int]:
    """Place messages from number `begin` on, each as early as links and buffers allow.

    Returns the first that is not placed yet, and why it stopped.
    """
    net = world.net
    work = world.work
    jobs = world.jobs
    limit = work.search[1] + budget
    for message in range(begin, len(messages.job)):
        if work.search[1] > limit:
            return message, PAUSED
        job = messages.job[message]
        low = messages.first[message]
        width = messages.first[message + 1] - low
        for i in range(width):
            work.tree[i] = messages.arc[messages.row[low + i]]
            work.not_before[net.dst[work.tree[i]]] = 0
        before = messages.parent[messages.row[low]]
        ready = jobs.release[job] if before < 0 else messages.arrival[before]
        work.label[net.src[work.tree[0]], ARRIVAL] = ready
        # Each try gets past a time when some buffer is full.
        for tries in range(world.stores.moment.size + 1):
            if respect_limits(world, job, width, tries, False):
                break
        else:
            raise InternalError("a message is placed more often than buffers can be full")
        status = room_for(world, width)
        if status != DONE:
            return message, status
        work.search[1] += (1 + tries) * width
        size = jobs.size[job]
        take_tree(world, size, width)
        fill_stores(world, size, width)
        for i in range(width):
            receiver = net.dst[work.tree[i]]
            row = messages.row[low + i]
            messages.start[row] = work.label[receiver, START]
            messages.arrival[row] = work.label[receiver, ARRIVAL]
    return len(messages.job), DONE
