"""The search kernels: earliest arrival over a time-expanded network that is kept implicitly.

The time-expanded network (TEN) is one calendar per lane: the sorted intervals during which it is busy. Relaxing an arc
asks its calendar for the first gap that holds the chunk, so links that earlier chunks took are "removed" for exactly as
long as they are held. An arc is a link as the search walks it; by default every link has a lane of its own.

Times are int64, in units of the greatest common divisor of all times, so that small numbers stay small; indices are
signed throughout, as mixing in unsigned integers would turn them into floats.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros
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
    "number_slots",
    "place",
    "replay",
]

Ints = NDArray[np.int64]
Indices = NDArray[np.int32]

DONE, PAUSED, OUTPUT_FULL, LANE_FULL, STORE_FULL = 0, 1, 2, 3, 4
NEVER = np.int64(2**62)
NO_ARC = np.int64(-1)
FARTHEST = np.int64(2**38)  # as far as ties look; shifted by 24 bits it still fits
ARRIVAL, START, ARC, SLOT = 0, 1, 2, 3  # columns of a label
ALL = np.uint64(2**64 - 1)
INDEX = np.int64(2**62 - 1)  # masked with this, an index is plainly not negative, which spares a test at every use


class Network(NamedTuple):
    """Arcs grouped by the device they leave, and what limits the devices. Times are in units."""

    first: Ints  # arcs of device d are first[d] .. first[d + 1] - 1
    src: Indices
    dst: Indices
    link: Indices
    lane: Indices
    kind: Indices  # column of the tables below: links of equal bandwidth and latency are of one kind
    hold: Ints  # [size class, kind]: how long a transfer keeps the lane from others
    travel: Ints  # [size class, kind]: from its start until the receiver has it all
    duration: Ints  # [size class, kind]: from the first byte to the last; exact in units only for limited networks
    store: Ints  # per device: row of the stores of a switch with a finite buffer, or -1
    one_way: NDArray[np.bool_]  # per device: a switch that sends a chunk over one link at a time
    limited: bool
    unit: int  # picoseconds


class Lanes(NamedTuple):
    """The calendars: per lane the busy intervals, sorted and disjoint; or, if every transfer takes one unit, bits."""

    head: Ints  # [lane, (intervals, begin of the first, end of the first, begin of the second)]: answers most questions
    busy: Ints  # [lane, interval, begin or end]
    slack: Ints  # per lane: gaps shorter than this hold no chunk and are closed
    steps: NDArray[np.uint64]  # [lane, word]: bit t says whether the lane is busy from t to t + 1
    stepwise: bool


class Stores(NamedTuple):
    """Finite buffers: per switch how many chunks it holds from each moment on."""

    capacity: Ints
    count: Ints
    moment: Ints  # [store, step]
    level: Ints  # [store, step]


class Tasks(NamedTuple):
    """What to place: one row per chunk and direction, in the order of placement."""

    source: Indices
    release: Ints
    size: Indices  # size class
    row: Indices  # row of `remaining`; 0, which holds zeros, for chunks with several destinations
    first: Ints  # destinations of task i are destination[first[i]:first[i + 1]]
    destination: Indices
    remaining: NDArray[Any]  # [row, device]: unloaded time from the device to the destination of the row, in units
    unreachable: int  # what `remaining` says where there is no way
    minimal: bool  # only arcs that bring a chunk nearer to its one destination
    hasty: bool  # on minimal routes, count the way ahead half as much again: faster, and nearly as good


class Moves(NamedTuple):
    """Transfers to start again, each between two slots that say when a chunk is ready at a device."""

    arc: Indices
    size: Indices  # size class
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
    heap: (
        Ints  # [slot, (score, tie, device)]: of equal scores, what is nearest to its destination, then what came first
    )
    pending: Ints  # [slot, (device, next arc)]: devices left half-way because one of their arcs lost no time
    tree: Ints  # arcs of the tree found
    search: Ints  # [0]: number of the last search, [1]: relaxations so far


class Output(NamedTuple):
    """Transfers placed so far, task by task."""

    count: Ints  # [0]: transfers, [1]: when the last arrives, [2]: how long they hold links in all
    first: Ints  # transfers of task i are first[i] .. first[i + 1] - 1
    arc: Indices
    start: Ints


class Columns(NamedTuple):
    """Transfers by chunk, in picoseconds."""

    chunk: Indices
    link: Indices
    start: Ints
    reduce: NDArray[np.bool_]


# --- calendars ---------------------------------------------------------------------------------------------------


@inlined
def first_gap(lanes: Lanes, lane: int, time: int, hold: int) -> tuple[int, int]:
    """Earliest moment from `time` on at which the lane is free for `hold`, and the interval that comes after it."""
    low = np.int64(0)
    if lanes.stepwise:
        time = first_free_step(lanes.steps, lane, time)
    else:
        head, busy = lanes.head, lanes.busy
        count = head[lane, 0]
        if count > 0 and time + hold > head[lane, 1]:
            low = np.int64(1)
            if time < head[lane, 2]:
                time = head[lane, 2]
                searching = time + hold > head[lane, 3]
            else:
                searching = True
                high = count
                while low < high:  # the first interval that ends after `time`
                    middle = ((low + high) >> 1) & INDEX
                    if busy[lane, middle, 1] > time:
                        high = middle
                    else:
                        low = middle + 1
            while searching and low < count and busy[lane, low & INDEX, 0] < time + hold:
                time = busy[lane, low & INDEX, 1]
                low += 1
    return time, low


@inlined
def first_free_step(steps: NDArray[np.uint64], lane: int, time: int) -> int:
    word = time >> 6
    if word >= steps.shape[1]:
        return time
    taken = steps[lane, word] | ((np.uint64(1) << np.uint64(time & 63)) - np.uint64(1))
    while taken == ALL:
        word += 1
        if word == steps.shape[1]:
            return word << 6
        taken = steps[lane, word]
    return (word << 6) + np.int64(trailing_zeros(~taken))


@kernel
def occupy(lanes: Lanes, lane: int, low: int, begin: int, end: int) -> None:
    """Mark the lane busy from `begin` to `end`, before interval `low`.

    Neighbours are merged when the gap to them is too short to be of use.
    """
    if lanes.stepwise:
        lanes.steps[lane, begin >> 6] |= np.uint64(1) << np.uint64(begin & 63)
        return
    head, busy, slack = lanes.head[lane], lanes.busy[lane], lanes.slack[lane]
    count = head[0]
    left = low > 0 and begin - busy[low - 1, 1] < slack
    right = low < count and busy[low, 0] - end < slack
    if left and right:
        busy[low - 1, 1] = busy[low, 1]
        count -= 1
        for i in range(low, count):
            busy[i, 0], busy[i, 1] = busy[i + 1, 0], busy[i + 1, 1]
    elif left:
        busy[low - 1, 1] = end
    elif right:
        busy[low, 0] = begin
    else:
        for i in range(count, low, -1):
            busy[i, 0], busy[i, 1] = busy[i - 1, 0], busy[i - 1, 1]
        busy[low, 0], busy[low, 1] = begin, end
        count += 1
    head[0] = count
    if low < 3:
        head[1], head[2], head[3] = busy[0, 0], busy[0, 1], busy[1, 0] if count > 1 else NEVER


@kernel
def full(lanes: Lanes, lane: int, begin: int) -> bool:
    """Whether the calendar has no room for a transfer that begins then."""
    if lanes.stepwise:
        return (begin >> 6) >= lanes.steps.shape[1]
    return lanes.head[lane, 0] + 1 >= lanes.busy.shape[1]


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


# --- a heap of (score, tie, device) ----------------------------------------------------------------------------------


@inlined
def comes_before(heap: Ints, slot: int, score: int, tie: int) -> bool:
    return (heap[slot, 0] < score) | ((heap[slot, 0] == score) & (heap[slot, 1] < tie))


@inlined
def move(heap: Ints, source: int, target: int) -> None:
    heap[target, 0], heap[target, 1], heap[target, 2] = heap[source, 0], heap[source, 1], heap[source, 2]


@inlined
def push(heap: Ints, size: int, score: int, tie: int, device: int) -> int:
    """Add an entry; returns the new size."""
    hole = size
    while hole > 0:
        parent = ((hole - 1) >> 1) & INDEX
        if comes_before(heap, parent, score, tie):
            break
        move(heap, parent, hole)
        hole = parent
    heap[hole, 0], heap[hole, 1], heap[hole, 2] = score, tie, device
    return size + 1


@inlined
def pop(heap: Ints, size: int) -> int:
    """Move the least entry to just behind the others; returns the new size, which is its slot."""
    last = (size - 1) & INDEX
    score, tie, device = heap[last, 0], heap[last, 1], heap[last, 2]
    move(heap, 0, last)
    hole = np.int64(0)
    while True:
        child = (2 * hole + 1) & INDEX
        if child >= last:
            break
        right = child + 1
        if right < last and comes_before(heap, right, heap[child, 0], heap[child, 1]):
            child = right
        if not comes_before(heap, child, score, tie):
            break
        move(heap, child, hole)
        hole = child
    if last > 0:
        heap[hole, 0], heap[hole, 1], heap[hole, 2] = score, tie, device
    return last


# --- the search ------------------------------------------------------------------------------------------------------


@kernel
def earliest_start(
    net: Network, lanes: Lanes, stores: Stores, work: Work, arc: int, time: int, size: int
) -> tuple[int, int]:
    """Earliest moment from `time` on at which a chunk may enter the arc and the buffer behind it, and its place."""
    lane, kind, receiver = net.lane[arc], net.kind[arc], net.dst[arc]
    hold, duration = net.hold[size, kind], net.duration[size, kind]
    latency, store = net.travel[size, kind] - duration, net.store[receiver]
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
    this is Dijkstra's algorithm, and A* otherwise). A successor that loses no time is followed at once, past the heap;
    the device it was reached from is left pending, with the arcs it has not looked at.
    """
    first_arc, dst, lane_of, kind_of, limited = net.first, net.dst, net.lane, net.kind, net.limited
    size = tasks.size[task]
    holds, travels = net.hold[size], net.travel[size]
    state, label, wanted, heap = work.state, work.label, work.wanted, work.heap
    labelled, closed = 2 * ident, 2 * ident + 1
    remaining = tasks.remaining[tasks.row[task]]
    source, single = tasks.source[task], tasks.row[task] > 0
    minimal = single and tasks.minimal

    missing = tasks.first[task + 1] - tasks.first[task]
    for i in range(tasks.first[task], tasks.first[task + 1]):
        wanted[tasks.destination[i]] = ident
    label[source, ARRIVAL], label[source, ARC] = tasks.release[task], NO_ARC
    unreachable = np.int64(tasks.unreachable)
    weight = 2 + np.int64(tasks.hasty and minimal)
    score = tasks.release[task] + ((np.int64(remaining[source]) * weight) >> 1)
    relaxed, sequence = np.int64(0), np.int64(0)
    waiting, pending = np.int64(0), np.int64(0)  # entries in the heap, and devices that have arcs left to look at
    device, arc = source, first_arc[source]
    state[source], work.port[source] = closed, 0
    if wanted[source] == ident:
        missing -= 1
    while missing > 0:
        time, last = label[device, ARRIVAL], first_arc[device + 1]
        limit = np.int64(remaining[device]) if minimal else unreachable
        follow = np.int64(-1)
        while arc < last and follow < 0:
            arc &= INDEX
            successor = dst[arc] & INDEX
            there = np.int64(remaining[successor])
            known = state[successor]
            if (known == closed) | (there >= limit):  # one branch instead of two that are hard to predict
                arc += 1
                continue
            relaxed += 1
            kind = kind_of[arc] & INDEX
            if limited:
                start, slot = earliest_start(net, lanes, stores, work, arc, time, size)
            else:
                start, slot = first_gap(lanes, lane_of[arc] & INDEX, time, holds[kind])
            arrival = start + travels[kind]
            if known != labelled or label[successor, ARRIVAL] > arrival:
                state[successor] = labelled
                label[successor, ARRIVAL], label[successor, START] = arrival, start
                label[successor, ARC], label[successor, SLOT] = arc, slot
                ahead = (there * weight) >> 1
                if single and arrival + ahead <= score:
                    follow = successor
                else:
                    tie = (min(there, FARTHEST) << 24) | sequence
                    waiting = push(heap, waiting, arrival + ahead, tie, successor)
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
                score, tie, device = heap[waiting, 0], heap[waiting, 1], heap[waiting, 2]
                ahead = (np.int64(remaining[device]) * weight) >> 1
                if state[device] == closed or label[device, ARRIVAL] + ahead != score:
                    device = np.int64(-1)
                elif limited and must_wait(net, lanes, stores, work, device, size):
                    waiting = push(heap, waiting, label[device, ARRIVAL] + ahead, tie, device)
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
def must_wait(net: Network, lanes: Lanes, stores: Stores, work: Work, device: int, size: int) -> bool:
    """Whether the switch that sends to the device is still sending this chunk elsewhere; then the label moves back."""
    arc = work.label[device, ARC]
    sender, kind = net.src[arc], net.kind[arc]
    if not net.one_way[sender]:
        return False
    if work.label[device, START] >= work.port[sender]:
        work.port[sender] = work.label[device, START] + net.duration[size, kind]
        return False
    start, slot = earliest_start(net, lanes, stores, work, arc, work.port[sender], size)
    work.label[device, START], work.label[device, SLOT] = start, slot
    work.label[device, ARRIVAL] = start + net.travel[size, kind]
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

    Returns False if a buffer is full at some time between arrival and departure; then `not_before` has been raised to
    the end of that period, so that a new search finds something later, and in the end an empty switch.
    """
    chunk_size = tasks.size[task]
    for i in range(size):
        work.port[net.src[work.tree[i]]] = 0
        work.port[net.dst[work.tree[i]]] = 0
    for i in range(size):  # in order of start, so a device comes after the one that feeds it
        arc = work.tree[i]
        sender, receiver, kind = net.src[arc], net.dst[arc], net.kind[arc]
        ready = work.label[sender, ARRIVAL]
        if net.one_way[sender]:
            ready = max(ready, work.port[sender])
        start, slot = earliest_start(net, lanes, stores, work, arc, ready, chunk_size)
        work.label[receiver, START], work.label[receiver, SLOT] = start, slot
        work.label[receiver, ARRIVAL] = start + net.travel[chunk_size, kind]
        work.port[sender] = max(work.port[sender], start + net.duration[chunk_size, kind])
    for i in range(size):
        receiver = net.dst[work.tree[i]]
        if net.store[receiver] >= 0:
            begin, end = stay_of(net, work, work.tree[i], chunk_size)
            free = free_from(stores, net.store[receiver], begin, end)
            if free != begin:
                work.not_before[receiver] = free
                return False
    return True


@kernel
def stay_of(net: Network, work: Work, arc: int, size: int) -> tuple[int, int]:
    """From when until when the chunk is in the device that the arc leads to: first byte received to last byte sent."""
    receiver = net.dst[arc]
    arrival = work.label[receiver, ARRIVAL]
    return arrival - net.duration[size, net.kind[arc]], max(arrival, work.port[receiver])


@kernel
def commit(
    net: Network, lanes: Lanes, stores: Stores, tasks: Tasks, work: Work, out: Output, task: int, size: int
) -> None:
    """Take the links of the tree out of the TEN and write its transfers down."""
    chunk_size, row = tasks.size[task], out.count[0]
    end, held = out.count[1], out.count[2]
    for i in range(size):
        arc = work.tree[i]
        receiver, kind = net.dst[arc], net.kind[arc]
        start, hold = work.label[receiver, START], net.hold[chunk_size, kind]
        occupy(lanes, net.lane[arc], work.label[receiver, SLOT], start, start + hold)
        out.arc[row + i], out.start[row + i] = arc, start
        end, held = max(end, work.label[receiver, ARRIVAL]), held + hold
        if net.limited and net.store[receiver] >= 0:
            since, until = stay_of(net, work, arc, chunk_size)
            stay(stores, net.store[receiver], since, until)
    out.count[0], out.count[1], out.count[2] = row + size, end, held
    out.first[task + 1] = row + size


@kernel
def room(net: Network, lanes: Lanes, stores: Stores, work: Work, out: Output, size: int) -> int:
    """Whether everything the tree needs fits the arrays; the status to return to Python if not."""
    if out.count[0] + size > len(out.arc):
        return OUTPUT_FULL
    for i in range(size):
        arc = work.tree[i]
        if full(lanes, net.lane[arc], work.label[net.dst[arc], START]):
            return LANE_FULL
        store = net.store[net.dst[arc]] if net.limited else np.int64(-1)
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
        waiting = push(heap, 0, 0, 0, devices[i])
        while waiting > 0:
            waiting = pop(heap, waiting)
            time, device = heap[waiting, 0], heap[waiting, 2]
            if time > row[device]:
                continue
            for arc in range(net.first[device], net.first[device + 1]):
                arrival = time + net.travel[sizes[i], net.kind[arc]]
                if arrival < row[net.dst[arc]]:
                    row[net.dst[arc]] = arrival
                    waiting = push(heap, waiting, arrival, 0, net.dst[arc])


@kernel
def number_slots(
    net: Network, chunk: Indices, first: Ints, arc: Indices, reduces: bool, number: int, roots: int, slot: Ints,
    sender: Ints, receiver: Ints,
) -> None:  # fmt: skip
    """Number the places where chunks become ready: one per transfer, counted from `number`, one per chunk at its root.

    Where a chunk spreads, the slot of a transfer is its receiver; where it is collected, its sender. Transfers come
    task by task; those of a task from the root on, if need be backwards in time.
    """
    for task in range(len(first) - 1):
        for i in range(first[task], first[task + 1]):
            near, far = net.src[arc[i]], net.dst[arc[i]]
            if reduces:
                near, far = far, near
            if i == first[task]:
                slot[near] = roots + chunk[task]
            own = number + i
            sender[i], receiver[i] = (own, slot[near]) if reduces else (slot[near], own)
            slot[far] = own


@kernel
def assemble(
    net: Network, chunk: Indices, first: Ints, arc: Indices, start: Ints, reduces: bool, position: Ints, out: Columns
) -> None:
    """Write the transfers of each task to the rows of its chunk, which `position` points to and moves past."""
    for task in range(len(first) - 1):
        row = position[chunk[task]]
        for i in range(first[task], first[task + 1]):
            out.chunk[row], out.link[row] = chunk[task], net.link[arc[i]]
            out.start[row], out.reduce[row] = start[i] * net.unit, reduces
            row += 1
        position[chunk[task]] = row


@kernel
def replay(net: Network, lanes: Lanes, moves: Moves, ready: Ints, begin: int) -> int:
    """Start transfers, from number `begin` on, as early as their links and their inputs allow.

    The inputs of a transfer must come before it. Returns the first transfer that did not fit the calendars.
    """
    for i in range(begin, len(moves.arc)):
        lane, kind, size = net.lane[moves.arc[i]], net.kind[moves.arc[i]], moves.size[i]
        start, slot = first_gap(lanes, lane, ready[moves.sender[i]], net.hold[size, kind])
        if full(lanes, lane, start):
            return i
        occupy(lanes, lane, slot, start, start + net.hold[size, kind])
        moves.start[i] = start
        ready[moves.receiver[i]] = max(ready[moves.receiver[i]], start + net.travel[size, kind])
    return len(moves.arc)
