"""What NCCL runs: rings and double trees over all channels at once, and sums and copies made in NVSwitches.

Data is spread over the channels, and goes along each of them piece by piece.
"""

from __future__ import annotations

import numpy as np

from pccl._arrays import Bools, Ints
from pccl.schemes.channels import Boxes, Load, boxes_of, rings_of
from pccl.schemes.sends import Sends, Trees, lay_trees
from pccl.schemes.textbook import binary_parents, depths
from pccl.schemes.workload import UnsupportedError, Workload
from pccl.topology.parts import SWITCH


def nccl_ring(workload: Workload) -> Sends:
    """Shares go round all rings, every piece round one of them."""
    return along_rings(workload, rings_of(workload))


def along_rings(workload: Workload, rings: Ints) -> Sends:
    """Shares go round these rings of members, every piece round one of them."""
    n = len(workload.members)
    place = np.empty_like(rings)
    np.put_along_axis(place, rings, np.arange(n)[None], axis=1)
    # Pieces of a share take rings in turn, and shares begin with different ones.
    most = int(workload.conditions.piece.max(initial=0)) + 1
    turns = min(most, len(rings))
    share = np.repeat(np.arange(len(workload.roots)), turns)
    ring = (share + np.tile(np.arange(turns), len(workload.roots))) % len(rings)
    root = place[ring, workload.roots[share]]
    distance = (place[ring] - root[:, None]) % n

    def trees(inward: bool) -> Trees:
        neighbour = rings[ring[:, None], (place[ring] + (1 if inward else -1)) % n]
        parent = np.where(distance > 0, neighbour, -1)
        return Trees(parent, -distance % n if inward else distance)

    tree_of_chunk = workload.conditions.share * turns + workload.conditions.piece % turns
    return lay_trees(workload, trees, tree_of_chunk)


def nccl_tree(workload: Workload) -> Sends:
    """Two trees for each channel: binary ones across boxes, a chain inside each box."""
    boxes = boxes_of(workload)
    if boxes.nics:
        up, down = _trees_of_boxes(workload, boxes)
    else:
        up = _chains(rings_of(workload))
        down = up
    return along_trees(workload, up, down)


def along_trees(workload: Workload, up: Ints, down: Ints) -> Sends:
    """Pieces take these trees in turn, given by the parents of members on the way in and on the way out."""
    conditions = workload.conditions
    tree_of_chunk = (conditions.share + conditions.piece) % len(up)
    return lay_trees(
        workload,
        lambda inward: Trees(up, depths(up)) if inward else Trees(down, depths(down)),
        tree_of_chunk,
    )


def _chains(rings: Ints) -> Ints:
    """Parents along rings that are cut open, each at another member."""
    n = rings.shape[1]
    parent = np.full_like(rings, -1)
    for channel, ring in enumerate(rings):
        chain = np.roll(ring, -(channel * n // len(rings)))
        parent[channel, chain[1:]] = chain[:-1]
    return parent


def _trees_of_boxes(workload: Workload, boxes: Boxes) -> tuple[Ints, Ints]:
    """Parents on the way in and on the way out, for two trees of each NIC.

    In a box, one NPU sends to other boxes and one receives, which may be the same; the others are a chain behind them.
    """
    member = boxes.member
    load = Load(workload, member[0])
    across = trees_across(len(member))
    count = len(boxes.nics) * len(across)
    up, down = np.full((2, count, len(workload.members)), -1, np.int64)
    for channel, (sends, receives) in enumerate(boxes.nics):
        way = load.way(sends, None)
        chain = member[:, way[(way != sends) & (way != receives)]]
        top = member[:, sends]
        bottom = member[:, receives]
        for tree, above in enumerate(across):
            row = channel * len(across) + tree
            inner = above >= 0
            root = ~inner
            # Inwards what comes from other boxes and from the chain gets to the NPU that sends.
            up[row, chain[:, :1]] = bottom[:, None]
            up[row, chain[:, 1:]] = chain[:, :-1]
            up[row, bottom] = top
            up[row, top] = np.where(inner, bottom[above], -1)
            # Outwards it comes in at the other one; only in the root box it is at the sender already.
            down[row, chain[:, :1]] = top[:, None]
            down[row, chain[:, 1:]] = chain[:, :-1]
            down[row, top] = bottom
            down[row, bottom[inner]] = top[above[inner]]
            down[row, top[root]] = -1
            if sends != receives:
                down[row, bottom[root]] = top[root]
    return up, down


def trees_across(boxes: int) -> Ints:
    """Parents of boxes in two binary trees, as NCCL numbers them: the second is the first turned round, or moved on."""
    first = np.append(-1, binary_parents(np.arange(1, boxes), boxes - 1))
    if boxes % 2:
        moved = np.roll(first, 1)
        second = np.where(moved >= 0, (moved + 1) % boxes, -1)
    else:
        turned = first[::-1]
        second = np.where(turned >= 0, boxes - 1 - turned, -1)
    return np.stack([first, second])


# --- in switches -----------------------------------------------------------------------------------------------------


def nvls(workload: Workload) -> Sends:
    """Sums and copies are made in the switch of each box; between boxes one NPU of each goes along a ring or a tree."""
    member = boxes_of(workload).member
    _check_switches(workload, member)
    conditions = workload.conditions
    if not (workload.collects and workload.spreads):
        return lay_trees(
            workload, lambda inward: _stars_in_rings(workload, member, inward), once=True
        )
    count, width = member.shape
    across = trees_across(count) if count > 1 else np.full((1, 1), -1)
    # One tree for each NPU of a box that is its head, and for each tree across boxes.
    head = np.repeat(np.arange(width), len(across))
    parent = _stars(member, head, np.tile(across, (width, 1)))
    turn = (conditions.share // width + conditions.piece) % len(across)
    tree_of_chunk = conditions.share % width * len(across) + turn
    return lay_trees(workload, lambda _: Trees(parent, depths(parent)), tree_of_chunk, once=True)


def _stars_in_rings(workload: Workload, member: Ints, inward: bool) -> Trees:
    """The NPU at the place of the root is the head of its box; heads are a ring from box to box."""
    count, width = member.shape
    box, head = np.divmod(np.argsort(member.ravel())[workload.roots], width)
    boxes = np.arange(count)
    above = (boxes + (1 if inward else -1)) % count
    parent = _stars(member, head, np.where(boxes == box[:, None], -1, above))
    return Trees(parent, depths(parent))


def _stars(member: Ints, head: Ints, above: Ints) -> Ints:
    """Parents where all of a box are below its head, and heads below those of the boxes above."""
    heads = member[:, head].T
    trees = np.arange(len(head))[:, None]
    parent = np.empty((len(head), member.size), np.int64)
    parent[:, member.ravel()] = np.repeat(heads, member.shape[1], axis=1)
    parent[trees, heads] = np.where(above >= 0, np.take_along_axis(heads, above, axis=1), -1)
    return parent


def _check_switches(workload: Workload, member: Ints) -> None:
    """Raise unless the NPUs of every box are joined by a switch that multiplies and adds."""
    topology = workload.topology
    first = np.repeat(member[:, 0], member.shape[1] - 1)
    paths, path = workload.paths(workload.members[first], workload.members[member[:, 1:].ravel()])
    able: Bools = topology.multicast & topology.reduce & (topology.kind == SWITCH)
    two_hops = np.diff(paths.first)[path] == 2
    middle = topology.dst[paths.link[np.minimum(paths.first[path], len(paths.link) - 1)]]
    if not len(path) or not np.all(two_hops) or not np.all(able[middle]):
        raise UnsupportedError(
            "needs a switch that multiplies and adds in every box, as in h100:4,nvls=yes; "
            f"{topology.name} has none"
        )
