"""Baselines whose chunks go from device to device by themselves: direct sends, and Bruck's rounds."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints
from pccl.analysis.baselines.sends import Sends, lay_walks
from pccl.analysis.baselines.workload import UnsupportedError, Workload
from pccl.network import no_way

__all__ = ["bruck", "direct", "pairs"]


def direct(workload: Workload) -> Sends:
    """Every chunk to each of its destinations by itself."""
    if workload.collects:
        raise UnsupportedError("does not support conditions that reduce")
    conditions = workload.conditions
    chunk = np.repeat(np.arange(len(conditions)), conditions.num_destinations)
    src, dst, walk = pairs(workload)
    unreachable = (src != dst) & (workload.towards[workload.place[dst], src] < 0)
    if np.any(unreachable):
        first = int(np.argmax(unreachable[walk]))
        ends = int(src[walk[first]]), int(dst[walk[first]])
        raise no_way(workload.topology, int(chunk[first]), *ends)
    return lay_walks(workload, np.stack([src, dst], axis=1), chunk, walk)


def bruck(workload: Workload) -> Sends:
    """In round k every chunk that has bit k in how far it must go round the group goes on by that much."""
    n = len(workload.members)
    src, dst, walk = pairs(workload)
    begin = workload.place[src][:, None]
    distance = (workload.place[dst][:, None] - begin) % n
    # After k rounds, the k lowest bits of the distance have been covered.
    lowest_bits = (1 << np.arange(n.bit_length() + 1)) - 1
    stops = workload.members[(begin + (distance & lowest_bits)) % n]
    chunk = workload.by_piece
    return lay_walks(workload, stops, chunk, walk[chunk])


def pairs(workload: Workload) -> tuple[Ints, Ints, Ints]:
    """Between which devices chunks go, and for each chunk and destination which of these pairs is its own."""
    conditions = workload.conditions
    devices = workload.topology.num_devices
    source = conditions.source_ids[conditions.source_offsets[:-1]].astype(np.int64)
    src = np.repeat(source, conditions.num_destinations)
    found, walk = np.unique(src * devices + conditions.destination_ids, return_inverse=True)
    return *np.divmod(found, devices), walk.reshape(-1)
