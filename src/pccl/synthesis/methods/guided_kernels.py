"""The price-guided search: cheapest trees, where links get dearer with what has been routed over them.

A way is scored by its price plus urgency times its arrival. A tree grows by the destination that is cheapest to reach
from any device already in it; one search goes on until all are reached, with reached devices starting anew at no price.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Floats, Ints
from pccl._heap_kernels import pop_key, push_key
from pccl._kernels import kernel
from pccl.errors import InternalError
from pccl.network.graph_kernels import NO_ARC
from pccl.synthesis.search_kernels import (
    ARC,
    ARRIVAL,
    World,
    earliest_start,
    set_label,
    time_anew,
)

HIGHEST = 1e250  # price: far from what a float holds, so that sums of prices stay numbers


class Guide(NamedTuple):
    """Prices, and how they grow. Without a guide (`on` is false) only the arrival counts."""

    on: bool
    price: Floats  # per arc: of holding it for a unit of time
    growth: float  # of the logarithm of a price, for each unit of time that its link is held
    urgency: float  # the price of arriving a unit of time later
    handed: float  # the price of another device that hands a chunk on
    ahead: float  # at least what a unit of the unloaded time that remains will cost
    cost: Floats  # per device: the price of the way to it
    score: Floats  # per device
    key: Floats  # of the heap
    entry: Ints  # of the heap: devices


@kernel
def grow(world: World, guide: Guide, job: int, ident: int) -> int:
    """Reach every destination of the job; leaves labels in `work`, returns how many are missing."""
    net = world.net
    jobs = world.jobs
    work = world.work
    state = work.state
    label = work.label
    wanted = work.wanted
    score = guide.score
    cost = guide.cost
    labelled = 2 * ident
    in_tree = 2 * ident + 1
    size = jobs.size[job]
    remaining = jobs.remaining[jobs.row[job]]
    minimal = jobs.row[job] >= jobs.zones and jobs.minimal
    ahead = guide.ahead if jobs.row[job] >= jobs.zones else 0.0
    missing = jobs.first[job + 1] - jobs.first[job]
    for i in range(jobs.first[job], jobs.first[job + 1]):
        wanted[jobs.destination[i]] = ident
    source = np.int64(jobs.source[job])
    state[source] = in_tree
    cost[source] = 0.0
    label[source, ARRIVAL] = jobs.release[job]
    label[source, ARC] = NO_ARC
    score[source] = guide.urgency * jobs.release[job] + ahead * remaining[source]
    if wanted[source] == ident:
        missing -= 1
    waiting = push_key(guide.key, guide.entry, np.int64(0), score[source], source)
    # What has led on does so again only where something nearer is found, or once a branch has joined the tree.
    for _ in range((len(state) + 1) * (len(net.dst) + len(state))):
        if missing == 0 or waiting == 0:
            break
        key = guide.key[0]
        device = guide.entry[0]
        waiting = pop_key(guide.key, guide.entry, waiting)
        # Stale: the device has been reached at a better score, or has joined the tree.
        if key != score[device]:
            continue
        if wanted[device] == ident and state[device] != in_tree:
            # Of all destinations, this is the cheapest to reach: the way to it becomes a branch.
            branch = collect(world, device, in_tree)
            retime_branch(world, branch, size)
            for i in range(branch):
                joined = net.dst[work.tree[i]]
                state[joined] = in_tree
                # What leads to it is paid for, so that ways from here on cost only what they add.
                cost[joined] = 0.0
                score[joined] = guide.urgency * label[joined, ARRIVAL] + ahead * remaining[joined]
                waiting = push_key(guide.key, guide.entry, waiting, score[joined], joined)
                if wanted[joined] == ident:
                    missing -= 1
            continue
        # Looking at the arcs, or adding a branch, must not run out of room; stale entries can go.
        if waiting + net.first[device + 1] - net.first[device] + len(state) > len(guide.key):
            waiting = without_stale(guide.key, guide.entry, score, waiting)
        limit = np.int64(remaining[device]) if minimal else np.int64(jobs.unreachable)
        for arc in range(net.first[device], net.first[device + 1]):
            successor = net.dst[arc]
            if state[successor] == in_tree or np.int64(remaining[successor]) >= limit:
                continue
            time = label[device, ARRIVAL]
            start, slot = earliest_start(world, arc, time, size)
            kind = net.kind[arc]
            arrival = start + net.travel[size, kind]
            price = cost[device] + guide.price[arc] * net.hold[size, kind]
            total = price + guide.urgency * arrival + ahead * remaining[successor]
            work.search[1] += 1
            if state[successor] != labelled or total < score[successor]:
                state[successor] = labelled
                cost[successor] = price
                score[successor] = total
                set_label(label, successor, arrival, start, arc, slot)
                waiting = push_key(guide.key, guide.entry, waiting, total, successor)
    else:
        raise InternalError("a tree is sought over every link for every device")
    return missing


@kernel
def collect(world: World, device: int, in_tree: int) -> int:
    """Write the arcs from the tree to the device down in `work.tree`, in their order; returns how many there are."""
    net = world.net
    work = world.work
    count = np.int64(0)
    while work.state[device] != in_tree:
        if count == len(work.tree):
            raise InternalError("a cheapest way does not begin in its tree")
        work.tree[count] = work.label[device, ARC]
        device = net.src[work.tree[count]]
        count += 1
    for i in range(count // 2):
        work.tree[i], work.tree[count - 1 - i] = work.tree[count - 1 - i], work.tree[i]
    return count


@kernel
def retime_branch(world: World, branch: int, size: int) -> None:
    """Time a branch anew: the way to a device may have become cheaper, but later, after its successor was labelled."""
    net = world.net
    work = world.work
    for i in range(branch):
        arc = work.tree[i]
        ready = work.label[net.src[arc], ARRIVAL]
        time_anew(world, arc, ready, size)


@kernel
def without_stale(keys: Floats, entries: Ints, score: Floats, waiting: int) -> int:
    """Rebuild the heap from those entries that still count; returns how many there are."""
    kept = np.int64(0)
    for i in range(waiting):
        key = keys[i]
        device = entries[i]
        if key == score[device]:
            kept = push_key(keys, entries, kept, key, device)
    return kept


@kernel
def raise_prices(world: World, guide: Guide, size: int, branch: int) -> None:
    """Make the links of a placed tree dearer."""
    net = world.net
    work = world.work
    for i in range(branch):
        arc = work.tree[i]
        # The logarithm of a price is what a link carries: small loads hardly count, large ones keep
        # chunks away.
        growth = np.exp(guide.growth * net.hold[size, net.kind[arc]])
        guide.price[arc] = min(guide.price[arc] * growth, HIGHEST)
