"""Flooding: all chunks at once, event by event; each free link takes the rarest chunk of use to its receiver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, Self

import numpy as np

from pccl._arrays import Ints, offsets_by_owner, stable_order, take_rows
from pccl.network import NEVER, Network, Ten
from pccl.synthesis.calls import Calls
from pccl.synthesis.jobs import Jobs
from pccl.synthesis.methods.base import Method, Orders, Placed, find_in_phases
from pccl.synthesis.methods.flooding_kernels import (
    COUNT,
    LOOKED,
    TIME,
    Flood,
    flood,
    flood_ways,
    prune,
)
from pccl.synthesis.methods.messages import place_messages, unlimited
from pccl.synthesis.methods.ways import find_ways, keeping
from pccl.synthesis.methods.ways_kernels import Ways
from pccl.synthesis.problem import Problem
from pccl.synthesis.schedule import Schedule
from pccl.synthesis.search_kernels import DONE, LANE_FULL, OUTPUT_FULL, PAUSED

# Chunks times devices: more would take long, as relays get chunks as well.
MOST_FLOODED = 20_000_000
# Chunks times pairs of NPUs times words of 64 chunks: about what ways through switches look at, a second of it.
MOST_LOOKED_AT = 2_000_000_000
# Deliveries times words of 64 chunks: about what links look at, ten seconds of it.
MOST_WORDS = 5_000_000_000
# Variants worth a try.
SEEDS = 4
# Transfers between two reports of progress.
SLICE = 20_000


@dataclass(frozen=True)
class Flooding(Method):
    """Spread all chunks at once, for chunks with many destinations."""

    in_turn: bool = (
        False  # through switches that pass messages on: to the next neighbours first, or to any
    )

    name: ClassVar[str] = "flooding"

    def find(self, problem: Problem, orders: Orders | None = None) -> Schedule:  # noqa: ARG002
        """Find a schedule; there are no orders to follow."""

        def place(
            phase: int,  # noqa: ARG001
            jobs: Jobs,
            ten: Ten,
            release: Ints,
            progress: Callable[[int], None],
        ) -> Placed:
            if jobs.net.limited:
                free = replace(jobs, net=unlimited(jobs.net))
                planned = _flooded(free, self.seed, self.in_turn, progress)
                return place_messages(jobs, ten, release, planned, progress)
            placed = _flooded(jobs, self.seed, self.in_turn, progress)
            # It knows nothing of what is taken already: it begins when everything before it is over.
            return placed._replace(start=placed.start + release.max(initial=0))

        # Transfers that fed nobody leave gaps.
        return find_in_phases(problem, self, place, steps=False, gaps=True)

    @classmethod
    def usual(cls, problem: Problem) -> Self:
        """In turn, where it makes a difference: then nobody waits for a neighbour that others send to."""
        return cls(seed=problem.seed, in_turn=problem.topology.plain)

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        """Why the method cannot solve this problem, if it cannot."""
        chunks = len(problem.conditions)
        npus = problem.topology.num_npus
        words = chunks // 64 + 1
        many = chunks * problem.topology.num_devices > MOST_FLOODED
        many = many or len(problem.conditions.destination_ids) * words > MOST_WORDS
        if problem.topology.plain:
            many = many or chunks * npus * npus * words > MOST_LOOKED_AT
        return "would spread too many chunks all over the network" if many else None

    @classmethod
    def openings(cls, problem: Problem) -> Iterator[tuple[int, Self]]:
        """Trees, most of all where everybody takes part over links that are alike."""
        if not problem.only_trees or cls.refusal(problem):
            return
        if problem.dense and problem.even:
            rank = 0
        else:
            rank = 2 if problem.even else 1
        yield rank, cls.usual(problem)

    @classmethod
    def variants(cls, problem: Problem) -> Iterator[Self]:
        """A few other ways to break ties."""
        if problem.only_trees and not cls.refusal(problem):
            turns = (True, False) if problem.topology.plain else (False,)
            for number, in_turn in product(range(SEEDS), turns):
                yield cls(seed=problem.seed + number, in_turn=in_turn)

    def midway(self) -> Self | None:
        """No gain: it does not mind that all sums are collected in one place, so they would get in each other's way."""
        return None


def _flooded(jobs: Jobs, seed: int, in_turn: bool, progress: Callable[[int], None]) -> Placed:
    """Spread all chunks at once over a network where nothing else goes on."""
    # Jobs are numbered at random, as of equally rare ones the first is taken.
    number = np.random.default_rng(seed).permutation(len(jobs))
    keeps = keeping(jobs.net)
    ways = None if np.all(keeps) else find_ways(jobs.net)
    # Where every device is a destination of something, relays would mostly be in the way; but some may be needed.
    wanted = np.bincount(jobs.destination, minlength=jobs.topology.num_devices)
    relays = not np.all(wanted[keeps])
    state = _spread(jobs, ways, number, in_turn, relays, progress)
    # Some chunk can reach a destination only over devices that do not want it.
    if np.any(state.wants & ~state.has):
        state = _spread(jobs, ways, number, in_turn, True, progress)
    count = int(state.now[COUNT])
    useful = np.zeros(count, np.bool_)
    ends = jobs.net if ways is None else ways
    prune(ends.src, ends.dst, state, np.zeros_like(state.has), useful)
    kept = np.flatnonzero(useful)
    # By job, and in the order of their starts.
    job_of = np.empty(len(jobs), np.int32)
    job_of[number] = np.arange(len(jobs))
    job = job_of[state.job[kept]]
    by_job = stable_order(job, len(jobs))
    job = job[by_job]
    kept = kept[by_job]
    work = 8 * count + int(state.now[LOOKED])
    if ways is None:
        first = offsets_by_owner(job, len(jobs))
        return Placed(first, state.arc[kept], state.start[kept], work)
    begin, arc = take_rows(ways.begin, ways.arc, state.arc[kept])
    widths = np.diff(begin)
    job = np.repeat(job, widths)
    travel = jobs.net.travel[jobs.size[job], jobs.net.kind[arc]]
    # A message goes on from a switch when all of it has come in.
    before = np.cumsum(travel) - travel
    before -= np.repeat(before[begin[:-1]], widths)
    start = np.repeat(state.start[kept], widths) + before
    return Placed(offsets_by_owner(job, len(jobs)), arc, start, work)


def _spread(
    jobs: Jobs,
    ways: Ways | None,
    number: Ints,
    in_turn: bool,
    relays: bool,
    progress: Callable[[int], None],
) -> Flood:
    """Who has what in the end, and what was sent, over links or over ways."""
    net = jobs.net
    state = _initial(jobs, net if ways is None else ways, number, in_turn, relays)
    ten = Ten.empty(jobs.topology, net)
    done = 0
    status = PAUSED
    calls = Calls("flooding")
    while status != DONE:
        if ways is None:
            status = flood(net, state, SLICE)
        else:
            status = flood_ways(net, ways, ten.lanes, state, SLICE)
        calls.came_to(int(state.now[COUNT]), int(state.now[TIME]))
        share = int(state.now[COUNT]) / max(len(jobs.destination), 1)
        reached = min(int(share * len(jobs)), len(jobs))
        progress(reached - done)
        done = reached
        if status == OUTPUT_FULL:
            state = _grown(state)
        elif status == LANE_FULL:
            ten.grow_lanes()
    return state


def _initial(jobs: Jobs, ends: Network | Ways, number: Ints, in_turn: bool, relays: bool) -> Flood:
    """Everybody has what it is a source of, and all links are idle."""
    arcs = len(ends.dst)
    words = -(-len(jobs) // 64)
    has, wants = np.zeros((2, jobs.topology.num_devices, words), np.uint64)
    word = number >> 6
    bit = np.uint64(1) << (number & 63).astype(np.uint64)
    np.bitwise_or.at(has, (jobs.source, word), bit)
    owner = np.repeat(np.arange(len(jobs)), np.diff(jobs.first))
    np.bitwise_or.at(wants, (jobs.destination, word[owner]), bit[owner])
    # What a device may not have is as if it were coming already.
    coming = has.copy()
    for row in np.unique(jobs.row) if jobs.zones > 1 else ():
        inside = np.flatnonzero(jobs.row == row)
        outside = np.flatnonzero(jobs.remaining[row] >= NEVER)
        np.bitwise_or.at(coming, np.ix_(outside, word[inside]), bit[inside])
    size = np.empty(len(jobs), np.int32)
    size[number] = jobs.size
    room = len(jobs.destination) * 5 // 4 + arcs
    # An arc, or a way, is touched as it becomes free, and by every arrival at its sender: at one moment, one over each
    # link.
    arrivals = np.bincount(jobs.net.dst, minlength=len(ends.first) - 1)
    most_touched = 2 * arcs + int(arrivals @ np.diff(ends.first))
    return Flood(
        has=has,
        coming=coming,
        wants=wants,
        copies=np.ones(len(jobs), np.int32),
        size=size,
        idle=np.ones(arcs, np.bool_),
        touched=_touched(ends, most_touched),
        heap=np.empty((room + arcs + 2, 3), np.int64),
        job=np.empty(room, np.int32),
        arc=np.empty(room, np.int32),
        start=np.empty(room, np.int64),
        now=np.array([0, 0, 0, arcs, 1, 0]),
        relays=relays,
        in_turn=in_turn,
    )


def _touched(ends: Network | Ways, room: int) -> Ints:
    """All arcs, or ways: at last those to the next neighbour of each device, which go first where they go in turn."""
    arcs = np.arange(len(ends.src))
    touched = np.zeros(room, np.int64)
    touched[: len(arcs)] = arcs
    if isinstance(ends, Ways):
        touched[: len(arcs)] = arcs[np.argsort(arcs - ends.first[ends.src], kind="stable")]
    return touched


def _grown(state: Flood) -> Flood:
    """The same with twice the room for transfers."""
    room = np.empty((len(state.arc), 3), np.int64)
    return state._replace(
        heap=np.concatenate([state.heap, room]),
        job=np.concatenate([state.job, np.empty_like(state.job)]),
        arc=np.concatenate([state.arc, np.empty_like(state.arc)]),
        start=np.concatenate([state.start, np.empty_like(state.start)]),
    )
