"""Compiled loops of the schemes: trees laid over paths of links, trees grown together, and good rings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Bools, Indices, Ints
from pccl._kernels import kernel
from pccl.errors import InternalError
from pccl.network.graph_kernels import NEVER

NONE = np.int64(-1)
# Members of a tour in a row that are moved elsewhere.
LONGEST_STRETCH = 3


# --- trees over paths ------------------------------------------------------------------------------------------------


class TreeTable(NamedTuple):
    """One tree per row, over the members of a group by their places in it; no columns if there are no trees."""

    order: Ints  # members, the root first, parents before children
    parent: Ints
    path: Ints  # the path between a member and its parent, in the direction of the data
    first: Ints  # path p goes over the links link[first[p]:first[p + 1]]
    link: Ints


class Pattern(NamedTuple):
    """Transfers of each tree or walk, which are repeated for every chunk that takes it; see `Sends`."""

    first: Ints
    link: Indices
    newest: Ints
    previous: Ints
    reduce: Bools


class Ground(NamedTuple):
    """What trees are laid over, scratch space with one entry per device, and room for the transfers."""

    member: Ints  # device of each member of the group
    contributes: Bools  # per device: whether it is a member of the group
    multicast: Bools  # per device: whether it multiplies what comes in
    reduce: Bools  # per device: whether it adds up what comes in
    src: Indices
    dst: Indices
    token: Ints  # who stands for the sum that the device has seen; or whether it has joined a tree of links
    last: Ints  # the newest transfer that brought the chunk
    chosen: Ints  # links of a tree, as many as there are
    pattern: Pattern  # what comes of it


@kernel
def lay_trees(up: TreeTable, down: TreeTable, ground: Ground, once: bool) -> None:
    """Send sums up one tree and copies down another, tree by tree; `once` as in `sends.lay_trees`."""
    count = np.int64(0)
    for tree in range(len(ground.pattern.first) - 1):
        ground.last[:] = NONE
        end = send_up(tree, up, ground, count)
        if end < 0:
            ground.last[:] = NONE
            end = merge_up(tree, up, ground, count)
        if once:
            count = spread_down(tree, down, ground, end)
        else:
            count = send_down(tree, down, ground, end)
        ground.pattern.first[tree + 1] = count


@kernel
def send_up(tree: int, up: TreeTable, ground: Ground, count: int) -> int:
    """Send every partial sum to the parent along its path; returns -1 where different sums would meet on the way.

    Who belongs to the same sum is kept by union and find in `token`; a device that only passes sums on remembers one
    contributor of the last, since the next one through it must contain that. A switch that can only hand messages on
    remembers nothing: there, different sums pass one by one.
    """
    order = up.order[tree]
    token = ground.token
    token[:] = NONE
    for device in ground.member:
        token[device] = device
    # Along a chain there is one sum only, which may well pass through members that it has yet to take in.
    chain = True
    for k in range(1, len(order)):
        chain = chain and up.parent[tree, order[k]] == order[k - 1]
    # Children come before their parents, so that a sum is complete when it is sent.
    for k in range(len(order) - 1, 0, -1):
        sender = ground.member[order[k]]
        path = up.path[tree, order[k]]
        wait = ground.last[sender]
        for hop in range(up.first[path], up.first[path + 1]):
            at = ground.dst[up.link[hop]]
            own = holder(token, sender)
            # A switch that hands a message on must get it as it is to leave: what counts is the
            # next device that does more.
            ahead = hop
            while not can_do_both(ground, ground.dst[up.link[ahead]]):
                ahead += 1
                if ahead == up.first[path + 1]:
                    raise InternalError("a path of sums ends at a switch that hands messages on")
            target = ground.dst[up.link[ahead]]
            reduce = ground.contributes[target] and holder(token, target) != own
            adds = reduce and ahead == hop
            # A member on the way adds its own contribution, which would get to the root
            # again when it sends its own sum.
            if adds and not chain and hop + 1 < up.first[path + 1]:
                return -1
            previous = ground.last[at] if adds else NONE
            if ground.reduce[at] if reduce else ground.multicast[at]:
                there = holder(token, at)
                if adds:
                    token[there] = own
                elif not ground.contributes[at]:
                    if there not in (NONE, own):
                        return -1
                    token[at] = own
            write(ground.pattern, count, up.link[hop], wait, previous, reduce)
            wait = count
            ground.last[at] = count
            count += 1
    return count


@kernel
def can_do_both(ground: Ground, device: int) -> bool:
    """Whether a device multiplies and adds, as all NPUs do."""
    return ground.multicast[device] and ground.reduce[device]


@kernel
def holder(token: Ints, device: int) -> int:
    """Who stands for the sum that a device has seen, or -1 if it has seen none."""
    if token[device] == NONE:
        return NONE
    for _ in range(len(token)):
        if token[device] == device:
            return device
        token[device] = token[token[device]]  # shorter for the next one
        device = token[device]
    raise InternalError("nobody stands for a sum: those who do are a circle")


@kernel
def merge_up(tree: int, up: TreeTable, ground: Ground, count: int) -> int:
    """Send sums over the union of all paths, cut down to a tree of devices that add: each of them sends on once.

    Switches that cannot add are no part of the tree, and pass on what comes.
    """
    order = up.order[tree]
    chosen = ground.chosen
    size = 0
    joined = ground.token
    joined[:] = False
    joined[ground.member[order[0]]] = True
    # From the root outwards, so that every path ends in the tree.
    for k in range(1, len(order)):
        at = ground.member[order[k]]
        path = up.path[tree, order[k]]
        begin = up.first[path]
        end = begin
        while not joined[at]:
            if end == up.first[path + 1]:
                raise InternalError("a path of sums does not end in their tree")
            joined[at] = ground.reduce[at]
            at = ground.dst[up.link[end]]
            end += 1
        for hop in range(end - 1, begin - 1, -1):
            chosen[size] = up.link[hop]
            size += 1
    # Links were chosen from the root outwards: in reverse, all that comes in to a device is there before it sends.
    for k in range(size - 1, -1, -1):
        src = ground.src[chosen[k]]
        dst = ground.dst[chosen[k]]
        # What came last to a switch that passes messages on is what it sends now.
        previous = ground.last[dst] if ground.reduce[dst] else NONE
        write(ground.pattern, count, chosen[k], ground.last[src], previous, True)
        ground.last[dst] = count
        count += 1
    return count


@kernel
def send_down(tree: int, down: TreeTable, ground: Ground, count: int) -> int:
    """Send a copy of its own to every member, along the path from its parent."""
    order = down.order[tree]
    for k in range(1, len(order)):
        path = down.path[tree, order[k]]
        wait = ground.last[ground.member[down.parent[tree, order[k]]]]
        for hop in range(down.first[path], down.first[path + 1]):
            write(ground.pattern, count, down.link[hop], wait, NONE, False)
            wait = count
            count += 1
        ground.last[ground.member[order[k]]] = wait
    return count


@kernel
def spread_down(tree: int, down: TreeTable, ground: Ground, count: int) -> int:
    """Send copies over the union of all paths, so that each device that multiplies gets the chunk once."""
    order = down.order[tree]
    joined = ground.token
    joined[:] = False
    if len(order) > 0:
        joined[ground.member[order[0]]] = True
    for k in range(1, len(order)):
        path = down.path[tree, order[k]]
        at = ground.member[order[k]]
        begin = down.first[path + 1]
        while not joined[at]:
            if begin == down.first[path]:
                raise InternalError("a path of copies does not begin in their tree")
            joined[at] = ground.multicast[at]
            begin -= 1
            at = ground.src[down.link[begin]]
        for hop in range(begin, down.first[path + 1]):
            link = down.link[hop]
            # What came last to a switch that passes messages on is what it sends now.
            write(ground.pattern, count, link, ground.last[ground.src[link]], NONE, False)
            ground.last[ground.dst[link]] = count
            count += 1
    return count


@kernel
def write(pattern: Pattern, row: int, link: int, newest: int, previous: int, reduce: bool) -> None:
    """Fill in one row; what it waits for is counted back from it."""
    pattern.link[row] = link
    pattern.newest[row] = row - newest if newest >= 0 else 0
    pattern.previous[row] = row - previous if previous >= 0 else 0
    pattern.reduce[row] = reduce


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
    missing = trees * (trees - 1)
    step = np.int64(0)
    # Each step but the first is one at which something that has been taken ends.
    for _ in range(missing + 2):
        if missing == 0:
            break
        # The next step at which anything can change; those in between are skipped.
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
            end = edges.end[edge]
            until = step + edges.steps[edge]
            growth.edge[tree, end] = edge
            growth.since[tree, end] = until
            growth.reached[end, growth.count[end]] = tree
            growth.count[end] += 1
            for hop in range(edges.first[edge], edges.first[edge + 1]):
                growth.free[edges.link[hop]] = until
            following = min(following, until)
            missing -= 1
        if following == NEVER:
            break
        step = following
    else:
        raise InternalError("trees take more steps than they have members to reach")
    return missing


@kernel
def needing(edges: Edges, growth: Growth, edge: int, step: int) -> tuple[int, int]:
    """The first tree that has reached the beginning of the edge and not its end; or -1 and when there will be one."""
    begin = edges.begin[edge]
    end = edges.end[edge]
    later = NEVER
    for k in range(growth.skipped[edge], growth.count[begin]):
        tree = growth.reached[begin, k]
        if growth.since[tree, end] >= 0:
            # A tree that has the end never needs the edge again. Those at the front of the list are
            # not looked at any more.
            if k == growth.skipped[edge]:
                growth.skipped[edge] += 1
        elif growth.since[tree, begin] <= step:
            return tree, step
        else:
            later = min(later, growth.since[tree, begin])
    return NONE, later


# --- good rings -------------------------------------------------------------------------------------------------------


@kernel
def improve_tour(cost: Ints, tour: Ints, saved: Ints, passes: int) -> None:
    """Turn stretches of a round tour round, or move short ones elsewhere, for as long as that makes it cheaper.

    Costs may differ between the directions: `saved` is scratch space for what turning stretches round would save.
    """
    for _ in range(passes):
        turned = turn_stretches(cost, tour, saved)
        moved = move_stretches(cost, tour)
        if not (turned or moved):
            break


@kernel
def turn_stretches(cost: Ints, tour: Ints, saved: Ints) -> bool:
    """Reverse tour[i + 1 : j + 1] where that is cheaper."""
    n = len(tour)
    better = False
    sum_savings(cost, tour, saved)
    for i in range(n - 2):
        for j in range(i + 2, n):
            before = tour[i]
            first = tour[i + 1]
            last = tour[j]
            after = tour[(j + 1) % n]
            if before == after:
                continue
            gain = cost[before, first] + cost[last, after]
            gain -= cost[before, last] + cost[first, after]
            # The hops inside are made in the other direction.
            gain += saved[j] - saved[i + 1]
            if gain > 0:
                reverse(tour, i + 1, j)
                sum_savings(cost, tour, saved)
                better = True
    return better


@kernel
def sum_savings(cost: Ints, tour: Ints, saved: Ints) -> None:
    """What turning round the hops up to each place would save."""
    saved[0] = 0
    for k in range(1, len(tour)):
        hop = cost[tour[k - 1], tour[k]] - cost[tour[k], tour[k - 1]]
        saved[k] = saved[k - 1] + hop


@kernel
def move_stretches(cost: Ints, tour: Ints) -> bool:
    """Move a few members in a row to between two others, where that is cheaper."""
    n = len(tour)
    better = False
    for length in range(1, min(LONGEST_STRETCH, n - 3) + 1):
        # Every stretch comes to the front once, as the tour is turned on by one each time.
        for _ in range(n):
            first = tour[0]
            last = tour[length - 1]
            before = tour[n - 1]
            after = tour[length]
            gain = cost[before, first] + cost[last, after] - cost[before, after]
            best = np.int64(0)
            place = 0
            for k in range(length, n - 1):
                here = tour[k]
                there = tour[k + 1]
                more = cost[here, first] + cost[last, there] - cost[here, there]
                if gain - more > best:
                    best = gain - more
                    place = k
            if best > 0:
                rotate(tour, length, place + 1)
                better = True
            rotate(tour, 1, n)
    return better


@kernel
def rotate(tour: Ints, by: int, end: int) -> None:
    """Move the first few entries of tour[:end] behind the others; in place that takes three reversals."""
    reverse(tour, 0, by - 1)
    reverse(tour, by, end - 1)
    reverse(tour, 0, end - 1)


@kernel
def reverse(tour: Ints, low: int, high: int) -> None:
    """Turn round what stands from one place to another."""
    while low < high:
        tour[low], tour[high] = tour[high], tour[low]
        low += 1
        high -= 1
