"""Switches that hold few chunks: what knows no limits is held up where there is no room."""

from __future__ import annotations

import pytest

import pccl
from pccl.synthesis.methods import METHODS
from pccl.synthesis.switches import play_within_limits
from pccl.topology import parse_topology


@pytest.mark.parametrize("collective", [pccl.Broadcast("4MiB"), pccl.AllReduce("4MiB")])
def test_limits_that_never_bind_cost_nothing(collective):
    roomy = parse_topology("switch:4")
    limited = parse_topology("switch:4,buffer=1000")
    within = pccl.synthesize(limited, collective)
    assert within.topology == limited
    assert within.duration <= pccl.synthesize(roomy, collective).duration


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
