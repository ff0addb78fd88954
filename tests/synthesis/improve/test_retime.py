"""Re-timing: the rules by which links choose, against an obvious twin, and that nothing it does breaks an algorithm."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.synthesis.improve import retime
from pccl.synthesis.methods import EarliestArrival
from pccl.synthesis.schedule import SPREAD
from pccl.synthesis.timetable import Rank, Timetable
from tests.algorithm.reference import is_correct
from tests.strategies import problems
from tests.synthesis.posing import pose

some = settings(max_examples=60, deadline=None)


def found_for(problem):
    topology, collectives = problem
    return EarliestArrival().find(pose(topology, *collectives))


def served_by_hand(schedule, rank):
    """Each link, whenever it is free, takes the ready transfer of the least rank; one moment after another."""
    moves, net = schedule.moves, schedule.net
    count = len(moves.arc)
    missing = np.bincount(moves.receiver, minlength=schedule.num_slots)
    start = np.full(count, -1)
    free = dict.fromkeys(range(schedule.problem.topology.num_links), 0)
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
                heapq.heappush(arrivals, (now + schedule.travel[i], i))
        now = min(
            [time for time, _ in arrivals] + [time for time in free.values() if time > now],
            default=now,
        )
    return start


@some
@given(problems(limits=False, most=2), st.sampled_from([Rank.MOST_FOLLOWERS, Rank.LONGEST_WAY]))
def test_links_take_what_matters_most(problem, rank):
    schedule = found_for(problem)
    table = Timetable(schedule, schedule.moves, schedule.start)
    assert table.starts(rank).tolist() == served_by_hand(schedule, table._rank(rank)).tolist()


@some
@given(problems(limits=False))
def test_whatever_is_timed_anew_is_correct(problem):
    before = found_for(problem)
    moved = [before.moved_up(), before.moved_down(), retime.justified(before, 3)]
    assert max(schedule.end for schedule in moved) <= before.end, "moving never takes longer"
    timed = [retime.timed_by(before, timing) for timing in retime.BY_RANK]
    for schedule in (*moved, *timed):
        assert is_correct(schedule.algorithm())


@some
@given(problems(limits=False))
def test_re_timing_never_hurts(problem):
    schedule = found_for(problem)
    assert retime.retimed(schedule, 3, 0).duration <= schedule.duration


def test_justification_by_hand():
    """Two chunks over one link; the one that goes on is sent second at first, so that it is late at its end."""
    line = pccl.topology.line(3, bandwidth="1GB/s", latency="0ns")
    near = pccl.SendRecv("1kB", [0, 1], chunks=1)
    far = pccl.SendRecv("1kB", [0, 2], chunks=1)
    schedule = EarliestArrival().find(pose(line, near, far), {SPREAD: np.array([0, 1])})
    assert schedule.duration == 3_000_000
    assert retime.justified(schedule, 1).duration == 2_000_000
