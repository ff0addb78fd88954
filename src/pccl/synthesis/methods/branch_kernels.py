"""Trees that grow branch by branch, for networks with switches that pass messages on one by one.

Such a switch is no place to branch from, and may be passed through again and again, each time over links that are then
taken. So a branch is found from all the devices that have the chunk to the destination that is nearest, or cheapest,
and its links are taken before the next one is looked for.
"""

from __future__ import annotations

import numpy as np

from pccl._heap_kernels import pop_key, push_key
from pccl._kernels import inlined, kernel
from pccl.errors import InternalError
from pccl.network.calendar_kernels import first_gap, stay
from pccl.network.graph_kernels import NO_ARC
from pccl.synthesis.methods.guided_kernels import Guide, raise_prices, without_stale
from pccl.synthesis.search_kernels import (
    ARC,
    ARRIVAL,
    DONE,
    LANE_FULL,
    OUTPUT_FULL,
    STORE_FULL,
    STUCK,
    World,
    earliest_start,
    fits,
    respect_limits,
    set_label,
    stay_of,
    take_tree,
)

TURN = 0.4


@kernel
def grow_by_branches(world: World, guide: Guide, job: int) -> int:
    """Place the tree of a job; returns why it stopped.

    Its transfers are then the last ones in the pool, from `growing[3]` on, and all have arrived by `growing[4]`. What
    is placed when there is no room for more stays: the next call goes on from there.
    """
    net = world.net
    work = world.work
    growing = work.growing
    size = world.jobs.size[job]
    if growing[0] == 0:
        plant(world, guide, job)
    for _ in range(growing[2]):
        if growing[2] == 0:
            break
        looked = work.search[1]
        width = find_branch(world, guide, job)
        if width < 0:
            growing[0] = 0
            return STUCK
        status = room_for(world, width)
        if status != DONE:
            # The branch is searched for again, and counts once, however long the arrays are.
            work.search[1] = looked
            return status
        end, _ = take_tree(world, size, width)
        forget_gaps(world, width)
        growing[4] = max(growing[4], end)
        if net.limited:
            fill_stores(world, size, width)
            stay_on(world)
        if guide.on:
            raise_prices(world, guide, size, width)
        join_members(world, guide, width)
    if growing[2] > 0:
        raise InternalError("a branch of a tree reaches nothing that was missing")
    growing[0] = 0
    return DONE


@kernel
def plant(world: World, guide: Guide, job: int) -> None:
    """Begin a tree: its source has the chunk, and all destinations want it."""
    jobs = world.jobs
    work = world.work
    work.search[0] += 1
    tree = work.search[0]
    work.growing[0] = tree
    work.growing[1] = 0
    work.growing[2] = jobs.first[job + 1] - jobs.first[job]
    work.growing[3] = world.routes.count[0]
    work.growing[4] = 0
    for i in range(jobs.first[job], jobs.first[job + 1]):
        work.wanted[jobs.destination[i]] = tree
    add_member(world, guide, jobs.source[job], jobs.release[job], 0)


@kernel
def add_member(world: World, guide: Guide, device: int, since: int, depth: int) -> None:
    """Note that a device has the chunk, and how many have handed it on so far."""
    work = world.work
    work.depth[device] = depth
    tree = work.growing[0]
    work.has[device] = tree
    work.open[device] = world.net.first[device]
    # No search for a branch changes what is noted of members.
    set_label(work.label, device, since, 0, NO_ARC, 0)
    guide.cost[device] = guide.handed * depth
    guide.score[device] = guide.urgency * since + guide.handed * depth
    work.growing[1] = push_key(
        work.member_key, work.member, work.growing[1], guide.score[device], device
    )
    if work.wanted[device] == tree:
        work.growing[2] -= 1


@kernel
def join_members(world: World, guide: Guide, width: int) -> None:
    """Note who has the chunk once the branch found is taken: not the switches that have passed it on."""
    net = world.net
    work = world.work
    depth = work.depth[net.src[work.tree[0]]]
    for i in range(width):
        receiver = net.dst[work.tree[i]]
        if not net.passes[receiver]:
            depth += 1
            add_member(world, guide, receiver, work.label[receiver, ARRIVAL], depth)
            if net.store[receiver] >= 0:
                work.left[receiver] = max(work.label[receiver, ARRIVAL], work.sent[receiver])


@kernel
def find_branch(world: World, guide: Guide, job: int) -> int:
    """Find a branch that keeps to all limits; leaves it in `work.tree` and returns its length, or -1."""
    net = world.net
    work = world.work
    size = world.jobs.size[job]
    if net.limited:
        work.not_before[:] = 0
    # Each try gets past a time when some buffer is full.
    for tries in range(world.stores.moment.size + 1):
        device = nearest(world, guide, job)
        if device < 0:
            return -1
        width = way_to(world, device, size)
        if not net.limited or respect_limits(world, job, width, tries, True):
            return width
    raise InternalError("a branch is sought more often than buffers can be full")


@kernel
def nearest(world: World, guide: Guide, job: int) -> int:
    """The destination that is cheapest to reach from the members, with labels on the way; -1 if there is none."""
    net = world.net
    work = world.work
    state = work.state
    label = work.label
    score = guide.score
    cost = guide.cost
    tree = work.growing[0]
    size = world.jobs.size[job]
    source = np.int64(world.jobs.source[job])
    # Of those that are equally near, each source begins with another one: the next after itself. Then the sources
    # around a switch send to different receivers at any time. It is less than any difference in time.
    turn = TURN * max(guide.urgency, TURN) / len(state)
    zone = world.jobs.remaining[world.jobs.row[job]]
    forbidden = np.int64(world.jobs.unreachable)
    work.search[0] += 1
    labelled = 2 * work.search[0]
    waiting = work.growing[1]
    for m in range(waiting):
        guide.key[m] = work.member_key[m]
        guide.entry[m] = work.member[m]
    # What has led on does so again only where something nearer is found.
    for _ in range((len(state) + 1) * (len(net.dst) + len(state))):
        if waiting == 0:
            break
        key = guide.key[0]
        device = guide.entry[0]
        waiting = pop_key(guide.key, guide.entry, waiting)
        if key != score[device]:
            continue
        if work.wanted[device] == tree and work.has[device] != tree:
            return device
        if waiting + net.first[device + 1] - net.first[device] + len(state) > len(guide.key):
            waiting = without_stale(guide.key, guide.entry, score, waiting)
        last = net.first[device + 1]
        first = net.first[device]
        if work.has[device] == tree:
            # What leads to members will do so as long as the tree grows.
            first = work.open[device]
            while first < last and work.has[net.dst[first]] == tree:
                first += 1
            work.open[device] = first
        for arc in range(first, last):
            successor = net.dst[arc]
            if work.has[successor] == tree or np.int64(zone[successor]) >= forbidden:
                continue
            kind = net.kind[arc]
            price = cost[device] + guide.price[arc] * net.hold[size, kind]
            known = state[successor] == labelled
            # A label that costs less than the links alone cannot be improved on, so calendars are not asked.
            earliest = label[device, ARRIVAL] + net.travel[size, kind]
            if known and price + guide.urgency * earliest >= score[successor]:
                continue
            work.search[1] += 1
            start, slot = start_on(world, arc, label[device, ARRIVAL], size)
            arrival = start + net.travel[size, kind]
            behind = successor - source if successor > source else successor - source + len(state)
            total = price + guide.urgency * arrival + turn * behind
            if not known or total < score[successor]:
                state[successor] = labelled
                cost[successor] = price
                score[successor] = total
                set_label(label, successor, arrival, start, arc, slot)
                waiting = push_key(guide.key, guide.entry, waiting, total, successor)
    else:
        raise InternalError("a branch is sought over every link for every device")
    return -1


@kernel
def way_to(world: World, device: int, size: int) -> int:
    """Write the arcs from a member to the device down in `work.tree`, and time them; returns how many there are."""
    net = world.net
    work = world.work
    width = np.int64(0)
    while work.label[device, ARC] != NO_ARC:
        if width == len(work.tree):
            raise InternalError("a branch does not begin in its tree")
        work.tree[width] = work.label[device, ARC]
        device = net.src[work.tree[width]]
        width += 1
    for i in range(width // 2):
        work.tree[i], work.tree[width - 1 - i] = work.tree[width - 1 - i], work.tree[i]
    # The way to a device may have become cheaper, but later, after its successor was labelled.
    for i in range(width):
        arc = work.tree[i]
        start, slot = start_on(world, arc, work.label[net.src[arc], ARRIVAL], size)
        arrival = start + net.travel[size, net.kind[arc]]
        set_label(work.label, net.dst[arc], arrival, start, arc, slot)
    return width


@inlined
def start_on(world: World, arc: int, time: int, size: int) -> tuple[int, int]:
    """The earliest start from `time` on, and its place; the answer is kept until the tree takes the lane."""
    net = world.net
    if net.limited:
        return earliest_start(world, arc, time, size)
    lane = net.lane[arc]
    tree = world.work.growing[0]
    gap = world.work.gap
    if gap[lane, 0] != tree or gap[lane, 1] != time:
        start, slot = first_gap(world.lanes, lane, time, net.hold[size, net.kind[arc]])
        gap[lane, 0] = tree
        gap[lane, 1] = time
        gap[lane, 2] = start
        gap[lane, 3] = slot
    return gap[lane, 2], gap[lane, 3]


@inlined
def forget_gaps(world: World, width: int) -> None:
    """What is known of lanes that a branch has taken holds no longer."""
    for i in range(width):
        world.work.gap[world.net.lane[world.work.tree[i]], 0] = 0


@kernel
def room_for(world: World, width: int) -> int:
    """Whether everything the tree or branch needs fits the arrays; the status to return to Python if not."""
    net = world.net
    stores = world.stores
    work = world.work
    routes = world.routes
    if routes.count[0] + width > len(routes.arc):
        return OUTPUT_FULL
    if not fits(world, width):
        return LANE_FULL
    if net.limited:
        for i in range(width):
            # A branch may begin in a buffer, too.
            for device in (net.src[work.tree[i]], net.dst[work.tree[i]]):
                store = net.store[device]
                if store >= 0 and stores.count[store] + 2 >= stores.moment.shape[1]:
                    return STORE_FULL
    return DONE


@kernel
def fill_stores(world: World, size: int, width: int) -> None:
    """Count the chunk in every finite buffer that it passes through."""
    net = world.net
    stores = world.stores
    work = world.work
    for i in range(width):
        arc = work.tree[i]
        store = net.store[net.dst[arc]]
        if store >= 0:
            since, until = stay_of(world, arc, size)
            stay(stores, store, since, until)


@kernel
def stay_on(world: World) -> None:
    """Count the chunk for longer in the finite buffer that the branch found begins at, if it begins at one."""
    net = world.net
    work = world.work
    device = net.src[work.tree[0]]
    store = net.store[device]
    # There is room, as the switch had to have some from then on when the chunk came in.
    if store >= 0 and work.sent[device] > work.left[device]:
        stay(world.stores, store, work.left[device], work.sent[device])
        work.left[device] = work.sent[device]
