"""How long a plan takes with data of another size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl import PcclError
from pccl.analysis import time_at
from pccl.analysis.sweep import size_range
from pccl.collective import compile_conditions
from pccl.units import Bytes
from tests.strategies import problems, synthesized

RING = pccl.topology.ring(4, latency="0ns", bandwidth="1GB/s")


def played(algorithm: pccl.Algorithm, chunk_bytes: list[int]) -> list[int]:
    """Starts, one transfer after another: when the link is free, and all that was planned to be there has come in."""
    t = algorithm.transfers
    topology = algorithm.topology
    start = [0] * len(t)
    arrival = [0] * len(t)
    free = [0] * topology.num_links
    for row in sorted(range(len(t)), key=lambda row: (t.start[row], t.link[row])):
        if not chunk_bytes[t.chunk[row]]:
            continue
        link = t.link[row]
        brought = [
            arrival[other]
            for other in np.flatnonzero((t.chunk == t.chunk[row]) & (t.dst == t.src[row]))
            if t.arrival[other] <= t.start[row]
        ]
        start[row] = max([free[link], *brought])
        transmission = -(-chunk_bytes[t.chunk[row]] * 10**12 // int(topology.bandwidth[link]))
        arrival[row] = start[row] + int(topology.latency[link]) + transmission
        free[link] = start[row] + transmission + int(topology.overhead[link])
    return start


@given(problems(limits=False), st.lists(st.integers(1, 5000), min_size=3, max_size=3))
@settings(deadline=None, max_examples=60)
def test_it_is_the_plan_played_with_other_sizes(problem, sizes):
    """Against a slow twin, whose starts are a correct algorithm for these sizes."""
    algorithm = synthesized(problem)
    sized = []
    for collective, size in zip(algorithm.collectives, sizes, strict=False):
        if not collective.has_one_size:
            return
        sized.append(replace(collective, size=Bytes(size * collective.element)))
    conditions = compile_conditions(algorithm.topology, sized)
    # Where some chunks are empty they have no numbers; the examples below have such.
    if len(conditions) != len(algorithm.conditions):
        return
    start = played(algorithm, conditions.bytes.tolist())
    t = algorithm.transfers
    resized = pccl.Algorithm.build(algorithm.topology, sized, t.chunk, t.link, start, t.reduce)
    pccl.verify(resized)
    assert time_at(algorithm, *(int(one.size) for one in sized)) == resized.duration


@pytest.mark.parametrize("collective", [pccl.AllGather, pccl.AllReduce, pccl.AllToAll])
def test_without_latency_it_is_in_proportion(collective):
    plan = pccl.synthesize(RING, collective("4kB", chunks=2))
    assert time_at(plan) == plan.duration
    for times in (2, 16, 1000):
        assert time_at(plan, 4000 * times) == times * plan.duration
    assert time_at(plan, 8) * 500 == plan.duration


def test_data_much_smaller_than_planned_cost_latency_only():
    """A plan for a gigabyte at a kilobyte."""
    plan = pccl.synthesize(pccl.topology.ring(4), pccl.AllGather("1GiB", chunks=1), effort="fast")
    assert time_at(plan, 1024) == pytest.approx(2 * 500_000, rel=0.05)


def test_what_is_empty_is_not_sent():
    """One byte is the share of the first of four; it goes both ways round, for one and for two hops."""
    plan = pccl.synthesize(RING, pccl.AllGather("4kB", chunks=1))
    assert (time_at(plan, 1), time_at(plan, 0)) == (2000, 0)


def test_several_collectives_have_sizes_of_their_own():
    """Of two broadcasts over one link, the one that comes first holds up the other, unless it is empty."""
    line = pccl.topology.line(2, latency="0ns", bandwidth="1GB/s")
    first = pccl.Broadcast("1kB", chunks=1, priority=1)
    plan = pccl.synthesize(line, first, pccl.Broadcast("1kB", chunks=1))
    assert time_at(plan, 1000, 1000) == 2_000_000
    assert time_at(plan, 4000, 500) == 4_500_000
    assert time_at(plan, 0, 500) == 500_000


def test_elements_are_never_cut():
    """Of three elements of four bytes, two members send one more than the third of them."""
    plan = pccl.synthesize(RING, pccl.AllReduce("4kB", chunks=1))
    assert time_at(plan, 12, element=4) == 4 * time_at(plan, 3)
    assert time_at(plan, 12, element=4) > time_at(plan, 12)


def test_messages_that_switches_pass_on_stay_what_they_are():
    """With some chunks empty, those that are left still follow what brought them."""
    plan = pccl.synthesize(
        pccl.topology.parse_topology("h100:1"), pccl.AllToAll("64KiB", chunks=1), effort="fast"
    )
    assert plan.topology.plain
    assert 0 < time_at(plan, 5) < time_at(plan, 64) < plan.duration


@pytest.mark.parametrize(
    ("sizes", "element", "message"),
    [((1, 2), 1, "2 sizes for 1 collectives"), ((7,), 4, "7 bytes are not a whole number")],
)
def test_wrong_sizes(sizes, element, message):
    plan = pccl.synthesize(RING, pccl.AllGather("4kB", chunks=1))
    with pytest.raises(PcclError, match=message):
        time_at(plan, *sizes, element=element)


def test_sizes_that_would_never_come_to_the_last_are_refused():
    with pytest.raises(PcclError, match="at least twice the one before it, not 1 times"):
        size_range("1K:4K", step=1)
