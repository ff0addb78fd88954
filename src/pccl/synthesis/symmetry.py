"""Symmetries: moves of all NPUs of a network to one another after which it looks the same.

Only those are looked for that the shape of the network suggests: one step around a ring, a quarter turn of a square,
and from one end of a side to the other. They are taken together as long as each move leaves no NPU in its place, or all
of them. Then NPUs that are moved to one another are so by one move each, and likewise links.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from pccl._arrays import Ints
from pccl.topology import Topology


def symmetries(topology: Topology) -> Ints:
    """[move, NPU]: where each move takes each NPU; the first leaves all in their places.

    Examples
    --------
    >>> import pccl
    >>> symmetries(pccl.topology.mesh(2, 2)).tolist()
    [[0, 1, 2, 3], [2, 3, 0, 1], [1, 0, 3, 2], [3, 2, 1, 0]]
    >>> [len(symmetries(pccl.topology.parse_topology(name))) for name in ("torus:4x4x4", "mesh:4x6", "mesh:3x3")]
    [64, 4, 1]
    """
    moves = np.arange(topology.num_npus)[None, :]
    if topology.num_npus < topology.num_devices or topology.num_npus != np.prod(topology.shape):
        return moves
    for move in _suggested(topology.shape):
        if _looks_the_same(topology, move):
            more = _together(moves, move)
            if more is not None:
                moves = more
    return moves


def _suggested(shape: tuple[int, ...]) -> Iterator[Ints]:
    number = np.arange(np.prod(shape)).reshape(shape)
    sides = [side for side, length in enumerate(shape) if length > 1]
    for side in sides:
        yield np.roll(number, -1, side).ravel()
    for first, second in combinations(sides, 2):
        if shape[first] == shape[second]:
            yield np.rot90(number, axes=(first, second)).ravel()
    for side in sides:
        yield np.flip(number, side).ravel()


def _looks_the_same(topology: Topology, move: Ints) -> bool:
    """Whether the links between NPUs that were moved are those between the NPUs where they are now."""
    before = _links(topology, np.arange(len(move)))
    return bool(np.array_equal(before, _links(topology, move)))


def _links(topology: Topology, place: Ints) -> Ints:
    """All links, as rows in a fixed order, of NPUs that are at other places."""
    ends = place[topology.src], place[topology.dst]
    features = topology.bandwidth, topology.latency, topology.gap, topology.exclusive
    rows = np.stack([*ends, *features], axis=1).astype(np.int64)
    return rows[np.lexsort(rows.T)]


def _together(moves: Ints, move: Ints) -> Ints | None:
    """All moves that are made of these and one more; None if one of them leaves some NPUs in place, but not all."""
    found = {one.tobytes(): one for one in moves}
    new = [move]
    while new:
        one = new.pop(0)
        if one.tobytes() in found:
            continue
        # Of more moves than NPUs, two take one of them to the same place: one and back by the other leaves it there.
        if np.any(one == np.arange(len(one))) or len(found) == len(one):
            return None
        found[one.tobytes()] = one
        new += [other[one] for other in [*moves, move]]
    return np.array(list(found.values()))
