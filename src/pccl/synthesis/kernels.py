"""The search kernels: earliest arrival over a time-expanded network that is kept implicitly.

The time-expanded network (TEN) is one calendar per lane: the sorted intervals during which it is busy. Relaxing an arc
asks its calendar for the first gap that holds the chunk, so links that earlier chunks took are "removed" for exactly as
long as they are held. An arc is a link as the search walks it; by default every link has a lane of its own.

Times are int64 picoseconds, indices int64 throughout: mixing in unsigned integers would turn them into floats.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pccl._kernels import inlined, kernel

__all__ = [
    "Lanes",
    "Moves",
    "Network",
    "Output",
    "Stores",
    "Tasks",
    "Work",
    "distances",
    "place",
    "replay",
    "tree_slots",
]

Ints = NDArray[np.int64]
Indices = NDArray[np.int32]

DONE, PAUSED, OUTPUT_FULL, LANE_FULL, STORE_FULL = 0, 1, 2, 3, 4
NEVER = np.int64(2**62)
NO_ARC = np.int64(-1)
ARRIVAL, START, ARC, SLOT = 0, 1, 2, 3  # columns of a label
INDEX = np.int64(2**62 - 1)  # masked with this, an index is plainly not negative, which spares a test at every use


class Network(NamedTuple):
    """Arcs grouped by the device they leave, and what limits the devices."""

    first: Ints  # arcs of device d are first[d] .. first[d + 1] - 1
    src: Indices
    dst: Indices
    link: Indices
    lane: Indices
    latency: Ints
    held: Ints  # the part of the latency during which the lane is held: all of it on exclusive links
    rate: Indices  # column of `durations`
    durations: Ints  # [size class, rate]
    store: Ints  # per device: row of the stores of a switch with a finite buffer, or -1
    one_way: NDArray[np.bool_]  # per device: a switch that sends a chunk over one link at a time
    limited: bool


class Lanes(NamedTuple):
    """The calendars: per lane the busy intervals, sorted and disjoint."""

    count: Ints
    busy: Ints  # [lane, interval, begin or end]
    slack: Ints  # per lane: gaps shorter than this hold no chunk and are closed


class Stores(NamedTuple):
    """Finite buffers: per switch how many chunks it holds from each moment on."""

    capacity: Ints
    count: Ints
    moment: Ints  # [store, step]
    level: Ints  # [store, step]


class Tasks(NamedTuple):
    """What to place: one row per chunk and direction, in the order of placement."""

    source: Ints
    release: Ints
    size: Ints  # size class
    row: Ints  # row of `remaining`; 0, which holds zeros, for chunks with several destinations
    first: Ints  # destinations of task i are destination[first[i]:first[i + 1]]
    destination: Ints
    remaining: NDArray[Any]  # [row, device]: unloaded time from the device to the destination of the row, in units
    unit: int  # picoseconds
    unreachable: int  # what `remaining` says where there is no way
    minimal: bool  # only arcs that bring a chunk nearer to its one destination


class Moves(NamedTuple):
    """Transfers to start again, each between two slots that say when a chunk is ready at a device."""

    arc: Ints
    size: Ints  # size class
    sender: Ints  # slot
    receiver: Ints  # slot
    start: Ints


class Work(NamedTuple):
    """Scratch space of one search; what is noted for a device counts if it bears the number of the search."""

    state: Ints  # twice the number of the search that labelled the device, plus one once it is closed
    label: Ints  # [device, (arrival, start, arc, slot in the calendar of the lane)]
    wanted: Ints
    in_tree: Ints
    not_before: Ints  # per device: earliest moment at which this chunk may begin to come in
    port: Ints  # per one-way switch: until when it is sending this chunk
    heap: Ints  # [slot, (score, remaining, sequence, device)]
    pending: Ints  # [slot, (device, next arc)]: devices left half-way because one of their arcs lost no time
    tree: Ints  # arcs of the tree found
    search: Ints  # [0]: number of the last search, [1]: relaxations so far


class Output(NamedTuple):
    """Transfers placed so far, task by task."""

    count: Ints
    task: NDArray[np.int32]
    arc: NDArray[np.int32]
    start: Ints


# --- calendars ---------------------------------------------------------------------------------------------------


@inlined
def first_gap(lanes: Lanes, lane: int, time: int, hold: int) -> tuple[int, int]:
    """Earliest moment from `time` on at which the lane is free for `hold`, and the interval that comes after it."""
    busy, count = lanes.busy, lanes.count[lane]
    if count == 0 or time + hold <= busy[lane, 0, 0]:
        return time, np.int64(0)
    low = np.int64(0)
    if busy[lane, 0, 1] <= time:  # most questions fall into the first interval; the others find theirs by bisection
        low = np.int64(1)
        high = count
        while low < high:
            middle = ((low + high) >> 1) & INDEX
            if busy[lane, middle, 1] > time:
                high = middle
            else:
                low = middle + 1
    while low < count and busy[lane, low & INDEX, 0] < time + hold:
        time = busy[lane, low & INDEX, 1]
        low += 1
    return time, low


@kernel
def occupy(lanes: Lanes, lane: int, low: int, begin: int, end: int) -> None:
    """Mark the lane busy from `begin` to `end`, before interval `low`.

    Neighbours are merged when the gap to them is too short to be of use.
    """
    busy, count, slack = lanes.busy[lane], lanes.count[lane], lanes.slack[lane]
    left = low > 0 and begin - busy[low - 1, 1] < slack
    right = low < count and busy[low, 0] - end < slack
    if left and right:
        busy[low - 1, 1] = busy[low, 1]
        for i in range(low, count - 1):
            busy[i, 0], busy[i, 1] = busy[i + 1, 0], busy[i + 1, 1]
        lanes.count[lane] = count - 1
    elif left:
        busy[low - 1, 1] = end
    elif right:
        busy[low, 0] = begin
    else:
        for i in range(count, low, -1):
            busy[i, 0], busy[i, 1] = busy[i - 1, 0], busy[i - 1, 1]
        busy[low, 0], busy[low, 1] = begin, end
        lanes.count[lane] = count + 1


@kernel
def step_at(stores: Stores, store: int, moment: int) -> int:
    """Last step of the store at or before the moment (-1 before the first)."""
    low, high = np.int64(0), stores.count[store]
    while low < high:
        middle = (low + high) >> 1
        if stores.moment[store, middle] <= moment:
            low = middle + 1
        else:
            high = middle
    return low - 1


@kernel
def free_from(stores: Stores, store: int, begin: int, end: int) -> int:
    """`begin` if the store has room from `begin` to `end`; otherwise when the first full period in between is over."""
    i = step_at(stores, store, begin)
    count = stores.count[store]
    if i < 0:
        i = np.int64(0)
    while i < count and stores.moment[store, i] < end:
        if stores.level[store, i] >= stores.capacity[store]:
            while stores.level[store, i] >= stores.capacity[store]:  # the last level is zero
                i += 1
            return stores.moment[store, i]
        i += 1
    return begin


@kernel
def stay(stores: Stores, store: int, begin: int, end: int) -> None:
    """Count one more chunk in the store from `begin` to `end`."""
    split(stores, store, begin)
    split(stores, store, end)
    for i in range(step_at(stores, store, begin), step_at(stores, store, end)):
        stores.level[store, i] += 1


@kernel
def split(stores: Stores, store: int, moment: int) -> None:
    i = step_at(stores, store, moment)
    if i >= 0 and stores.moment[store, i] == moment:
        return
    for k in range(stores.count[store], i + 1, -1):
        stores.moment[store, k] = stores.moment[store, k - 1]
        stores.level[store, k] = stores.level[store, k - 1]
    stores.moment[store, i + 1] = moment
    stores.level[store, i + 1] = stores.level[store, i] if i >= 0 else 0
    stores.count[store] += 1


# --- a heap of (score, remaining, sequence, device) ------------------------------------------------------------------


@inlined
def comes_before(heap: Ints, a: int, score: int, remaining: int, sequence: int) -> bool:
    if heap[a, 0] != score:
        return heap[a, 0] < score
    if heap[a, 1] != remaining:
        return heap[a, 1] < remaining
    return heap[a, 2] < sequence


@inlined
def move(heap: Ints, source: int, target: int) -> None:
    for i in range(4):
        heap[target, i] = heap[source, i]


@inlined
def push(heap: Ints, size: int, score: int, remaining: int, sequence: int, device: int) -> int:
    """Add an entry; returns the new size."""
    hole = size
    while hole > 0:
        parent = ((hole - 1) >> 1) & INDEX
        if comes_before(heap, parent, score, remaining, sequence):
            break
        move(heap, parent, hole)
        hole = parent
    heap[hole, 0], heap[hole, 1], heap[hole, 2], heap[hole, 3] = score, remaining, sequence, device
    return size + 1


@inlined
def pop(heap: Ints, size: int) -> int:
    """Move the least entry to just behind the others; returns the new size, which is its slot."""
    last = (size - 1) & INDEX
    score, remaining, sequence, device = heap[last, 0], heap[last, 1], heap[last, 2], heap[last, 3]
    move(heap, 0, last)
    hole = np.int64(0)
    while True:
        child = (2 * hole + 1) & INDEX
        if child >= last:
            break
        right = child + 1
        if right < last and comes_before(heap, right, heap[child, 0], heap[child, 1], heap[child, 2]):
            child = right
        if not comes_before(heap, child, score, remaining, sequence):
            break
        move(heap, child, hole)
        hole = child
    if last > 0:
        heap[hole, 0], heap[hole, 1], heap[hole, 2], heap[hole, 3] = score, remaining, sequence, device
    return last


# --- the search ------------------------------------------------------------------------------------------------------


@kernel
def earliest_start(
    net: Network, lanes: Lanes, stores: Stores, work: Work, arc: int, time: int, duration: int
) -> tuple[int, int]:
    """Earliest moment from `time` on at which a chunk may enter the arc and the buffer behind it, and its place."""
    lane, hold, latency, receiver = net.lane[arc], duration + net.held[arc], net.latency[arc], net.dst[arc]
    store = net.store[receiver]
    if store >= 0:
        time = max(time, work.not_before[receiver] - latency)
    while True:
        start, slot = first_gap(lanes, lane, time, hold)
        if store < 0:
            return start, slot
        free = free_from(stores, store, start + latency, start + latency + duration)
        if free == start + latency:
            return start, slot
        time = free - latency


@kernel
def search(net: Network, lanes: Lanes, stores: Stores, tasks: Tasks, work: Work, task: int, ident: int) -> int:
    """Reach every destination of the task as early as possible; leaves labels in `work`, returns how many are missing.

    Devices are closed in order of arrival plus the unloaded time that remains (zero with several destinations, so that
    this is Dijkstra's algorithm, and A* otherwise). A successor that loses no time is followed at once, past the heap.
    """
    # Numba counts references at every look into a tuple: unpack once, outside the loop.
    first_arc, dst, lane_of, latency_of, held_of, rate_of = (
        net.first,
        net.dst,
        net.lane,
        net.latency,
        net.held,
        net.rate,
    )
    durations, limited = net.durations[tasks.size[task]], net.limited
    state, label, wanted, heap = work.state, work.label, work.wanted, work.heap
    labelled, closed = 2 * ident, 2 * ident + 1
    remaining = tasks.remaining[tasks.row[task]]
    source, single = tasks.source[task], tasks.row[task] > 0
    minimal = single and tasks.minimal

    missing = tasks.first[task + 1] - tasks.first[task]
    for i in range(tasks.first[task], tasks.first[task + 1]):
        wanted[tasks.destination[i]] = ident
    label[source, ARRIVAL], label[source, ARC] = tasks.release[task], NO_ARC
    unit, unreachable = tasks.unit, tasks.unreachable
    score = tasks.release[task] + np.int64(remaining[source]) * unit
    relaxed, sequence = np.int64(0), np.int64(0)
    waiting, pending = np.int64(0), np.int64(0)  # entries in the heap, and devices that have arcs left to look at
    device, arc = source, first_arc[source]
    state[source], work.port[source] = closed, 0
    if wanted[source] == ident:
        missing -= 1
    while missing > 0:
        time, here, last = label[device, ARRIVAL], np.int64(remaining[device]), first_arc[device + 1]
        follow = np.int64(-1)
        while arc < last and follow < 0:
            arc &= INDEX
            successor = dst[arc] & INDEX
            there = np.int64(remaining[successor])
            known = state[successor]
            if known == closed or there == unreachable or (minimal and there >= here):
                arc += 1
                continue
            there *= unit
            relaxed += 1
            duration = durations[rate_of[arc] & INDEX]
            if limited:
                start, slot = earliest_start(net, lanes, stores, work, arc, time, duration)
            else:
                start, slot = first_gap(lanes, lane_of[arc] & INDEX, time, duration + held_of[arc])
            arrival = start + latency_of[arc] + duration
            if known != labelled or label[successor, ARRIVAL] > arrival:
                state[successor] = labelled
                label[successor, ARRIVAL], label[successor, START] = arrival, start
                label[successor, ARC], label[successor, SLOT] = arc, slot
                if single and arrival + there == score:
                    follow = successor
                else:
                    waiting = push(heap, waiting, arrival + there, there, sequence, successor)
                    sequence += 1
            arc += 1
        if follow >= 0:
            work.pending[pending, 0], work.pending[pending, 1] = device, arc
            pending += 1
            device = follow
        elif pending > 0:
            pending -= 1
            device, arc = work.pending[pending, 0], work.pending[pending, 1]
            continue
        else:
            device = np.int64(-1)
            while waiting > 0 and device < 0:
                waiting = pop(heap, waiting)
                device, score = heap[waiting, 3], heap[waiting, 0]
                if state[device] == closed or label[device, ARRIVAL] + heap[waiting, 1] != score:
                    device = np.int64(-1)
                elif limited and must_wait(net, lanes, stores, work, device, durations):
                    again = label[device, ARRIVAL] + heap[waiting, 1]
                    waiting = push(heap, waiting, again, heap[waiting, 1], heap[waiting, 2], device)
                    device = np.int64(-1)
            if device < 0:
                break
        arc = first_arc[device]
        state[device] = closed
        if limited:
            work.port[device] = 0
        if wanted[device] == ident:
            missing -= 1
    work.search[1] += relaxed
    return missing


@kernel
def must_wait(net: Network, lanes: Lanes, stores: Stores, work: Work, device: int, durations: Ints) -> bool:
    """Whether the switch that sends to the device is still sending this chunk elsewhere; then the label moves back."""
    arc = work.label[device, ARC]
    sender, duration = net.src[arc], durations[net.rate[arc]]
    if not net.one_way[sender]:
        return False
    if work.label[device, START] >= work.port[sender]:
        work.port[sender] = work.label[device, START] + duration
        return False
    start, slot = earliest_start(net, lanes, stores, work, arc, work.port[sender], duration)
    work.label[device, START], work.label[device, SLOT] = start, slot
    work.label[device, ARRIVAL] = start + net.latency[arc] + duration
    return True


@kernel
def keep_useful(net: Network, tasks: Tasks, work: Work, task: int, ident: int) -> int:
    """Collect the arcs that lead to destinations, ordered by start and link; returns how many there are."""
    size = np.int64(0)
    work.in_tree[tasks.source[task]] = ident
    for i in range(tasks.first[task], tasks.first[task + 1]):
        device = tasks.destination[i]
        while work.in_tree[device] != ident:
            work.in_tree[device] = ident
            work.tree[size] = work.label[device, ARC]
            size += 1
            device = net.src[work.label[device, ARC]]
    if tasks.row[task] > 0:
        for i in range(size // 2):  # a path, found from its end
            work.tree[i], work.tree[size - 1 - i] = work.tree[size - 1 - i], work.tree[i]
    else:
        sort_by_start(net, work, size)
    return size


@kernel
def sort_by_start(net: Network, work: Work, size: int) -> None:
    step = size // 2
    while step > 0:
        for i in range(step, size):
            arc = work.tree[i]
            start, link, k = work.label[net.dst[arc], START], net.link[arc], i
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
def respect_limits(net: Network, lanes: Lanes, stores: Stores, tasks: Tasks, work: Work, task: int, size: int) -> bool:
    """Re-time the tree now that useless branches are gone, and check finite buffers.

    Returns False if a buffer is full at some time between arrival and departure; then `not_before` has been raised to the
    end of that period, so that a new search finds something later, and in the end an empty switch.
    """
    size_class = tasks.size[task]
    for i in range(size):
        work.port[net.src[work.tree[i]]] = 0
        work.port[net.dst[work.tree[i]]] = 0
    for i in range(size):  # in order of start, so a device comes after the one that feeds it
        arc = work.tree[i]
        sender, receiver = net.src[arc], net.dst[arc]
        duration = net.durations[size_class, net.rate[arc]]
        ready = max(work.label[sender, ARRIVAL], work.port[sender] if net.one_way[sender] else np.int64(0))
        start, slot = earliest_start(net, lanes, stores, work, arc, ready, duration)
        work.label[receiver, START], work.label[receiver, SLOT] = start, slot
        work.label[receiver, ARRIVAL] = start + net.latency[arc] + duration
        work.port[sender] = max(work.port[sender], start + duration)
    for i in range(size):
        arc = work.tree[i]
        receiver = net.dst[arc]
        if net.store[receiver] >= 0:
            begin = work.label[receiver, START] + net.latency[arc]
            free = free_from(
                stores, net.store[receiver], begin, max(work.port[receiver], work.label[receiver, ARRIVAL])
            )
            if free != begin:
                work.not_before[receiver] = free
                return False
    return True


@kernel
def commit(
    net: Network, lanes: Lanes, stores: Stores, tasks: Tasks, work: Work, out: Output, task: int, size: int
) -> None:
    """Take the links of the tree out of the TEN and write its transfers down."""
    size_class, row = tasks.size[task], out.count[0]
    for i in range(size):
        arc = work.tree[i]
        start, duration = work.label[net.dst[arc], START], net.durations[size_class, net.rate[arc]]
        occupy(lanes, net.lane[arc], work.label[net.dst[arc], SLOT], start, start + duration + net.held[arc])
        out.task[row + i] = task
        out.arc[row + i] = arc
        out.start[row + i] = start
        if net.limited and net.store[net.dst[arc]] >= 0:
            receiver = net.dst[arc]
            end = max(work.port[receiver], work.label[receiver, ARRIVAL])
            stay(stores, net.store[receiver], start + net.latency[arc], end)
    out.count[0] = row + size


@kernel
def room(net: Network, lanes: Lanes, stores: Stores, work: Work, out: Output, size: int) -> int:
    """Whether everything the tree needs fits the arrays; the status to return to Python if not."""
    if out.count[0] + size > len(out.task):
        return OUTPUT_FULL
    for i in range(size):
        if lanes.count[net.lane[work.tree[i]]] + 1 >= lanes.busy.shape[1]:
            return LANE_FULL
        store = net.store[net.dst[work.tree[i]]] if net.limited else np.int64(-1)
        if store >= 0 and stores.count[store] + 2 >= stores.moment.shape[1]:
            return STORE_FULL
    return DONE


@kernel
def place(
    net: Network,
    lanes: Lanes,
    stores: Stores,
    tasks: Tasks,
    work: Work,
    out: Output,
    begin: int,
    budget: int,
) -> tuple[int, int]:
    """Place tasks from `begin` on until done, out of room, or past the budget of relaxations.

    Returns the first task that is not placed yet, and why it stopped.
    """
    limit = work.search[1] + budget
    for task in range(begin, len(tasks.source)):
        if work.search[1] > limit:
            return task, PAUSED
        if net.limited:
            work.not_before[:] = 0
        while True:
            work.search[0] += 1
            ident = work.search[0]
            search(net, lanes, stores, tasks, work, task, ident)
            size = keep_useful(net, tasks, work, task, ident)
            if not net.limited or respect_limits(net, lanes, stores, tasks, work, task, size):
                break
        status = room(net, lanes, stores, work, out, size)
        if status != DONE:
            return task, status
        commit(net, lanes, stores, tasks, work, out, task, size)
    return len(tasks.source), DONE


# --- distances and re-timing -----------------------------------------------------------------------------------------


@kernel
def distances(net: Network, devices: Ints, sizes: Ints, heap: Ints, table: Ints) -> None:
    """Fill `table[i]` with the unloaded time from `devices[i]` to every device for a chunk of size class `sizes[i]`."""
    for i in range(len(devices)):
        row = table[i]
        row[:] = NEVER
        row[devices[i]] = 0
        waiting = push(heap, 0, 0, 0, 0, devices[i])
        while waiting > 0:
            waiting = pop(heap, waiting)
            time, device = heap[waiting, 0], heap[waiting, 3]
            if time > row[device]:
                continue
            for arc in range(net.first[device], net.first[device + 1]):
                arrival = time + net.latency[arc] + net.durations[sizes[i], net.rate[arc]]
                if arrival < row[net.dst[arc]]:
                    row[net.dst[arc]] = arrival
                    waiting = push(heap, waiting, arrival, 0, 0, net.dst[arc])


@kernel
def tree_slots(task: Ints, parent: Ints, child: Ints, slot: Ints, sender: Ints, receiver: Ints) -> None:
    """Number the places where a chunk is collected: one per transfer of a tree, and one per task for its root.

    Transfers come tree by tree, each from its root on; seen backwards, the one from a parent to a child is where the child
    sends what it has collected.
    """
    count = len(task)
    for i in range(count):
        if i == 0 or task[i] != task[i - 1]:
            slot[parent[i]] = count + task[i]
        sender[i], receiver[i] = i, slot[parent[i]]
        slot[child[i]] = i


@kernel
def replay(net: Network, lanes: Lanes, moves: Moves, ready: Ints, begin: int) -> int:
    """Start transfers, from number `begin` on, as early as their links and their inputs allow.

    The inputs of a transfer must come before it. Returns the first transfer that did not fit the calendars.
    """
    for i in range(begin, len(moves.arc)):
        arc = moves.arc[i]
        lane, duration = net.lane[arc], net.durations[moves.size[i], net.rate[arc]]
        if lanes.count[lane] + 1 >= lanes.busy.shape[1]:
            return i
        hold = duration + net.held[arc]
        start, slot = first_gap(lanes, lane, ready[moves.sender[i]], hold)
        occupy(lanes, lane, slot, start, start + hold)
        moves.start[i] = start
        arrival = start + net.latency[arc] + duration
        ready[moves.receiver[i]] = max(ready[moves.receiver[i]], arrival)
    return len(moves.arc)
