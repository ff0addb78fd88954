"""The schedule: the one table of routed and timed transfers that methods make and improvements take and return.

Transfers come tree by tree. A tree is what one job needs: first the trees that collect sums at their roots, then those
that spread chunks from theirs; inside a tree, transfers come from its root on. Starts are in units of the network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pccl._arrays import Bools, Column, Indices, Ints, offsets_of, sorted_order
from pccl.algorithm import Algorithm, Provenance
from pccl.algorithm.timing import move_up
from pccl.bounds import Bound
from pccl.collective import Conditions
from pccl.network import Network, Ten
from pccl.synthesis.calls import Calls
from pccl.synthesis.jobs import Jobs
from pccl.synthesis.problem import Problem
from pccl.synthesis.schedule_kernels import Moves, last_arrival, number_slots, replay

if TYPE_CHECKING:
    from pccl.synthesis.improve.retime import Timing
    from pccl.synthesis.methods.base import Method


# The two phases.
COLLECT = 0
SPREAD = 1


@dataclass(frozen=True)
class Origin:
    """How a schedule was found."""

    method: Method
    timing: Timing | None = None  # how it was timed in the end, if not as the method did
    rerouted: bool = False

    def __str__(self) -> str:
        parts = [str(self.method)]
        if self.timing is not None:
            parts.append(str(self.timing))
        if self.rerouted:
            parts.append("re-routed")
        return ", ".join(parts)


@dataclass(frozen=True, eq=False)
class Schedule:
    """Transfers of all chunks, tree by tree."""

    problem: Problem
    jobs: tuple[Jobs, Jobs]  # of both phases; tree t belongs to the t-th of them
    net: Network
    first: Ints  # transfers of tree t are first[t] .. first[t + 1] - 1
    arc: Indices
    start: Ints
    origin: Origin
    work: int = 0  # links looked at to find it

    def __len__(self) -> int:
        return len(self.arc)

    @classmethod
    def nothing(cls, problem: Problem, jobs: tuple[Jobs, Jobs], origin: Origin) -> Schedule:
        """A schedule without any transfer yet, for methods to add phases to."""
        empty = np.zeros(0, np.int64)
        return cls(
            problem,
            jobs,
            jobs[SPREAD].net,
            offsets_of(empty),
            empty.astype(np.int32),
            empty,
            origin,
        )

    def with_phase(self, phase: int, first: Ints, arc: Indices, start: Ints) -> Schedule:
        """The schedule with these trees for all jobs of a phase, in the place of those it had, if any."""
        if len(self.first) == 1:  # without copying what may be millions of transfers
            return replace(self, first=first, arc=arc, start=start)
        low, high = self.trees(phase)
        widths = np.diff(self.first)
        begin = self.first[low]
        end = self.first[high]
        return replace(
            self,
            first=offsets_of(np.concatenate([widths[:low], np.diff(first), widths[high:]])),
            arc=np.concatenate([self.arc[:begin], arc, self.arc[end:]]),
            start=np.concatenate([self.start[:begin], start, self.start[end:]]),
        )

    def only(self, phase: int) -> Schedule:
        """The schedule with the transfers of one phase alone; the trees of the other are empty."""
        other = SPREAD if phase == COLLECT else COLLECT
        low, high = self.trees(other)
        return self.with_phase(
            other, np.zeros(high - low + 1, np.int64), self.arc[:0], self.start[:0]
        )

    @property
    def exact_jobs(self) -> tuple[Jobs, Jobs]:
        """The jobs with exact times, also if they were placed in steps."""
        if self.jobs[SPREAD].net.unit == self.net.unit:
            return self.jobs
        return self.problem.jobs(self.origin.method.root, steps=False)

    @property
    def roots(self) -> Indices:
        """Per chunk: where its trees begin."""
        roots = np.empty(len(self.problem.conditions), np.int32)
        for jobs in self.jobs:
            roots[jobs.chunk] = jobs.source
        return roots

    def trees(self, phase: int) -> tuple[int, int]:
        """The first tree of a phase, and the first one after it, as far as it has trees."""
        middle = min(len(self.jobs[COLLECT]), len(self.first) - 1)
        return (0, middle) if phase == COLLECT else (middle, len(self.first) - 1)

    def rows(self, phase: int) -> slice:
        """The transfers of a phase."""
        low, high = self.trees(phase)
        return slice(int(self.first[low]), int(self.first[high]))

    @property
    def phases(self) -> list[int]:
        """The phases that there is something to do in."""
        return [phase for phase in (COLLECT, SPREAD) if len(self.jobs[phase])]

    def of_trees(self, name: str) -> Column:
        """A column of the jobs, by tree."""
        collects, spreads = (getattr(jobs, name) for jobs in self.jobs)
        column: Column = np.concatenate([collects, spreads]) if len(collects) else spreads
        return column[: len(self.first) - 1]

    def of_transfers(self, name: str) -> Column:
        """A column of the jobs, by transfer."""
        column: Column = np.repeat(self.of_trees(name), np.diff(self.first))
        return column

    @cached_property
    def moves(self) -> Moves:
        """The transfers, each between two slots that say when a chunk is ready at a device."""
        count = len(self)
        sender, receiver = np.empty((2, count), np.int64)
        slot = np.empty(self.problem.topology.num_devices, np.int64)
        collects = self.trees(COLLECT)[1]
        root = count + self.of_trees("chunk").astype(np.int64)
        number_slots(self.net, root, collects, self.first, self.arc, slot, sender, receiver)
        return Moves(self.arc, self.of_transfers("size"), sender, receiver)

    @property
    def num_slots(self) -> int:
        """How many slots the moves go between."""
        return len(self) + len(self.problem.conditions)

    @cached_property
    def travel(self) -> Ints:
        """Per transfer: from its start until the receiver has it all."""
        travel: Ints = self.net.travel[self.moves.size, self.net.kind[self.arc]]
        return travel

    @cached_property
    def end(self) -> int:
        """When the last transfer arrives, in units."""
        return int(last_arrival(self.net, self.of_trees("size"), self.first, self.arc, self.start))

    @property
    def duration(self) -> int:
        """When the last transfer arrives, in picoseconds."""
        return self.end * self.net.unit

    def timed(self, start: Ints) -> Schedule:
        """The same routes with other starts."""
        later = replace(self, start=start)
        # These do not depend on the starts, and take long for many transfers.
        for name in ("moves", "travel"):
            if name in vars(self):
                vars(later)[name] = vars(self)[name]
        return later

    # --- everything as early, or as late, as it can be ----------------------------------------------------------------

    def moved_up(self) -> Schedule:
        """Start all transfers, in the order of their starts, as early as links and inputs let them.

        Nothing gets later: what comes before a transfer, on its link or as its input, has moved up as well.
        """
        return self.timed(self.replayed(self.start, self.moves)[0])

    def moved_down(self) -> Schedule:
        """Likewise backwards: the last to arrive first, as late as what follows lets it; the first starts at 0."""
        mirrored = -(self.start + self.travel)
        mirrored -= mirrored.min(initial=0)
        turned = self.moves._replace(sender=self.moves.receiver, receiver=self.moves.sender)
        late = self.replayed(mirrored, turned)[0] + self.travel
        return self.timed(late.max(initial=0) - late)

    def served_by(self, rank: Ints) -> Schedule:
        """Start all transfers as early as they can be: the lowest rank first, in the order of their starts.

        What waits for each other must have the same rank.
        """
        order = np.lexsort((self.start, rank))
        return self.timed(self._placed(order, self.moves)[0])

    def replayed(self, planned: Ints, moves: Moves) -> tuple[Ints, Ints, Ten]:
        """Starts as early as they can be in their planned order; when slots are ready; the TEN they leave."""
        return self._placed(sorted_order(planned), moves)

    def _placed(self, order: Ints, moves: Moves) -> tuple[Ints, Ints, Ten]:
        start = np.empty_like(self.start)
        ready = np.zeros(self.num_slots, np.int64)
        ten = Ten.empty(self.problem.topology, self.net)
        done = 0
        calls = Calls("timing transfers anew")
        while done < len(order):
            done = replay(self.net, ten.lanes, moves, order, start, ready, done)
            calls.came_to(done)
            if done < len(order):
                ten.grow_lanes()
        return start, ready, ten

    def exact(self) -> Schedule:
        """The schedule with exact times, everything moved up: undoes rounding to steps, and closes gaps."""
        problem = self.problem
        if not problem.topology.limited:
            return replace(self, net=problem.net).moved_up()
        # The order in which transfers come out of the timing, by chunk and start, is not that of the trees; but those
        # of a chunk over a link stay in the order of their starts.
        # Chunks are as large as planned here, too, so that times are whole units.
        moved = move_up(self._algorithm(problem.planned).transfers)
        chunk, link, planned, _ = self.columns()
        mine = np.lexsort((planned, link, chunk))
        theirs = np.lexsort((moved.start, moved.link, moved.chunk))
        start = np.empty(len(self), np.int64)
        start[mine] = moved.start[theirs] // self.net.unit
        return replace(self, start=start)

    # --- out of synthesis ---------------------------------------------------------------------------------------------

    def columns(self) -> tuple[Indices, Indices, Ints, Bools]:
        """Chunk, link, start in picoseconds, and whether it reduces, of every transfer, tree by tree."""
        reduce = np.zeros(len(self), np.bool_)
        reduce[self.rows(COLLECT)] = True
        return (
            self.of_transfers("chunk"),
            self.net.link[self.arc],
            self.start * self.net.unit,
            reduce,
        )

    def follows(self) -> Ints:
        """Per transfer: the one that brought the message it sends on, where a switch passes messages on; or -1."""
        topology = self.problem.topology
        sender = topology.src[self.net.link[self.arc]]
        receiver = topology.dst[self.net.link[self.arc]]
        follows = np.full(len(self), -1, np.int64)
        spreads = np.arange(len(self))[self.rows(SPREAD)]
        spreads = spreads[~topology.multicast[sender[spreads]]]
        follows[spreads] = self.moves.sender[spreads]
        collects = np.arange(len(self))[self.rows(COLLECT)]
        collects = collects[~topology.reduce[receiver[collects]]]
        follows[self.moves.receiver[collects]] = collects
        return follows

    def algorithm(
        self, provenance: Provenance | None = None, bound: Bound | None = None
    ) -> Algorithm:
        """The transfers by chunk, together with what they are for."""
        return self._algorithm(self.problem.conditions, provenance, bound)

    def _algorithm(
        self,
        conditions: Conditions,
        provenance: Provenance | None = None,
        bound: Bound | None = None,
    ) -> Algorithm:
        chunk, link, start, reduce = self.columns()
        problem = self.problem
        return Algorithm.build(
            problem.topology,
            problem.collectives,
            chunk,
            link,
            start,
            reduce,
            follows=self.follows() if problem.topology.plain else None,
            provenance=provenance,
            conditions=conditions,
            bound=bound,
        )
