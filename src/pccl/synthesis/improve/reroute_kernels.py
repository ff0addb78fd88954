"""Rip-up and re-route: late chunks and some that are in their way give up their links and search anew.

A try that makes the chunks later is taken back. The calendars are changed in place, so a try costs no more than the few
searches it makes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._array_kernels import draw
from pccl._arrays import Bits, Ints
from pccl._kernels import inlined, kernel
from pccl.errors import InternalError
from pccl.network.calendar_kernels import Lanes, first_gap, give_back, occupy
from pccl.synthesis.methods.branch_kernels import grow_by_branches
from pccl.synthesis.methods.guided_kernels import Guide
from pccl.synthesis.search_kernels import (
    DONE,
    LANE_FULL,
    OUTPUT_FULL,
    PAUSED,
    Routes,
    World,
    fits,
    keep_useful,
    search,
    take_tree,
)

# Links looked at that take as long as beginning and ending a search.
SEARCH = 20


class Tries(NamedTuple):
    """What is being tried, and what else a try needs."""

    job: Ints  # those that search anew, in this order
    first: Ints  # of each of them in the pool
    width: Ints
    arrival: Ints
    marked: Ints  # per arc: the last try that was about it
    random: Bits  # [0]: state of the generator
    count: Ints  # [0]: tries so far


@kernel
def reroute(world: World, guide: Guide, tries: Tries, target: int, budget: int) -> int:
    """Try again and again until no job arrives after the target, or something has run out; returns what.

    A try is kept if the jobs are late by no more than before, in all, and if that stays the same hold links no longer.
    """
    lanes = world.lanes
    work = world.work
    routes = world.routes
    limit = work.search[1] + budget
    for _ in range(max(budget, 0) // SEARCH + 2):
        if routes.count[0] + len(tries.job) * len(work.state) > len(routes.arc):
            return OUTPUT_FULL
        if crowded(lanes, len(tries.job)):
            return LANE_FULL
        random = tries.random[0]
        looked = work.search[1]
        late = some_late(routes, tries, target)
        work.search[1] += SEARCH + (len(routes.arrival) >> 6)
        if late < 0:
            return DONE
        if work.search[1] > limit:
            return PAUSED
        tries.count[0] += 1
        number = choose(routes, tries, late)
        before, held = rip_up(world, tries, number, target)
        used = routes.count[0]
        found = np.int64(0)
        lateness = np.int64(0)
        holding = np.int64(0)
        status = DONE
        # Once they are later than before, the rest need not be searched for.
        while found < number and lateness <= before:
            status, hold = find(world, guide, tries, found)
            if status != DONE:
                break
            lateness += max(tries.arrival[found] - target, 0)
            holding += hold
            found += 1
        if found == number and (lateness < before or (lateness == before and holding <= held)):
            keep(routes, tries, number)
        else:
            take_back(world, tries, number, found)
            routes.count[0] = used
        if status != DONE:
            # As if nothing had happened: the result must not depend on how long calendars are.
            tries.random[0] = random
            work.search[1] = looked
            return status
    raise InternalError("re-routing tries more often than its budget affords")


@kernel
def some_late(routes: Routes, tries: Tries, target: int) -> int:
    """A job that arrives after the target, any of them; -1 if there is none."""
    found = np.int64(0)
    late = np.int64(-1)
    for job in range(len(routes.arrival)):
        if routes.arrival[job] > target:
            # The n-th takes the place of the one before with a chance of one in n: so all have the
            # same.
            found += 1
            if draw(tries.random, found) == 0:
                late = job
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
    """Choose the late job and some others, mostly such that use links it uses; returns how many."""
    mark = tries.count[0]
    random = tries.random
    # Exchanges of two are the most common, as they spoil the least.
    most = 2 + draw(random, 1 + draw(random, len(tries.job) - 1))
    number = np.int64(1)
    tries.job[0] = late
    for k in range(routes.first[late], routes.first[late] + routes.width[late]):
        tries.marked[routes.arc[k]] = mark
    anywhere = draw(random, 4) == 0
    for _ in range(8 * most):
        job = draw(random, len(routes.arrival))
        if (anywhere or meets(routes, tries, job, mark)) and is_new(tries, job, number):
            tries.job[number] = job
            number += 1
            if number == most:
                break
    if draw(random, 2) == 0:  # the late one need not be the first to search
        other = draw(random, number)
        tries.job[0], tries.job[other] = tries.job[other], tries.job[0]
    return number


@inlined
def meets(routes: Routes, tries: Tries, job: int, mark: int) -> bool:
    """Whether the job uses a marked link."""
    met = False
    for k in range(routes.first[job], routes.first[job] + routes.width[job]):
        met |= tries.marked[routes.arc[k]] == mark
    return met


@inlined
def is_new(tries: Tries, job: int, number: int) -> bool:
    """Whether the job has not been chosen yet."""
    new = True
    for i in range(number):
        new &= tries.job[i] != job
    return new


@kernel
def rip_up(world: World, tries: Tries, number: int, target: int) -> tuple[int, int]:
    """Give back all links of the jobs chosen; returns how late they were and for how long they held links, in all."""
    jobs = world.jobs
    routes = world.routes
    late = np.int64(0)
    held = np.int64(0)
    for i in range(number):
        job = tries.job[i]
        late += max(routes.arrival[job] - target, 0)
        held += free(world, routes.first[job], routes.width[job], jobs.size[job])
    return late, held


@kernel
def free(world: World, first: int, width: int, size: int) -> int:
    """Give back the time of some transfers; returns how much it was."""
    net = world.net
    lanes = world.lanes
    routes = world.routes
    for k in range(first, first + width):
        arc = routes.arc[k]
        start = routes.start[k]
        hold = net.hold[size, net.kind[arc]]
        give_back(lanes, net.lane[arc], start, start + hold)
    return held_by(world, first, width, size)


@kernel
def find(world: World, guide: Guide, tries: Tries, i: int) -> tuple[int, int]:
    """Search a way for the i-th job chosen and take its links; returns for how long it holds them.

    Before that, whether it is done, or what was too short for it.
    """
    net = world.net
    jobs = world.jobs
    work = world.work
    routes = world.routes
    job = tries.job[i]
    if net.any_passes and jobs.row[job] < jobs.zones:
        status = grow_by_branches(world, guide, job)
        tries.first[i] = work.growing[3]
        tries.width[i] = routes.count[0] - work.growing[3]
        tries.arrival[i] = work.growing[4]
        work.search[1] += SEARCH + 4 * tries.width[i]
        if status != DONE:
            work.growing[0] = 0
            free(world, tries.first[i], tries.width[i], jobs.size[job])
            return status, 0
        return DONE, held_by(world, tries.first[i], tries.width[i], jobs.size[job])
    work.search[0] += 1
    ident = work.search[0]
    search(world, job, ident)
    width = keep_useful(world, job, ident)
    work.search[1] += SEARCH + 4 * width
    if not fits(world, width):
        return LANE_FULL, 0
    tries.first[i] = routes.count[0]
    tries.width[i] = width
    tries.arrival[i], held = take_tree(world, jobs.size[job], width)
    return DONE, held


@kernel
def held_by(world: World, first: int, width: int, size: int) -> int:
    """For how long some transfers hold links in all."""
    net = world.net
    held = np.int64(0)
    for k in range(first, first + width):
        held += net.hold[size, net.kind[world.routes.arc[k]]]
    return held


@kernel
def keep(routes: Routes, tries: Tries, number: int) -> None:
    """Leave the jobs where the try put them."""
    # What they had before stays in the pool, unused; the round ends when the pool is full.
    for i in range(number):
        job = tries.job[i]
        routes.first[job] = tries.first[i]
        routes.width[job] = tries.width[i]
        routes.arrival[job] = tries.arrival[i]


@kernel
def take_back(world: World, tries: Tries, number: int, found: int) -> None:
    """Put the jobs back where they were; ways were found for some of them."""
    net = world.net
    lanes = world.lanes
    jobs = world.jobs
    routes = world.routes
    for i in range(found):
        free(world, tries.first[i], tries.width[i], jobs.size[tries.job[i]])
    for i in range(number):
        job = tries.job[i]
        size = jobs.size[job]
        for k in range(routes.first[job], routes.first[job] + routes.width[job]):
            arc = routes.arc[k]
            lane = net.lane[arc]
            hold = net.hold[size, net.kind[arc]]
            # All that the try took has been given back, so this is the start that it had.
            start, slot = first_gap(lanes, lane, routes.start[k], hold)
            occupy(lanes, lane, slot, start, start + hold)
