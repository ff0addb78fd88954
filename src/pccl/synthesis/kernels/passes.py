"""What takes one pass: moving transfers up, and writing them down by chunk."""

from __future__ import annotations

from pccl._arrays import Indices, Ints
from pccl._kernels import kernel
from pccl.network.calendar_kernels import Lanes, first_gap, full, occupy
from pccl.network.graph_kernels import Network
from pccl.synthesis.kernels.tables import Columns, Moves


@kernel
def number_slots(
    net: Network, chunk: Indices, first: Ints, arc: Indices, reduces: bool, number: int, roots: int, slot: Ints,
    sender: Ints, receiver: Ints,
) -> None:  # fmt: skip
    """Number the places where chunks become ready: one per transfer, counted from `number`, one per chunk at its root.

    Where a chunk spreads, the slot of a transfer is its receiver; where it is collected, its sender. Transfers come
    task by task; those of a task from the root on, if need be backwards in time.
    """
    for task in range(len(first) - 1):
        for i in range(first[task], first[task + 1]):
            near, far = net.src[arc[i]], net.dst[arc[i]]
            if reduces:
                near, far = far, near
            if i == first[task]:
                slot[near] = roots + chunk[task]
            own = number + i
            sender[i], receiver[i] = (own, slot[near]) if reduces else (slot[near], own)
            slot[far] = own


@kernel
def assemble(
    net: Network,
    chunk: Indices,
    first: Ints,
    arc: Indices,
    start: Ints,
    reduces: bool,
    position: Ints,
    out: Columns,
) -> None:
    """Write the transfers of each task to the rows of its chunk, which `position` points to and moves past."""
    for task in range(len(first) - 1):
        row = position[chunk[task]]
        for i in range(first[task], first[task + 1]):
            out.chunk[row], out.link[row] = chunk[task], net.link[arc[i]]
            out.start[row], out.reduce[row] = start[i] * net.unit, reduces
            row += 1
        position[chunk[task]] = row


@kernel
def replay(net: Network, lanes: Lanes, moves: Moves, ready: Ints, begin: int) -> int:
    """Start transfers, from number `begin` on, as early as their links and their inputs allow.

    The inputs of a transfer must come before it. Returns the first transfer that did not fit the calendars.
    """
    for i in range(begin, len(moves.arc)):
        lane, kind, size = net.lane[moves.arc[i]], net.kind[moves.arc[i]], moves.size[i]
        start, slot = first_gap(lanes, lane, ready[moves.sender[i]], net.hold[size, kind])
        if full(lanes, lane, start):
            return i
        occupy(lanes, lane, slot, start, start + net.hold[size, kind])
        moves.start[i] = start
        ready[moves.receiver[i]] = max(ready[moves.receiver[i]], start + net.travel[size, kind])
    return len(moves.arc)
