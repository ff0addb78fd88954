"""Planned routes within finite buffers, message by message."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl import Link, Topology
from pccl.synthesis.improve import retimed
from pccl.synthesis.methods import EarliestArrival, Flooding
from pccl.synthesis.methods.messages import within_limits
from pccl.topology import Switch
from tests.algorithm.reference import is_correct
from tests.strategies import problems
from tests.synthesis.posing import pose

EVEN = {"bandwidth": "1GB/s", "latency": "0ns"}


def check(schedule):
    algorithm = schedule.algorithm()
    pccl.verify(algorithm)
    assert is_correct(algorithm)


def test_a_plan_without_regard_to_buffers_is_placed_within_them():
    """All four send at once; through one place they take turns, and each of twelve messages takes two hops of 1 us."""
    gather = pccl.AllGather("4kB", chunks=1)
    free = Flooding(in_turn=True).find(pose(pccl.topology.switch(4, **EVEN), gather))
    crowded = Flooding(in_turn=True).find(pose(pccl.topology.switch(4, buffer=1, **EVEN), gather))
    assert free.duration == 4_000_000
    assert crowded.duration == 24_000_000
    check(crowded)


@pytest.mark.parametrize("places", [1, 2, 3])
def test_places_are_all_used(places):
    """Two hops of 1 us for each of twelve messages: the time that places are taken, if none is ever free."""
    problem = pose(pccl.topology.switch(4, buffer=places, **EVEN), pccl.AllGather("4kB", chunks=1))
    found = Flooding(in_turn=True).find(problem)
    check(found)
    assert found.duration >= 24_000_000 // places
    assert found.duration <= 1.5 * 24_000_000 / places


@settings(max_examples=60, deadline=None)
@given(problems(flags=True, most=2), st.booleans())
def test_whatever_is_placed_is_correct(problem, floods):
    topology, collectives = problem
    method = Flooding(in_turn=True) if floods else EarliestArrival()
    schedule = method.find(pose(topology, *collectives))
    check(schedule)
    check(within_limits(schedule))
    again = retimed(schedule, passes=2, enough=0)
    check(again)
    assert again.duration <= schedule.duration


@pytest.mark.parametrize("kind", [pccl.AllGather, pccl.ReduceScatter, pccl.AllReduce])
@pytest.mark.parametrize("multicast", [True, False])
@pytest.mark.parametrize("reduce", [True, False])
def test_switches_that_can_do_more_stand_beside_some_that_cannot(kind, multicast, reduce):
    """A chunk that grows branch by branch may stay in a finite buffer for as long as it is sent on from there."""
    links = []
    for npu in range(4):
        links += [Link(npu, 4, "1GB/s", "0ns"), Link(4, npu, "1GB/s", "0ns")]
    links += [Link(0, 5, "1GB/s", "0ns"), Link(5, 1, "1GB/s", "0ns")]
    switches = [Switch("crowded", 1, multicast, reduce), Switch("plain")]
    topology = Topology.from_links(4, links, switches)
    check(EarliestArrival().find(pose(topology, kind("12kB", chunks=3))))
    check(Flooding().find(pose(topology, kind("12kB", chunks=3))))
