"""Flooding: all chunks at once, event by event; each free link takes the rarest chunk of use to its receiver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from pccl._arrays import Ints, offsets_by_owner, stable_order
from pccl.network import Ten
from pccl.synthesis.jobs import Jobs
from pccl.synthesis.methods.base import Method, Orders, Placed, find_in_phases
from pccl.synthesis.methods.flooding_kernels import COUNT, Flood, flood, prune
from pccl.synthesis.problem import Problem
from pccl.synthesis.schedule import Schedule

# Chunks times devices: more would take long, as relays get chunks as well.
MOST_FLOODED = 20_000_000
# Variants worth a try.
SEEDS = 4
# Transfers between two reports of progress.
SLICE = 20_000


@dataclass(frozen=True)
class Flooding(Method):
    """Spread all chunks at once, for chunks with many destinations."""

    name: ClassVar[str] = "flooding"

    def find(self, problem: Problem, orders: Orders | None = None) -> Schedule:  # noqa: ARG002
        """Find a schedule; there are no orders to follow."""

        def place(
            phase: int,  # noqa: ARG001
            jobs: Jobs,
            ten: Ten,  # noqa: ARG001
            release: Ints,
            progress: Callable[[int], None],
        ) -> Placed:
            placed = _flooded(jobs, self.seed, progress)
            # It knows nothing of what is taken already: it begins when everything before it is over.
            return placed._replace(start=placed.start + release.max(initial=0))

        # Transfers that fed nobody leave gaps.
        return find_in_phases(problem, self, place, steps=False, gaps=True)

    @classmethod
    def usual(cls, problem: Problem) -> Self:
        """There are no knobs."""
        return cls(seed=problem.seed)

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        """Why the method cannot solve this problem, if it cannot."""
        if problem.topology.limited or problem.topology.plain:
            return "knows no limits of switches"
        if len(problem.conditions) * problem.topology.num_devices > MOST_FLOODED:
            return "would spread too many chunks all over the network"
        return None

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
            for number in range(SEEDS):
                yield cls(seed=problem.seed + number)

    def midway(self) -> Self | None:
        """No gain: it does not mind that all sums are collected in one place, so they would get in each other's way."""
        return None


def _flooded(jobs: Jobs, seed: int, progress: Callable[[int], None]) -> Placed:
    """Spread all chunks at once over a network where nothing else goes on."""
    # Jobs are numbered at random, as of equally rare ones the first is taken.
    number = np.random.default_rng(seed).permutation(len(jobs))
    # Where every device is a destination of something, relays would mostly be in the way; but some may be needed.
    relays = not np.all(np.bincount(jobs.destination, minlength=jobs.topology.num_devices))
    state = _spread(jobs, number, relays, progress)
    # Some chunk can reach a destination only over devices that do not want it.
    if np.any(state.wants & ~state.has):
        state = _spread(jobs, number, True, progress)
    count = int(state.now[COUNT])
    useful = np.zeros(count, np.bool_)
    prune(jobs.net, state, np.zeros_like(state.has), useful)
    kept = np.flatnonzero(useful)
    # By job, and in the order of their starts.
    job_of = np.empty(len(jobs), np.int32)
    job_of[number] = np.arange(len(jobs))
    job = job_of[state.job[kept]]
    order = kept[stable_order(job, len(jobs))]
    first = offsets_by_owner(job, len(jobs))
    return Placed(first, state.arc[order], state.start[order], work=8 * count)


def _spread(jobs: Jobs, number: Ints, relays: bool, progress: Callable[[int], None]) -> Flood:
    state = _initial(jobs, number, relays)
    done = 0
    while not flood(jobs.net, state, SLICE):
        share = int(state.now[COUNT]) / max(len(jobs.destination), 1)
        reached = min(int(share * len(jobs)), len(jobs))
        progress(reached - done)
        done = reached
        if state.now[COUNT] == len(state.arc):
            state = _grown(state)
    return state


def _initial(jobs: Jobs, number: Ints, relays: bool) -> Flood:
    """Everybody has what it is a source of, and all links are idle."""
    net = jobs.net
    arcs = len(net.dst)
    words = -(-len(jobs) // 64)
    has, wants = np.zeros((2, jobs.topology.num_devices, words), np.uint64)
    word = number >> 6
    bit = np.uint64(1) << (number & 63).astype(np.uint64)
    np.bitwise_or.at(has, (jobs.source, word), bit)
    owner = np.repeat(np.arange(len(jobs)), np.diff(jobs.first))
    np.bitwise_or.at(wants, (jobs.destination, word[owner]), bit[owner])
    size = np.empty(len(jobs), np.int32)
    size[number] = jobs.size
    room = len(jobs.destination) * 5 // 4 + arcs
    # An arc is touched as it becomes free, and by every arrival at its sender.
    most_touched = arcs * (2 + int(np.diff(net.first).max(initial=0)))
    return Flood(
        has=has,
        coming=has.copy(),
        wants=wants,
        copies=np.ones(len(jobs), np.int32),
        size=size,
        idle=np.ones(arcs, np.bool_),
        touched=np.arange(most_touched),
        heap=np.empty((room + arcs + 2, 3), np.int64),
        job=np.empty(room, np.int32),
        arc=np.empty(room, np.int32),
        start=np.empty(room, np.int64),
        now=np.array([0, 0, 0, arcs, 1]),
        relays=relays,
    )


def _grown(state: Flood) -> Flood:
    """The same with twice the room for transfers."""
    room = np.empty((len(state.arc), 3), np.int64)
    return state._replace(
        heap=np.concatenate([state.heap, room]),
        job=np.concatenate([state.job, np.empty_like(state.job)]),
        arc=np.concatenate([state.arc, np.empty_like(state.arc)]),
        start=np.concatenate([state.start, np.empty_like(state.start)]),
    )
