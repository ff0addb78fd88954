"""Calendars: when links are busy, and how full finite buffers are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._array_kernels import move_rows, trailing_zeros
from pccl._arrays import Bits, Ints
from pccl._heap_kernels import INDEX
from pccl._kernels import inlined, kernel
from pccl.errors import InternalError
from pccl.network.graph_kernels import NEVER

ALL = np.uint64(2**64 - 1)


class Lanes(NamedTuple):
    """The calendars: per lane the busy intervals, sorted and disjoint; or, if every transfer takes one unit, bits."""

    head: Ints  # [lane, (intervals, begin of the first, end of the first, begin of the second)]: answers most questions
    busy: Ints  # [lane, interval, begin or end]
    slack: Ints  # per lane: gaps shorter than this hold no chunk and are closed
    steps: Bits  # [lane, word]: bit t says whether the lane is busy from t to t + 1
    stepwise: bool


class Stores(NamedTuple):
    """Finite buffers: per switch how many chunks it holds from each moment on."""

    capacity: Ints
    count: Ints
    moment: Ints  # [store, step]
    level: Ints  # [store, step]


@inlined
def first_gap(lanes: Lanes, lane: int, time: int, hold: int) -> tuple[int, int]:
    """Earliest moment from `time` on at which the lane is free for `hold`, and the interval that comes after it."""
    low = np.int64(0)
    if lanes.stepwise:
        time = first_free_step(lanes.steps, lane, time)
    else:
        head = lanes.head
        busy = lanes.busy
        count = head[lane, 0]
        # Most lanes are free before their first interval, or right behind it: the head knows
        # without a look at the list.
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
            # From here on `low` is the interval that ends the present gap, and gaps that are too short are left behind.
            if searching and low < count and busy[lane, low & INDEX, 0] < time + hold:
                low = long_gap(busy, lane, low + 1, count, hold)
                time = busy[lane, (low - 1) & INDEX, 1]
    return time, low


@inlined
def long_gap(busy: Ints, lane: int, low: int, count: int, hold: int) -> int:
    """The first interval from `low` on that comes so long after the one before it; behind the last there is time."""
    # Four at a time, of which mostly none will do: one test instead of four.
    while low + 4 <= count:
        first = busy[lane, low & INDEX, 0] - busy[lane, (low - 1) & INDEX, 1]
        second = busy[lane, (low + 1) & INDEX, 0] - busy[lane, low & INDEX, 1]
        third = busy[lane, (low + 2) & INDEX, 0] - busy[lane, (low + 1) & INDEX, 1]
        fourth = busy[lane, (low + 3) & INDEX, 0] - busy[lane, (low + 2) & INDEX, 1]
        if max(max(first, second), max(third, fourth)) >= hold:
            break
        low += 4
    while low < count and busy[lane, low & INDEX, 0] - busy[lane, (low - 1) & INDEX, 1] < hold:
        low += 1
    return low


@inlined
def first_free_step(steps: Bits, lane: int, time: int) -> int:
    """First clear bit of the lane from `time` on; what lies beyond the words is free."""
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
    busy = lanes.busy[lane]
    slack = lanes.slack[lane]
    count = lanes.head[lane, 0]
    # Gaps that hold no chunk would only be looked at again and again, so they are closed.
    joins_left = low > 0 and begin - busy[low - 1, 1] < slack
    joins_right = low < count and busy[low, 0] - end < slack
    if joins_left and joins_right:
        busy[low - 1, 1] = busy[low, 1]
        count = remove_interval(busy, count, low)
    elif joins_left:
        busy[low - 1, 1] = end
    elif joins_right:
        busy[low, 0] = begin
    else:
        count = insert_interval(busy, count, low, begin, end)
    note_first(lanes.head[lane], busy, count, low)


@kernel
def give_back(lanes: Lanes, lane: int, begin: int, end: int) -> None:
    """Mark the lane free from `begin` to `end`, where a transfer has been; for calendars in which no gap was closed."""
    if lanes.stepwise:
        lanes.steps[lane, begin >> 6] &= ~(np.uint64(1) << np.uint64(begin & 63))
        return
    busy = lanes.busy[lane]
    count = lanes.head[lane, 0]
    low = np.int64(0)
    high = count
    while low < high:  # the first interval that ends after `begin`
        middle = (low + high) >> 1
        if busy[middle, 1] > begin:
            high = middle
        else:
            low = middle + 1
    rest_left = busy[low, 0] < begin
    rest_right = end < busy[low, 1]
    if rest_left and rest_right:
        count = insert_interval(busy, count, low, busy[low, 0], begin)
        busy[low + 1, 0] = end
    elif rest_left:
        busy[low, 1] = begin
    elif rest_right:
        busy[low, 0] = end
    else:
        count = remove_interval(busy, count, low)
    note_first(lanes.head[lane], busy, count, low)


@inlined
def insert_interval(busy: Ints, count: int, low: int, begin: int, end: int) -> int:
    """Put an interval before interval `low`; returns how many there are then."""
    move_rows(busy, low, low + 1, count - low)
    busy[low, 0] = begin
    busy[low, 1] = end
    return count + 1


@inlined
def remove_interval(busy: Ints, count: int, low: int) -> int:
    """Take interval `low` out; returns how many there are then."""
    move_rows(busy, low + 1, low, count - 1 - low)
    return count - 1


@inlined
def note_first(head: Ints, busy: Ints, count: int, low: int) -> None:
    """Bring the summary of a lane up to date after a change at interval `low`."""
    # A change at `low` may have merged the interval before it too; the head shows the first two.
    head[0] = count
    if low < 3:
        head[1] = busy[0, 0]
        head[2] = busy[0, 1]
        head[3] = busy[1, 0] if count > 1 else NEVER


@kernel
def full(lanes: Lanes, lane: int, begin: int) -> bool:
    """Whether the calendar has no room for a transfer that begins then."""
    if lanes.stepwise:
        return (begin >> 6) >= lanes.steps.shape[1]
    return lanes.head[lane, 0] + 1 >= lanes.busy.shape[1]


@inlined
def room_of(lanes: Lanes) -> int:
    """In how many places, at most, a calendar can say that a lane is taken."""
    return lanes.busy.shape[1] + 64 * lanes.steps.shape[1]


@kernel
def step_at(stores: Stores, store: int, moment: int) -> int:
    """Last step of the store at or before the moment (-1 before the first)."""
    low = np.int64(0)
    high = stores.count[store]
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
    # Before its first step a store is empty.
    if i < 0:
        i = np.int64(0)
    while i < count and stores.moment[store, i] < end:
        if stores.level[store, i] >= stores.capacity[store]:
            while i < count and stores.level[store, i] >= stores.capacity[store]:
                i += 1
            if i == count:
                raise InternalError("a buffer is full for ever: its last level is not zero")
            return stores.moment[store, i]
        i += 1
    return begin


@kernel
def stay(stores: Stores, store: int, begin: int, end: int) -> None:
    """Count one more chunk in the store from `begin` to `end`."""
    split(stores, store, begin)
    split(stores, store, end)
    # Both moments begin steps now, so the level changes for exactly this time.
    for i in range(step_at(stores, store, begin), step_at(stores, store, end)):
        stores.level[store, i] += 1


@kernel
def split(stores: Stores, store: int, moment: int) -> None:
    """Make a step of the store begin at the moment, without changing any level."""
    i = step_at(stores, store, moment)
    if i >= 0 and stores.moment[store, i] == moment:
        return
    for k in range(stores.count[store], i + 1, -1):
        stores.moment[store, k] = stores.moment[store, k - 1]
        stores.level[store, k] = stores.level[store, k - 1]
    stores.moment[store, i + 1] = moment
    stores.level[store, i + 1] = stores.level[store, i] if i >= 0 else 0
    stores.count[store] += 1
