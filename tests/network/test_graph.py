"""Distances over arcs against networkx."""

from __future__ import annotations

import numpy as np
import pytest

import pccl
from pccl.network import NEVER, few_sizes, network, times_from_nearest, unloaded_times


def test_distances_are_those_of_networkx():
    networkx = pytest.importorskip("networkx")
    topology = pccl.topology.parse_topology("a100:2")
    net = network(topology, np.array([2**20]))
    times = unloaded_times(net, np.array([3]), np.array([0]))[0] * net.unit
    graph = networkx.DiGraph()
    for src, dst, latency, bandwidth in zip(
        topology.src.tolist(),
        topology.dst.tolist(),
        topology.latency.tolist(),
        topology.bandwidth.tolist(),
        strict=True,
    ):
        graph.add_edge(src, dst, weight=latency + -(-(2**20) * 10**12 // bandwidth))
    expected = networkx.single_source_dijkstra_path_length(graph, 3)
    assert {device: time for device, time in enumerate(times.tolist()) if time < NEVER} == expected


def test_times_from_the_nearest_of_several():
    """Down a line of five, from both ends: the middle is two links away from either."""
    line = pccl.topology.line(5, bandwidth="1GB/s", latency="0ns")
    times = times_from_nearest(line, 1000, np.array([0, 4]))
    assert times.tolist() == [0, 1_000_000, 2_000_000, 1_000_000, 0]


def test_many_sizes_share_distances_of_smaller_ones():
    sizes = np.arange(100, 200)
    class_of_size, smallest = few_sizes(sizes)
    assert len(smallest) <= 8
    assert np.all(sizes[smallest[class_of_size]] <= sizes)
