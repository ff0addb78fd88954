"""The schemes of textbooks: direct sends, Bruck's rounds, halving and doubling, and double binary trees."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints
from pccl.errors import InternalError
from pccl.network import no_way
from pccl.schemes.sends import Sends, Trees, lay_trees, lay_walks
from pccl.schemes.workload import UnsupportedError, Workload


def direct(workload: Workload) -> Sends:
    """Every chunk to each of its destinations by itself; each member begins with the next one after it in the group."""
    src, dst, walk = workload.pairs
    turn = (workload.place[dst] - workload.place[src]) % len(workload.members)
    return _direct(workload, np.argsort(turn[walk], kind="stable"))


def direct_ascending(workload: Workload) -> Sends:
    """Every chunk to each of its destinations by itself, in the order of chunks: all begin with the first member."""
    return _direct(workload, np.arange(len(workload.conditions.destination_ids)))


def _direct(workload: Workload, order: Ints) -> Sends:
    """Chunks and their destinations, served in this order."""
    if workload.collects:
        raise UnsupportedError("does not support conditions that reduce")
    conditions = workload.conditions
    chunk = np.repeat(np.arange(len(conditions)), conditions.num_destinations)[order]
    src, dst, walk = workload.pairs
    walk = walk[order]
    unreachable = (src != dst) & (workload.towards[workload.place[dst], src] < 0)
    if np.any(unreachable):
        first = int(np.argmax(unreachable[walk]))
        ends = int(src[walk[first]]), int(dst[walk[first]])
        raise no_way(workload.topology, int(chunk[first]), *ends)
    return lay_walks(workload, np.stack([src, dst], axis=1), chunk, walk)


def bruck(workload: Workload) -> Sends:
    """In round k every chunk that has bit k in how far it must go round the group goes on by that much."""
    n = len(workload.members)
    src, dst, walk = workload.pairs
    begin = workload.place[src][:, None]
    distance = (workload.place[dst][:, None] - begin) % n
    # After k rounds, the k lowest bits of the distance have been covered.
    lowest_bits = (1 << np.arange(n.bit_length() + 1)) - 1
    stops = workload.members[(begin + (distance & lowest_bits)) % n]
    chunk = workload.by_piece
    return lay_walks(workload, stops, chunk, walk[chunk])


def halving_doubling(workload: Workload) -> Sends:
    """In step k members exchange with those whose place differs in bit k, half as many shares or twice as many."""
    n = len(workload.members)
    if n & (n - 1):
        raise UnsupportedError(
            f"needs a power of two NPUs per group; {workload.collective.kind} has {n}"
        )
    differs = np.arange(n) ^ workload.roots[:, None]
    # The binary exponent is one more than the place of the highest bit, and 0 for none.
    step = np.frexp(differs)[1].astype(np.int64)
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
        parent[tree, others] = member[binary_parents(own, n - 1)]
    trees = Trees(parent, depths(parent))
    return lay_trees(workload, lambda _: trees, np.arange(len(workload.conditions)) % 2)


def binary_parents(label: Ints, n: int) -> Ints:
    """Parents in the binary tree in which labels 1 to n are in order, and those with more factors of two are higher."""
    low = label & -label
    above = (label ^ low) | (low << 1)
    return np.where(above > n, label ^ low, above)


def depths(parent: Ints) -> Ints:
    """How far below the root every member is."""
    depth = np.zeros_like(parent)
    at = parent
    for _ in range(parent.shape[1] + 1):
        if not np.any(at >= 0):
            return depth
        depth += at >= 0
        at = np.where(at >= 0, np.take_along_axis(parent, at, axis=1), -1)
    raise InternalError("members are in no tree: those above them are a circle")
