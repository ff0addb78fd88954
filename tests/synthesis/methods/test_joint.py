"""Joint: where trees begin, what links carry, and that chunks are spread while others are still collected."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.synthesis.methods import Joint
from pccl.synthesis.schedule import COLLECT, SPREAD
from tests.algorithm.reference import is_correct
from tests.strategies import problems
from tests.synthesis.posing import pose

EVEN = {"bandwidth": "1GB/s", "latency": "0ns"}
STEP = 1_000_000  # a chunk of 1 kB over a link of 1 GB/s


def planned(topology, *collectives, **knobs):
    return Joint(**knobs).find(pose(topology, *collectives))


def loads(schedule):
    """Per link: how many transfers it carries."""
    links = schedule.problem.topology.num_links
    return np.bincount(schedule.net.link[schedule.arc], minlength=links)


def test_a_switch_that_adds_and_multiplies_is_the_root():
    """Everything goes up once and down once, and the second chunk goes up while the first comes down."""
    able = pccl.topology.switch(4, multicast=True, reduce=True, **EVEN)
    schedule = planned(able, pccl.AllReduce("4kB", chunks=1))
    assert schedule.roots.tolist() == able.switches.tolist() * 4
    assert set(loads(schedule)) == {4}
    assert schedule.duration == 5 * STEP


def test_switches_that_add_are_used_for_what_they_are_worth():
    """Rails add and multiply: each carries an eighth of the data from every box once up and once down, and is busy."""
    boxes = pccl.topology.parse_topology("h100:4,nvls=yes,sharp=yes")
    schedule = planned(boxes, pccl.AllReduce("256MB", chunks=8))
    rails = np.flatnonzero(boxes.bandwidth == boxes.bandwidth.min())
    assert set(loads(schedule)[rails]) == {32}, "of 256 chunks"
    assert schedule.duration <= 1.05 * schedule.problem.quick_bound.value


def test_a_switch_that_passes_messages_on_is_no_root():
    plain = pccl.topology.switch(4, **EVEN)
    schedule = planned(plain, pccl.AllReduce("4kB", chunks=1))
    assert sorted(schedule.roots) == [0, 1, 2, 3], "each NPU in turn"
    assert loads(schedule).mean() == 6, "of each sum 3 messages to collect it and 3 to spread it"
    assert loads(schedule).max() <= 7


def test_roots_are_in_the_middle_unless_they_may_be_elsewhere():
    line = pccl.topology.mesh(5, **EVEN)
    sums = pccl.AllReduce("5kB", chunks=1)
    assert set(planned(line, sums, reach=1.0).roots) == {2}
    assert set(planned(line, sums, reach=1.5).roots) == {1, 2, 3}
    assert set(planned(line, sums, reach=2.0).roots) == {0, 1, 2, 3, 4}


def test_both_phases_share_the_load_of_a_link():
    """On average a link of the 8x8 mesh carries 144 chunks of 256 that are each sent 126 times."""
    mesh = pccl.topology.mesh(8, 8, **EVEN)
    schedule = planned(mesh, pccl.AllReduce("256kB", chunks=4))
    assert loads(schedule).mean() == 144
    assert loads(schedule).max() <= 148
    collected = schedule.only(COLLECT)
    assert loads(collected).max() > 1.5 * loads(collected).mean(), "only the sum is balanced"


def test_early_chunks_are_spread_while_late_ones_are_collected():
    mesh = pccl.topology.mesh(4, 4, **EVEN)
    schedule = planned(mesh, pccl.AllReduce("128kB", chunks=8))
    first_spread = schedule.start[schedule.rows(SPREAD)].min()
    last_collected = schedule.start[schedule.rows(COLLECT)].max()
    assert first_spread < schedule.end / 4
    assert last_collected > schedule.end * 3 / 4


def test_slow_links_carry_a_sum_once_each_way():
    """Two boxes of 8, joined by one slow link each way: all of 1 MB must cross it, and no more does."""
    machine = pccl.topology.parse_topology("ndv2:2")
    schedule = planned(machine, pccl.AllReduce("1MB", chunks=1))
    slowest = np.flatnonzero(machine.bandwidth == machine.bandwidth.min())
    between = slowest[np.isin(machine.dst[slowest], machine.npus)]
    assert loads(schedule)[between].sum() == 2 * 16


def test_a_sum_for_one_and_a_chunk_for_all_are_planned_together():
    """In one group sums are scattered, in the other chunks are gathered, over the same links."""
    mesh = pccl.topology.mesh(4, 4, **EVEN)
    schedule = planned(
        mesh,
        pccl.ReduceScatter("32kB", range(8), chunks=4),
        pccl.AllGather("32kB", range(8, 16), chunks=4),
    )
    assert schedule.roots.tolist() == np.repeat(np.arange(16), 4).tolist()
    pccl.verify(schedule.algorithm())


def test_another_seed_is_another_plan():
    mesh = pccl.topology.mesh(4, 4, **EVEN)
    sums = pccl.AllReduce("16kB", chunks=1)
    again = [planned(mesh, sums, seed=seed).roots.tolist() for seed in (1, 1, 2)]
    assert again[0] == again[1] != again[2]


@settings(max_examples=100, deadline=None)
@given(problems(limits=False, flags=True), st.sampled_from([0.0, 0.3]), st.sampled_from([1.0, 3.0]))
def test_whatever_is_planned_is_correct(problem, urgency, reach):
    topology, collectives = problem
    algorithm = planned(topology, *collectives, urgency=urgency, reach=reach).algorithm()
    pccl.verify(algorithm)
    assert is_correct(algorithm)


def test_finite_buffers_hold_up_what_it_finds():
    few = pccl.topology.switch(4, buffer=2, **EVEN)
    plan = pccl.synthesize(few, pccl.AllReduce("4kB"), method="joint")
    pccl.verify(plan)
    assert "joint" in plan.provenance.method
