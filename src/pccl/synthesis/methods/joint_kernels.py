"""Trees that collect and trees that spread, grown by prices against one load for each link.

A tree grows from its root by whatever is cheapest to reach from any device in it: along arcs to spread, against them to
collect. What a link carries in both phases makes it dearer for all that comes after.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Bools, Floats, Indices, Ints
from pccl._heap_kernels import pop_key, push_key
from pccl._kernels import kernel
from pccl.errors import InternalError
from pccl.network.graph_kernels import Network
from pccl.synthesis.methods.guided_kernels import without_stale
from pccl.synthesis.search_kernels import DONE, OUTPUT_FULL, PAUSED, STUCK

# The lowest logarithm of a price beside that of the dearest link: a price of nothing would make all ways alike.
CHEAPEST = -300.0


class Side(NamedTuple):
    """Arcs as trees of one phase grow: from `near`, which is in the tree already, to `far`."""

    first: Ints  # arcs that lead on from device d are arc[first[d] : first[d + 1]]
    arc: Ints
    near: Indices
    far: Indices
    passes: Bools  # per device: a switch where trees of this phase cannot branch
    any_passes: bool


class Sums(NamedTuple):
    """What is to be planned, in the order in which it is: all chunks, also those that are no sums."""

    size: Indices  # size class
    zone: Ints
    choice: Ints  # the list of devices where its trees may begin
    turn: Ints  # which of those it begins with
    first: Ints  # [phase, chunk]: devices that its tree must reach are member[phase][first : ...]
    contributor: Indices
    destination: Indices


class Prices(NamedTuple):
    """What links carry, and what follows from it."""

    load: Floats  # per arc: for how long it is held
    price: Floats  # per arc: of holding it for a unit of time; on average 1
    steepness: float  # the logarithm of a price grows by that much for each unit of time
    urgency: float  # the price of being a unit of time farther from the root


class Growth(NamedTuple):
    """Scratch space; what is noted for a device counts if it bears the number of the tree."""

    has: Ints
    wanted: Ints
    member: Ints  # the devices in the tree
    depth: Floats  # per device: unloaded time between it and the root
    cost: Floats  # per device: the price of the way to it from the tree
    score: Floats  # per device
    arc: Ints  # per device: the last one of the way to it
    key: Floats  # of the heap
    entry: Ints  # of the heap: devices
    count: Ints  # [0]: number of the last tree, [1]: links looked at


class Trees(NamedTuple):
    """What is found, in one pool."""

    root: Ints  # per chunk
    first: Ints  # [phase, chunk]
    width: Ints  # [phase, chunk]
    arc: Ints
    count: Ints  # [0]: how much of the pool is used
    most: int  # links that the trees of one chunk take at most


@kernel
def plan_trees(
    net: Network,
    sides: tuple[Side, Side],
    sums: Sums,
    roots: tuple[Ints, Indices],
    allowed: Bools,
    prices: Prices,
    growth: Growth,
    trees: Trees,
    begin: int,
    budget: int,
) -> tuple[int, int]:
    """Grow the trees of all chunks from number `begin` on; returns the first that is missing, and why it stopped."""
    limit = growth.count[1] + budget
    for chunk in range(begin, len(sums.size)):
        if growth.count[1] > limit:
            return chunk, PAUSED
        if trees.count[0] + trees.most > len(trees.arc):
            return chunk, OUTPUT_FULL
        set_prices(prices)
        growth.count[1] += len(prices.price) // 4
        choice = sums.choice[chunk]
        first = roots[0][choice]
        width = roots[0][choice + 1] - first
        trees.root[chunk] = roots[1][first + sums.turn[chunk] % width]
        # The phase that goes first has the better choice, so they take turns.
        for k in range(2):
            phase = (chunk + k) % 2
            if not grow(net, sides[phase], sums, allowed, prices, growth, trees, chunk, phase):
                return chunk, STUCK
    return len(sums.size), DONE


@kernel
def set_prices(prices: Prices) -> None:
    """Prices that follow from the loads. It is only their ratio that matters, but urgency is measured by them."""
    dearest = 0.0
    for arc in range(len(prices.load)):
        dearest = max(dearest, prices.load[arc])
    total = 0.0
    for arc in range(len(prices.price)):
        above = prices.steepness * (prices.load[arc] - dearest)
        prices.price[arc] = np.exp(max(above, CHEAPEST))
        total += prices.price[arc]
    for arc in range(len(prices.price)):
        prices.price[arc] *= len(prices.price) / total


@kernel
def grow(
    net: Network,
    side: Side,
    sums: Sums,
    allowed: Bools,
    prices: Prices,
    growth: Growth,
    trees: Trees,
    chunk: int,
    phase: int,
) -> bool:
    """Grow one tree; returns whether it reaches all it must."""
    size = sums.size[chunk]
    score = growth.score
    missing = want(sums, growth, trees.root[chunk], chunk, phase)
    tree = growth.count[0]
    trees.first[phase, chunk] = trees.count[0]
    members = np.int64(0)
    waiting = np.int64(0)
    score[:] = np.inf
    members, waiting = join(growth, trees.root[chunk], 0.0, prices.urgency, members, waiting)
    for _ in range(missing):
        if missing == 0:
            break
        device, waiting = nearest(
            net, side, allowed[sums.zone[chunk]], prices, growth, size, waiting
        )
        if device < 0:
            return False
        low = trees.count[0]
        take_branch(side, growth, trees, device)
        for i in range(low, trees.count[0]):
            arc = trees.arc[i]
            kind = net.kind[arc]
            hold = net.hold[size, kind]
            prices.load[arc] += hold
            prices.price[arc] *= np.exp(prices.steepness * hold)
            far = side.far[arc]
            depth = growth.depth[side.near[arc]] + net.travel[size, kind]
            growth.depth[far] = depth
            if not side.passes[far]:
                missing -= growth.wanted[far] == tree
                members, waiting = join(growth, far, depth, prices.urgency, members, waiting)
        # Through a switch that passes messages on, other branches may take the same links, which are dearer now.
        if side.any_passes and missing > 0:
            waiting = np.int64(0)
            score[:] = np.inf
            again = members
            members = np.int64(0)
            for i in range(again):
                device = growth.member[i]
                depth = growth.depth[device]
                members, waiting = join(growth, device, depth, prices.urgency, members, waiting)
    if missing > 0:
        raise InternalError("a branch of a joint tree reaches nothing that was missing")
    trees.width[phase, chunk] = trees.count[0] - trees.first[phase, chunk]
    return True


@kernel
def want(sums: Sums, growth: Growth, root: int, chunk: int, phase: int) -> int:
    """Begin a tree: note which devices it must reach, and return how many there are besides its root."""
    growth.count[0] += 1
    ends = sums.contributor if phase == 0 else sums.destination
    missing = 0
    for i in range(sums.first[phase, chunk], sums.first[phase, chunk + 1]):
        growth.wanted[ends[i]] = growth.count[0]
        missing += ends[i] != root
    return missing


@kernel
def join(
    growth: Growth, device: int, depth: float, urgency: float, members: int, waiting: int
) -> tuple[int, int]:
    """Add a device to the tree: what leads to it is paid for, so ways from there cost only what they add."""
    growth.has[device] = growth.count[0]
    growth.member[members] = device
    growth.depth[device] = depth
    growth.cost[device] = 0.0
    growth.score[device] = urgency * depth
    waiting = push_key(growth.key, growth.entry, waiting, growth.score[device], device)
    return members + 1, waiting


@kernel
def nearest(
    net: Network,
    side: Side,
    allowed: Bools,
    prices: Prices,
    growth: Growth,
    size: int,
    waiting: int,
) -> tuple[int, int]:
    """The wanted device that is cheapest to reach from the tree, or -1; and how many wait in the heap then."""
    tree = growth.count[0]
    score = growth.score
    # What has led on does so again only where something nearer is found.
    for _ in range((len(score) + 1) * (len(side.arc) + len(score))):
        if waiting == 0:
            break
        key = growth.key[0]
        device = growth.entry[0]
        waiting = pop_key(growth.key, growth.entry, waiting)
        # Stale: the device has been reached at a better score, or has joined the tree.
        if key != score[device]:
            continue
        if growth.wanted[device] == tree and growth.has[device] != tree:
            return device, waiting
        first = side.first[device]
        end = side.first[device + 1]
        # Looking at the arcs, or adding a branch, must not run out of room.
        if waiting + end - first + len(score) > len(growth.key):
            waiting = without_stale(growth.key, growth.entry, score, waiting)
        growth.count[1] += end - first
        for i in range(first, end):
            arc = side.arc[i]
            far = side.far[arc]
            if growth.has[far] == tree or not allowed[far]:
                continue
            kind = net.kind[arc]
            cost = growth.cost[device] + prices.price[arc] * net.hold[size, kind]
            depth = growth.depth[device] + net.travel[size, kind]
            total = cost + prices.urgency * depth
            if total < score[far]:
                score[far] = total
                growth.cost[far] = cost
                growth.depth[far] = depth
                growth.arc[far] = arc
                waiting = push_key(growth.key, growth.entry, waiting, total, far)
    else:
        raise InternalError("a branch of a joint tree is sought over every link for every device")
    return -1, waiting


@kernel
def take_branch(side: Side, growth: Growth, trees: Trees, device: int) -> None:
    """Add the arcs from the tree to a device to the pool, in their order."""
    low = trees.count[0]
    high = low
    while growth.has[device] != growth.count[0]:
        if high == len(trees.arc):
            raise InternalError("a branch of a joint tree does not begin in the tree")
        arc = growth.arc[device]
        trees.arc[high] = arc
        high += 1
        device = side.near[arc]
    for i in range((high - low) // 2):
        trees.arc[low + i], trees.arc[high - 1 - i] = trees.arc[high - 1 - i], trees.arc[low + i]
    trees.count[0] = high
