"""NPUs joined directly, without switches: lines, rings, cube meshes and cliques."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.reporting.layouts.sketch import Sketch, circle, pairs_of, row
from pccl.reporting.layouts.spread import spread
from pccl.topology import Topology

__all__ = ["as_npus", "sketch_of_pairs"]

# NPUs in one row; a longer line turns back at its ends.
_LONG_LINE = 24
_SMALL_CIRCLE = 32
# Pairs of a DGX-1: two complete fours, of which each device is joined to its twin.
_FOURS = [(a, b) for a in range(8) for b in range(a + 1, 8) if a // 4 == b // 4]
_CUBE_MESH = sorted(_FOURS + [(a, a + 4) for a in range(4)])


def as_npus(topology: Topology) -> Sketch | None:
    """Return the network as a line, a ring, or what its NPUs form otherwise, if it has no switches."""
    if len(topology.switches):
        return None
    return sketch_of_pairs(topology.num_devices, pairs_of(topology))


def sketch_of_pairs(count: int, pairs: Ints) -> Sketch:
    """Return a sketch of devices of which some pairs are joined."""
    joined = [(a, b) for a, b in pairs.tolist()]
    order = _chain(count, joined)
    if order is not None:
        ends = sorted((order[0], order[-1]))
        closed = len(joined) > 1 and (ends[0], ends[1]) in joined
        xy = np.empty((count, 2))
        xy[order] = circle(count) if closed else _line(count)
        return Sketch("ring" if closed else "line", xy)
    if joined == _CUBE_MESH:
        # Two squares beside each other, mirrored, so that two of the four links between twins are short.
        left = np.array([[1.3, 0.0], [0.0, 0.0], [1.3, 1.3], [0.0, 1.3]])
        return Sketch("squares", np.concatenate([left, left * (-1, 1) + (4.2, 0.0)]))
    dense = count <= _SMALL_CIRCLE and len(joined) > 1.4 * count
    if dense or len(joined) == count * (count - 1) // 2:
        return Sketch("circle", circle(count))
    return Sketch("spread", spread(count, pairs))


def _chain(count: int, pairs: list[tuple[int, int]]) -> list[int] | None:
    """Return the devices in the order of a line or ring, if the pairs form one; by number, if that is an order."""
    if all(b - a in (1, count - 1) for a, b in pairs):
        return list(range(count))
    joined: list[list[int]] = [[] for _ in range(count)]
    for a, b in pairs:
        joined[a].append(b)
        joined[b].append(a)
    degrees = [len(others) for others in joined]
    if min(degrees) < 1 or max(degrees) > 2:
        return None
    order = [degrees.index(1) if 1 in degrees else 0]
    while len(order) < count:
        ahead = [other for other in joined[order[-1]] if other not in (order[0], *order[-2:])]
        if not ahead:
            return None
        order.append(min(ahead))
    return order


def _line(count: int) -> Floats:
    if count <= _LONG_LINE:
        return row(count)
    columns = int(np.ceil(np.sqrt(1.6 * count)))
    y, x = np.divmod(np.arange(count), columns)
    return np.stack([np.where(y % 2, columns - 1 - x, x), y], axis=1).astype(np.float64)
