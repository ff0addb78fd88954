"""Compiled loops of the baselines: trees laid over paths of links, and trees grown together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Bools, Indices, Ints
from pccl._kernels import kernel
from pccl.network.graph_kernels import NEVER

__all__ = ["Edges", "Growth", "Layout", "Rows", "TreeTable", "grow_trees", "lay_trees"]


NONE = np.int64(-1)


# --- trees over paths ------------------------------------------------------------------------------------------------


class TreeTable(NamedTuple):
    """One tree per row, over the members of a group by their places in it."""

    order: Ints  # members, the root first, parents before children
    parent: Ints
    path: Ints  # the path between a member and its parent, in the direction of the data


class Layout(NamedTuple):
    """What trees are laid over, and scratch space with one entry per device."""

    member: Ints  # device of each member of the group
    path_first: Ints
    path_link: Ints
    src: Indices
    dst: Indices
    contributes: Bools
    token: Ints
    last: Ints
    joined: Bools
    chosen: Ints


class Rows(NamedTuple):
    """Transfers of each tree, with what they wait for, as the simulator's `Inputs` has it."""

    first: Ints
    link: Indices
    newest: Ints
    previous: Ints
    reduce: Bools


@kernel
def lay_trees(up: TreeTable, down: TreeTable, layout: Layout, rows: Rows) -> None:
    """Send sums up one tree and copies down another, tree by tree.

    Either table may have no columns.
    """
    count = np.int64(0)
    for tree in range(len(rows.first) - 1):
        layout.last[:] = NONE
        end = send_up(tree, up, layout, rows, count)
        if end < 0:
            layout.last[:] = NONE
            end = merge_up(tree, up, layout, rows, count)
        count = send_down(tree, down, layout, rows, end)
        rows.first[tree + 1] = count


@kernel
def send_up(tree: int, up: TreeTable, layout: Layout, rows: Rows, count: int) -> int:
    """Send every partial sum to the parent along its path; returns -1 where different sums would meet on the way.

    Who belongs to the same sum is kept by union and find in `token`; a device that only passes sums on remembers one
    contributor of the last, since the next one through it must contain that.
    """
    order, token = up.order[tree], layout.token
    token[:] = NONE
    for i in range(len(layout.member)):
        token[layout.member[i]] = layout.member[i]
    chain = True
    for k in range(1, len(order)):
        chain = chain and up.parent[tree, order[k]] == order[k - 1]
    for k in range(len(order) - 1, 0, -1):
        sender, path = layout.member[order[k]], up.path[tree, order[k]]
        wait = layout.last[sender]
        for hop in range(layout.path_first[path], layout.path_first[path + 1]):
            link, at = layout.path_link[hop], layout.dst[layout.path_link[hop]]
            own, there = holder(token, sender), holder(token, at)
            adds = layout.contributes[at] and own != there
            if adds and not chain and hop + 1 < layout.path_first[path + 1]:
                return -1
            if not layout.contributes[at] and there != NONE and own != there:
                return -1
            write(rows, count, link, wait, layout.last[at] if adds else NONE, adds)
            if adds:
                token[there] = own
            elif not layout.contributes[at]:
                token[at] = own
            layout.last[at] = wait = count
            count += 1
    return count


@kernel
def holder(token: Ints, device: int) -> int:
    """Who stands for the sum that a device has seen, or -1 if it has seen none."""
    if token[device] == NONE:
        return NONE
    while token[device] != device:
        token[device] = token[token[device]]  # shorter for the next one
        device = token[device]
    return device


@kernel
def merge_up(tree: int, up: TreeTable, layout: Layout, rows: Rows, count: int) -> int:
    """Send sums over the union of all paths, cut down to a tree of links: each device adds up, and sends on once."""
    order, chosen, size = up.order[tree], layout.chosen, 0
    layout.joined[:] = False
    layout.joined[layout.member[order[0]]] = True
    for k in range(1, len(order)):  # from the root outwards, so that every path ends in the tree
        path, at = up.path[tree, order[k]], layout.member[order[k]]
        begin = layout.path_first[path]
        end = begin
        while not layout.joined[at]:
            layout.joined[at] = True
            at = layout.dst[layout.path_link[end]]
            end += 1
        for hop in range(end - 1, begin - 1, -1):
            chosen[size] = layout.path_link[hop]
            size += 1
    for k in range(size - 1, -1, -1):
        at = layout.dst[chosen[k]]
        write(rows, count, chosen[k], layout.last[layout.src[chosen[k]]], layout.last[at], True)
        layout.last[at] = count
        count += 1
    return count


@kernel
def send_down(tree: int, down: TreeTable, layout: Layout, rows: Rows, count: int) -> int:
    """Send a copy of its own to every member, along the path from its parent."""
    order = down.order[tree]
    for k in range(1, len(order)):
        path, wait = (
            down.path[tree, order[k]],
            layout.last[layout.member[down.parent[tree, order[k]]]],
        )
        for hop in range(layout.path_first[path], layout.path_first[path + 1]):
            write(rows, count, layout.path_link[hop], wait, NONE, False)
            wait = count
            count += 1
        layout.last[layout.member[order[k]]] = wait
    return count


@kernel
def write(rows: Rows, row: int, link: int, newest: int, previous: int, reduce: bool) -> None:
    """Fill in one row."""
    rows.link[row], rows.newest[row], rows.previous[row], rows.reduce[row] = (
        link,
        newest,
        previous,
        reduce,
    )


# --- trees grown together --------------------------------------------------------------------------------------------


class Edges(NamedTuple):
    """Ways between members of a group: from whom, to whom, over which links, held for how many steps."""

    begin: Ints
    end: Ints
    first: Ints
    link: Ints
    steps: Ints


class Growth(NamedTuple):
    """One tree per member, by tree and member, and scratch space."""

    edge: Ints  # by which a member was reached, or -1
    since: Ints  # the step from which on it can pass on
    reached: Ints  # per member: trees in the order in which they reached it
    count: Ints  # per member: how many have
    skipped: Ints  # per edge: how many of those need it no more
    free: Ints  # per link: the step from which on it can be used


@kernel
def grow_trees(edges: Edges, growth: Growth) -> int:
    """Grow all trees step by step, each edge taking the first tree that needs it; returns how many members are missing.

    The roots have been entered.
    """
    trees = len(growth.edge)
    missing, step = trees * (trees - 1), np.int64(0)
    while missing > 0:
        following = NEVER
        for edge in range(len(edges.begin)):
            free = step
            for hop in range(edges.first[edge], edges.first[edge + 1]):
                free = max(free, growth.free[edges.link[hop]])
            if free > step:
                following = min(following, free)
                continue
            tree, later = needing(edges, growth, edge, step)
            if tree < 0:
                following = min(following, later)
                continue
            end, until = edges.end[edge], step + edges.steps[edge]
            growth.edge[tree, end], growth.since[tree, end] = edge, until
            growth.reached[end, growth.count[end]] = tree
            growth.count[end] += 1
            for hop in range(edges.first[edge], edges.first[edge + 1]):
                growth.free[edges.link[hop]] = until
            following = min(following, until)
            missing -= 1
        if following == NEVER:
            break
        step = following
    return missing


@kernel
def needing(edges: Edges, growth: Growth, edge: int, step: int) -> tuple[int, int]:
    """The first tree that has reached the beginning of the edge and not its end; or -1 and when there will be one."""
    begin, end = edges.begin[edge], edges.end[edge]
    later = NEVER
    for k in range(growth.skipped[edge], growth.count[begin]):
        tree = growth.reached[begin, k]
        if growth.since[tree, end] >= 0:
            if k == growth.skipped[edge]:
                growth.skipped[edge] += 1
        elif growth.since[tree, begin] <= step:
            return tree, step
        else:
            later = min(later, growth.since[tree, begin])
    return NONE, later
