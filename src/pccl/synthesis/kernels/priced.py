"""Cheapest ways where every link has a price."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pccl._kernels import inlined, kernel
from pccl.synthesis.kernels.heap import pop, push
from pccl.synthesis.kernels.tables import NEVER, NO_ARC, Indices, Ints

Floats = NDArray[np.float64]


@kernel
def priced_distances(first: Ints, dst: Indices, price: Ints, heap: Ints, table: Ints) -> None:
    """Fill `table[i]` with what the cheapest way from device i to every device costs."""
    for source in range(len(table)):
        row = table[source]
        row[:] = NEVER
        row[source] = 0
        waiting = push(heap, 0, 0, 0, source)
        while waiting > 0:
            waiting = pop(heap, waiting)
            cost, device = heap[waiting, 0], heap[waiting, 2]
            if cost > row[device]:
                continue
            for arc in range(first[device], first[device + 1]):
                if cost + price[arc] < row[dst[arc]]:
                    row[dst[arc]] = cost + price[arc]
                    waiting = push(heap, waiting, row[dst[arc]], 0, dst[arc])


@kernel
def cheapest_loads(
    first: Ints, src: Ints, dst: Ints, price: Floats, demand: Floats, sources: Ints, load: Floats,
    tables: Floats, trees: Ints, heap: Floats, entry: Ints,
) -> None:  # fmt: skip
    """What every arc carries if all demand takes cheapest ways: along one tree for each source."""
    cost, flow, settled = tables[0], tables[1], tables[2]
    arc_to, order = trees[0], trees[1]
    load[:] = 0.0
    for source in sources:
        cost[:], flow[:], settled[:] = np.inf, 0.0, 0.0
        cost[source], arc_to[source] = 0.0, NO_ARC
        waiting, reached = push_float(heap, entry, 0, 0.0, source), 0
        while waiting > 0:
            device = entry[0]
            waiting = pop_float(heap, entry, waiting)
            if settled[device]:
                continue
            settled[device] = 1.0
            order[reached] = device
            reached += 1
            for arc in range(first[device], first[device + 1]):
                if cost[device] + price[arc] < cost[dst[arc]]:
                    cost[dst[arc]], arc_to[dst[arc]] = cost[device] + price[arc], arc
                    waiting = push_float(heap, entry, waiting, cost[dst[arc]], dst[arc])
        for i in range(reached - 1, 0, -1):
            device = order[i]
            arc, carried = arc_to[device], flow[device] + demand[source, device]
            load[arc] += carried
            flow[src[arc]] += carried


@inlined
def push_float(heap: Floats, entry: Ints, size: int, cost: float, device: int) -> int:
    """Add a device to a heap of costs; returns the new size."""
    hole = size
    while hole > 0 and heap[(hole - 1) >> 1] > cost:
        heap[hole], entry[hole] = heap[(hole - 1) >> 1], entry[(hole - 1) >> 1]
        hole = (hole - 1) >> 1
    heap[hole], entry[hole] = cost, device
    return size + 1


@inlined
def pop_float(heap: Floats, entry: Ints, size: int) -> int:
    """Remove the cheapest entry; returns the new size."""
    last = size - 1
    cost, device = heap[last], entry[last]
    hole = np.int64(0)
    while 2 * hole + 1 < last:
        child = 2 * hole + 1
        if child + 1 < last and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= cost:
            break
        heap[hole], entry[hole] = heap[child], entry[child]
        hole = child
    heap[hole], entry[hole] = cost, device
    return last
