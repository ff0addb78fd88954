"""Fixed routes: from device to device by the shortest way, whatever else goes on."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Column, Indices, Ints
from pccl._kernels import kernel
from pccl.errors import InternalError
from pccl.network.graph_kernels import NO_ARC, Network


@kernel
def walk(
    net: Network, remaining: Column, row: Indices, source: Indices, size: Indices, first: Ints, arc: Indices
) -> None:  # fmt: skip
    """Write down the arcs that each job takes; with no room for them, how many there are (in `first`, shifted by one).

    Every hop is nearer to the destination than the one before it, so a way has fewer hops than there are devices.
    """
    count = np.int64(0)
    for job in range(len(row)):
        device = np.int64(source[job])
        ahead = remaining[row[job]]
        for _ in range(len(ahead)):
            if ahead[device] == 0:
                break
            best = next_arc(net, ahead, device, size[job])
            if len(arc) > 0:
                arc[count] = best
            count += 1
            device = np.int64(net.dst[best])
        if ahead[device] > 0:
            raise InternalError("a fixed route does not end at its destination")
        if len(arc) == 0:
            first[job + 1] = count


@kernel
def next_arc(net: Network, ahead: Column, device: int, size: int) -> int:
    """The arc by which a chunk of that size gets on best, of those that lead nearer to its destination.

    What is ahead may be the time of a smaller chunk, as sizes share tables of distances: then no arc takes just what is
    missing. Of equally short ways the one that takes the fastest link first: so chunks change to the place of their
    destination inside a box, and cross to the other box on its rail.
    """
    best = NO_ARC
    least = np.int64(0)
    for arc in range(net.first[device], net.first[device + 1]):
        if ahead[net.dst[arc]] >= ahead[device]:
            continue
        there = net.travel[size, net.kind[arc]] + ahead[net.dst[arc]]
        is_as_short = best != NO_ARC and there == least
        is_faster = is_as_short and net.hold[size, net.kind[arc]] < net.hold[size, net.kind[best]]
        if best == NO_ARC or there < least or is_faster:
            best = np.int64(arc)
            least = there
    if best == NO_ARC:
        raise InternalError("a fixed route meets a device from which nothing leads nearer")
    return best
