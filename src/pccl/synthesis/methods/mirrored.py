"""Mirrored: sums are spread as they were collected, backwards in time, and alike in all parts of a symmetric network.

If every link has another one back, a way to collect sums, seen backwards, is a way to spread them. So only trees that
collect are looked for, with times at which links are free in both directions of time; the first sum that is complete is
spread as the last one was collected. On a symmetric network, one tree serves all chunks that a symmetry moves to one
another. What is left is so small that trees can be changed bit by bit, and timed, thousands of times a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import numpy as np

from pccl._arrays import Indices, Ints, offsets_of
from pccl.errors import InternalError
from pccl.network import unloaded_times
from pccl.synthesis.methods.base import Method, Orders
from pccl.synthesis.methods.mirrored_kernels import Grid, Growing, Room, annealed, grow
from pccl.synthesis.problem import Problem
from pccl.synthesis.schedule import COLLECT, SPREAD, Origin, Schedule
from pccl.synthesis.symmetry import symmetries

# Ticks for which a link is held, where messages travel for longer than they hold it.
TICKS = 4
# Messages that travel for so many times as long as they hold a link are better off as exchanges.
MOST_TRAVEL = 8
# Transfers of all trees together; with more there is time for too few tries.
MOST_TRANSFERS = 4_096
# Work in all, and of a transfer in one try, in links looked at.
WORK = 40_000_000
WORK_OF_TRANSFER = 0.6
MOST_TRIES = 100_000
# At first, sums may take so many times as long as the bound; then ever less, in so many steps at least.
SLACK = 1.12
STEPS = 6
# Ticks that a tree may be later after a try, at the beginning, as a share of those that a link is held for.
HEAT = 0.3
# Tries for each transfer, and as a share of all, after which other trees are begun with.
PATIENCE = 10
PART = 1 / 8


@dataclass(frozen=True)
class Mirrored(Method):
    """Spread sums as they were collected, backwards."""

    name: ClassVar[str] = "mirrored"
    in_time: ClassVar[bool] = True

    def find(self, problem: Problem, orders: Orders | None = None) -> Schedule:  # noqa: ARG002
        """Find a schedule; there are no orders to follow."""
        mirror = _Mirror(problem)
        low = -(-int(problem.quick_bound.value) // (problem.net.unit * mirror.tick))
        end = round(SLACK * low)
        room = mirror.room(end, self.seed)
        trees = mirror.grown(room)
        affordable = int(WORK / (WORK_OF_TRANSFER * trees.up.size))
        tries = max(min(affordable, MOST_TRIES), 2)
        patience = max(PATIENCE * trees.up.size, round(PART * tries))
        left = tries
        found = []
        while left > 0 and end >= low:
            trees.due[:] = trees.turn[:] = mirror.dues(len(trees.due), end)
            best = mirror.copy_of(trees)
            heat = (HEAT * mirror.grid.hold) ** 2
            late, spent = annealed(mirror.grid, trees, best, room, end, min(left, patience), heat)
            found.append(mirror.schedule(best, end, Origin(self)))
            left -= spent
            if late:
                # Others may do: how far trees come depends on those to begin with.
                trees = mirror.grown(room)
            else:
                end -= max((end - low) // STEPS, 1)
            problem.progress(tries - left, tries, str(self))
        # Of those that take as long, the last: less of it is late.
        best_found = min(reversed(found), key=lambda schedule: schedule.duration)
        return replace(best_found, work=WORK)

    @classmethod
    def usual(cls, problem: Problem) -> Self:
        """There are no knobs."""
        return cls(seed=problem.seed)

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        """Why the method cannot solve this problem, if it cannot."""
        topology = problem.topology
        conditions = problem.conditions
        net = problem.net
        everybody = topology.num_devices
        if everybody > topology.num_npus:
            return "knows no switches"
        if not problem.collects_and_spreads or len(problem.collectives) > 1:
            return "serves one All-Reduce"
        sources = np.diff(conditions.source_offsets)
        if np.any(sources < everybody) or np.any(conditions.num_destinations < everybody):
            return "serves all NPUs of a network"
        if net.hold.size > 1:
            return "needs links and chunks that are alike"
        there = np.sort(net.src.astype(np.int64) * everybody + net.dst)
        back = np.sort(net.dst.astype(np.int64) * everybody + net.src)
        if not np.array_equal(there, back) or len(np.unique(there)) < len(there):
            return "needs one link back for every link"
        return None

    @classmethod
    def openings(cls, problem: Problem) -> Iterator[tuple[int, Self]]:  # noqa: ARG003
        """None: it takes its time."""
        yield from ()

    @classmethod
    def variants(cls, problem: Problem) -> Iterator[Self]:
        """Where trees are few and a message is more than its latency."""
        if cls.refusal(problem) or problem.net.travel.max() > MOST_TRAVEL * problem.net.hold.max():
            return
        chunks = len(problem.conditions) // len(symmetries(problem.topology))
        if chunks * problem.topology.num_npus <= MOST_TRANSFERS:
            yield cls.usual(problem)
            yield replace(cls.usual(problem), seed=problem.seed + 1)

    def midway(self) -> Self | None:
        """No gain: sums are collected in the middle of the network."""
        return None


class _Mirror:
    """A problem seen in the mirror: its symmetries, its time in ticks, and what trees come to."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.moves = symmetries(problem.topology)
        net = problem.net
        hold = int(net.hold[0, 0])
        travel = int(net.travel[0, 0])
        self.ticks = 1 if travel == hold else TICKS
        self.tick = -(-hold // self.ticks)
        orbit, back = self._orbits()
        self.grid = Grid(
            first=net.first.astype(np.int64),
            dst=net.dst.astype(np.int64),
            orbit=orbit,
            back=back,
            root=int(np.argmin(self._distance.max(axis=1))),
            travel=-(-travel // self.tick),
            hold=self.ticks,
        )

    @cached_property
    def _distance(self) -> Ints:
        """[from, to]: the time of a chunk that is alone."""
        devices = np.arange(self.problem.topology.num_devices)
        return unloaded_times(self.problem.net, devices, np.zeros_like(devices))

    @cached_property
    def _arc_between(self) -> Ints:
        net = self.problem.net
        found = np.full((len(net.first) - 1,) * 2, -1)
        found[net.src, net.dst] = np.arange(len(net.src))
        return found

    @cached_property
    def _arc_after(self) -> Ints:
        """[move, arc]: the arc that it becomes."""
        net = self.problem.net
        return self._arc_between[self.moves[:, net.src], self.moves[:, net.dst]]

    @cached_property
    def _arc_back(self) -> Ints:
        net = self.problem.net
        return self._arc_between[net.dst, net.src]

    def _orbits(self) -> tuple[Ints, Ints]:
        first, orbit = np.unique(self._arc_after.min(axis=0), return_inverse=True)
        return orbit.astype(np.int64), orbit[self._arc_back[first]].astype(np.int64)

    @property
    def _count(self) -> int:
        """How many trees there are."""
        return len(self.problem.conditions) // len(self.moves)

    def room(self, end: int, seed: int) -> Room:
        """Room to change trees in that are to take this time, and a generator for what is left to chance."""
        count = self._count
        devices = self.problem.topology.num_devices
        orbits = len(self.grid.back)
        return Room(
            children=np.zeros((count, devices), np.int64),
            missing=np.zeros((count, devices), np.int64),
            due=np.zeros((count, devices), np.int64),
            ready=np.zeros((orbits, count * len(self.moves)), np.int64),
            count=np.zeros(orbits, np.int64),
            free=np.zeros(orbits, np.int64),
            taken=np.zeros((orbits, end), np.bool_),
            sent=np.zeros(count * devices, np.int64),
            sorted=np.zeros(count, np.int64),
            random=np.random.default_rng(seed).integers(1, 2**63, 1, dtype=np.uint64),
        )

    def grown(self, room: Room) -> Growing:
        """Trees to begin with, others each time."""
        count = self._count
        devices = self.problem.topology.num_devices
        trees = Growing(
            up=np.zeros((count, devices), np.int64),
            start=np.zeros((count, devices), np.int64),
            done=np.zeros(count, np.int64),
            due=np.zeros(count, np.int64),
            turn=np.zeros(count, np.int64),
        )
        load = np.zeros(len(self.grid.back), np.int64)
        grow(self.grid, trees, self._distance[:, self.grid.root].copy(), load, room.random)
        return trees

    def dues(self, count: int, end: int) -> Ints:
        """When sums are to be complete: in turn, so that the first and the last take the time in all together."""
        soonest = int(self._distance[:, self.grid.root].max()) * self.grid.travel
        soonest //= int(self.problem.net.travel[0, 0])
        return np.linspace(soonest, end - soonest, count).astype(np.int64)

    @staticmethod
    def copy_of(trees: Growing) -> Growing:
        """The same trees, for others to change."""
        return Growing(*(column.copy() for column in trees))

    def schedule(self, trees: Growing, end: int, origin: Origin) -> Schedule:
        """What the trees come to for all chunks, in exact times."""
        problem = self.problem
        turns = np.argsort(trees.done, kind="stable")
        # The first that is complete is spread as the last one was collected.
        model = np.empty_like(turns)
        model[turns] = turns[::-1]
        together = trees.done + trees.done[model]
        end = max(end, int(together.max()))
        collects = self._branches(trees)
        tree, move = np.divmod(np.arange(len(problem.conditions)), len(self.moves))
        roots = self.moves[move, self.grid.root].astype(np.int32)
        jobs = problem.jobs_from(roots, steps=False)
        schedule = Schedule.nothing(problem, jobs, origin)
        for phase in (COLLECT, SPREAD):
            chunk = jobs[phase].chunk
            which = tree[chunk] if phase == COLLECT else model[tree[chunk]]
            arc = self._arc_after[move[chunk][:, None], collects.arc[which]]
            start = collects.start[which]
            if phase == SPREAD:
                arc = self._arc_back[arc]
                start = end - self.grid.travel - start
            first = offsets_of(np.full(len(chunk), arc.shape[1]))
            schedule = schedule.with_phase(
                phase, first, arc.ravel().astype(np.int32), start.ravel() * self.tick
            )
        return schedule.moved_up()

    def _branches(self, trees: Growing) -> _Branches:
        """The transfers of all trees, from their roots on."""
        above = self.grid.dst[trees.up]
        above[:, self.grid.root] = self.grid.root
        depth = np.zeros_like(above)
        place = np.broadcast_to(np.arange(above.shape[1]), above.shape)
        while np.any(place != self.grid.root):
            if depth.max() > above.shape[1]:
                raise InternalError("devices are in no tree: those above them are a circle")
            depth += place != self.grid.root
            place = np.take_along_axis(above, place, axis=1)
        outwards = np.argsort(depth, axis=1, kind="stable")[:, 1:]
        return _Branches(
            np.take_along_axis(trees.up, outwards, axis=1),
            np.take_along_axis(trees.start, outwards, axis=1),
        )


class _Branches(NamedTuple):
    """[tree, ...]: arcs and their starts, those near the root first."""

    arc: Ints | Indices
    start: Ints
