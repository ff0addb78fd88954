"""One clock for a call: what counts as its time, and when it is over."""

from __future__ import annotations

import time

import pytest
from numba.core import event

import pccl
from pccl.settings import Settings
from pccl.synthesis.budget import clock_of
from pccl.synthesis.clock import Clock, Moment
from pccl.synthesis.methods import EarliestArrival

COMPILE = "numba:compile"


@pytest.fixture
def hands(monkeypatch):
    """Both clocks of the machine, which stand still unless they are moved."""
    hands = {"wall": 100.0, "processor": 50.0}
    monkeypatch.setattr(time, "perf_counter", lambda: hands["wall"])
    monkeypatch.setattr(time, "process_time", lambda: hands["processor"])
    return hands


def test_compiling_does_not_count(hands):
    clock = Clock(limit=5.0)
    with clock.running():
        hands["wall"] += 1
        with event.trigger_event(COMPILE):
            hands["wall"] += 60
            # A kernel that the first one calls.
            with event.trigger_event(COMPILE):
                hands["wall"] += 30
            assert clock.now() == 1
        hands["wall"] += 2
    assert clock.now() == 3
    assert not clock.is_past(5.0)
    assert not clock.is_cut_short


def test_whoever_is_stopped_makes_it_known(hands):
    clock = Clock(limit=5.0)
    hands["wall"] += 6
    assert clock.is_past(5.0)
    assert clock.is_cut_short


def test_what_we_promise_counts_while_the_processor_is_ours(hands):
    """On a machine with other things to do, a search takes longer, and finds the same."""
    asked = clock_of(Settings(time_limit=20.0), npus=8)
    promised = clock_of(Settings(), npus=8)
    hands["wall"] += 60
    hands["processor"] += 15
    assert asked.now() == asked.elapsed == promised.elapsed == 60
    assert promised.now() == 15
    assert asked.is_past(asked.limit)
    assert not promised.is_past(promised.limit)


def test_two_threads_take_no_time_twice(hands):
    clock = clock_of(Settings(), npus=8)
    hands["wall"] += 10
    hands["processor"] += 19
    assert clock.now() == 10


@pytest.mark.parametrize(
    ("effort", "npus", "wait"),
    [
        ("balanced", 64, 20.0),
        ("balanced", 65, 60.0),
        ("balanced", 1024, 120.0),
        ("balanced", 5000, 120.0),
        ("thorough", 2, 200.0),
        ("fast", 64, None),
    ],
)
def test_how_long_one_waits(effort, npus, wait):
    assert clock_of(Settings(effort=effort), npus).limit == wait


def test_a_bound_has_time_even_if_there_is_none(hands):
    clock = Clock(limit=10.0)
    assert clock.time_for_bound == 10.0
    hands["wall"] += 10
    assert clock.time_for_bound == pytest.approx(0.8)
    # A first pass that is never cut short may have taken far longer than the limit.
    hands["wall"] += 40
    assert clock.time_for_bound == pytest.approx(10.0)
    assert clock.time_left == 0


def test_cold_kernels_leave_a_limit_as_it_is(monkeypatch):
    """As if each attempt compiled for longer than there is time."""
    find = EarliestArrival.find

    def compiling(*given):
        with event.trigger_event(COMPILE):
            time.sleep(0.5)
        return find(*given)

    ring = pccl.topology.ring(8)
    task = pccl.AllToAll("1MiB")
    warm = pccl.synthesize(ring, task)
    monkeypatch.setattr(EarliestArrival, "find", compiling)
    cold = pccl.synthesize(ring, task, time_limit=5 * warm.provenance.seconds + 1)
    assert not cold.provenance.cut_short
    assert cold == warm


def test_moments_are_differences():
    assert Moment(5.0, 3.0).since(Moment(1.0, 1.0)) == Moment(4.0, 2.0)
