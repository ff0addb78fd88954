"""Baselines whose chunks go along trees: rings, halving and doubling, double binary trees, dimension by dimension."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints
from pccl.analysis.baselines.grids import Grid
from pccl.analysis.baselines.plan import Plan, Task, Trees, UnsupportedError, lay_trees
from pccl.analysis.baselines.tours import best_tour

__all__ = [
    "best_ring",
    "by_share",
    "double_tree",
    "halving_doubling",
    "hierarchical",
    "reduces",
    "ring",
    "spreads",
]


# --- rings -----------------------------------------------------------------------------------------------------------


def ring(task: Task) -> Plan:
    """Chunks go round the group in its own order."""
    return _around(task, np.arange(len(task.members)))


def best_ring(task: Task) -> Plan:
    """Chunks go round the group in the best order that a quick search finds."""
    return _around(task, best_tour(task))


def _around(task: Task, tour: Ints) -> Plan:
    n, roots = len(tour), _roots(task)
    place = np.empty(n, np.int64)
    place[tour] = np.arange(n)
    ahead, behind = tour[(place + 1) % n], tour[place - 1]
    from_root = (place - place[roots][:, None]) % n
    up = Trees(_parents(ahead, roots), -from_root % n) if reduces(task) else None
    down = Trees(_parents(behind, roots), from_root) if spreads(task) else None
    return by_share(task, up, down)


# --- halving and doubling --------------------------------------------------------------------------------------------


def halving_doubling(task: Task) -> Plan:
    """In step k members exchange with those whose place differs in bit k, half as many shares or twice as many."""
    n, roots = len(task.members), _roots(task)
    if n & (n - 1):
        raise UnsupportedError(
            f"needs a power of two NPUs per group; {task.collective.kind} has {n}"
        )
    differs = np.arange(n) ^ roots[:, None]
    step = np.zeros_like(differs)
    for bit in range(n.bit_length()):
        step[differs >> bit > 0] = bit + 1
    parent = np.where(differs > 0, np.arange(n) ^ (1 << step >> 1), -1)
    trees = Trees(parent, step)
    return by_share(task, trees if reduces(task) else None, trees if spreads(task) else None)


# --- double binary trees ---------------------------------------------------------------------------------------------


def double_tree(task: Task) -> Plan:
    """Chunks alternate between two binary trees; inner nodes of one are leaves of the other.

    The root of the collective, or the first member, is above the roots of both trees, which consist of the others.
    """
    n, root = len(task.members), int(_roots(task)[0])
    others = np.delete(np.arange(n), root)
    label = np.arange(1, n)
    # Inner nodes have even labels: a second labelling makes them odd.
    second = n - label if n % 2 else label % (n - 1) + 1
    parent = np.full((2, n), -1, np.int64)
    for tree, own in enumerate((label, second)):
        member = np.append(root, others[np.argsort(own)])  # by label; label 0 is the root
        parent[tree, others] = member[_binary_parents(own, n - 1)]
    trees, chunk = Trees(parent, _depths(parent)), task.by_piece
    up, down = trees if reduces(task) else None, trees if spreads(task) else None
    return lay_trees(task, up, down, chunk, chunk % 2)


def _binary_parents(label: Ints, n: int) -> Ints:
    """Parents in the binary tree in which labels 1 to n are in order, and those with more factors of two are higher."""
    low = label & -label
    above = (label ^ low) | (low << 1)
    return np.where(above > n, label ^ low, above)


def _depths(parent: Ints) -> Ints:
    depth, at = np.zeros_like(parent), parent
    while np.any(at >= 0):
        depth += at >= 0
        at = np.where(at >= 0, np.take_along_axis(parent, at, axis=1), -1)
    return depth


# --- dimension by dimension ------------------------------------------------------------------------------------------


def hierarchical(task: Task) -> Plan:
    """Spread along the first dimension first and collect along the last one first: in rings, or both ways of a line."""
    grid = Grid.of(task)
    return by_share(
        task,
        _dimension_trees(task, grid, inward=True) if reduces(task) else None,
        _dimension_trees(task, grid, inward=False) if spreads(task) else None,
    )


def _dimension_trees(task: Task, grid: Grid, inward: bool) -> Trees:
    roots = _roots(task)
    parent, step = (
        np.full((len(roots), len(task.members)), -1, np.int64),
        np.zeros((len(roots), 1), np.int64),
    )
    done = 0
    for place, size, stride in zip(
        grid.place, grid.sizes.tolist(), grid.strides.tolist(), strict=True
    ):
        towards = place[roots][:, None] - place
        if _closes(task, grid, place, size, stride):
            ahead = 1 if inward else -1
            distance, beside = towards * ahead % size, (place + ahead) % size - place
        else:
            distance, beside = np.abs(towards), np.sign(towards)
        # The last dimension in which two members differ is the one that joins them.
        parent = np.where(towards != 0, grid.member[grid.cell + beside * stride], parent)
        step = np.where(towards != 0, done + distance, step)
        done += size - 1
    return Trees(parent, step)


def _closes(task: Task, grid: Grid, place: Ints, size: int, stride: int) -> bool:
    """Whether the end of a line gets back to its beginning without passing through members."""
    last = np.flatnonzero(place == size - 1)
    first = grid.member[grid.cell[last] - (size - 1) * stride]
    paths, _ = task.router.paths(task.members[last], task.members[first])
    is_member = np.zeros(task.topology.num_devices, np.bool_)
    is_member[task.members] = True
    return int(np.count_nonzero(is_member[task.topology.dst[paths.link]])) <= len(last)


# --- what they share -------------------------------------------------------------------------------------------------


def by_share(task: Task, up: Trees | None, down: Trees | None) -> Plan:
    """One tree for each share."""
    return lay_trees(task, up, down, task.by_piece, task.by_piece // task.collective.pieces)


def reduces(task: Task) -> bool:
    """Whether contributions are added up."""
    return task.collective.kind in ("reduce-scatter", "all-reduce", "reduce")


def spreads(task: Task) -> bool:
    """Whether shares, or their sums, go to everyone."""
    return task.collective.kind in ("all-gather", "all-reduce", "broadcast")


def _roots(task: Task) -> Ints:
    """The member at which each share begins or ends."""
    if task.collective.kind in ("broadcast", "reduce"):
        root = getattr(task.collective, "root", None)
        return np.flatnonzero(task.members == (task.members[0] if root is None else root))
    return np.arange(len(task.members))


def _parents(neighbour: Ints, roots: Ints) -> Ints:
    """The same neighbour in all trees, except that roots have no parent."""
    parent = np.tile(neighbour, (len(roots), 1))
    parent[np.arange(len(roots)), roots] = -1
    return parent
