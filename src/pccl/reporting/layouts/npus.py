"""NPUs joined directly, without switches: lines, rings, cube meshes and cliques."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.reporting.layouts.sketch import Sketch, adjacency, circle, pairs_of, row
from pccl.reporting.layouts.spread import spread
from pccl.topology import Topology

__all__ = ["as_npus", "sketch_of_pairs"]

_LONG_LINE = 24  # NPUs in one row; a longer line turns back at its ends
_SMALL_CIRCLE = 32


def as_npus(topology: Topology) -> Sketch | None:
    """The network as a line, a ring, or what its NPUs form otherwise, if it has no switches."""
    if topology.num_devices > topology.num_npus and len(topology.switches):
        return None
    return sketch_of_pairs(topology.num_devices, pairs_of(topology))


def sketch_of_pairs(count: int, pairs: Ints) -> Sketch:
    """Draw devices of which some pairs are joined."""
    order = _chain(count, pairs)
    if order is not None:
        closed = len(pairs) > 1 and sorted((order[0], order[-1])) in pairs.tolist()
        points = circle(count) if closed else _line(count)
        return Sketch("ring" if closed else "line", _placed(points, order))
    if _is_cube_mesh(count, pairs):
        return Sketch("squares", _squares())
    if (count <= _SMALL_CIRCLE and len(pairs) > 1.4 * count) or len(pairs) == count * (
        count - 1
    ) // 2:
        return Sketch("circle", circle(count))
    return Sketch("spread", spread(count, pairs[:, 0], pairs[:, 1]))


def _chain(count: int, pairs: Ints) -> list[int] | None:
    """The devices in the order of a line or ring, if the pairs form one; by number, if that is an order."""
    apart = pairs[:, 1] - pairs[:, 0]
    if np.all((apart == 1) | (apart == count - 1)):
        return list(range(count))
    joined = adjacency(count, pairs)
    degrees = [len(others) for others in joined]
    if min(degrees) < 1 or max(degrees) > 2:
        return None
    order, last = [degrees.index(1) if 1 in degrees else 0], -1
    while len(order) < count:
        ahead = [other for other in joined[order[-1]] if other != last and other != order[0]]
        if not ahead:
            return None
        last = order[-1]
        order.append(ahead[0])
    return order


def _line(count: int) -> Floats:
    if count <= _LONG_LINE:
        return row(count)
    columns = int(np.ceil(np.sqrt(1.6 * count)))
    y, x = np.divmod(np.arange(count), columns)
    return np.stack([np.where(y % 2, columns - 1 - x, x), y], axis=1).astype(np.float64)


def _is_cube_mesh(count: int, pairs: Ints) -> bool:
    """Whether these are two complete fours of which each device is joined to its twin, as in a DGX-1."""
    if count != 8:
        return False
    inside = pairs // 4
    same = inside[:, 0] == inside[:, 1]
    twins = pairs[~same]
    return (
        np.count_nonzero(same) == 12
        and len(twins) == 4
        and bool(np.all(twins[:, 1] - twins[:, 0] == 4))
    )


def _squares() -> Floats:
    """Two squares beside each other, mirrored, so that two of the four links between twins are short."""
    left = np.array([[1.3, 0.0], [0.0, 0.0], [1.3, 1.3], [0.0, 1.3]])
    return np.concatenate([left, np.array([4.2, 0.0]) + left * (-1, 1)])


def _placed(points: Floats, order: list[int]) -> Floats:
    xy = np.empty_like(points)
    xy[order] = points
    return xy
