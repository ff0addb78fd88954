"""MultiTree: one tree per member, all grown together step by step over whatever links are free."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pccl._arrays import Ints
from pccl.analysis.baselines import kernels
from pccl.analysis.baselines.plan import Plan, Task, Trees
from pccl.analysis.baselines.routes import Paths, follow, offsets, shortest
from pccl.analysis.baselines.trees import by_share, reduces, spreads
from pccl.errors import InfeasibleError
from pccl.network.graph_kernels import NEVER
from pccl.topology import Topology
from pccl.topology.core import transmission_time

__all__ = ["multitree"]


def multitree(task: Task) -> Plan:
    """Every share along a tree of its own; trees share the links out among themselves, one step after another."""
    begin, end, paths = _neighbours(task)
    return by_share(
        task,
        _grown(task, end, begin, paths) if reduces(task) else None,
        _grown(task, begin, end, paths) if spreads(task) else None,
    )


def _grown(task: Task, begin: Ints, end: Ints, paths: Paths) -> Trees:
    """Trees that grow from `begin` to `end`; they collect if that is against the direction of the paths."""
    n, root = len(task.members), np.arange(len(task.members))
    edges = kernels.Edges(begin, end, paths.first, paths.link, _steps(task, paths))
    edge, since = np.full((2, n, n), -1, np.int64)
    growth = kernels.Growth(
        edge, since, np.empty((n, n), np.int64), np.ones(n, np.int64), np.zeros(len(begin), np.int64),
        np.zeros(task.topology.num_links, np.int64),
    )  # fmt: skip
    growth.since[root, root] = 0
    growth.reached[:, 0] = root
    if kernels.grow_trees(edges, growth):
        tree, member = np.argwhere(growth.since < 0)[0]
        pair = (task.topology.device_text(int(task.members[i])) for i in (tree, member))
        raise InfeasibleError(
            f"no path of links joins {' and '.join(pair)} in {task.topology.name}"
        )
    parent = np.append(begin, -1)[growth.edge]
    return Trees(parent, growth.since, growth.edge, paths)


def _steps(task: Task, paths: Paths) -> Ints:
    """For how many steps each path is held, a step being what the fastest link takes."""
    topology, link = task.topology, paths.link
    hold = (
        transmission_time(task.size, topology.bandwidth[link])
        + topology.latency[link] * topology.exclusive[link]
    )
    if not len(hold):
        return np.zeros(0, np.int64)
    return np.asarray(-(-np.maximum.reduceat(hold, paths.first[:-1]) // hold.min()))


def _neighbours(task: Task) -> tuple[Ints, Ints, Paths]:
    """Pairs of members, by their places, with each best path that passes through no other member."""
    topology, members = task.topology, task.members
    place = np.full(topology.num_devices, -1, np.int64)
    place[members] = np.arange(len(members))
    beyond = np.flatnonzero(place[topology.src] < 0)
    relays = _with_links(topology, beyond)
    towards, remaining = shortest(relays, task.size, members)
    link = np.flatnonzero(place[topology.src] >= 0)
    via = topology.dst[link]
    row, end = np.nonzero((remaining[:, via] < NEVER // 2).T)
    begin = place[topology.src[link[row]]]
    row, begin, end = (column[begin != end] for column in (row, begin, end))
    time = transmission_time(task.size, topology.bandwidth[link]) + topology.latency[link]
    best = np.flatnonzero(time[row] + remaining[end, via[row]] == task.times[begin, end])
    # Those who share a switch begin with different partners.
    best = best[np.lexsort((begin[best], (end[best] - begin[best]) % len(members)))]
    row, begin, end = row[best], begin[best], end[best]
    rest = follow(relays, towards, end, via[row].astype(np.int64), members[end])
    return begin, end, _prefixed(link[row], Paths(rest.first, beyond[rest.link]))


def _with_links(topology: Topology, links: Ints) -> Topology:
    columns = ("src", "dst", "latency", "bandwidth", "exclusive")
    return replace(topology, **{column: getattr(topology, column)[links] for column in columns})


def _prefixed(link: Ints, paths: Paths) -> Paths:
    """Paths with one more link each, at the beginning."""
    first = offsets(paths.length + 1)
    links = np.empty(first[-1], np.int64)
    new = np.zeros(first[-1], np.bool_)
    new[first[:-1]] = True
    links[new], links[~new] = link, paths.link
    return Paths(first, links)
