"""Joint: sums are collected and spread by trees that are planned, and timed, together.

A sum belongs to nobody, so its trees may begin at any device near the middle of those who take part, also at a switch
that adds and multiplies. The trees of both phases share one load for each link, which makes links dearer. In time, the
chunks take turns: early ones are spread while late ones are still collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from pccl._arrays import Floats, Indices, Ints, inverse, offsets_by_owner, offsets_of, take_rows
from pccl.errors import InternalError
from pccl.network import Network
from pccl.synthesis.calls import Calls
from pccl.synthesis.methods.base import Method, Orders
from pccl.synthesis.methods.joint_kernels import Growth, Prices, Side, Sums, Trees, plan_trees
from pccl.synthesis.methods.messages import within_limits
from pccl.synthesis.problem import Problem
from pccl.synthesis.roots import Candidates, Root, find_candidates
from pccl.synthesis.schedule import COLLECT, SPREAD, Origin, Schedule
from pccl.synthesis.search_kernels import DONE, OUTPUT_FULL, PAUSED, STUCK
from pccl.synthesis.timetable import timed_in_turn

# Steepness, urgency and reach.
KNOBS = (
    (24.0, 0.1, 1.25), (6.0, 0.1, 1.0), (50.0, 0.3, 1.25), (50.0, 0.1, 1.25), (24.0, 0.3, 1.0), (24.0, 0.1, 4.0),
)  # fmt: skip
# Times the longest way ahead: how long before the turn of its chunk a transfer may go.
LEADS = (1.0, 2.0, 3.0, 5.0)
# Links looked at between two reports of progress.
SLICE = 1_000_000
# Links looked at that take as long as timing a transfer with one lead, and as justifying it.
TIMING = 10
JUSTIFYING = 20


@dataclass(frozen=True)
class Joint(Method):
    """Plan how sums are collected and how they are spread at once."""

    steepness: float = 24.0  # of prices: the logarithm of a price when its link is full
    urgency: float = 0.1  # what it costs to be far from the root, beside what links cost on average
    reach: float = 1.25  # how many times as far as from the middle it may be from a root

    name: ClassVar[str] = "joint"
    in_time: ClassVar[bool] = True

    def find(self, problem: Problem, orders: Orders | None = None) -> Schedule:  # noqa: ARG002
        """Find a schedule; there are no orders to follow."""
        order = _in_rounds(problem)
        candidates = find_candidates(problem.topology, problem.planned, problem.zones, self.reach)
        growth, trees, load = self._grown(problem, order, candidates)
        roots = np.empty(len(order), np.int32)
        roots[order] = trees.root
        jobs = problem.jobs_from(roots, steps=False)
        schedule = Schedule.nothing(problem, jobs, Origin(self))
        for phase in (COLLECT, SPREAD):
            # Trees come in the order of planning, jobs in that of chunks.
            place = inverse(order)[jobs[phase].chunk]
            first, arc = _picked(trees.first[phase][place], trees.width[phase][place], trees.arc)
            schedule = schedule.with_phase(phase, first, arc, np.zeros(len(arc), np.int64))
        turn = inverse(order) * (load.max(initial=0.0) / max(len(order), 1))
        timed = timed_in_turn(schedule, turn, LEADS)
        if problem.topology.limited:
            timed = within_limits(timed)
        work = int(growth.count[1]) + (JUSTIFYING + len(LEADS) * TIMING) * len(schedule)
        return replace(timed, work=work)

    def _grown(
        self, problem: Problem, order: Ints, candidates: Candidates
    ) -> tuple[Growth, Trees, Floats]:
        """The trees of all chunks in an order, and how long each arc is held by them."""
        net = problem.net
        target = max(int(problem.quick_bound.value) // net.unit, 1)
        arcs = len(net.link)
        prices = Prices(np.zeros(arcs), np.ones(arcs), self.steepness / target, self.urgency)
        growth = _growth(net)
        sides = _sides(problem)
        sums = _sums(problem, order, candidates)
        rng = np.random.default_rng(self.seed)
        lists = candidates.first, _shuffled(candidates, rng) if self.seed else candidates.device
        trees = _no_trees(sums, sides)
        done = 0
        status = PAUSED
        calls = Calls("planning trees")
        while status not in (DONE, STUCK):
            given = (net, sides, sums, lists, problem.zones.allowed, prices, growth, trees)
            done, status = plan_trees(*given, done, SLICE)
            calls.came_to(done)
            problem.progress(done, len(order), str(self))
            if status == OUTPUT_FULL:
                room = np.empty_like(trees.arc)
                trees = trees._replace(arc=np.concatenate([trees.arc, room]))
        if status == STUCK:
            problem.jobs(Root.MIDWAY, steps=False)  # says what cannot be reached
            raise InternalError(f"trees do not reach all that chunk {order[done]} must")
        return growth, trees, prices.load

    @classmethod
    def usual(cls, problem: Problem) -> Self:
        """The knobs that do best most often."""
        return cls._with(problem, *KNOBS[0])

    @classmethod
    def _with(cls, problem: Problem, steepness: float, urgency: float, reach: float) -> Self:
        return cls(seed=problem.seed, steepness=steepness, urgency=urgency, reach=reach)

    @classmethod
    def openings(cls, problem: Problem) -> Iterator[tuple[int, Self]]:
        """Whatever is collected and spread; where messages have to wait for room, others are often better."""
        if problem.two_phases:
            yield 2 if problem.topology.limited else -1, cls.usual(problem)

    @classmethod
    def variants(cls, problem: Problem) -> Iterator[Self]:
        """All knobs."""
        if problem.two_phases:
            for knobs in KNOBS:
                yield cls._with(problem, *knobs)

    def midway(self) -> Self | None:
        """No gain: it chooses roots by itself."""
        return None

    def notes(self) -> list[str]:
        """Its knobs."""
        return [
            f"steepness {self.steepness:g}",
            f"urgency {self.urgency:g}",
            f"reach {self.reach:g}",
        ]


def _in_rounds(problem: Problem) -> Ints:
    """Chunks in the order of their turns: first pieces of all shares before second ones, and so on."""
    conditions = problem.conditions
    pieces = np.bincount(conditions.share)[conditions.share]
    # Shares of several collectives may be cut into different numbers of pieces.
    return np.argsort(conditions.piece / pieces, kind="stable")


def _sides(problem: Problem) -> tuple[Side, Side]:
    """How trees that collect grow, and how those do that spread."""
    net = problem.net
    topology = problem.topology
    devices = topology.num_devices
    sums_pass = ~topology.reduce
    copies_pass = ~topology.multicast
    against = np.argsort(net.dst, kind="stable")
    along = np.arange(len(net.src))
    into = offsets_by_owner(net.dst, devices)
    return (
        Side(into, against, net.dst, net.src, sums_pass, bool(np.any(sums_pass))),
        Side(net.first, along, net.src, net.dst, copies_pass, bool(np.any(copies_pass))),
    )


def _sums(problem: Problem, order: Ints, candidates: Candidates) -> Sums:
    """What is to be planned, in this order."""
    conditions = problem.planned
    ends = conditions.source_offsets, conditions.source_ids
    sources, contributor = take_rows(*ends, order)
    ends = conditions.destination_offsets, conditions.destination_ids
    targets, destination = take_rows(*ends, order)
    choice = candidates.choice[order]
    # Chunks that choose from the same devices take them in turn.
    by_choice = np.argsort(choice, kind="stable")
    begin = offsets_by_owner(choice, len(candidates.first))[choice]
    return Sums(
        size=conditions.sizes[1][order],
        zone=problem.zones.of_chunks(conditions)[order],
        choice=choice,
        turn=inverse(by_choice) - begin,
        first=np.stack([sources, targets]),
        contributor=contributor,
        destination=destination,
    )


def _shuffled(candidates: Candidates, rng: np.random.Generator) -> Indices:
    """The devices of all lists, in another order inside each of them."""
    owner = np.repeat(np.arange(len(candidates.first) - 1), np.diff(candidates.first))
    chance = rng.random(len(owner))
    return candidates.device[np.lexsort((chance, owner))]


def _growth(net: Network) -> Growth:
    """Scratch space for trees on a network."""
    devices = len(net.first) - 1
    has, wanted, member, arc = np.zeros((4, devices), np.int64)
    depth, cost, score = np.zeros((3, devices))
    room = len(net.src) + 3 * devices + 2
    key = np.empty(room)
    entry = np.empty(room, np.int64)
    return Growth(has, wanted, member, depth, cost, score, arc, key, entry, np.zeros(2, np.int64))


def _no_trees(sums: Sums, sides: tuple[Side, Side]) -> Trees:
    """Room for trees that take a link for each device they must reach; there will be more if that is too little."""
    chunks = len(sums.size)
    first, width = np.zeros((2, 2, chunks), np.int64)
    # Between two devices that keep what they get, a branch passes through each switch at most once.
    most = sum(len(side.passes) * (1 + int(side.passes.sum())) for side in sides)
    pool = np.empty(len(sums.contributor) + len(sums.destination) + most, np.int64)
    return Trees(np.zeros(chunks, np.int64), first, width, pool, np.zeros(1, np.int64), most)


def _picked(begin: Ints, width: Ints, pool: Ints) -> tuple[Ints, Indices]:
    """Lists that lie anywhere in a pool, one after another."""
    first = offsets_of(width)
    rows = np.repeat(begin - first[:-1], width) + np.arange(first[-1])
    return first, pool[rows].astype(np.int32)
