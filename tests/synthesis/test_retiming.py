"""Re-timing: the rules by which links choose, against an obvious twin, and that nothing it does breaks an algorithm."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.collective import compile_conditions
from pccl.synthesis.methods import Method, assembled, attempt, polished
from pccl.synthesis.problem import Problem
from pccl.synthesis.retiming import RANKS, Timetable
from tests.algorithm.reference import is_correct
from tests.strategies import problems

some = settings(max_examples=60, deadline=None)


def solved(problem):
    topology, collectives = problem
    posed = Problem(topology, compile_conditions(topology, collectives), 0, lambda *_: None)
    return posed, attempt(posed, Method("earliest-arrival"))


def table_of(posed, solution):
    return Timetable.of(posed.topology, solution.net, solution.parts, len(posed.conditions))


def served_by_hand(table, rank):
    """Each link, whenever it is free, takes the ready transfer of the least rank; one moment after another."""
    moves, net = table.moves, table.net
    count = len(moves.arc)
    missing = np.bincount(moves.receiver, minlength=count + table.chunks)
    start = np.full(count, -1)
    free = dict.fromkeys(range(table.topology.num_links), 0)
    arrivals, now = [], 0
    while np.any(start < 0):
        while arrivals and arrivals[0][0] <= now:
            missing[moves.receiver[heapq.heappop(arrivals)[1]]] -= 1
        for lane in free:
            ready = [i for i in range(count) if start[i] < 0 and net.lane[moves.arc[i]] == lane]
            ready = [i for i in ready if missing[moves.sender[i]] == 0]
            if free[lane] <= now and ready:
                i = min(ready, key=lambda i: rank[i])
                start[i] = now
                free[lane] = now + net.hold[moves.size[i], net.kind[moves.arc[i]]]
                heapq.heappush(arrivals, (now + table.travel[i], i))
        now = min(
            [time for time, _ in arrivals] + [time for time in free.values() if time > now],
            default=now,
        )
    return start


@some
@given(problems(limits=False, most=2), st.sampled_from(RANKS[:2]))
def test_links_take_what_matters_most(problem, name):
    table = table_of(*solved(problem))
    assert table.by_rank(name).tolist() == served_by_hand(table, table._rank(name)).tolist()


@some
@given(problems(limits=False))
def test_whatever_is_timed_anew_is_correct(problem):
    posed, solution = solved(problem)
    table = table_of(posed, solution)
    before = table.moves.start
    starts = [table.moved_up(before), table.moved_down(before), table.justified(before, 3)]
    starts += [time(rank) for rank in RANKS for time in (table.by_rank, table.by_rank_backwards)]
    assert max(table.end(start) for start in starts[:3]) <= table.end(before), (
        "moving never takes longer"
    )
    for start in starts:
        parts = table.parts(solution.parts, start)
        columns = assembled(Solved(solution, parts), len(posed.conditions))
        assert is_correct(pccl.Algorithm.build(posed.topology, problem[1], *columns))


class Solved:
    """A solution with other parts."""

    def __init__(self, solution, parts):
        self.net, self.parts, self.columns = solution.net, parts, None

    def __len__(self):
        return sum(len(part.placed) for part in self.parts)


@some
@given(problems(limits=False))
def test_polish_never_hurts(problem):
    posed, solution = solved(problem)
    assert polished(posed, solution, 3, 0).duration <= solution.duration


def test_justification_by_hand():
    """Two chunks over one link; the one that goes on is sent second at first, so that it is late at its end."""
    line = pccl.topology.line(3, bandwidth="1GB/s", latency="0ns")
    near, far = pccl.SendRecv("1kB", [0, 1], chunks=1), pccl.SendRecv("1kB", [0, 2], chunks=1)
    posed = Problem(line, compile_conditions(line, [near, far]), 0, lambda *_: None)
    solution = attempt(posed, Method("earliest-arrival", order="rounds"), {False: np.array([0, 1])})
    table = table_of(posed, solution)
    assert table.end(table.moves.start) * solution.net.unit == 3_000_000
    assert table.end(table.justified(table.moves.start, 1)) * solution.net.unit == 2_000_000
