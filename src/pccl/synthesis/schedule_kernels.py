"""Compiled passes over the transfers of a schedule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Indices, Ints
from pccl._kernels import kernel
from pccl.network.calendar_kernels import Lanes, first_gap, full, occupy
from pccl.network.graph_kernels import Network


class Moves(NamedTuple):
    """Transfers as kernels time them: each goes from one slot to another.

    A slot says when a chunk is ready at a device: a transfer starts when its sender's slot is complete, and its arrival
    counts towards its receiver's.
    """

    arc: Indices
    size: Indices  # size class
    sender: Ints  # slot
    receiver: Ints  # slot


@kernel
def number_slots(
    net: Network,
    root: Ints,
    collects: int,
    first: Ints,
    arc: Indices,
    slot: Ints,
    sender: Ints,
    receiver: Ints,
) -> None:
    """Number the slots of all transfers: one of its own for each, and one per chunk at its root (`root`, per tree).

    Where a chunk spreads, the slot of a transfer is its receiver; in the first trees, which collect, its sender.
    Transfers of a tree come from its root on, so the slot nearer to the root is known already.
    """
    for tree in range(len(first) - 1):
        reduces = tree < collects
        for i in range(first[tree], first[tree + 1]):
            near = net.src[arc[i]]
            far = net.dst[arc[i]]
            if reduces:
                near, far = far, near
            if i == first[tree]:
                slot[near] = root[tree]
            if reduces:
                sender[i] = i
                receiver[i] = slot[near]
            else:
                sender[i] = slot[near]
                receiver[i] = i
            slot[far] = i


@kernel
def replay(
    net: Network, lanes: Lanes, moves: Moves, order: Ints, start: Ints, ready: Ints, begin: int
) -> int:
    """Start transfers in this order, from number `begin` on, as early as their links and their inputs allow.

    The inputs of a transfer must come before it. Returns the number of the first that did not fit the calendars.
    """
    for number in range(begin, len(order)):
        i = order[number]
        lane = net.lane[moves.arc[i]]
        kind = net.kind[moves.arc[i]]
        hold = net.hold[moves.size[i], kind]
        moment, slot = first_gap(lanes, lane, ready[moves.sender[i]], hold)
        # Nothing has been taken yet for this one: it begins again here when there is more room.
        if full(lanes, lane, moment):
            return number
        occupy(lanes, lane, slot, moment, moment + hold)
        start[i] = moment
        arrival = moment + net.travel[moves.size[i], kind]
        receiver = moves.receiver[i]
        ready[receiver] = max(ready[receiver], arrival)
    return len(order)


@kernel
def gather_trees(
    first: Ints, width: Ints, arc: Indices, start: Ints, out_arc: Indices, out_start: Ints
) -> None:
    """Copy the transfers of all jobs from a pool, where they lie anywhere, to the order of the jobs."""
    row = 0
    for job in range(len(first)):
        for i in range(first[job], first[job] + width[job]):
            out_arc[row] = arc[i]
            out_start[row] = start[i]
            row += 1


@kernel
def last_arrival(net: Network, size: Indices, first: Ints, arc: Indices, start: Ints) -> int:
    """When the last transfer arrives; `size` is the size class of every tree."""
    end = np.int64(0)
    for tree in range(len(first) - 1):
        for i in range(first[tree], first[tree + 1]):
            end = max(end, start[i] + net.travel[size[tree], net.kind[arc[i]]])
    return end
