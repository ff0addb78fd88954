"""The table of transfers: phases, and moving everything up or down."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

import pccl
from pccl.synthesis.methods import EarliestArrival
from pccl.synthesis.schedule import COLLECT, SPREAD
from tests.algorithm.reference import is_correct
from tests.strategies import problems
from tests.synthesis.posing import pose

EVEN = {"bandwidth": "1GB/s", "latency": "0ns"}


def found_for(topology, *collectives):
    return EarliestArrival().find(pose(topology, *collectives))


def test_an_all_reduce_has_two_phases_of_trees():
    schedule = found_for(pccl.topology.ring(4, **EVEN), pccl.AllReduce("4kB", chunks=1))
    assert schedule.phases == [COLLECT, SPREAD]
    assert schedule.trees(COLLECT) == (0, 4)
    assert schedule.trees(SPREAD) == (4, 8)
    assert len(schedule) == 4 * 3 + 4 * 3, "each sum is collected from three and spread to three"
    collected = schedule.only(COLLECT)
    assert len(collected) == 12
    assert collected.end < schedule.end


def test_a_phase_takes_the_place_of_another():
    schedule = found_for(pccl.topology.ring(4, **EVEN), pccl.AllReduce("4kB", chunks=1))
    rows = schedule.rows(COLLECT)
    first = schedule.first[: schedule.trees(COLLECT)[1] + 1]
    same = schedule.with_phase(COLLECT, first, schedule.arc[rows], schedule.start[rows])
    assert same.algorithm() == schedule.algorithm()


@settings(max_examples=60, deadline=None)
@given(problems())
def test_whatever_is_found_is_correct_and_lasts_as_long_as_it_says(problem):
    topology, collectives = problem
    schedule = found_for(topology, *collectives)
    algorithm = schedule.algorithm()
    assert is_correct(algorithm)
    assert algorithm.duration <= schedule.duration


@settings(max_examples=60, deadline=None)
@given(problems(limits=False))
def test_up_and_down_again(problem):
    topology, collectives = problem
    schedule = found_for(topology, *collectives)
    late = schedule.moved_down()
    assert late.end <= schedule.end
    assert np.all(late.moved_up().start <= late.start)
