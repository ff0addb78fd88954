"""Timetables: when transfers start if each free link takes, of those that are ready, the one that matters most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from pccl._arrays import Floats, Ints, inverse, offsets_by_owner, sorted_order
from pccl.synthesis.schedule import COLLECT, SPREAD, Schedule
from pccl.synthesis.schedule_kernels import Moves
from pccl.synthesis.timetable_kernels import Queues, Waiting, serve_by_rank, weigh


class Rank(Enum):
    """Which of several ready transfers a free link takes."""

    MOST_FOLLOWERS = "most-followers"
    LONGEST_WAY = "longest-way"
    FIFO = "fifo"


def timed_by_place(schedule: Schedule, place: Ints) -> Schedule:
    """The same routes, timed so that each free link takes the ready transfer whose place comes first."""
    table = Timetable(schedule, schedule.moves, schedule.start)
    return schedule.timed(table.starts_by(place))


def timed_in_turn(schedule: Schedule, turn: Floats, leads: Sequence[float]) -> Schedule:
    """The same routes, both phases together, timed so that chunks take turns.

    `turn` says of every chunk when its turn comes. A transfer goes before the turn of its chunk by as many times the
    longest way that is still ahead of it as a lead says; of several leads the best is kept.
    """
    table = Timetable(schedule, schedule.moves, schedule.start)
    ahead = _ways_ahead(schedule)
    turns = turn[schedule.of_transfers("chunk")]
    timed = []
    for lead in leads:
        order = np.lexsort((-ahead, turns - lead * ahead))
        timed.append(schedule.timed(table.starts_by(inverse(order))))
    return min(timed, key=lambda one: one.end)


def _ways_ahead(schedule: Schedule) -> Ints:
    """Per transfer: how long the longest way takes from its receiver on; starts are not asked for."""
    tail, followers = np.zeros((2, schedule.num_slots), np.int64)
    rows = np.arange(len(schedule))
    # Trees are listed from their roots on: to collect, transfers take place the other way round.
    order = np.concatenate([rows[schedule.rows(COLLECT)][::-1], rows[schedule.rows(SPREAD)]])
    weigh(schedule.net, schedule.moves, order, tail, followers)
    return tail[schedule.moves.receiver]


@dataclass(frozen=True, eq=False)
class Timetable:
    """What ranks of transfers follow from: the schedule, or its mirror image."""

    schedule: Schedule
    moves: Moves
    start: Ints

    @cached_property
    def mirrored(self) -> Timetable:
        """The same seen backwards in time."""
        schedule = self.schedule
        start = schedule.end - self.start - schedule.travel
        moves = self.moves._replace(sender=self.moves.receiver, receiver=self.moves.sender)
        return Timetable(schedule, moves, start)

    def starts(self, rank: Rank) -> Ints:
        """Starts if each free link takes the ready transfer of the best rank."""
        return self.starts_by(self._rank(rank))

    def starts_by(self, place: Ints) -> Ints:
        """Starts if each free link takes the ready transfer whose place comes first; of no places, the first ready."""
        net = self.schedule.net
        moves = self.moves
        count = len(moves.arc)
        lanes = self.schedule.problem.topology.num_links
        queues = Queues(
            first=offsets_by_owner(net.lane[moves.arc], lanes),
            count=np.zeros(lanes, np.int64),
            rank=np.empty(count, np.int64),
            transfer=np.empty(count, np.int64),
            idle=np.ones(lanes, np.int64),
            touched=np.empty(count + lanes, np.int64),
        )
        heap = np.empty((count + lanes + 2, 3), np.int64)
        start = np.zeros(count, np.int64)
        waiting = self._waiting._replace(missing=self._waiting.missing.copy())
        serve_by_rank(net, moves, waiting, place, queues, heap, start)
        return start

    @cached_property
    def _waiting(self) -> Waiting:
        slots = self.schedule.num_slots
        followers = sorted_order(self.moves.sender)
        missing = np.bincount(self.moves.receiver, minlength=slots)
        return Waiting(offsets_by_owner(self.moves.sender, slots), followers, missing)

    @cached_property
    def _by_start(self) -> Ints:
        return sorted_order(self.start)

    @cached_property
    def _weights(self) -> tuple[Ints, Ints]:
        """Per transfer: how long the longest way on takes, and how many transfers follow."""
        tail, followers = np.zeros((2, self.schedule.num_slots), np.int64)
        weigh(self.schedule.net, self.moves, self._by_start, tail, followers)
        return tail[self.moves.receiver], followers[self.moves.receiver]

    def _rank(self, rank: Rank) -> Ints:
        """Per transfer: its place in the order in which links prefer them; empty for first come, first served."""
        if rank is Rank.FIFO:
            return np.empty(0, np.int64)
        tail, followers = self._weights
        most_important_last = [tail, followers]
        if rank is Rank.LONGEST_WAY:
            most_important_last.reverse()
        order = self._by_start
        for weight in most_important_last:
            order = sorted_order(-weight, order)
        return inverse(order)
