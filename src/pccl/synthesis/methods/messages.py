"""Planned routes within finite buffers: message by message, in the order in which they are planned to start.

Times are best planned as if buffers were unlimited, by methods that know nothing of them. Then every message is placed
as early as links and buffers let it, with all its hops through switches with finite buffers at once, so that it never
waits there for a place that is not to be had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pccl._arrays import Ints, offsets_of
from pccl.network import Network, Ten, arc_of_link
from pccl.synthesis.calls import Calls
from pccl.synthesis.jobs import Jobs
from pccl.synthesis.methods.base import Placed, find_in_phases
from pccl.synthesis.methods.messages_kernels import Messages, find_heads, place_in_order
from pccl.synthesis.methods.placement import SLICE, no_guide, place_jobs, work_for
from pccl.synthesis.schedule import COLLECT, Schedule
from pccl.synthesis.search_kernels import DONE, LANE_FULL, PAUSED, STORE_FULL, Routes, World


def unlimited(net: Network) -> Network:
    """The network as if all buffers were unlimited."""
    return net._replace(limited=False, store=np.full_like(net.store, -1))


def within_limits(schedule: Schedule) -> Schedule:
    """A schedule that keeps to all buffers, made from one that need not."""

    def place(
        phase: int, jobs: Jobs, ten: Ten, release: Ints, progress: Callable[[int], None]
    ) -> Placed:
        return place_messages(jobs, ten, release, _planned(schedule, phase, jobs), progress)

    problem = schedule.problem
    jobs = problem.jobs_from(schedule.roots, steps=False)
    placed = find_in_phases(
        problem, schedule.origin.method, place, steps=False, gaps=False, jobs=jobs
    )
    return replace(placed, origin=schedule.origin)


def _planned(schedule: Schedule, phase: int, jobs: Jobs) -> Placed:
    """The transfers of a phase as its jobs see them: what is collected, backwards in time."""
    rows = schedule.rows(phase)
    low, high = schedule.trees(phase)
    arc = schedule.arc[rows]
    start = schedule.start[rows]
    if phase == COLLECT:
        arc = arc_of_link(jobs.net)[schedule.net.link[arc]]
        start = schedule.end - start - schedule.travel[rows]
    return Placed(schedule.first[low : high + 1] - rows.start, arc, start, work=0)


def place_messages(
    jobs: Jobs,
    ten: Ten,
    release: Ints,
    planned: Placed,
    progress: Callable[[int], None],
) -> Placed:
    """Place planned transfers within all limits; the TEN then has them taken out."""
    net = jobs.net
    rows = len(planned.arc)
    parent, head, start, arrival = np.empty((4, rows), np.int64)
    row_at = np.empty(jobs.topology.num_devices, np.int64)
    find_heads(net, planned.first, planned.arc, row_at, parent, head)
    job = np.repeat(np.arange(len(jobs), dtype=np.int32), np.diff(planned.first))
    # A message that comes to a device twice is beyond us: then chunks search for ways of their own.
    ends = head * jobs.topology.num_devices + net.dst[planned.arc]
    if len(np.unique(ends)) < rows:
        order = _by_start(planned)
        return place_jobs(jobs, ten, order, release, False, no_guide(net), progress)
    by_message = np.lexsort((np.arange(rows), head, planned.start[head]))
    heads, width = np.unique(head, return_counts=True)
    heads_in_order = heads[np.lexsort((heads, planned.start[heads]))]
    width_of = np.zeros(rows, np.int64)
    width_of[heads] = width
    messages = Messages(
        first=offsets_of(width_of[heads_in_order]),
        row=by_message,
        job=job[heads_in_order],
        arc=planned.arc,
        parent=parent,
        start=start,
        arrival=arrival,
    )
    columns = jobs.columns(np.arange(len(jobs)), release, False)
    nothing = np.zeros(0, np.int64)
    pool = np.empty(rows, np.int32), np.empty(rows, np.int64)
    routes = Routes(nothing, nothing, nothing, *pool, np.zeros(1, np.int64))
    work = work_for(net)
    done = 0
    status = PAUSED
    calls = Calls("placing messages")
    while status != DONE:
        world = World(net, ten.lanes, ten.stores, columns, work, routes)
        done, status = place_in_order(world, messages, done, SLICE)
        calls.came_to(done)
        progress(0)
        if status == LANE_FULL:
            ten.grow_lanes()
        elif status == STORE_FULL:
            ten.grow_stores()
    return Placed(planned.first, planned.arc, start, planned.work + int(work.search[1]))


def _by_start(planned: Placed) -> Ints:
    """Jobs in the order in which they are planned to start."""
    soonest = np.zeros(len(planned.first) - 1, np.int64)
    used = np.flatnonzero(np.diff(planned.first))
    soonest[used] = np.minimum.reduceat(planned.start, planned.first[used]) if len(used) else 0
    return np.argsort(soonest, kind="stable")
