"""Baselines whose chunks go from device to device by themselves: direct sends, Bruck's rounds, by dimension."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints
from pccl.analysis.baselines.grids import Grid
from pccl.analysis.baselines.plan import Plan, Task, UnsupportedError, lay_walks
from pccl.synthesis.jobs import gathering, roots

__all__ = ["bruck", "by_dimension", "direct"]


def direct(task: Task) -> Plan:
    """Every chunk to each of its destinations by itself."""
    conditions = task.conditions
    if np.any(conditions.reduces):
        raise UnsupportedError("does not support conditions that reduce")
    gathering(
        task.topology, conditions, roots(task.topology, conditions), steps=False
    )  # refuses what cannot be reached, by name
    chunk = np.repeat(np.arange(len(conditions)), conditions.num_destinations)
    src = conditions.source_ids[conditions.source_offsets[:-1]].astype(np.int64)[chunk]
    src, dst, walk = _pairs(
        src, conditions.destination_ids.astype(np.int64), task.topology.num_devices
    )
    return lay_walks(task, np.arange(len(src)), src, dst, chunk, walk)


def bruck(task: Task) -> Plan:
    """In round k every chunk that has bit k in how far it must go round the group goes on by that much."""
    n = len(task.members)
    src, dst, walk = _places(task)
    done = (1 << np.arange(n.bit_length() + 1)) - 1
    return _by_way_of(task, (src[:, None] + (((dst - src) % n)[:, None] & done)) % n, walk)


def by_dimension(task: Task) -> Plan:
    """Along the last dimension to the right place, then along the one before it."""
    grid = Grid.of(task)
    src, dst, walk = _places(task)
    step = grid.strides[::-1, None] * (grid.place[::-1, dst] - grid.place[::-1, src])
    cells = grid.cell[src] + np.cumsum(np.vstack([np.zeros_like(src), step]), axis=0)
    return _by_way_of(task, grid.member[cells.T], walk)


def _places(task: Task) -> tuple[Ints, Ints, Ints]:
    """Between whom chunks go, by places in the group, and for each chunk which of these pairs is its own."""
    place = np.empty(task.topology.num_devices, np.int64)
    place[task.members] = np.arange(len(task.members))
    conditions = task.conditions
    return _pairs(
        place[conditions.source_ids], place[conditions.destination_ids], len(task.members)
    )


def _pairs(src: Ints, dst: Ints, n: int) -> tuple[Ints, Ints, Ints]:
    pairs, of_chunk = np.unique(src * n + dst, return_inverse=True)
    return *np.divmod(pairs, n), of_chunk.reshape(-1)


def _by_way_of(task: Task, stops: Ints, walk: Ints) -> Plan:
    """Chunks that go from member to member: `stops` has a row for each walk, in which some may come again."""
    src, dst = task.members[stops[:, :-1]], task.members[stops[:, 1:]]
    moves = src != dst
    chunk = task.by_piece
    return lay_walks(task, np.nonzero(moves)[0], src[moves], dst[moves], chunk, walk[chunk])
