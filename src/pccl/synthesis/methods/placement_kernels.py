"""Placing jobs one after another: search, keep what is useful, take it out of the time-expanded network."""

from __future__ import annotations

from pccl._kernels import kernel
from pccl.errors import InternalError
from pccl.synthesis.methods.branch_kernels import fill_stores, grow_by_branches, room_for
from pccl.synthesis.methods.guided_kernels import Guide, grow, raise_prices
from pccl.synthesis.search_kernels import (
    DONE,
    PAUSED,
    STUCK,
    World,
    keep_useful,
    respect_limits,
    search,
    take_tree,
)


@kernel
def place(world: World, guide: Guide, begin: int, budget: int) -> tuple[int, int]:
    """Place jobs from number `begin` on until done, out of room, or past the budget of relaxations.

    Returns the first job that is not placed yet, and why it stopped.
    """
    net = world.net
    jobs = world.jobs
    work = world.work
    routes = world.routes
    limit = work.search[1] + budget
    for job in range(begin, len(jobs.source)):
        if work.search[1] > limit:
            return job, PAUSED
        if net.any_passes and jobs.row[job] < jobs.zones:
            status = grow_by_branches(world, guide, job)
            if status != DONE:
                return job, status
            routes.first[job] = work.growing[3]
            routes.width[job] = routes.count[0] - work.growing[3]
            routes.arrival[job] = work.growing[4]
            continue
        looked = work.search[1]
        width = find_tree(world, guide, job)
        if width < 0:
            return job, STUCK
        # Asked before anything is taken, since half a tree could not be given back.
        status = room_for(world, width)
        if status != DONE:
            # The job is searched for again, and counts once, however long the arrays are.
            work.search[1] = looked
            return job, status
        size = jobs.size[job]
        routes.first[job] = routes.count[0]
        routes.width[job] = width
        routes.arrival[job], _ = take_tree(world, size, width)
        if net.limited:
            fill_stores(world, size, width)
        if guide.on:
            raise_prices(world, guide, size, width)
    return len(jobs.source), DONE


@kernel
def find_tree(world: World, guide: Guide, job: int) -> int:
    """Find a tree for the job that keeps to all limits; returns its width, or -1 if there is none."""
    net = world.net
    work = world.work
    if net.limited:
        work.not_before[:] = 0
    # Each try gets past a time when some buffer is full.
    for tries in range(world.stores.moment.size + 1):
        work.search[0] += 1
        ident = work.search[0]
        if guide.on:
            missing = grow(world, guide, job, ident)
        else:
            missing = search(world, job, ident)
        if missing > 0:
            return -1
        width = keep_useful(world, job, ident)
        if not net.limited:
            return width
        if respect_limits(world, job, width, tries, False):
            return width
    raise InternalError("a tree is sought more often than buffers can be full")
