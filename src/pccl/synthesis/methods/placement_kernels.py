"""Placing jobs one after another: search, keep what is useful, take it out of the time-expanded network."""

from __future__ import annotations

from pccl._kernels import kernel
from pccl.network.calendar_kernels import Lanes, Stores, stay
from pccl.network.graph_kernels import Network
from pccl.synthesis.methods.guided_kernels import Guide, grow, raise_prices
from pccl.synthesis.search_kernels import (
    DONE,
    LANE_FULL,
    OUTPUT_FULL,
    PAUSED,
    STORE_FULL,
    STUCK,
    JobColumns,
    Routes,
    Work,
    fits,
    keep_useful,
    respect_limits,
    search,
    stay_of,
    take_tree,
)

__all__ = ["place"]


@kernel
def place(
    net: Network,
    lanes: Lanes,
    stores: Stores,
    jobs: JobColumns,
    work: Work,
    guide: Guide,
    routes: Routes,
    begin: int,
    budget: int,
) -> tuple[int, int]:
    """Place jobs from number `begin` on until done, out of room, or past the budget of relaxations.

    Returns the first job that is not placed yet, and why it stopped.
    """
    limit = work.search[1] + budget
    for job in range(begin, len(jobs.source)):
        if work.search[1] > limit:
            return job, PAUSED
        looked = work.search[1]
        width = find_tree(net, lanes, stores, jobs, work, guide, job)
        if width < 0:
            return job, STUCK
        status = room_for(net, lanes, stores, work, routes, width)
        if status != DONE:
            # The job is searched for again, and counts once, however long the arrays are.
            work.search[1] = looked
            return job, status
        size = jobs.size[job]
        routes.first[job] = routes.count[0]
        routes.width[job] = width
        routes.arrival[job], _ = take_tree(net, lanes, work, routes, size, width)
        if net.limited:
            fill_stores(net, stores, work, size, width)
        if guide.on:
            raise_prices(net, guide, work, size, width)
    return len(jobs.source), DONE


@kernel
def find_tree(
    net: Network,
    lanes: Lanes,
    stores: Stores,
    jobs: JobColumns,
    work: Work,
    guide: Guide,
    job: int,
) -> int:
    """Find a tree for the job that keeps to all limits; returns its width, or -1 if there is none."""
    if net.limited:
        work.not_before[:] = 0
    tries = 0
    while True:
        work.search[0] += 1
        ident = work.search[0]
        if guide.on:
            missing = grow(net, lanes, stores, jobs, work, guide, job, ident)
        else:
            missing = search(net, lanes, stores, jobs, work, job, ident)
        if missing > 0:
            return -1
        width = keep_useful(net, jobs, work, job, ident)
        if not net.limited:
            return width
        if respect_limits(net, lanes, stores, jobs, work, job, width, tries):
            return width
        tries += 1


@kernel
def room_for(
    net: Network, lanes: Lanes, stores: Stores, work: Work, routes: Routes, width: int
) -> int:
    """Whether everything the tree needs fits the arrays; the status to return to Python if not."""
    if routes.count[0] + width > len(routes.arc):
        return OUTPUT_FULL
    if not fits(net, lanes, work, width):
        return LANE_FULL
    if net.limited:
        for i in range(width):
            store = net.store[net.dst[work.tree[i]]]
            if store >= 0 and stores.count[store] + 2 >= stores.moment.shape[1]:
                return STORE_FULL
    return DONE


@kernel
def fill_stores(net: Network, stores: Stores, work: Work, size: int, width: int) -> None:
    """Count the chunk in every finite buffer that it passes through."""
    for i in range(width):
        arc = work.tree[i]
        store = net.store[net.dst[arc]]
        if store >= 0:
            since, until = stay_of(net, work, arc, size)
            stay(stores, store, since, until)
