"""Rip-up and re-route: late chunks and some that are in their way give up their links and search anew.

A try that makes the chunks later is taken back. The calendars are changed in place, so a try costs no more than the few
searches it makes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Bits, Indices, Ints
from pccl._kernels import inlined, kernel
from pccl.network.calendar_kernels import Lanes, Stores, first_gap, full, give_back, occupy
from pccl.network.graph_kernels import Network
from pccl.synthesis.kernels.search import keep_useful, search
from pccl.synthesis.kernels.tables import (
    ARRIVAL,
    DONE,
    LANE_FULL,
    OUTPUT_FULL,
    PAUSED,
    SLOT,
    START,
    Tasks,
    Work,
)  # fmt: skip

SEARCH = 20  # links looked at take as long as beginning and ending a search


class Routes(NamedTuple):
    """The transfers of every task, in one pool that new ones are added to at the end."""

    first: Ints  # per task: where its transfers begin
    width: Ints  # per task: how many there are
    arrival: Ints  # per task: of the last of them
    arc: Indices
    start: Ints
    count: Ints  # [0]: how much of the pool is used


class Tries(NamedTuple):
    """What is being tried, and what else a try needs."""

    task: Ints  # those that search anew, in this order
    first: Ints  # of each of them in the pool
    width: Ints
    arrival: Ints
    marked: Ints  # per arc: the last try that was about it
    random: Bits  # [0]: state of the generator
    count: Ints  # [0]: tries, [1]: tries that were kept


@kernel
def reroute(
    net: Network, lanes: Lanes, stores: Stores, tasks: Tasks, work: Work, routes: Routes, tries: Tries,
    target: int, budget: int,
) -> int:  # fmt: skip
    """Try again and again until no task arrives after the target, or something has run out; returns what.

    A try is kept if the tasks are late by no more than before, in all, and if that stays the same hold links no longer.
    """
    limit = work.search[1] + budget
    while True:
        if routes.count[0] + len(tries.task) * len(work.state) > len(routes.arc):
            return OUTPUT_FULL
        if crowded(lanes, len(tries.task)):
            return LANE_FULL
        random, looked = tries.random[0], work.search[1]
        late = some_late(routes, tries, target)
        work.search[1] += SEARCH + (len(routes.arrival) >> 6)
        if late < 0:
            return DONE
        if work.search[1] > limit:
            return PAUSED
        tries.count[0] += 1
        number = choose(routes, tries, late)
        before, held = rip_up(net, lanes, tasks, routes, tries, number, target)
        used, found = routes.count[0], np.int64(0)
        lateness, holding, fits = np.int64(0), np.int64(0), True
        while fits and found < number and lateness <= before:
            fits, hold = find(net, lanes, stores, tasks, work, routes, tries, found)
            if fits:
                lateness += max(tries.arrival[found] - target, 0)
                holding += hold
                found += 1
        if found == number and (lateness < before or (lateness == before and holding <= held)):
            keep(routes, tries, number)
        else:
            take_back(net, lanes, tasks, routes, tries, number, found)
            routes.count[0] = used
        if (
            not fits
        ):  # nothing has happened, so that the result does not depend on how long calendars are
            tries.random[0], work.search[1] = random, looked
            return LANE_FULL


@inlined
def draw(random: Bits, below: int) -> int:
    """A random number from 0 to below - 1 (xorshift)."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return np.int64((x >> np.uint64(33)) % np.uint64(below))


@kernel
def some_late(routes: Routes, tries: Tries, target: int) -> int:
    """A task that arrives after the target, any of them; -1 if there is none."""
    found, late = np.int64(0), np.int64(-1)
    for task in range(len(routes.arrival)):
        if routes.arrival[task] > target:
            found += 1
            if draw(tries.random, found) == 0:
                late = task
    return late


@kernel
def crowded(lanes: Lanes, most: int) -> bool:
    """Whether some calendar might run out of room in one try."""
    fullest = np.int64(0)
    for lane in range(len(lanes.head)):
        fullest = max(fullest, lanes.head[lane, 0])
    return not lanes.stepwise and fullest + 4 * most + 2 >= lanes.busy.shape[1]


@kernel
def choose(routes: Routes, tries: Tries, late: int) -> int:
    """Choose the late task and some others, mostly such that use links it uses; returns how many."""
    mark, random = tries.count[0], tries.random
    # Exchanges of two are the most common, as they spoil the least.
    number, most = np.int64(1), 2 + draw(random, 1 + draw(random, len(tries.task) - 1))
    tries.task[0] = late
    for k in range(routes.first[late], routes.first[late] + routes.width[late]):
        tries.marked[routes.arc[k]] = mark
    anywhere = draw(random, 4) == 0
    for _ in range(8 * most):
        task = draw(random, len(routes.arrival))
        if (anywhere or meets(routes, tries, task, mark)) and is_new(tries, task, number):
            tries.task[number] = task
            number += 1
            if number == most:
                break
    if draw(random, 2) == 0:  # the late one need not be the first to search
        other = draw(random, number)
        tries.task[0], tries.task[other] = tries.task[other], tries.task[0]
    return number


@inlined
def meets(routes: Routes, tries: Tries, task: int, mark: int) -> bool:
    """Whether the task uses a marked link."""
    met = False
    for k in range(routes.first[task], routes.first[task] + routes.width[task]):
        met |= tries.marked[routes.arc[k]] == mark
    return met


@inlined
def is_new(tries: Tries, task: int, number: int) -> bool:
    """Whether the task has not been chosen yet."""
    new = True
    for i in range(number):
        new &= tries.task[i] != task
    return new


@kernel
def rip_up(
    net: Network, lanes: Lanes, tasks: Tasks, routes: Routes, tries: Tries, number: int, target: int
) -> tuple[int, int]:
    """Give back all links of the tasks chosen; returns how late they were and for how long they held links, in all."""
    late, held = np.int64(0), np.int64(0)
    for i in range(number):
        task = tries.task[i]
        late += max(routes.arrival[task] - target, 0)
        held += free(net, lanes, routes, routes.first[task], routes.width[task], tasks.size[task])
    return late, held


@kernel
def free(net: Network, lanes: Lanes, routes: Routes, first: int, width: int, size: int) -> int:
    """Give back the time of some transfers; returns how much it was."""
    held = np.int64(0)
    for k in range(first, first + width):
        arc, start = routes.arc[k], routes.start[k]
        hold = net.hold[size, net.kind[arc]]
        give_back(lanes, net.lane[arc], start, start + hold)
        held += hold
    return held


@kernel
def find(
    net: Network,
    lanes: Lanes,
    stores: Stores,
    tasks: Tasks,
    work: Work,
    routes: Routes,
    tries: Tries,
    i: int,
) -> tuple[bool, int]:
    """Search a way for the i-th task chosen and take its links; returns for how long it holds them.

    False if a calendar is too short for that.
    """
    task, held = tries.task[i], np.int64(0)
    size = tasks.size[task]
    work.search[0] += 1
    ident = work.search[0]
    search(net, lanes, stores, tasks, work, task, ident)
    width = keep_useful(net, tasks, work, task, ident)
    work.search[1] += SEARCH + 4 * width
    for k in range(width):
        arc = work.tree[k]
        if full(lanes, net.lane[arc], work.label[net.dst[arc], START]):
            return False, held
    low = routes.count[0]
    tries.first[i], tries.width[i], tries.arrival[i] = low, width, 0
    for k in range(width):
        arc = work.tree[k]
        receiver, hold = net.dst[arc], net.hold[size, net.kind[arc]]
        start = work.label[receiver, START]
        occupy(lanes, net.lane[arc], work.label[receiver, SLOT], start, start + hold)
        routes.arc[low + k], routes.start[low + k] = arc, start
        tries.arrival[i] = max(tries.arrival[i], work.label[receiver, ARRIVAL])
        held += hold
    routes.count[0] = low + width
    return True, held


@kernel
def keep(routes: Routes, tries: Tries, number: int) -> None:
    """Leave the tasks where the try put them."""
    tries.count[1] += 1
    for i in range(number):
        task = tries.task[i]
        routes.first[task], routes.width[task] = tries.first[i], tries.width[i]
        routes.arrival[task] = tries.arrival[i]


@kernel
def take_back(
    net: Network, lanes: Lanes, tasks: Tasks, routes: Routes, tries: Tries, number: int, found: int
) -> None:
    """Put the tasks back where they were; ways were found for some of them."""
    for i in range(found):
        free(net, lanes, routes, tries.first[i], tries.width[i], tasks.size[tries.task[i]])
    for i in range(number):
        task = tries.task[i]
        size = tasks.size[task]
        for k in range(routes.first[task], routes.first[task] + routes.width[task]):
            arc = routes.arc[k]
            lane, hold = net.lane[arc], net.hold[size, net.kind[arc]]
            start, slot = first_gap(lanes, lane, routes.start[k], hold)
            occupy(lanes, lane, slot, start, start + hold)
