"""Groups that are grids along the dimensions of the network, and what goes along one dimension after another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Column, Ints
from pccl.schemes.sends import Sends, Trees, lay_trees, lay_walks
from pccl.schemes.workload import UnsupportedError, Workload
from pccl.units import counted


@dataclass(frozen=True)
class Grid:
    """A group that takes some places of each dimension, in all combinations.

    Attributes
    ----------
    place
        By dimension and member: its place among those that the group takes.
    member
        The member at each place, with one axis for each dimension.
    """

    place: Ints
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
        place = np.stack([np.unique(along, return_inverse=True)[1].reshape(-1) for along in places])
        sizes = place.max(axis=1) + 1
        if int(np.prod(sizes)) != len(workload.members):
            raise UnsupportedError(
                f"needs groups that are grids along the dimensions of {name}; {workload.collective.kind} "
                f"has {counted(len(workload.members), 'NPU')} where a grid has {' x '.join(map(str, sizes.tolist()))}"
            )
        member = np.empty(sizes, np.int64)
        member[tuple(place)] = np.arange(len(workload.members))
        return cls(place, member)

    def moved(self, dimension: int, place: Column | int) -> Ints:
        """Per member: the one at another place along a dimension, but otherwise at the same."""
        places: list[Column | int] = [*self.place]
        places[dimension] = place
        found: Ints = self.member[tuple(places)]
        return found


def hierarchical(workload: Workload) -> Sends:
    """Go along one dimension after another: by itself with one destination, along trees with more or with sums."""
    grid = Grid.of(workload)
    if not workload.collects and np.all(workload.conditions.num_destinations == 1):
        return _walks(workload, grid)
    return _trees(workload, grid)


def _walks(workload: Workload, grid: Grid) -> Sends:
    """Every chunk along the last dimension to the right place, then along the one before it."""
    src, dst, walk = workload.pairs
    at = grid.place[:, workload.place[src]]
    end = grid.place[:, workload.place[dst]]
    stops = [src]
    for dimension in reversed(range(len(at))):
        at[dimension] = end[dimension]
        stops.append(workload.members[grid.member[tuple(at)]])
    chunk = workload.by_piece
    return lay_walks(workload, np.stack(stops, axis=1), chunk, walk[chunk])


def _trees(workload: Workload, grid: Grid) -> Sends:
    """Spread along the first dimension first and collect along the last one first: in rings, or both ways of a line."""
    closes = [_closes(workload, grid, dimension) for dimension in range(len(grid.place))]

    def trees(inward: bool) -> Trees:
        parent = np.full((len(workload.roots), len(workload.members)), -1, np.int64)
        step = np.zeros_like(parent)
        done = 0
        ahead = 1 if inward else -1
        for dimension, place in enumerate(grid.place):
            size = grid.member.shape[dimension]
            towards = place[workload.roots][:, None] - place
            if closes[dimension]:
                distance = towards * ahead % size
                beside = (place + ahead) % size
            else:
                distance = np.abs(towards)
                beside = place + np.sign(towards)
            # The last dimension in which two members differ is the one that joins them.
            parent = np.where(towards != 0, grid.moved(dimension, beside), parent)
            step = np.where(towards != 0, done + distance, step)
            # Steps along a dimension come after all steps along those before it.
            done += size - 1
        return Trees(parent, step)

    return lay_trees(workload, trees)


def _closes(workload: Workload, grid: Grid, dimension: int) -> bool:
    """Whether the end of a line gets back to its beginning without passing through members."""
    last = np.flatnonzero(grid.place[dimension] == grid.member.shape[dimension] - 1)
    first = grid.moved(dimension, 0)[last]
    paths, _ = workload.paths(workload.members[last], workload.members[first])
    passed = workload.place[workload.topology.dst[paths.link]] >= 0
    return int(np.count_nonzero(passed)) <= len(last)
