"""Rip-up and re-route: what arrives last, and some chunks in its way, give up their links and search anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np

from pccl._arrays import Bits, Ints, offsets_of
from pccl.network import Ten, arc_of_link
from pccl.synthesis import kernels
from pccl.synthesis.jobs import Jobs
from pccl.synthesis.kernels import Moves, Routes, Tries
from pccl.synthesis.methods import Solution
from pccl.synthesis.placement import Part, work_for
from pccl.synthesis.problem import Problem
from pccl.synthesis.retiming import Timetable

__all__ = ["rerouted"]

MOST = 8  # chunks that search anew at a time
ROUND = 500_000  # links looked at between two justifications
SETUP = (
    30_000  # links looked at take as long as what a round takes besides, however small the problem
)
REPLAY = 20  # links looked at take as long as timing a transfer anew, several times
AIMS = (
    2,
    8,
    32,
)  # in turn, a round tries to close one in so many parts of the gap to what is enough


def rerouted(
    problem: Problem,
    solution: Solution,
    enough: int,
    budget: int,
    seed: int,
    minimal: bool,
    over: Callable[[], bool] = lambda: False,
) -> Solution:
    """Better ways for the routes of a solution, until it takes no longer than is enough, or the budget or time is over.

    In turn for every part, what arrives after a moment before the end tries to arrive sooner. Reductions do so as they
    were placed, backwards in time: they are late if they begin too early. Chunks with one destination do both.
    """
    random = np.random.default_rng(seed).integers(1, 2**63, 1, dtype=np.uint64)
    best, current, spent = solution, solution, 0
    aims = cycle(AIMS)
    while spent < budget and best.duration > enough and not over():
        aim = next(aims)
        for number, backwards in _directions(problem, solution):
            view = _View.of(problem, current, number, backwards)
            routes, work = _tried(view, -(-enough // solution.net.unit), aim, random, minimal)
            current = view.solution_with(routes)
            spent += work + SETUP + REPLAY * len(current)
            if not over():  # else a report would be the end, and what has been gained be lost
                problem.report(min(spent, budget), budget, f"re-routing, {solution.method}")
        if current.duration <= best.duration:
            best = current
        else:
            current = best
    return replace(
        _moved(problem, best, up=True),
        rerouted=solution.rerouted or best.duration < solution.duration,
        work=spent,
    )


def _directions(problem: Problem, solution: Solution) -> Iterator[tuple[int, bool]]:
    """Which parts can be re-routed, and whether backwards in time."""
    for number, part in enumerate(solution.parts):
        yield number, part.reduces
        if not part.reduces and problem.turned_jobs is not None:
            yield number, True


def _moved(problem: Problem, solution: Solution, up: bool) -> Solution:
    """All transfers as early, or as late, as they can be."""
    table = Timetable.of(problem.topology, solution.net, solution.parts, len(problem.conditions))
    start = table.moves.start - table.moves.start.min(initial=0)
    start = table.moved_up(start) if up else table.moved_down(start)
    return replace(
        solution,
        parts=table.parts(solution.parts, start),
        duration=table.end(start) * solution.net.unit,
    )


@dataclass(frozen=True)
class _View:
    """A solution as one of its parts is placed: forwards, or backwards in time on the transposed network."""

    problem: Problem
    solution: Solution
    number: int  # of the part
    backwards: bool
    jobs: Jobs
    end: int
    moves: Moves  # of all parts
    travel: Ints

    @classmethod
    def of(cls, problem: Problem, solution: Solution, number: int, backwards: bool) -> _View:
        """See a solution from one of its parts, with everything as soon as it can be, seen from there."""
        solution = _moved(problem, solution, up=not backwards)
        table = Timetable.of(
            problem.topology, solution.net, solution.parts, len(problem.conditions)
        )
        moves, end = table.moves, table.end(table.moves.start)
        reductions, gathers = problem.jobs(solution.method.root, steps=False)
        jobs = reductions if solution.parts[number].reduces else gathers
        if backwards:
            jobs = jobs if jobs is reductions else problem.turned_jobs or jobs
            arc = arc_of_link(jobs.net)[solution.net.link[moves.arc]]
            moves = moves._replace(arc=arc, start=end - moves.start - table.travel)
        return cls(problem, solution, number, backwards, jobs, end, moves, table.travel)

    @property
    def part(self) -> Part:
        return self.solution.parts[self.number]

    @property
    def rows(self) -> slice:
        """Transfers of the part."""
        low = sum(len(part.placed) for part in self.solution.parts[: self.number])
        return slice(low, low + len(self.part.placed))

    def release(self) -> Ints:
        """Per job: when what the other part has to do with its chunk is over."""
        released, low = np.zeros(len(self.problem.conditions), np.int64), 0
        for number, (jobs, placed, _) in enumerate(self.solution.parts):
            rows, low = slice(low, low + len(placed)), low + len(placed)
            if number != self.number:
                chunk = np.repeat(jobs.chunk[placed.job], np.diff(placed.first))
                np.maximum.at(released, chunk, self.moves.start[rows] + self.travel[rows])
        return released[self.jobs.chunk]

    def ten(self) -> Ten:
        """The TEN with all transfers taken out."""
        ten = Ten.empty(self.jobs.topology, self.jobs.net)
        ten.lanes.slack[:] = 1  # a gap that was closed would not open again when a neighbour goes
        order = np.argsort(self.moves.start, kind="stable")
        count, done = len(order), 0
        start = self.moves.start[order]
        # Each starts when it is ready, as that is when it started.
        moves = Moves(
            self.moves.arc[order],
            self.moves.size[order],
            np.arange(count),
            np.full(count, count),
            start,
        )
        ready = np.append(start, 0)
        while (done := kernels.replay(self.jobs.net, ten.lanes, moves, ready, done)) < count:
            ten.grow_lanes()
        return ten

    def routes(self, room: int) -> Routes:
        """The transfers of the part, with room for more."""
        placed, rows = self.part.placed, self.rows
        width = np.zeros(len(self.jobs), np.int64)
        first, arrival = np.zeros_like(width), np.zeros_like(width)
        width[placed.job], first[placed.job] = np.diff(placed.first), placed.first[:-1]
        owner = np.repeat(placed.job, np.diff(placed.first))
        np.maximum.at(arrival, owner, self.moves.start[rows] + self.travel[rows])
        count = len(placed)
        arc, start = np.empty(2 * count + room, np.int32), np.empty(2 * count + room, np.int64)
        arc[:count], start[:count] = self.moves.arc[rows], self.moves.start[rows]
        return Routes(first, width, arrival, arc, start, np.array([count]))

    def solution_with(self, routes: Routes) -> Solution:
        """The solution with other routes for the part, and everything as late as it can be, seen from there."""
        first = offsets_of(routes.width)
        pool = np.repeat(routes.first - first[:-1], routes.width) + np.arange(first[-1])
        arc, start, net = routes.arc[pool], routes.start[pool], self.solution.net
        if self.backwards:
            size = np.repeat(self.jobs.size, routes.width)
            arc = arc_of_link(net)[self.jobs.net.link[arc]]
            start = self.end - start - net.travel[size, net.kind[arc]]
        if (
            self.backwards and not self.part.reduces
        ):  # some ways are known from their end, others from their beginning
            order = np.lexsort((start, np.repeat(np.arange(len(self.jobs)), routes.width)))
            arc, start = arc[order], start[order]
        placed = replace(
            self.part.placed, job=np.arange(len(self.jobs)), first=first, arc=arc, start=start
        )
        parts = list(self.solution.parts)
        parts[self.number] = self.part._replace(placed=placed)
        return _moved(self.problem, replace(self.solution, parts=parts), up=self.backwards)


def _tried(view: _View, floor: int, aim: int, random: Bits, minimal: bool) -> tuple[Routes, int]:
    """The routes of the part after one round, and how many links were looked at."""
    jobs, ten, devices = view.jobs, view.ten(), view.jobs.topology.num_devices
    target = view.end - max((view.end - floor) // aim, 1)
    _, tasks = jobs.in_order(np.arange(len(jobs)), minimal, view.release(), 0)
    routes = view.routes(2 * MOST * devices)
    task, first, width, arrival = np.empty((4, MOST), np.int64)
    marked, count = np.zeros(jobs.topology.num_links, np.int64), np.zeros(2, np.int64)
    tries = Tries(task, first, width, arrival, marked, random, count)
    work, status = work_for(jobs.net), kernels.LANE_FULL
    while status == kernels.LANE_FULL:
        budget = ROUND - int(work.search[1])
        status = kernels.reroute(
            jobs.net, ten.lanes, ten.stores, tasks, work, routes, tries, target, budget
        )
        if status == kernels.LANE_FULL:
            ten.grow_lanes()
    return routes, int(work.search[1])
