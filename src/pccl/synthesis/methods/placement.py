"""Placing jobs on the time-expanded network one after another, in slices, so that progress shows and Ctrl-C works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pccl._arrays import Floats, Ints, offsets_of
from pccl.errors import InternalError
from pccl.network import Network, Ten
from pccl.synthesis.calls import Calls
from pccl.synthesis.jobs import Jobs
from pccl.synthesis.methods.base import Method, Orders, Placed, find_in_phases
from pccl.synthesis.methods.guided_kernels import Guide
from pccl.synthesis.methods.placement_kernels import place
from pccl.synthesis.orders import order_of
from pccl.synthesis.problem import Problem
from pccl.synthesis.schedule import Schedule
from pccl.synthesis.schedule_kernels import gather_trees
from pccl.synthesis.search_kernels import (
    DONE,
    LANE_FULL,
    OUTPUT_FULL,
    PAUSED,
    STORE_FULL,
    STUCK,
    Routes,
    Work,
    World,
)

# Relaxations between two reports of progress, about 50 ms.
SLICE = 500_000


@dataclass(frozen=True)
class InOrder(Method):
    """A method that places chunks in an order, one after another."""

    order: str = "rounds"
    routes: str = "any"
    steps: bool = False  # whether time is counted in steps while placing, or exactly

    obeys: ClassVar[frozenset[str]] = frozenset({"order", "routes"})

    def find(self, problem: Problem, orders: Orders | None = None) -> Schedule:
        """Find a schedule; `orders` take the place of the method's own."""
        guide = self.guides(problem)
        minimal = self.routes == "minimal"

        def place(
            phase: int, jobs: Jobs, ten: Ten, release: Ints, progress: Callable[[int], None]
        ) -> Placed:
            order = orders[phase] if orders else order_of(self.order, jobs, self.seed)
            return place_jobs(jobs, ten, order, release, minimal, guide(jobs.net), progress)

        return find_in_phases(problem, self, place, self.steps, gaps=False)

    def guides(self, problem: Problem) -> Callable[[Network], Guide]:  # noqa: ARG002
        """What guides the search in one phase after another: nothing, so that the arrival alone counts."""
        return no_guide

    def notes(self) -> list[str]:
        """What else to say of it to people."""
        steps = ["in steps"] if self.steps else []
        return [self.order, f"{self.routes} routes", *steps, *super().notes()]


def no_guide(net: Network) -> Guide:
    """What guides a search to which the arrival alone counts."""
    return guide_for(net, np.zeros(len(net.dst)), urgency=1.0, on=False)


def guide_for(
    net: Network,
    price: Floats,
    *,
    urgency: float,
    growth: float = 0.0,
    ahead: float = 0.0,
    handed: float = 0.0,
    on: bool = True,
) -> Guide:
    """Prices, with what a search needs to go by them."""
    devices = len(net.first) - 1
    room = 2 * len(net.dst) + 2 * devices + 2
    cost, score = np.empty((2, devices))
    return Guide(
        on,
        price,
        growth,
        urgency,
        handed,
        ahead,
        cost,
        score,
        np.empty(room),
        np.empty(room, np.int64),
    )


def place_jobs(
    jobs: Jobs,
    ten: Ten,
    order: Ints,
    release: Ints,
    minimal: bool,
    guide: Guide,
    progress: Callable[[int], None],
) -> Placed:
    """Find a tree of links for every job, in this order; the TEN then has them taken out."""
    net = jobs.net
    columns = jobs.columns(order, release, minimal)
    # At least one tree fits, as it has fewer transfers than there are devices.
    capacity = int(jobs.hops * 1.02) + len(jobs.destination) + len(net.first)
    routes = _empty_routes(len(jobs), capacity)
    work = work_for(net)
    done = 0
    status = PAUSED
    calls = Calls("placing chunks")
    while status != DONE:
        reached, status = place(
            World(net, ten.lanes, ten.stores, columns, work, routes), guide, done, SLICE
        )
        calls.came_to(reached, int(routes.count[0]))
        progress(reached - done)
        done = reached
        if status == OUTPUT_FULL:
            routes = _grown(routes, done, jobs.topology.num_devices)
        elif status == LANE_FULL:
            ten.grow_lanes()
        elif status == STORE_FULL:
            ten.grow_stores()
        elif status == STUCK:
            chunk = jobs.chunk[order[done]]
            raise InternalError(f"the search did not reach all destinations of chunk {chunk}")
    return trees_of(routes, order, int(work.search[1]))


def trees_of(routes: Routes, order: Ints, work: int) -> Placed:
    """The trees of all jobs, job by job, where routes are those of the jobs in an order."""
    # Routes come in the order of placing: what belongs to a job is put where the job stands.
    begin = np.empty_like(routes.first)
    width = np.empty_like(routes.width)
    begin[order] = routes.first
    width[order] = routes.width
    first = offsets_of(width)
    arc = np.empty(first[-1], np.int32)
    start = np.empty(first[-1], np.int64)
    gather_trees(begin, width, routes.arc, routes.start, arc, start)
    return Placed(first, arc, start, work)


def _empty_routes(jobs: int, capacity: int) -> Routes:
    first, width, arrival = np.zeros((3, jobs), np.int64)
    arc = np.empty(capacity, np.int32)
    start = np.empty(capacity, np.int64)
    return Routes(first, width, arrival, arc, start, np.zeros(1, np.int64))


def _grown(routes: Routes, done: int, devices: int) -> Routes:
    """Room for what the other jobs will need if they are like those placed so far, and for any one of them."""
    count = int(routes.count[0])
    forecast = int(count / max(done, 1) * len(routes.first) * 1.02)
    capacity = max(forecast, len(routes.arc) * 5 // 4, count + devices)
    arc = np.empty(capacity, np.int32)
    start = np.empty(capacity, np.int64)
    arc[:count] = routes.arc[:count]
    start[:count] = routes.start[:count]
    return routes._replace(arc=arc, start=start)


def work_for(net: Network) -> Work:
    """Scratch space for searches on a network."""
    devices = len(net.first) - 1
    state, wanted, in_tree, not_before, sent, member, left, has, open_, depth = np.zeros(
        (10, devices), np.int64
    )
    return Work(
        state=state,
        label=np.empty((devices, 4), np.int64),
        wanted=wanted,
        in_tree=in_tree,
        not_before=not_before,
        sent=sent,
        member_key=np.empty(devices),
        member=member,
        left=left,
        has=has,
        open=open_,
        depth=depth,
        gap=np.zeros((int(net.lane.max(initial=-1)) + 1, 4), np.int64),
        heap=np.empty((len(net.dst) + 2, 3), np.int64),
        pending=np.empty((devices, 2), np.int64),
        tree=np.empty(devices, np.int64),
        search=np.zeros(2, np.int64),
        growing=np.zeros(5, np.int64),
    )
