"""Rings and trees as a graph file of NCCL has them: what it does on one machine, rather than what it would do.

A file has the GPUs of one box; NCCL goes on from box to box, from where a channel leaves one to where it enters the
next. Which NICs that takes follows from our routes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from pccl._arrays import Bools, Ints
from pccl.schemes.nccl import along_rings, along_trees, trees_across
from pccl.schemes.registry import ROOTED, SHARED, Scheme
from pccl.schemes.sends import Sends
from pccl.schemes.workload import UnsupportedError, Workload
from pccl.topology.importers import Graph

# Where a box of a tree is entered by its first and by its second child: the place in the channel.
_ENTRIES = {"tree": (0, 0), "balanced tree": (1, 0), "split tree": (1, 1)}


def graph_schemes(graphs: Sequence[Graph], file: str) -> tuple[Scheme, ...]:
    """The schemes that NCCL runs along the rings and trees of a file."""
    usable = {graph.algorithm: graph for graph in graphs if graph.channels}
    ring = usable.get("ring")
    tree = usable.get("tree")
    # Rings and trees run on the same channels: NCCL takes as many as both have.
    channels = min((len(graph.channels) for graph in (ring, tree) if graph), default=0)
    found = []
    if ring:
        description = f"the rings of {file}, which NCCL has chosen"
        plan = partial(_ring, graph=ring, channels=channels)
        kinds = SHARED | ROOTED
        found.append(Scheme("nccl-graph-ring", description, kinds, plan, pipelined=True))
    if tree:
        description = f"the trees of {file}, which NCCL has chosen"
        plan = partial(_tree, graph=tree, channels=channels)
        kinds = frozenset({"all-reduce"})
        found.append(Scheme("nccl-graph-tree", description, kinds, plan, pipelined=True))
    return tuple(found)


def _ring(workload: Workload, graph: Graph, channels: int) -> Sends:
    rings = rings_through(_members(workload, graph), graph)
    return along_rings(workload, rings[:channels])


def _tree(workload: Workload, graph: Graph, channels: int) -> Sends:
    trees = trees_through(_members(workload, graph), graph)
    parents = np.concatenate(trees[:channels])
    return along_trees(workload, parents, parents)


def rings_through(member: Ints, graph: Graph) -> Ints:
    """By channel: all members, box by box, in each along the channel; `member` has them by box and GPU of the file."""
    ways = _ways(graph)
    in_turns = graph.in_turns and len(ways) % 2 == 0
    rings = []
    for channel, way in enumerate(ways):
        # Every second box takes the other of two channels, so that a ring enters a box by the NIC by which it has left
        # the one before.
        every_second = ways[channel ^ 1] if in_turns else way
        ring = np.empty_like(member)
        ring[::2] = member[::2, way]
        ring[1::2] = member[1::2, every_second]
        rings.append(ring.ravel())
    return np.stack(rings)


def trees_through(member: Ints, graph: Graph) -> list[Ints]:
    """By channel: the parents of all members, in one tree for each of the two binary trees of boxes.

    In a box a channel is a chain. Its first GPU sends to one of the first two in the box above.
    """
    boxes, width = member.shape
    across = trees_across(boxes) if boxes > 1 else np.full((1, 1), -1)
    first_child = _is_first_child(across)
    # What has one GPU is entered there.
    first_entry, second_entry = (min(entry, width - 1) for entry in _ENTRIES[graph.pattern])
    trees = []
    for way in _ways(graph):
        chain = member[:, way]
        parent = np.full((len(across), member.size), -1, np.int64)
        parent[:, chain[:, 1:]] = chain[:, :-1]
        for tree, above in enumerate(across):
            entry = np.where(first_child[tree], first_entry, second_entry)
            below = np.flatnonzero(above >= 0)
            parent[tree, chain[below, 0]] = chain[above[below], entry[below]]
        trees.append(parent)
    return trees


def _is_first_child(across: Ints) -> Bools:
    """By tree and box: whether it comes before its parent, as boxes are numbered within that tree."""
    count = across.shape[1]
    boxes = np.arange(count)
    # The second tree is the first one with its boxes shifted, or mirrored if their number is even.
    second = (boxes - 1) % count if count % 2 else count - 1 - boxes
    label = np.stack([boxes, second])[: len(across)]
    label_above = np.take_along_axis(label, np.maximum(across, 0), axis=1)
    return np.asarray(label < label_above)


def _ways(graph: Graph) -> list[Ints]:
    """The channels, with the places of GPUs among all of them."""
    gpus = np.sort(graph.channels[0])
    return [np.searchsorted(gpus, channel) for channel in graph.channels]


def _members(workload: Workload, graph: Graph) -> Ints:
    """By box and GPU of the file: the member of the group; raises unless these are all members."""
    topology = workload.topology
    gpus = np.sort(graph.channels[0])
    width = topology.shape[-1] if len(topology.shape) > 1 else topology.num_npus
    # Where the box has just these GPUs, they may be numbered in any way.
    place = np.arange(len(gpus)) if len(gpus) == width else gpus
    if place.max() >= width:
        raise UnsupportedError(
            f"has {len(gpus)} GPUs up to number {gpus.max()} in a box; boxes of {topology.name} have {width}"
        )
    npus = np.arange(prod(topology.shape)).reshape(-1, width)[:, place]
    member = workload.place[npus]
    member = member[np.any(member >= 0, axis=1)]
    if np.any(member < 0) or member.size != len(workload.members):
        raise UnsupportedError(
            f"is for the {len(gpus)} GPUs of each box that the file names; the group has others"
        )
    if graph.has_nics != (len(member) > 1):
        saw = "several boxes, as its channels lead to NICs" if graph.has_nics else "one box"
        raise UnsupportedError(f"was chosen for {saw}; the group is in {len(member)}")
    return member
