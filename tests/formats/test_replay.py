"""Plans as messages between NPUs: how long they take where switches only pass messages on."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pccl
from pccl.analysis.sizes import played_at
from pccl.formats.lowering import follow, lowered_time
from pccl.units import Picoseconds
from tests.algorithm.examples import LINE, US, network, schedule, star
from tests.strategies import problems, synthesized

slow_but_fine = settings(deadline=None, suppress_health_check=list(HealthCheck))


@settings(slow_but_fine, max_examples=100)
@given(problems())
def test_a_plan_whose_switches_only_pass_on_takes_no_longer(problem) -> None:
    algorithm = synthesized(problem)
    if not algorithm.needs:
        assert lowered_time(algorithm) <= algorithm.duration


def test_messages_wait_for_room_in_a_switch() -> None:
    """Twelve messages of 250 kB, two of them in the switch at a time: that takes longer than links alone would."""
    few = pccl.topology.switch(4, bandwidth="50GB/s", latency="0ns", buffer=2)
    plan = pccl.synthesize(few, pccl.AllGather("1MB", chunks=1))
    assert lowered_time(plan) == plan.duration
    assert plan.duration >= 6 * 5 * US
    played = played_at(plan, 10_000_000)
    assert lowered_time(played) == played.duration == 10 * plan.duration


@settings(slow_but_fine, max_examples=60)
@given(problems(), st.integers(0, 5000))
def test_with_data_of_another_size_it_takes_no_longer_either(problem, size: int) -> None:
    algorithm = synthesized(problem)
    if algorithm.needs or not all(one.has_one_size for one in algorithm.collectives):
        return
    sizes = [size * one.element for one in algorithm.collectives]
    played = played_at(algorithm, *sizes)
    assert lowered_time(played) <= played.duration


def test_what_a_switch_multiplies_enters_it_twice_at_any_size() -> None:
    hub = star(3, multicast=True)
    plan = schedule(hub, pccl.Broadcast("1kB"), (0, 0, 3, 0), (0, 3, 1, 1), (0, 3, 2, 1))
    for size, time in ((1000, 3 * US), (5000, 15 * US), (0, 0)):
        assert lowered_time(played_at(plan, size)) == Picoseconds(time)


def test_what_a_switch_multiplies_enters_it_twice() -> None:
    hub = star(3, multicast=True)
    plan = schedule(hub, pccl.Broadcast("1kB"), (0, 0, 3, 0), (0, 3, 1, 1), (0, 3, 2, 1))
    assert plan.needs == ("multicast",)
    assert plan.duration == 2 * US
    assert lowered_time(plan) == Picoseconds(3 * US)


def test_what_a_switch_adds_up_leaves_it_twice() -> None:
    hub = star(3, reduce=True)
    rows = [(0, 1, 3, 0, "add"), (0, 2, 3, 0, "add"), (0, 3, 0, 1, "add")]
    plan = schedule(hub, pccl.Reduce("1kB", root=0), *rows)
    assert plan.needs == ("reduce",)
    assert (plan.duration, lowered_time(plan)) == (2 * US, 3 * US)


def test_a_switch_that_could_but_need_not() -> None:
    hub = star(3, multicast=True, reduce=True)
    plan = schedule(hub, pccl.Broadcast("1kB", [0, 1]), (0, 0, 3, 0), (0, 3, 1, 1))
    assert plan.needs == ()
    assert lowered_time(plan) == plan.duration


def test_messages_of_a_batch_wait_for_each_other() -> None:
    """NPU 1 passes both chunks on when both are there."""
    rows = [(0, 0, 1, 0), (1, 0, 1, 1), (0, 1, 2, 1), (1, 1, 2, 2)]
    plan = schedule(LINE, pccl.Broadcast("2kB", [0, 2], chunks=2), *rows)
    sent = follow(plan)
    pairs = np.where(sent.src == 0, 0, 1)
    assert lowered_time(plan) == 3 * US
    assert lowered_time(plan, batch=pairs) == 4 * US


def test_messages_of_a_queue_do_not_overtake() -> None:
    """The second chunk has the shorter way, but is received behind the first, and sent on too late."""
    topology = network(3, (0, 1), (0, 3), (3, 1), (1, 2), switches=[pccl.topology.Switch("hub")])
    rows = [(0, 0, 3, 0), (0, 3, 1, 1), (1, 0, 1, 0.5), (1, 1, 2, 1.5), (0, 1, 2, 2.5)]
    plan = schedule(topology, pccl.Broadcast("2kB", [0, 2], chunks=2), *rows)
    assert lowered_time(plan) == 3 * US
    queue = np.where(follow(plan).src == 0, 0, 1)
    assert lowered_time(plan, queue=queue) == 4 * US


def test_of_several_collectives_one_counts() -> None:
    rows = [(0, 0, 1, 0), (0, 1, 2, 1), (1, 2, 1, 0)]
    plan = schedule(LINE, [pccl.Broadcast("1kB", [0, 2]), pccl.Broadcast("1kB", [2, 1])], *rows)
    assert lowered_time(plan) == 2 * US
    assert lowered_time(plan, 1) == US
