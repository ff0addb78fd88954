"""Our own synthesis, for each group on its own devices alone: what process groups gain by helping each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pccl.algorithm import Algorithm
from pccl.analysis.simulator import simulate
from pccl.collective import Collective
from pccl.synthesis import synthesize
from pccl.topology import Topology

__all__ = ["confined"]


def confined(topology: Topology, collectives: Sequence[Collective]) -> Algorithm:
    """Synthesize for each group by itself; then all contend for the links, first come, first served."""
    collectives = [
        collective if collective.chunks else replace(collective, chunks=1)
        for collective in collectives
    ]
    columns = []
    chunks = 0
    for collective in collectives:
        inside = np.zeros(topology.num_devices, np.bool_)
        inside[list(collective.ranks) or topology.npus] = True
        inside[topology.switches] = True
        network = topology.restrict(np.flatnonzero(inside).tolist())
        links = np.flatnonzero(inside[topology.src] & inside[topology.dst])
        own = synthesize(network, collective, verify=False).transfers
        columns.append(
            (own.chunk.astype(np.int64) + chunks, links[own.link], own.start, own.reduce)
        )
        chunks += len(own.conditions)
    joined = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return simulate(Algorithm.build(topology, collectives, *joined), "fifo").to_algorithm()
