"""Flooding: over links, and over ways through switches that pass messages on one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.network import network
from pccl.synthesis.methods import Flooding
from pccl.synthesis.methods.ways import find_ways, keeping
from tests.algorithm.reference import is_correct
from tests.strategies import networks, problems
from tests.synthesis.posing import pose

EVEN = {"bandwidth": "1GB/s", "latency": "0ns"}


def flooded(topology, *collectives, in_turn=True):
    return Flooding(in_turn=in_turn).find(pose(topology, *collectives))


@pytest.mark.parametrize("npus", [3, 4, 8])
@pytest.mark.parametrize("kind", [pccl.AllGather, pccl.ReduceScatter])
def test_through_a_plain_switch_everybody_sends_to_everybody(npus, kind):
    """One chunk of 1 us to each of the others, one after another, and one more hop for the last."""
    schedule = flooded(pccl.topology.switch(npus, **EVEN), kind(f"{npus}kB", chunks=1))
    assert len(schedule) == 2 * npus * (npus - 1)
    assert schedule.duration == npus * 1_000_000


def test_a_switch_that_multiplies_gets_every_chunk_once():
    multicast = pccl.topology.switch(4, multicast=True, **EVEN)
    schedule = flooded(multicast, pccl.AllGather("4kB", chunks=1))
    assert len(schedule) == 4 + 4 * 3


def test_what_cannot_multiply_may_still_add():
    """Sums are collected in the switch, 1 up and 1 down for each; then each NPU sends to the others."""
    adds = pccl.topology.switch(4, reduce=True, **EVEN)
    schedule = flooded(adds, pccl.AllReduce("4kB", chunks=1))
    assert len(schedule) == 4 * (3 + 1) + 4 * 3 * 2
    pccl.verify(schedule.algorithm())


def test_all_spines_are_used():
    """Each of two spines takes half of what one leaf sends to the other."""
    narrow = pccl.topology.leaf_spine(2, 1, 2, bandwidth=("2GB/s", "1GB/s"), latency="0ns")
    schedule = flooded(narrow, pccl.AllGather("8kB", chunks=4))
    receivers = narrow.dst[schedule.net.link[schedule.arc]]
    assert np.bincount(receivers)[-2:].tolist() == [4, 4]


@settings(max_examples=80, deadline=None)
@given(problems(limits=False, flags=True), st.booleans())
def test_whatever_is_flooded_is_correct(problem, in_turn):
    topology, collectives = problem
    algorithm = flooded(topology, *collectives, in_turn=in_turn).algorithm()
    pccl.verify(algorithm)
    assert is_correct(algorithm)


# --- ways ------------------------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(networks(flags=True))
def test_ways_are_the_shortest_through_switches_that_keep_nothing(topology):
    net = network(topology, np.array([1000]))
    ways = find_ways(net)
    found = {}
    for way in range(len(ways.src)):
        arcs = ways.arc[ways.begin[way] : ways.begin[way + 1]].tolist()
        ends = (int(ways.src[way]), int(ways.dst[way]))
        assert (net.src[arcs[0]], net.dst[arcs[-1]]) == ends
        assert ways.first[ends[0]] <= way < ways.first[ends[0] + 1]
        found.setdefault(ends, []).append(tuple(arcs))
    for ends, expected in all_ways(net).items():
        shortest = min(length for length, _ in expected)
        direct = {arcs for _, arcs in expected if len(arcs) == 1}
        fastest = min((length for length, arcs in expected if len(arcs) == 1), default=None)
        through = {arcs for length, arcs in expected if length == shortest} - direct
        got = set(found.pop(ends))
        assert direct <= got
        assert len(got) == len(direct) + len(got & through)
        if through and (fastest is None or shortest <= fastest):
            assert got & through
    assert not found


def all_ways(net):
    """Every way from one device that keeps chunks to another, with its length; slow and obvious."""
    keeps = keeping(net)
    ways = {}

    def go_on(source, device, length, arcs, seen):
        for arc in range(net.first[device], net.first[device + 1]):
            receiver = int(net.dst[arc])
            if receiver in seen:
                continue
            there = length + int(net.travel[0, net.kind[arc]])
            if keeps[receiver]:
                ways.setdefault((source, receiver), []).append((there, (*arcs, arc)))
            else:
                go_on(source, receiver, there, (*arcs, arc), {*seen, receiver})

    for source in np.flatnonzero(keeps).tolist():
        go_on(source, source, 0, (), {source})
    return ways


def test_ways_over_many_spines_differ_from_pair_to_pair():
    net = network(pccl.topology.leaf_spine(2, 8, 16, **EVEN), np.array([1000]))
    ways = find_ways(net)
    spines = {
        (int(ways.src[way]), int(ways.dst[way]), int(net.dst[ways.arc[ways.begin[way] + 1]]))
        for way in range(len(ways.src))
        if ways.begin[way + 1] - ways.begin[way] == 4
    }
    for pair, others in itertools.groupby(sorted(spines), key=lambda way: way[:2]):
        assert len(list(others)) == 8, pair
    assert len({spine for *_, spine in spines}) == 16
