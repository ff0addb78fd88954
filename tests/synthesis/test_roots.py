"""Where sums are collected."""

from __future__ import annotations

import numpy as np

import pccl
from pccl.collective import compile_conditions
from pccl.synthesis.roots import Root, find_roots, least_along_trees
from pccl.synthesis.zones import zones_of

LINE = pccl.topology.line(5, bandwidth="1GB/s", latency="1us")


def roots(topology, collective, rule):
    conditions = compile_conditions(topology, [collective])
    zones = zones_of(topology, [collective], np.array([collective.confined]))
    return find_roots(topology, conditions, zones, rule).tolist()


def test_a_plain_chunk_starts_at_its_source():
    assert roots(LINE, pccl.AllGather("5kB"), Root.MIDWAY) == [0, 1, 2, 3, 4]


def test_shares_take_destinations_in_turn():
    """Both pieces of a share are collected in one place."""
    found = roots(LINE, pccl.AllReduce("10kB", chunks=2), Root.IN_TURN)
    assert found == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_midway_is_the_middle_of_a_line():
    assert set(roots(LINE, pccl.AllReduce("5kB"), Root.MIDWAY)) == {2}


def test_where_destinations_lead_nowhere_sums_are_collected_on_the_way():
    """Contributors 0 and 1 reach 3 and 4 by way of 2 only, and nobody sends back."""
    links = [pccl.Link(a, b, "1GB/s", "1us") for a, b in ((0, 2), (1, 2), (2, 3), (2, 4))]
    topology = pccl.Topology.from_links(5, links)
    total = pccl.Custom([pccl.Condition([0, 1], [3, 4], "1kB", reduces=True)])
    assert roots(topology, total, Root.IN_TURN) == [2]
    pccl.verify(pccl.synthesize(topology, total))


def test_sums_go_to_the_middle_and_back_however_they_are_cut():
    """Two links of 1 us there and two back, a byte of a nanosecond over each."""
    collective = pccl.AllReduce("5kB", chunks=1)
    conditions = compile_conditions(LINE, [collective])
    zones = zones_of(LINE, [collective], np.array([False]))
    assert least_along_trees(LINE, conditions, zones) == 4 * 1_001_000


def test_what_is_no_sum_goes_nowhere_first():
    collective = pccl.AllGather("5kB", chunks=1)
    conditions = compile_conditions(LINE, [collective])
    zones = zones_of(LINE, [collective], np.array([False]))
    assert least_along_trees(LINE, conditions, zones) == 0
