"""Switches that hold few chunks, or that can do more than pass messages on: of several searches the best counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

import pccl
from pccl.formats.lowering.replay import lowered_time
from pccl.synthesis import switches
from pccl.synthesis.fitting import Fitting, with_switches
from pccl.synthesis.incumbent import WORTHWHILE
from pccl.synthesis.methods import METHODS
from pccl.synthesis.switches import play_within_limits
from pccl.topology import parse_topology
from tests.strategies import problems


@pytest.mark.parametrize("collective", [pccl.Broadcast("4MiB"), pccl.AllReduce("4MiB")])
def test_limits_that_never_bind_cost_nothing(collective):
    roomy = parse_topology("switch:4")
    limited = parse_topology("switch:4,buffer=1000")
    within = pccl.synthesize(limited, collective)
    without = pccl.synthesize(roomy, collective)
    assert within.topology == limited
    # Of two searches, the one that finds fewer chunks may take a little longer.
    fewer_chunks = within.collectives[0].pieces < without.collectives[0].pieces
    assert within.duration * (WORTHWHILE if fewer_chunks else 1) <= without.duration


def test_what_is_held_up_keeps_to_the_limits():
    roomy = parse_topology("switch:4,latency=0ns")
    limited = parse_topology("switch:4,latency=0ns,buffer=1")
    plan = pccl.synthesize(roomy, pccl.AllGather("4MB", chunks=1))
    held_up = play_within_limits(plan, limited)
    pccl.verify(held_up)
    # Twelve messages, one after the other, each over two links.
    assert held_up.duration == 12 * 2 * plan.transfers.transmission[0]


def test_chunks_that_block_each_other_are_not_taken():
    """Leaves that hold one chunk send it to each other by way of the spine: all are full, and nobody can move on."""
    roomy = parse_topology("leaf-spine:2x2x1")
    limited = parse_topology("leaf-spine:2x2x1,buffer=1")
    collective = pccl.AllToAll("4MiB", chunks=1)
    assert play_within_limits(pccl.synthesize(roomy, collective), limited) is None
    pccl.verify(pccl.synthesize(limited, collective))


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"mirrored"}))
def test_every_method_works_where_switches_hold_few_chunks(method):
    limited = parse_topology("leaf-spine:2x2x1,buffer=1")
    collective = pccl.AllToAll("4MiB") if method == "direct" else pccl.AllReduce("4MiB")
    plan = pccl.synthesize(limited, collective, method=method, effort="fast")
    assert plan.topology == limited
    pccl.verify(plan)


def test_neighbours_are_as_good_where_limits_never_bind():
    """A short collective need not wait for a long one that has time enough."""
    tasks = [pccl.AllGather("64MiB", group=range(4)), pccl.SendRecv("1MiB", (0, 1))]
    roomy = pccl.synthesize(parse_topology("switch:4"), *tasks)
    within = pccl.synthesize(parse_topology("switch:4,buffer=1000"), *tasks)
    ends = [[row.finish for row in pccl.each_collective(plan)] for plan in (roomy, within)]
    assert all(now <= before for before, now in zip(*ends, strict=True))


@pytest.mark.parametrize("able", ["multicast=yes", "reduce=yes", "multicast=yes,reduce=yes"])
@pytest.mark.parametrize("size", ["1KiB", "1MiB"])
def test_a_switch_that_can_do_more_is_never_slower(able, size):
    plain = pccl.synthesize(parse_topology("switch:4"), pccl.AllReduce(size))
    plan = pccl.synthesize(parse_topology(f"switch:4,{able}"), pccl.AllReduce(size))
    assert plan.duration <= plain.duration
    pccl.verify(plan)


def test_messages_pass_through_switches_that_need_not_add():
    """For next to no data, everybody sends all it has to everybody, and no sum is made on the way."""
    adds = parse_topology("switch:4,reduce=yes")
    plan = pccl.synthesize(adds, pccl.AllReduce("1KiB"))
    assert plan.topology.name == "switch:4, plain switches"
    assert replace(plan.topology, name="switch:4") == parse_topology("switch:4")
    assert plan.needs == ()
    assert "one-shot" in plan.provenance.method
    # The bound is that for a switch that may add.
    assert plan.bound.value <= pccl.lower_bound(adds, pccl.AllReduce("1KiB")).value


@settings(deadline=None, max_examples=30)
@given(problems(flags=True))
def test_the_bound_for_all_that_switches_can_do_holds_where_they_do_nothing(problem):
    topology, collectives = problem
    plain = with_switches(topology, multicast=False, reduce=False)
    bound = pccl.lower_bound(topology, *collectives)
    assert bound.value <= pccl.synthesize(plain, *collectives, effort="fast").duration


def test_all_runtimes_have_room_for_what_takes_no_longer_on_plain_switches():
    """Two groups of the same NPUs gain nothing from a switch that multiplies: there it is unknown what follows what."""
    tasks = [pccl.AllGather("1MiB"), pccl.AllGather("1MiB")]
    plan = pccl.synthesize(parse_topology("switch:4,multicast=yes"), *tasks)
    assert plan.needs == ()
    assert lowered_time(plan) == plan.duration


def test_more_chunks_must_gain_more_than_a_little():
    """Of the two searches, the one that knows no limits finds a little less with 16 chunks."""
    plan = pccl.synthesize(parse_topology("switch:4,buffer=4"), pccl.AllReduce("1MiB"))
    assert plan.collectives[0].pieces <= 2


@pytest.mark.parametrize("name", ["play_within_limits", "lower_bound"])
def test_what_was_found_survives_ctrl_c(monkeypatch, name):
    def enough(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(switches, name, enough)
    entries = []
    able = parse_topology("switch:4,buffer=2,multicast=yes,reduce=yes")
    found = pccl.synthesize(able, pccl.AllReduce("1KiB"), log=entries.append, effort="balanced")
    pccl.verify(found)
    assert entries[-1].interrupted
    assert entries[-1].best == found.duration


def test_ctrl_c_ends_all_searches(monkeypatch):
    """The second search is not begun where the first was interrupted."""
    begun = []

    class Interrupted(Fitting):
        def run(self):
            begun.append(self.topology.name)
            return replace(super().run(), interrupted=True)

    monkeypatch.setattr(switches, "Fitting", Interrupted)
    for name in ("switch:4,reduce=yes", "switch:4,buffer=2"):
        pccl.synthesize(parse_topology(name), pccl.AllReduce("1KiB"))
    assert begun == ["switch:4", "switch:4"]
