"""Rip-up and re-route: what arrives last, and some chunks in its way, give up their links and search anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np

from pccl._arrays import Bits, Ints, sorted_order
from pccl.network import Ten, arc_of_link
from pccl.synthesis.calls import Calls
from pccl.synthesis.improve.base import Aim, Improvement
from pccl.synthesis.improve.reroute_kernels import Tries, reroute
from pccl.synthesis.jobs import Jobs
from pccl.synthesis.methods.messages import unlimited, within_limits
from pccl.synthesis.methods.placement import no_guide, trees_of, work_for
from pccl.synthesis.schedule import COLLECT, Schedule
from pccl.synthesis.schedule_kernels import Moves, replay
from pccl.synthesis.search_kernels import LANE_FULL, Routes, World

# Chunks that search anew together.
MOST_AT_A_TIME = 8
# Links looked at between two justifications.
ROUND = 500_000
# Links looked at that take as long as a round takes besides, however small the problem.
SETUP = 30_000
# Links looked at that take as long as timing a transfer anew, several times.
REPLAY = 20
# In turn, a round tries to close one in so many parts of the gap to what is enough.
AIMS = (2, 8, 32)
# Links that one re-routing looks at for every transfer, and for all, in each of one or two phases.
FOR_EACH = 1_000
FOR_ALL = 5_000_000


class Reroute(Improvement):
    """Other routes for what is late."""

    mends = True
    most_work = FOR_ALL

    def improved(self, schedule: Schedule, aim: Aim) -> Schedule:
        """The schedule with other routes, as many as the budget for its size allows."""
        budget = min(FOR_ALL * len(schedule.phases), FOR_EACH * len(schedule))
        minimal = aim.settings.routes == "minimal"
        found = rerouted(schedule, aim.enough, budget, aim.seed, minimal, aim.over)
        if not schedule.problem.topology.limited:
            return found
        # Calendars give links back, but not places in buffers: routes are found without regard to them.
        placed = within_limits(found)
        best = min(placed, schedule, key=lambda one: one.end)
        return replace(best, work=found.work + placed.work)


def rerouted(
    schedule: Schedule,
    enough: int,
    budget: int,
    seed: int,
    minimal: bool,
    over: Callable[[], bool] = lambda: False,
) -> Schedule:
    """Find better ways for chunks that are late, until the schedule takes no longer than is enough.

    In turn for every phase, what arrives after a moment before the end tries to arrive sooner. Reductions do so as they
    were placed, backwards in time: they are late if they begin too early. Chunks with one destination do both. It also
    ends when the budget (of links looked at) is spent, or when it is `over`.
    """
    problem = schedule.problem
    random = np.random.default_rng(seed).integers(1, 2**63, 1, dtype=np.uint64)
    floor = -(-enough // schedule.net.unit)
    best = schedule
    current = schedule
    spent = 0
    aims = cycle(AIMS)
    while spent < budget and best.duration > enough and not over():
        aim = next(aims)
        for phase, backwards in _views(schedule):
            view = _View.of(current, phase, backwards)
            routes, work = _one_round(view, floor, aim, random, minimal)
            current = view.schedule_with(routes)
            spent += work + SETUP + REPLAY * len(current)
            # Else the report might end it all, and what has been gained would be lost.
            if not over():
                what = f"re-routing, {schedule.origin.method}"
                problem.progress(min(spent, budget), budget, what)
        # As good is good enough: other routes of the same length may lead on.
        if current.duration <= best.duration:
            best = current
        else:
            current = best
    gained = best.duration < schedule.duration
    origin = replace(schedule.origin, rerouted=schedule.origin.rerouted or gained)
    return replace(_moved(best, up=True), origin=origin, work=spent)


def _views(schedule: Schedule) -> Iterator[tuple[int, bool]]:
    """Which phases can be re-routed, and whether backwards in time."""
    for phase in schedule.phases:
        yield phase, phase == COLLECT
        if phase != COLLECT and schedule.problem.jobs_backwards is not None:
            yield phase, True


def _moved(schedule: Schedule, up: bool) -> Schedule:
    """All transfers as early, or as late, as they can be."""
    schedule = schedule.timed(schedule.start - schedule.start.min(initial=0))
    return schedule.moved_up() if up else schedule.moved_down()


@dataclass(frozen=True, eq=False)
class _View:
    """A schedule as one of its phases is placed: forwards, or backwards in time on the transposed network."""

    schedule: Schedule
    phase: int
    backwards: bool
    jobs: Jobs  # of the phase, in this direction
    moves: Moves  # of all phases
    start: Ints

    @classmethod
    def of(cls, schedule: Schedule, phase: int, backwards: bool) -> _View:
        """See a schedule from one of its phases, with everything as soon as it can be, seen from there."""
        schedule = _moved(schedule, up=not backwards)
        problem = schedule.problem
        jobs = schedule.exact_jobs[phase]
        moves = schedule.moves
        start = schedule.start
        if backwards:
            if phase != COLLECT:
                jobs = problem.jobs_backwards or jobs
            arc = arc_of_link(jobs.net)[schedule.net.link[schedule.arc]]
            moves = moves._replace(arc=arc)
            start = schedule.end - start - schedule.travel
        if jobs.net.limited:
            jobs = replace(jobs, net=unlimited(jobs.net))
        return cls(schedule, phase, backwards, jobs, moves, start)

    def release(self) -> Ints:
        """Per job: when what the other phase has to do with its chunk is over."""
        schedule = self.schedule
        released = np.zeros(len(schedule.problem.conditions), np.int64)
        arrival = self.start + schedule.travel
        chunk = schedule.of_transfers("chunk")
        other = np.ones(len(schedule), np.bool_)
        other[schedule.rows(self.phase)] = False
        np.maximum.at(released, chunk[other], arrival[other])
        return released[self.jobs.chunk]

    def ten(self) -> Ten:
        """The TEN with all transfers taken out."""
        ten = Ten.empty(self.jobs.topology, self.jobs.net)
        ten.lanes.slack[:] = 1  # a gap that was closed would not open again when a neighbour goes
        order = sorted_order(self.start)
        count = len(order)
        # Each transfer is ready when it started, and makes nothing else ready.
        nobody = np.full(count, count)
        moves = self.moves._replace(sender=np.arange(count), receiver=nobody)
        ready = np.append(self.start, 0)
        done = 0
        calls = Calls("taking transfers out of the network")
        while done < count:
            done = replay(
                self.jobs.net, ten.lanes, moves, order, np.empty(count, np.int64), ready, done
            )
            calls.came_to(done)
            if done < count:
                ten.grow_lanes()
        return ten

    def routes(self, room: int) -> Routes:
        """The transfers of the phase, with room for more."""
        schedule = self.schedule
        rows = schedule.rows(self.phase)
        low, high = schedule.trees(self.phase)
        first = schedule.first[low:high] - rows.start
        width = np.diff(schedule.first[low : high + 1])
        arrival = np.zeros(high - low, np.int64)
        owner = np.repeat(np.arange(high - low), width)
        np.maximum.at(arrival, owner, (self.start + schedule.travel)[rows])
        count = len(owner)
        arc = np.empty(2 * count + room, np.int32)
        start = np.empty(2 * count + room, np.int64)
        arc[:count] = self.moves.arc[rows]
        start[:count] = self.start[rows]
        return Routes(first, width, arrival, arc, start, np.array([count]))

    def schedule_with(self, routes: Routes) -> Schedule:
        """The schedule with other routes for the phase, and everything as late as it can be, seen from there."""
        first, arc, start, _ = trees_of(routes, np.arange(len(self.jobs)), 0)
        net = self.schedule.net
        if self.backwards:
            size = np.repeat(self.jobs.size, routes.width)
            arc = arc_of_link(net)[self.jobs.net.link[arc]]
            start = self.schedule.end - start - net.travel[size, net.kind[arc]]
        if self.backwards and self.phase != COLLECT:
            # Some ways were searched from their end, others from their beginning, which is where they must start.
            order = np.lexsort((start, np.repeat(np.arange(len(self.jobs)), routes.width)))
            arc = arc[order]
            start = start[order]
        changed = self.schedule.with_phase(self.phase, first, arc, start)
        return _moved(changed, up=self.backwards)


def _one_round(
    view: _View, floor: int, aim: int, random: Bits, minimal: bool
) -> tuple[Routes, int]:
    """The routes of the phase after one round, and how many links were looked at."""
    jobs = view.jobs
    ten = view.ten()
    columns = jobs.columns(np.arange(len(jobs)), view.release(), minimal)
    routes = view.routes(2 * MOST_AT_A_TIME * jobs.topology.num_devices)
    end = view.schedule.end
    # A little before the end, since whatever arrives last has to become sooner for anything to be
    # gained.
    target = end - max((end - floor) // aim, 1)
    job, first, width, arrival = np.empty((4, MOST_AT_A_TIME), np.int64)
    marked = np.zeros(jobs.topology.num_links, np.int64)
    tries = Tries(job, first, width, arrival, marked, random, np.zeros(1, np.int64))
    work = work_for(jobs.net)
    guide = no_guide(jobs.net)
    status = LANE_FULL
    calls = Calls("re-routing")
    while status == LANE_FULL:
        left = ROUND - int(work.search[1])
        status = reroute(
            World(jobs.net, ten.lanes, ten.stores, columns, work, routes),
            guide,
            tries,
            target,
            left,
        )
        calls.came_to(int(work.search[1]))
        if status == LANE_FULL:
            ten.grow_lanes()
    return routes, int(work.search[1])
