"""The search: earliest arrival over the time-expanded network (TEN), which is kept implicitly.

Relaxing an arc asks the calendar of its lane for the first gap that holds the chunk, so links that earlier chunks took
are "removed" for exactly as long as they are held. An arc is a link as the search walks it; by default every link has a
lane of its own.

Times are int64, in units of the greatest common divisor of all times, so that small numbers stay small; indices are
signed throughout, as mixing in unsigned integers would turn them into floats.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Column, Floats, Indices, Ints
from pccl._heap_kernels import INDEX, pop, push
from pccl._kernels import inlined, kernel
from pccl.errors import InternalError
from pccl.network.calendar_kernels import Lanes, Stores, first_gap, free_from, full, occupy
from pccl.network.graph_kernels import NEVER, NO_ARC, Network

# Why a kernel returns to Python: to report progress, to make room, or because it cannot go on.
DONE = 0
PAUSED = 1
OUTPUT_FULL = 2
LANE_FULL = 3
STORE_FULL = 4
STUCK = 5
# As far as ties look; shifted by 24 bits it still fits.
FARTHEST = np.int64(2**38)
# Columns of a label.
ARRIVAL = 0
START = 1
ARC = 2
SLOT = 3


class JobColumns(NamedTuple):
    """What is to be routed: one row per job, which is a chunk in one direction of time."""

    source: Indices
    release: Ints
    size: Indices  # size class
    row: Indices  # row of `remaining`; for chunks with several destinations that of their zone, which holds zeros
    first: Ints  # destinations of job j are destination[first[j] : first[j + 1]]
    destination: Indices
    remaining: Column  # [row, device]: unloaded time from there to the destination of the row
    unreachable: int  # what `remaining` says where there is no way, or no permission
    zones: int  # rows that belong to zones; those after them to single destinations
    minimal: bool  # only arcs that bring a chunk nearer to its one destination
    # On minimal routes, how much more the way ahead counts, in 1/256: faster, and nearly as good.
    haste: int


class Routes(NamedTuple):
    """The transfers of every job, in one pool that new ones are added to at the end."""

    first: Ints  # per job: where its transfers begin
    width: Ints  # per job: how many there are
    arrival: Ints  # per job: of the last of them
    arc: Indices
    start: Ints
    count: Ints  # [0]: how much of the pool is used


class Work(NamedTuple):
    """Scratch space of one search; what is noted for a device counts if it bears the number of the search."""

    state: Ints  # twice the number of the search that labelled the device, plus one once closed
    label: Ints  # [device, (arrival, start, arc, slot in the calendar of the lane)]
    wanted: Ints
    in_tree: Ints
    not_before: Ints  # per device: earliest moment at which this chunk may begin to come in
    sent: Ints  # per device: when the last byte of this chunk has left it
    # A heap of the devices that have the chunk, where its tree grows branch by branch: searches begin with it.
    member_key: Floats
    member: Ints
    left: Ints  # per member with a finite buffer: when the last byte that it has sent so far has left it
    has: Ints  # per device: whether it is a member
    open: Ints  # per member: its first arc that may not lead to a member
    depth: (
        Ints  # per device: how many have handed the chunk on until it came there, if it is a member
    )
    # [lane, (tree, time, start, slot)]: what the calendar has said to a tree that grows branch by branch.
    gap: Ints
    # [slot, (score, tie, device)]: of equal scores the nearest to its destination, then the first.
    heap: Ints
    # [slot, (device, next arc)]: devices left half-way because one of their arcs lost no time.
    pending: Ints
    tree: Ints  # arcs of the tree found
    search: Ints  # [0]: number of the last search, [1]: relaxations so far
    # The tree that grows branch by branch. [0]: its number, or 0; [1]: members; [2]: destinations that are missing;
    # [3]: where its transfers begin in the pool; [4]: when the last one arrives.
    growing: Ints


class World(NamedTuple):
    """All that a search works on."""

    net: Network
    lanes: Lanes
    stores: Stores
    jobs: JobColumns
    work: Work
    routes: Routes


@inlined
def set_label(label: Ints, device: int, arrival: int, start: int, arc: int, slot: int) -> None:
    """Note how a device is reached: when, by which transfer, and where that goes in the calendar."""
    label[device, ARRIVAL] = arrival
    label[device, START] = start
    label[device, ARC] = arc
    label[device, SLOT] = slot


@kernel
def earliest_start(world: World, arc: int, time: int, size: int) -> tuple[int, int]:
    """Earliest moment from `time` on at which a chunk may enter the arc and the buffer behind it, and its place."""
    net = world.net
    lanes = world.lanes
    stores = world.stores
    work = world.work
    kind = net.kind[arc]
    hold = net.hold[size, kind]
    receiver = net.dst[arc]
    if not net.limited or net.store[receiver] < 0:
        return first_gap(lanes, net.lane[arc], time, hold)
    store = net.store[receiver]
    duration = net.duration[size, kind]
    latency = net.travel[size, kind] - duration
    time = max(time, work.not_before[receiver] - latency)
    # Lane and buffer push the start back in turn, until they agree on a moment; neither moves it
    # forward.
    for _ in range(stores.count[store] + 1):
        start, slot = first_gap(lanes, net.lane[arc], time, hold)
        free = free_from(stores, store, start + latency, start + latency + duration)
        if free == start + latency:
            return start, slot
        time = free - latency
    raise InternalError("a link waits for a buffer more often than that can be full")


@kernel
def time_anew(world: World, arc: int, time: int, size: int) -> int:
    """Label the receiver of an arc as entered from `time` on; returns when the transfer starts."""
    net = world.net
    work = world.work
    start, slot = earliest_start(world, arc, time, size)
    arrival = start + net.travel[size, net.kind[arc]]
    set_label(work.label, net.dst[arc], arrival, start, arc, slot)
    return start


@inlined
def weighted(time: int, haste: int) -> int:
    """The time that remains, and what haste adds to it."""
    return time + ((time * haste) >> 8)


@kernel
def search(world: World, job: int, ident: int) -> int:
    """Reach every destination of the job as early as possible; leaves labels in `work`, returns how many are missing.

    Devices are closed in order of arrival plus the unloaded time that remains (zero with several destinations, so that
    this is Dijkstra's algorithm, and A* otherwise). A successor that loses no time is followed at once, past the heap;
    the device it was reached from is left pending, with the arcs it has not looked at.
    """
    net = world.net
    lanes = world.lanes
    jobs = world.jobs
    work = world.work
    first_arc = net.first
    dst = net.dst
    lane_of = net.lane
    kind_of = net.kind
    limited = net.limited
    size = jobs.size[job]
    holds = net.hold[size]
    travels = net.travel[size]
    state = work.state
    label = work.label
    wanted = work.wanted
    heap = work.heap
    labelled = 2 * ident
    closed = 2 * ident + 1
    remaining = jobs.remaining[jobs.row[job]]
    source = jobs.source[job]
    single = jobs.row[job] >= jobs.zones
    minimal = single and jobs.minimal

    missing = jobs.first[job + 1] - jobs.first[job]
    for i in range(jobs.first[job], jobs.first[job + 1]):
        wanted[jobs.destination[i]] = ident
    label[source, ARRIVAL] = jobs.release[job]
    label[source, ARC] = NO_ARC
    unreachable = np.int64(jobs.unreachable)
    haste = np.int64(jobs.haste) if minimal else np.int64(0)
    score = jobs.release[job] + weighted(np.int64(remaining[source]), haste)
    relaxed = np.int64(0)
    sequence = np.int64(0)
    waiting = np.int64(0)  # entries in the heap
    pending = np.int64(0)  # devices that have arcs left to look at
    device = source
    arc = first_arc[source]
    state[source] = closed
    if wanted[source] == ident:
        missing -= 1
    while missing > 0:
        # Every device is closed once, with a look at each of its arcs.
        if relaxed > len(dst):
            raise InternalError("a search looks at arcs of devices that it is done with")
        time = label[device, ARRIVAL]
        last = first_arc[device + 1]
        # On minimal routes, only what is nearer to the destination than this device; else, whatever
        # leads there at all.
        limit = np.int64(remaining[device]) if minimal else unreachable
        follow = np.int64(-1)
        while arc < last and follow < 0:
            arc &= INDEX
            successor = dst[arc] & INDEX
            there = np.int64(remaining[successor])
            known = state[successor]
            # One branch instead of two that are hard to predict.
            if (known == closed) | (there >= limit):
                arc += 1
                continue
            relaxed += 1
            kind = kind_of[arc] & INDEX
            if limited:
                start, slot = earliest_start(world, arc, time, size)
            else:
                start, slot = first_gap(lanes, lane_of[arc] & INDEX, time, holds[kind])
            arrival = start + travels[kind]
            if known != labelled or label[successor, ARRIVAL] > arrival:
                state[successor] = labelled
                set_label(label, successor, arrival, start, arc, slot)
                ahead = weighted(there, haste)
                # The heap holds nothing better than the present score: what does not exceed it
                # would be the next to come out anyway.
                if single and arrival + ahead <= score:
                    follow = successor
                else:
                    tie = (min(there, FARTHEST) << 24) | sequence
                    waiting = push(heap, waiting, arrival + ahead, tie, successor)
                    sequence += 1
            arc += 1
        if follow >= 0:
            work.pending[pending, 0] = device
            work.pending[pending, 1] = arc
            pending += 1
            device = follow
        elif pending > 0:
            pending -= 1
            device = work.pending[pending, 0]
            arc = work.pending[pending, 1]
            continue
        else:
            device = np.int64(-1)
            while waiting > 0 and device < 0:
                waiting = pop(heap, waiting)
                score = heap[waiting, 0]
                tie = heap[waiting, 1]
                device = heap[waiting, 2]
                ahead = weighted(np.int64(remaining[device]), haste)
                # Stale: the device was followed past the heap, or reached sooner by another way.
                if state[device] == closed or label[device, ARRIVAL] + ahead != score:
                    device = np.int64(-1)
            if device < 0:
                break
        arc = first_arc[device]
        state[device] = closed
        if wanted[device] == ident:
            missing -= 1
    work.search[1] += relaxed
    return missing


@kernel
def keep_useful(world: World, job: int, ident: int) -> int:
    """Collect the arcs that lead to destinations, ordered by start and link; returns how many there are."""
    net = world.net
    jobs = world.jobs
    work = world.work
    size = np.int64(0)
    # The source is in the tree from the start, which is where every walk back ends.
    work.in_tree[jobs.source[job]] = ident
    for i in range(jobs.first[job], jobs.first[job + 1]):
        device = jobs.destination[i]
        while work.in_tree[device] != ident:
            if size == len(work.tree):
                raise InternalError("a way that was found does not begin at its source")
            work.in_tree[device] = ident
            work.tree[size] = work.label[device, ARC]
            size += 1
            device = net.src[work.label[device, ARC]]
    if jobs.row[job] >= jobs.zones:
        for i in range(size // 2):  # a path, found from its end
            work.tree[i], work.tree[size - 1 - i] = work.tree[size - 1 - i], work.tree[i]
    else:
        sort_by_start(world, size)
    return size


@kernel
def sort_by_start(world: World, size: int) -> None:
    """Shell sort, as trees are small and kernels allocate nothing."""
    net = world.net
    work = world.work
    step = size // 2
    while step > 0:
        for i in range(step, size):
            arc = work.tree[i]
            start = work.label[net.dst[arc], START]
            link = net.link[arc]
            k = i
            while k >= step:
                other = work.tree[k - step]
                other_start = work.label[net.dst[other], START]
                if other_start < start or (other_start == start and net.link[other] < link):
                    break
                work.tree[k] = other
                k -= step
            work.tree[k] = arc
        step //= 2


@kernel
def respect_limits(world: World, job: int, width: int, tries: int, grows: bool) -> bool:
    """Re-time the tree now that useless branches are gone, and check finite buffers.

    Where it `grows`, so that nobody knows for how long a switch will send the chunk to others, the switch must have
    room from then on.

    Returns False if a buffer is full at some time between arrival and departure; then `not_before` has been raised to
    the end of that period, so that a new search finds something later, and in the end an empty switch.
    """
    net = world.net
    stores = world.stores
    jobs = world.jobs
    work = world.work
    size = jobs.size[job]
    for i in range(width):
        work.sent[net.src[work.tree[i]]] = 0
        work.sent[net.dst[work.tree[i]]] = 0
    for i in range(width):  # in order of start, so a device comes after the one that feeds it
        arc = work.tree[i]
        sender = net.src[arc]
        start = time_anew(world, arc, work.label[sender, ARRIVAL], size)
        until = start + net.duration[size, net.kind[arc]]
        work.sent[sender] = max(work.sent[sender], until)
    for i in range(width):
        receiver = net.dst[work.tree[i]]
        store = net.store[receiver]
        if store < 0:
            continue
        begin, end = stay_of(world, work.tree[i], size)
        if grows and not net.passes[receiver]:
            end = NEVER
        free = free_from(stores, store, begin, end)
        if free == begin:
            continue
        # After many tries, skip many full periods at once.
        for _ in range((1 << min(tries >> 2, 30)) - 1):
            later = free_from(stores, store, free, NEVER)
            if later == free:
                break
            free = later
        work.not_before[receiver] = free
        return False
    return True


@kernel
def stay_of(world: World, arc: int, size: int) -> tuple[int, int]:
    """From when until when the chunk is in the device that the arc leads to: first byte received to last byte sent."""
    net = world.net
    work = world.work
    receiver = net.dst[arc]
    arrival = work.label[receiver, ARRIVAL]
    return arrival - net.duration[size, net.kind[arc]], max(arrival, work.sent[receiver])


@kernel
def fits(world: World, width: int) -> bool:
    """Whether the calendars have room for all transfers of the tree found."""
    net = world.net
    lanes = world.lanes
    work = world.work
    for i in range(width):
        arc = work.tree[i]
        if full(lanes, net.lane[arc], work.label[net.dst[arc], START]):
            return False
    return True


@kernel
def take_tree(world: World, size: int, width: int) -> tuple[int, int]:
    """Take the links of the tree found out of the TEN, and add its transfers to the pool.

    Returns when the last of them arrives, and for how long they hold links in all.
    """
    net = world.net
    lanes = world.lanes
    work = world.work
    routes = world.routes
    # A device is entered once, so a tree has a lane at most once: no insertion moves the slot of
    # another.
    row = routes.count[0]
    end = np.int64(0)
    held = np.int64(0)
    for i in range(width):
        arc = work.tree[i]
        receiver = net.dst[arc]
        start = work.label[receiver, START]
        hold = net.hold[size, net.kind[arc]]
        occupy(lanes, net.lane[arc], work.label[receiver, SLOT], start, start + hold)
        routes.arc[row + i] = arc
        routes.start[row + i] = start
        end = max(end, work.label[receiver, ARRIVAL])
        held += hold
    routes.count[0] = row + width
    return end, held
