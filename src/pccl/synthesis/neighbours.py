"""Collectives that are good neighbours: each done as early as it can be without delaying the others.

Collectives that are alike (the same kind, size and number of members, none in two of them unless they are many) form a
class, which is found and ordered as one.
What comes first is served first: a higher priority, then a short time beside its weight. So a short collective does not
wait for a long one that has time enough anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias

import numpy as np

from pccl._arrays import Bools, Ints, offsets_of, take_rows
from pccl.algorithm import Algorithm
from pccl.bounds import bound_of
from pccl.collective import Collective, compile_conditions
from pccl.synthesis.methods.messages import within_limits
from pccl.synthesis.problem import Problem
from pccl.synthesis.schedule import COLLECT, SPREAD, Schedule
from pccl.synthesis.zones import members_of
from pccl.topology import Topology

# Collectives, by their numbers, and what was found for them.
Part: TypeAlias = tuple[tuple[int, ...], Schedule]
# Durations that differ by no more than this share are the same to all but us.
SAME = 0.001
# Of collectives that are not alike: more of them are not confined one by one.
MOST_CLASSES = 4
# Of collectives that are alike, and share NPUs: more of them do not take turns, as each turn is timed anew.
MOST_TURNS = 8
# Those that are served last are looked for together where there are more of them.
MOST_ALONE = 12


@dataclass(frozen=True)
class Class:
    """Collectives that are alike, by their numbers; and how long they take at least, by themselves."""

    members: tuple[int, ...]
    priority: int
    weight: float
    alone: int  # picoseconds

    @property
    def rank(self) -> tuple[int, float]:
        """What is served first comes first."""
        return -self.priority, self.alone / self.weight


def classes_of(topology: Topology, collectives: Sequence[Collective]) -> list[Class]:
    """The classes of collectives on a network, in the order in which they are served."""
    families: dict[tuple[object, ...], list[list[int]]] = {}
    # How many of a family there have been of which an NPU is a member: it may as well take part in one after another.
    turns: dict[tuple[object, ...], int] = {}
    for number, one in enumerate(collectives):
        members = one.members(topology.npus).tolist()
        key = (one.kind, one.size, len(members), one.priority, one.weight)
        places = [(*key, npu) for npu in members]
        turn = max(turns.get(place, 0) for place in places)
        turns.update(dict.fromkeys(places, turn + 1))
        in_turn = families.setdefault(key, [])
        if turn == len(in_turn):
            in_turn.append([])
        in_turn[turn].append(number)
    alike: list[list[int]] = []
    for in_turn in families.values():
        alike += in_turn if len(in_turn) <= MOST_TURNS else [sorted(chain(*in_turn))]
    found = []
    for numbers in alike:
        one = collectives[numbers[0]]
        conditions = compile_conditions(topology, [one])
        bound = bound_of(topology, conditions, whole_chunks=True, quick=True)
        found.append(Class(tuple(numbers), one.priority, one.weight, int(bound.value)))
    return sorted(found, key=lambda one: one.rank)


def served_apart(classes: Sequence[Class]) -> list[tuple[int, ...]]:
    """The members of each class, in the order in which they are served; of many classes, those of the last as one."""
    parts = [one.members for one in classes[: MOST_ALONE - 1]]
    rest = [number for one in classes[MOST_ALONE - 1 :] for number in one.members]
    return [*parts, tuple(sorted(rest))] if rest else parts


def finishes(schedule: Schedule) -> Ints:
    """Per collective: when the last of its chunks arrives, in picoseconds."""
    collective = schedule.problem.conditions.collective[schedule.of_transfers("chunk")]
    end = np.zeros(len(schedule.problem.collectives), np.int64)
    np.maximum.at(end, collective, (schedule.start + schedule.travel) * schedule.net.unit)
    return end


def finishes_of(algorithm: Algorithm) -> Ints:
    """The same of an algorithm."""
    t = algorithm.transfers
    end = np.zeros(len(algorithm.collectives), np.int64)
    np.maximum.at(end, t.conditions.collective[t.chunk], t.arrival)
    return end


def lateness(ends: Ints, classes: Sequence[Class]) -> float:
    """How late collectives that finish then are in all, each beside what it takes at least, by their weights."""
    return float(
        sum(one.weight * ends[list(one.members)].sum() / max(one.alone, 1) for one in classes)
    )


def is_better(ends: Ints, other_ends: Ints, classes: Sequence[Class]) -> bool:
    """Whether it suits all collectives better to finish at these times than at others.

    What has a higher priority counts first; of the same priority, when the last is done, and then how late all are.
    """
    # Where all are alike, nobody gains by a later end.
    same = SAME if len(classes) > 1 else 0.0
    for priority in sorted({each.priority for each in classes}, reverse=True):
        numbers = [n for each in classes if each.priority == priority for n in each.members]
        end = int(ends[numbers].max())
        other_end = int(other_ends[numbers].max())
        if max(end, other_end) > (1 + same) * min(end, other_end):
            return end < other_end
    return lateness(ends, classes) < lateness(other_ends, classes)


def served_in_turn(schedule: Schedule, classes: Sequence[Class]) -> Schedule:
    """The same routes, with one class after another served first, as far as that delays nobody of higher rank.

    A class that would make all of it take longer waits until the others are served, unless its priority is higher.
    """
    if len(classes) < 2:
        return schedule
    limited = schedule.problem.topology.limited
    collective = schedule.problem.conditions.collective[schedule.of_transfers("chunk")]
    rank = np.full(len(schedule.problem.collectives), len(classes))
    best = schedule
    for number, one in enumerate(classes):
        before = rank.copy()
        rank[list(one.members)] = number
        tried = schedule.served_by(rank[collective])
        if limited:
            tried = within_limits(tried)
        if is_better(finishes(tried), finishes(best), classes):
            best = tried
        else:
            rank = before
    return best


def ways_to_confine(schedule: Schedule) -> Iterator[Bools]:
    """Which collectives to confine to their own NPUs: all through whose outsiders chunks go, or those of one class."""
    confined = schedule.problem.confined
    relaying = relays(schedule)
    if not np.any(relaying):
        return
    yield confined | relaying
    classes = classes_of(schedule.problem.topology, schedule.problem.collectives)
    if 1 < len(classes) <= MOST_CLASSES:
        for one in classes:
            chosen = np.zeros_like(relaying)
            chosen[list(one.members)] = relaying[list(one.members)]
            yield confined | chosen


def relays(schedule: Schedule) -> Bools:
    """Per collective: whether NPUs that do not take part in it relay its chunks."""
    problem = schedule.problem
    topology = problem.topology
    link = schedule.net.link[schedule.arc]
    collective = problem.conditions.collective[schedule.of_transfers("chunk")]
    found = np.zeros(len(problem.collectives), np.bool_)
    is_npu = np.zeros(topology.num_devices, np.bool_)
    is_npu[topology.npus] = True
    for number, one in enumerate(problem.collectives):
        outside = is_npu & ~members_of(topology, one)
        if np.any(outside):
            found[number] = np.any(outside[topology.dst[link[collective == number]]])
    return found


def side_by_side(problem: Problem, parts: Sequence[Part]) -> Schedule:
    """The schedule that parts make up, each found for some of the collectives of the problem as if it were alone.

    Links then serve one part after another, in the order given; a part fills the gaps that those before it leave.
    """
    first_chunk = offsets_of(np.bincount(problem.conditions.collective, minlength=1))
    longest = max((schedule for _, schedule in parts), key=lambda schedule: schedule.duration)
    roots = np.empty(len(problem.conditions), np.int32)
    for members, schedule in parts:
        roots[_chunks(schedule, members, first_chunk)] = schedule.roots
    jobs = problem.jobs_from(roots, steps=False)
    joined = Schedule.nothing(problem, jobs, longest.origin)
    number = np.zeros(len(problem.collectives), np.int64)
    for place, (members, _) in enumerate(parts):
        number[list(members)] = place
    for phase in (COLLECT, SPREAD):
        columns = [_trees(schedule, phase, members, first_chunk) for members, schedule in parts]
        chunk = np.concatenate([column[0] for column in columns])
        width = np.concatenate([column[1] for column in columns])
        arc = np.concatenate([column[2] for column in columns])
        start = np.concatenate([column[3] for column in columns]) // joined.net.unit
        order = np.argsort(chunk, kind="stable")
        first, rows = take_rows(offsets_of(width), np.arange(len(arc)), order)
        joined = joined.with_phase(phase, first, arc[rows].astype(np.int32), start[rows])
    work = sum(schedule.work for _, schedule in parts)
    collective = problem.conditions.collective[joined.of_transfers("chunk")]
    return replace(joined.served_by(number[collective]), work=work)


def _trees(
    schedule: Schedule, phase: int, members: Sequence[int], first_chunk: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """The trees of one phase of a part: chunk in the whole problem, width; arcs and starts in picoseconds."""
    low, high = schedule.trees(phase)
    rows = schedule.rows(phase)
    chunk = _chunks(schedule, members, first_chunk)[schedule.of_trees("chunk")[low:high]]
    width = np.diff(schedule.first[low : high + 1])
    return (
        chunk,
        width,
        schedule.arc[rows].astype(np.int64),
        schedule.start[rows] * schedule.net.unit,
    )


def _chunks(schedule: Schedule, members: Sequence[int], first_chunk: Ints) -> Ints:
    """Per chunk of a part: which one it is in the whole problem."""
    collective = schedule.problem.conditions.collective
    own_first = offsets_of(np.bincount(collective, minlength=1))
    place = np.arange(len(collective)) - own_first[collective]
    chunk: Ints = place + first_chunk[np.array(members)[collective]]
    return chunk


def cut_like(collectives: Sequence[Collective], parts: Sequence[Part]) -> tuple[Collective, ...]:
    """The collectives, each cut into as many chunks as its part found best."""
    made = list(collectives)
    for members, schedule in parts:
        for number, one in zip(members, schedule.problem.collectives, strict=True):
            made[number] = one
    return tuple(made)
