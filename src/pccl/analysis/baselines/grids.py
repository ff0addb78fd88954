"""Groups as grids: the places of members along the dimensions of the network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Ints
from pccl.analysis.baselines.plan import Task, UnsupportedError

__all__ = ["Grid"]


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
    def of(cls, task: Task) -> Grid:
        """The group of a task; raises if it is no grid."""
        shape = task.topology.shape
        if len(shape) < 2:
            raise UnsupportedError(
                f"needs a network with dimensions, such as mesh:4x4; {task.topology.name} has none"
            )
        places = np.unravel_index(task.members, shape)
        place = np.stack(
            [np.unique(along, return_inverse=True)[1].reshape(-1) for along in places]
        ).astype(np.int64)
        sizes = place.max(axis=1) + 1
        if int(np.prod(sizes)) != len(task.members):
            raise UnsupportedError(
                f"needs groups that are grids along the dimensions of {task.topology.name}; {task.collective.kind} "
                f"has {len(task.members)} NPUs where a grid has {' x '.join(map(str, sizes.tolist()))}"
            )
        strides = np.append(np.cumprod(sizes[:0:-1])[::-1], 1)
        cell = strides @ place
        return cls(place, sizes, strides, cell, np.argsort(cell))
