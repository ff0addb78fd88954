"""MultiTree: one tree per member, all grown together step by step over whatever links are free."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pccl._arrays import Ints
from pccl.errors import InfeasibleError
from pccl.network import NEVER
from pccl.schemes import tree_kernels as kernels
from pccl.schemes.sends import Sends, Trees, lay_trees
from pccl.schemes.workload import Paths, Workload, follow, shortest


def multitree(workload: Workload) -> Sends:
    """Every share along a tree of its own; trees share the links out among themselves, one step after another."""
    begin, end, paths = _neighbours(workload)

    def trees(inward: bool) -> Trees:
        """Trees that collect grow from the root against the direction of the paths."""
        ends = (end, begin) if inward else (begin, end)
        return _grown(workload, *ends, paths)

    return lay_trees(workload, trees)


def _grown(workload: Workload, begin: Ints, end: Ints, paths: Paths) -> Trees:
    """Grow trees from `begin` to `end` of the paths."""
    n = len(workload.members)
    root = np.arange(n)
    edge, since = np.full((2, n, n), -1, np.int64)
    growth = kernels.Growth(
        edge,
        since,
        reached=np.empty((n, n), np.int64),
        count=np.ones(n, np.int64),
        skipped=np.zeros(len(begin), np.int64),
        free=np.zeros(workload.topology.num_links, np.int64),
    )
    since[root, root] = 0
    growth.reached[:, 0] = root
    edges = kernels.Edges(begin, end, *paths, _steps(workload, paths))
    if kernels.grow_trees(edges, growth):
        pair = workload.members[np.argwhere(since < 0)[0]].tolist()
        joined = " and ".join(workload.topology.device_text(device) for device in pair)
        raise InfeasibleError(f"no path of links joins {joined} in {workload.topology.name}")
    # The root was reached by edge -1, which picks the -1 at the end.
    parent = np.append(begin, -1)[edge]
    return Trees(parent, since, edge, paths)


def _steps(workload: Workload, paths: Paths) -> Ints:
    """For how many steps each path is held, a step being what the fastest link takes."""
    hold = workload.link_times[0][paths.link]
    if not len(hold):
        return np.zeros(0, np.int64)
    longest = np.maximum.reduceat(hold, paths.first[:-1])
    return np.asarray(-(-longest // hold.min()))


def _neighbours(workload: Workload) -> tuple[Ints, Ints, Paths]:
    """Pairs of members, by their places, with each best path that passes through no other member."""
    topology = workload.topology
    members = workload.members
    place = workload.place
    # A path is a link that leaves a member, and the shortest way from there over links that leave no member.
    beyond = np.flatnonzero(place[topology.src] < 0)
    columns = ("src", "dst", "latency", "bandwidth", "exclusive", "gap")
    relays = replace(topology, **{name: getattr(topology, name)[beyond] for name in columns})
    towards, remaining = shortest(relays, workload.size, members)
    link = np.flatnonzero(place[topology.src] >= 0)
    via = topology.dst[link].astype(np.int64)
    row, end = np.nonzero((remaining[:, via] < NEVER).T)
    begin = place[topology.src[link[row]]]
    total = workload.link_times[1][link[row]] + remaining[end, via[row]]
    best = np.flatnonzero((begin != end) & (total == workload.times[begin, end]))
    # Those who share a switch begin with different partners.
    turn = (end[best] - begin[best]) % len(members)
    best = best[np.lexsort((begin[best], turn))]
    row = row[best]
    begin = begin[best]
    end = end[best]
    rest = follow(relays, towards, end, via[row], members[end])
    first = rest.first + np.arange(len(rest.first))
    return begin, end, Paths(first, np.insert(beyond[rest.link], rest.first[:-1], link[row]))
