"""Shortest ways over the arcs of a network, by any weights, and what the cheapest ways load."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Bools, Floats, Indices, Ints
from pccl._heap_kernels import pop, pop_key, push, push_key
from pccl._kernels import kernel
from pccl.errors import InternalError

NEVER = np.int64(2**62)
NO_ARC = np.int64(-1)


class Network(NamedTuple):
    """Arcs grouped by the device they leave, and what limits the devices. Times are in units."""

    first: Ints  # arcs of device d are first[d] .. first[d + 1] - 1
    src: Indices
    dst: Indices
    link: Indices
    lane: Indices
    # Column of the tables below: links of equal bandwidth and latency are of one kind.
    kind: Indices
    hold: Ints  # [size class, kind]: how long a transfer keeps the lane from others
    travel: Ints  # [size class, kind]: from its start until the receiver has it all
    duration: Ints  # [size class, kind]: from the first byte to the last; exact in units only for limited networks
    store: Ints  # per device: row of the stores of a switch with a finite buffer, or -1
    passes: Bools  # per device: a switch that does not multiply: what comes in leaves once
    any_passes: bool
    limited: bool
    unit: int  # picoseconds


@kernel
def all_shortest(
    first: Ints, dst: Indices, weight: Ints, sources: Ints, heap: Ints, table: Ints
) -> None:
    """Fill `table[i]` with the least weight of a way from `sources[i]` to every device."""
    for i in range(len(sources)):
        shortest(first, dst, weight, sources[i : i + 1], heap, table[i])


@kernel
def shortest(first: Ints, dst: Indices, weight: Ints, sources: Ints, heap: Ints, row: Ints) -> None:
    """Fill `row` with the least weight of a way to every device from the nearest of some sources."""
    row[:] = NEVER
    waiting = 0
    for device in sources:
        row[device] = 0
        waiting = push(heap, waiting, 0, 0, device)
    # Nothing gets nearer once it was the nearest, so every arc leads on once.
    for _ in range(len(sources) + len(dst) + 1):
        if waiting == 0:
            break
        waiting = pop(heap, waiting)
        total = heap[waiting, 0]
        device = heap[waiting, 2]
        if total > row[device]:  # a shorter way was found after this entry was added
            continue
        for arc in range(first[device], first[device + 1]):
            there = total + weight[arc]
            if there < row[dst[arc]]:
                row[dst[arc]] = there
                waiting = push(heap, waiting, there, 0, dst[arc])
    else:
        raise InternalError("shortest ways take an arc more than once")


@kernel
def cheapest_loads(
    first: Ints, src: Ints, dst: Ints, price: Floats, demand: Floats, sources: Ints, load: Floats,
    tables: Floats, trees: Ints, heap: Floats, entry: Ints,
) -> None:  # fmt: skip
    """What every arc carries if all demand takes cheapest ways: along one tree for each source."""
    cost = tables[0]
    flow = tables[1]
    settled = tables[2]
    arc_to = trees[0]
    order = trees[1]
    load[:] = 0.0
    for source in sources:
        cost[:] = np.inf
        flow[:] = 0.0
        settled[:] = 0.0
        cost[source] = 0.0
        arc_to[source] = NO_ARC
        waiting = push_key(heap, entry, 0, 0.0, source)
        reached = 0
        for _ in range(len(dst) + 2):
            if waiting == 0:
                break
            device = entry[0]
            waiting = pop_key(heap, entry, waiting)
            # Keys in the heap are never lowered; a device that was found cheaper is in it twice.
            if settled[device]:
                continue
            settled[device] = 1.0
            order[reached] = device
            reached += 1
            for arc in range(first[device], first[device + 1]):
                if cost[device] + price[arc] < cost[dst[arc]]:
                    cost[dst[arc]] = cost[device] + price[arc]
                    arc_to[dst[arc]] = arc
                    waiting = push_key(heap, entry, waiting, cost[dst[arc]], dst[arc])
        else:
            raise InternalError("cheapest ways take an arc more than once")
        # From the farthest device inwards: what a device passes on to others is known before its
        # own arc is charged with all of it.
        for i in range(reached - 1, 0, -1):
            device = order[i]
            arc = arc_to[device]
            carried = flow[device] + demand[source, device]
            load[arc] += carried
            flow[src[arc]] += carried
