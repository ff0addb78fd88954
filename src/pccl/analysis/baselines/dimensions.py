"""Groups that are grids along the dimensions of the network, and what goes along one dimension after another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Ints
from pccl.analysis.baselines.sends import Sends, Trees, lay_trees, lay_walks
from pccl.analysis.baselines.workload import UnsupportedError, Workload


@dataclass(frozen=True)
class Grid:
    """A group that takes some places of each dimension, in all combinations.

    Attributes
    ----------
    place
        By dimension and member: its place among those that the group takes.
    sizes, strides
        By dimension: how many there are, and how far apart neighbours are in a count of cells.
    cell, member
        The cell of each member, counted row by row, and the member in each cell.
    """

    place: Ints
    sizes: Ints
    strides: Ints
    cell: Ints
    member: Ints

    @classmethod
    def of(cls, workload: Workload) -> Grid:
        """The group of a workload; raises if it is no grid."""
        name = workload.topology.name
        shape = workload.topology.shape
        if len(shape) < 2:
            raise UnsupportedError(
                f"needs a network with dimensions, such as mesh:4x4; {name} has none"
            )
        # Counted among the places that occur: every second column of a grid is a grid, too.
        places = np.unravel_index(workload.members, shape)
        place = np.stack(
            [np.unique(along, return_inverse=True)[1].reshape(-1) for along in places]
        ).astype(np.int64)
        sizes = place.max(axis=1) + 1
        if int(np.prod(sizes)) != len(workload.members):
            raise UnsupportedError(
                f"needs groups that are grids along the dimensions of {name}; {workload.collective.kind} "
                f"has {len(workload.members)} NPUs where a grid has {' x '.join(map(str, sizes.tolist()))}"
            )
        strides = np.append(np.cumprod(sizes[:0:-1])[::-1], 1)
        cell = strides @ place
        return cls(place, sizes, strides, cell, np.argsort(cell))


def hierarchical(workload: Workload) -> Sends:
    """Go along one dimension after another: by itself with one destination, along trees with more or with sums."""
    grid = Grid.of(workload)
    if not workload.collects and np.all(workload.conditions.num_destinations == 1):
        return _walks(workload, grid)
    return _trees(workload, grid)


def _walks(workload: Workload, grid: Grid) -> Sends:
    """Every chunk along the last dimension to the right place, then along the one before it."""
    src, dst, walk = workload.pairs
    begin = workload.place[src]
    way = grid.place[:, workload.place[dst]] - grid.place[:, begin]
    steps = (grid.strides[:, None] * way)[::-1]
    cells = grid.cell[begin] + np.cumsum(np.vstack([np.zeros_like(begin), steps]), axis=0)
    stops = workload.members[grid.member[cells.T]]
    chunk = workload.by_piece
    return lay_walks(workload, stops, chunk, walk[chunk])


def _trees(workload: Workload, grid: Grid) -> Sends:
    """Spread along the first dimension first and collect along the last one first: in rings, or both ways of a line."""
    closes = [_closes(workload, grid, dimension) for dimension in range(len(grid.sizes))]

    def trees(inward: bool) -> Trees:
        parent = np.full((len(workload.roots), len(workload.members)), -1, np.int64)
        step = np.zeros_like(parent)
        done = 0
        ahead = 1 if inward else -1
        for place, size, stride, ring in zip(
            grid.place, grid.sizes.tolist(), grid.strides.tolist(), closes, strict=True
        ):
            towards = place[workload.roots][:, None] - place
            if ring:
                distance = towards * ahead % size
                beside = (place + ahead) % size - place
            else:
                distance = np.abs(towards)
                beside = np.sign(towards)
            # The last dimension in which two members differ is the one that joins them.
            parent = np.where(towards != 0, grid.member[grid.cell + beside * stride], parent)
            step = np.where(towards != 0, done + distance, step)
            # Steps along a dimension come after all steps along those before it.
            done += size - 1
        return Trees(parent, step)

    return lay_trees(workload, trees)


def _closes(workload: Workload, grid: Grid, dimension: int) -> bool:
    """Whether the end of a line gets back to its beginning without passing through members."""
    length = int(grid.sizes[dimension]) - 1
    last = np.flatnonzero(grid.place[dimension] == length)
    first = grid.member[grid.cell[last] - length * grid.strides[dimension]]
    paths, _ = workload.paths(workload.members[last], workload.members[first])
    passed = workload.place[workload.topology.dst[paths.link]] >= 0
    return int(np.count_nonzero(passed)) <= len(last)
