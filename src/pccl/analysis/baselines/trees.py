"""Baselines whose chunks go along binary trees: halving and doubling, and double trees."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints
from pccl.analysis.baselines.sends import Sends, Trees, lay_trees
from pccl.analysis.baselines.workload import UnsupportedError, Workload

__all__ = ["double_tree", "halving_doubling"]


def halving_doubling(workload: Workload) -> Sends:
    """In step k members exchange with those whose place differs in bit k, half as many shares or twice as many."""
    n = len(workload.members)
    if n & (n - 1):
        raise UnsupportedError(
            f"needs a power of two NPUs per group; {workload.collective.kind} has {n}"
        )
    differs = np.arange(n) ^ workload.roots[:, None]
    step = np.zeros_like(differs)
    for bit in range(n.bit_length()):
        step[differs >> bit > 0] = bit + 1
    # The parent differs from the root in one bit less: the highest.
    parent = np.where(differs > 0, np.arange(n) ^ (1 << step >> 1), -1)
    return lay_trees(workload, lambda _: Trees(parent, step))


def double_tree(workload: Workload) -> Sends:
    """Chunks alternate between two binary trees; inner nodes of one are leaves of the other.

    The root of the collective, or the first member, is above the roots of both trees, which consist of the others.
    """
    n = len(workload.members)
    root = int(workload.roots[0])
    others = np.delete(np.arange(n), root)
    label = np.arange(1, n)
    # Inner nodes have even labels: a second labelling makes them odd.
    second = n - label if n % 2 else label % (n - 1) + 1
    parent = np.full((2, n), -1, np.int64)
    for tree, own in enumerate((label, second)):
        # By label; label 0 is the root.
        member = np.append(root, others[np.argsort(own)])
        parent[tree, others] = member[_binary_parents(own, n - 1)]
    trees = Trees(parent, _depths(parent))
    return lay_trees(workload, lambda _: trees, np.arange(len(workload.conditions)) % 2)


def _binary_parents(label: Ints, n: int) -> Ints:
    """Parents in the binary tree in which labels 1 to n are in order, and those with more factors of two are higher."""
    low = label & -label
    above = (label ^ low) | (low << 1)
    return np.where(above > n, label ^ low, above)


def _depths(parent: Ints) -> Ints:
    """How far below the root every member is."""
    depth = np.zeros_like(parent)
    at = parent
    while np.any(at >= 0):
        depth += at >= 0
        at = np.where(at >= 0, np.take_along_axis(parent, at, axis=1), -1)
    return depth
