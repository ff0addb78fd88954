"""Schemes that others run: taken where they are faster than what a search finds, and where they may be."""

from __future__ import annotations

from dataclasses import replace

import pytest

import pccl
from pccl.bounds import lower_bound
from pccl.schemes import SCHEMES
from pccl.settings import Settings
from pccl.synthesis import known
from pccl.synthesis.known import Schemes, beats_trees, relays_of
from pccl.synthesis.search import Search
from pccl.topology import parse_topology

DGX1 = parse_topology("dgx1")
LINE = pccl.topology.line(4, bandwidth="1GB/s", latency="0ns")


def searched(topology, *collectives, duration=2**60, **settings):
    """The schemes beside a quick search, of which we say that it took so long, and what it has found."""
    search = Search.of(topology, collectives, Settings(**settings), lambda *_: None, None)
    search.run()
    bound = lower_bound(topology, *collectives, quick=True)
    return Schemes.of(search, bound, duration), search.incumbent.best.algorithm()


def schemes(topology, *collectives, **asked):
    """The names of schemes that are faster, each than the one before it."""
    beside, found = searched(topology, *collectives, **asked)
    names = []
    for one in beside.faster(found):
        names.append(one.scheme.name)
        beside.duration = int(one.algorithm.duration)
    return names


def test_a_faster_scheme_is_taken_and_named():
    """Six rings through the box leave no link idle; what we find with few chunks is within 2 %, but not as good."""
    found = pccl.synthesize(DGX1, pccl.AllGather("64MiB"))
    ring = pccl.baseline("nccl-ring", DGX1, pccl.AllGather("64MiB"))
    assert found.duration <= ring.duration
    assert found.provenance.method == "balanced: nccl-ring"
    assert found.bound is not None
    assert found.bound.value <= found.duration


def test_the_log_names_it():
    lines = []
    pccl.synthesize(DGX1, pccl.AllGather("64MiB"), log=lines.append)
    assert lines[-1].method == "nccl-ring"
    assert lines[-1].best < lines[-2].best


def test_schemes_get_faster_and_faster():
    names = schemes(DGX1, pccl.AllGather("8MB", chunks=1), duration=2**60)
    times = [pccl.baseline(name, DGX1, pccl.AllGather("8MB", chunks=1)).duration for name in names]
    assert len(times) > 1
    assert times == sorted(set(times), reverse=True)


def test_each_is_tried_once_with_each_number_of_chunks():
    """Also if nobody takes it: with the chunks of another plan there are others to try."""
    beside, found = searched(LINE, pccl.AllGather("4kB"))
    assert list(beside.faster(found))
    assert not list(beside.faster(found))
    cut = pccl.baseline("ring", LINE, pccl.AllGather("4kB", chunks=found.collectives[0].pieces + 1))
    again = list(beside.faster(cut))
    assert again
    assert {one.algorithm.collectives for one in again} == {cut.collectives}


def test_nothing_is_tried_that_the_bound_excludes():
    collective = pccl.AllGather("4kB", chunks=1)
    bound = lower_bound(LINE, collective, quick=True)
    assert not schemes(LINE, collective, duration=int(bound.value))
    assert schemes(LINE, collective, duration=int(bound.value) + 10**9)


@pytest.mark.parametrize(
    "asked",
    [{"effort": "fast"}, {"method": "flooding"}, {"order": "rounds"}, {"routes": "minimal"}],
)
def test_whoever_asks_for_something_else_gets_it(asked):
    assert not schemes(LINE, pccl.AllGather("4kB", chunks=1), **asked)


def test_what_cannot_be_timed_in_a_share_of_the_effort_is_not_tried(monkeypatch):
    monkeypatch.setattr(known, "FEWEST_TRANSFERS", 0)
    monkeypatch.setattr(known, "SHARE_OF_SCHEMES", 0.0)
    assert not schemes(LINE, pccl.AllGather("4kB", chunks=1))


def test_a_scheme_does_not_hold_up_what_has_a_higher_priority():
    """NCCL's rings take less for both; but the one of a higher priority would be done later."""
    switch = parse_topology("switch:4")
    urgent = pccl.AllReduce("4MiB", priority=1)
    both = pccl.synthesize(switch, pccl.AllGather("1MiB"), urgent)
    rings = pccl.baseline("nccl-ring", switch, *both.collectives)
    ends = [pccl.each_collective(plan)[1].finish for plan in (both, rings)]
    assert ends[0] < ends[1]


def test_outsiders_relay_only_for_those_who_are_not_confined():
    ring = pccl.topology.ring(6, bandwidth="1GB/s", latency="0ns")
    collective = pccl.AllGather("3kB", group=(0, 1, 3), chunks=1)
    direct = pccl.baseline("direct", ring, collective)
    assert relays_of(direct) == [0]
    assert schemes(ring, collective)
    line = pccl.AllGather("3kB", group=(0, 1, 2), chunks=1)
    assert relays_of(pccl.baseline("direct", ring, line)) == []
    assert schemes(ring, replace(line, confined=True))


def test_a_runtime_judges_schemes_by_its_own_time():
    found = pccl.synthesize(DGX1, pccl.AllGather("64MiB"), target="mscclpp")
    ring = pccl.baseline("nccl-ring", DGX1, pccl.AllGather("64MiB"))
    assert found.provenance.method.startswith("balanced for mscclpp: ")
    assert pccl.targets.TARGETS["mscclpp"].time_of(found) <= ring.duration


@pytest.mark.parametrize("size", ["1KiB", "256KiB", "64MiB"])
@pytest.mark.parametrize("machine", ["dgx1", "torus:4x4", "switch:8"])
@pytest.mark.parametrize("kind", [pccl.AllGather, pccl.AllToAll, pccl.ReduceScatter])
def test_ours_is_never_slower_than_a_baseline(kind, machine, size):
    topology = parse_topology(machine)
    ours = pccl.synthesize(topology, kind(size))
    names = [scheme.name for scheme in SCHEMES if scheme.name != "direct-ascending"]
    best = pccl.compare(ours, names, bound=False).best_baseline
    assert best is not None
    assert ours.duration <= best.duration


def test_what_takes_least_is_tried_first():
    """Schemes with few chunks come before any with many, so that these leave something to try the others with."""
    tries = known._tries([pccl.AllReduce("64KiB")], [pccl.AllReduce("64KiB", chunks=4)])
    at_once = [parts[0].pieces for scheme, parts in tries if not scheme.pipelined]
    assert at_once == sorted(at_once)
    assert {parts[0].whole for scheme, parts in tries if scheme.exchanges} == {False, True}


@pytest.mark.parametrize(
    ("collective", "is_beaten"),
    [
        # Everyone is next to everyone: once through the switch, and not there and back again.
        (pccl.AllReduce("1KiB"), True),
        (pccl.AllReduce("1GB"), False),
        (pccl.ReduceScatter("1KiB"), False),
    ],
)
def test_exchanges_may_beat_all_trees(collective, is_beaten):
    search = Search.of(parse_topology("switch:8"), [collective], Settings(), lambda *_: None, None)
    assert beats_trees(search) == is_beaten


def test_a_search_that_is_beaten_tries_one_thing():
    search = Search.of(DGX1, [pccl.AllReduce("64KiB")], Settings(), lambda *_: None, None)
    search.is_beaten = True
    search.run()
    assert len(search.tried) == 1
