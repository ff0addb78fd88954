"""What a method is: a way to find a schedule, with knobs of its own.

A method says by itself for which problems it is worth a try: as an opening, with a rank among the openings of all
methods, and later as variants with other knobs. To add one, write a class and name it in :mod:`pccl.synthesis.methods`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self, TypeAlias

import numpy as np

from pccl._arrays import Indices, Ints
from pccl.network import Ten, arc_of_link
from pccl.settings import Settings
from pccl.synthesis.jobs import Jobs
from pccl.synthesis.problem import Problem
from pccl.synthesis.roots import Root
from pccl.synthesis.schedule import COLLECT, SPREAD, Origin, Schedule

POLISH = 60  # links looked at that take as long as polishing a transfer

Orders: TypeAlias = dict[int, Ints]  # per phase: in which order to place its jobs


@dataclass(frozen=True)
class Method(ABC):
    """One way to find an algorithm."""

    root: Root = Root.IN_TURN
    seed: int = 0

    name: ClassVar[str]
    obeys: ClassVar[frozenset[str]] = frozenset()  # which of the settings `order` and `routes`
    in_time: ClassVar[bool] = False  # whether no other order of transfers need be tried

    @abstractmethod
    def find(self, problem: Problem, orders: Orders | None = None) -> Schedule:
        """Find a schedule; `orders` take the place of the method's own."""

    @classmethod
    @abstractmethod
    def openings(cls, problem: Problem) -> Iterator[tuple[int, Self]]:
        """What promises most for this problem at little cost, each with a rank: the lowest goes first."""

    @classmethod
    @abstractmethod
    def variants(cls, problem: Problem) -> Iterator[Self]:
        """Knobs that are worth a try when no opening was good enough."""

    @classmethod
    @abstractmethod
    def usual(cls, problem: Problem) -> Self:
        """The method with its usual knobs, for callers who want this method and no other."""

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:  # noqa: ARG003
        """Why the method cannot solve this problem, if it cannot."""
        return None

    def midway(self) -> Self | None:
        """The same with sums collected midway; None where that would be no gain."""
        return replace(self, root=Root.MIDWAY)

    def obeying(self, settings: Settings) -> Self:
        """The method with what the settings say of the knobs that it has."""
        given = {name: getattr(settings, name) for name in self.obeys}
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def notes(self) -> list[str]:
        """What else to say of it to people."""
        return ["sums collected midway"] if self.root is Root.MIDWAY else []

    def __str__(self) -> str:
        return ", ".join([self.name.replace("-", " "), *self.notes()])


def cost_of(problem: Problem) -> int:
    """About what one attempt takes, in links looked at: mostly the polish, which is twice the work for two phases."""
    phases = 2 if problem.collects_and_spreads else 1
    return POLISH * problem.transfers * phases


class Placed(NamedTuple):
    """What placing the jobs of one phase comes to: their trees, job by job, and the links looked at."""

    first: Ints
    arc: Indices
    start: Ints
    work: int


# Phase, its jobs, what is taken so far, per job when it may begin, and whom to tell how many more are placed.
Placer: TypeAlias = Callable[[int, Jobs, Ten, Ints, Callable[[int], None]], Placed]


def find_in_phases(
    problem: Problem,
    method: Method,
    place: Placer,
    steps: bool,
    gaps: bool,
    jobs: tuple[Jobs, Jobs] | None = None,
) -> Schedule:
    """Place what is collected, backwards in time, then what is spread around it.

    `steps` says whether to count time in steps while placing, `gaps` whether placing leaves gaps that can be closed.
    Jobs are those of the method unless they are given.
    """
    if jobs is None:
        jobs = problem.jobs(method.root, steps)
    schedule = Schedule.nothing(problem, jobs, Origin(method))
    total = len(jobs[COLLECT]) + len(jobs[SPREAD])
    done = 0

    def progress(more: int) -> None:
        nonlocal done
        done += more
        problem.progress(min(done, total), total, str(method))

    # What is no sum may spread from the start, and a sum when it is complete.
    release = np.zeros(len(problem.conditions), np.int64)
    ten = Ten.empty(problem.topology, schedule.net)
    work = 0
    if len(jobs[COLLECT]):
        collects = jobs[COLLECT]
        backwards = Ten.empty(collects.topology, collects.net)
        placed = place(COLLECT, collects, backwards, np.zeros(len(collects), np.int64), progress)
        schedule, release, ten = _turn_round(schedule, placed, backwards)
        work += placed.work
    if len(jobs[SPREAD]):
        spreads = jobs[SPREAD]
        placed = place(SPREAD, spreads, ten, release[spreads.chunk], progress)
        schedule = schedule.with_phase(SPREAD, placed.first, placed.arc, placed.start)
        work += placed.work
    # That times are polished counts too, phase by phase and all together.
    work += POLISH * len(schedule) * len(schedule.phases)
    schedule = replace(schedule, work=work)
    if steps or gaps or problem.topology.limited:
        return schedule.exact()
    return schedule


def _turn_round(schedule: Schedule, mirrored: Placed, taken: Ten) -> tuple[Schedule, Ints, Ten]:
    """Play mirrored jobs backwards: the reductions, when each chunk is complete, and the TEN they leave.

    Backwards, everything happens as late as it can, so transfers then move up again. Where switches have limits they
    do so in the end, all together: what is placed around them until then moves up with them.
    """
    problem = schedule.problem
    net = schedule.net
    collects = schedule.jobs[COLLECT]
    arc = arc_of_link(net)[collects.net.link[mirrored.arc]]
    width = np.diff(mirrored.first)
    size = np.repeat(collects.size, width)
    travel = net.travel[size, net.kind[arc]]
    end = int((mirrored.start + travel).max(initial=0))
    arrival = end - mirrored.start
    schedule = schedule.with_phase(COLLECT, mirrored.first, arc, arrival - travel)
    if problem.topology.limited:
        complete = np.zeros(len(problem.conditions), np.int64)
        np.maximum.at(complete, np.repeat(collects.chunk, width), arrival)
        return schedule, complete, taken.reversed(end, problem.topology, net.unit)
    # Slots behind those of the transfers are those of chunks at their roots: ready when complete.
    start, ready, ten = schedule.replayed(schedule.start, schedule.moves)
    return schedule.timed(start), ready[len(schedule) :], ten
