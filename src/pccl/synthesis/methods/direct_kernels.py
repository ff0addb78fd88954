"""Fixed routes: from device to device by the shortest way, whatever else goes on."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Column, Indices, Ints
from pccl._kernels import kernel
from pccl.network.graph_kernels import Network


@kernel
def walk(
    net: Network, remaining: Column, row: Indices, source: Indices, size: Indices, first: Ints, arc: Indices
) -> None:  # fmt: skip
    """Write down the arcs that each job takes; with no room for them, how many there are (in `first`, shifted by one).

    Of several shortest ways the one that takes the fastest link first: so chunks change to the place of their
    destination inside a box, and cross to the other box on its rail.
    """
    count = np.int64(0)
    for job in range(len(row)):
        device = np.int64(source[job])
        ahead = remaining[row[job]]
        while ahead[device] > 0:
            best = np.int64(-1)
            for a in range(net.first[device], net.first[device + 1]):
                there = net.travel[size[job], net.kind[a]] + ahead[net.dst[a]]
                if there != ahead[device]:
                    continue
                if (
                    best < 0
                    or net.hold[size[job], net.kind[a]] < net.hold[size[job], net.kind[best]]
                ):
                    best = np.int64(a)
            if len(arc) > 0:
                arc[count] = best
            count += 1
            device = np.int64(net.dst[best])
        if len(arc) == 0:
            first[job + 1] = count
