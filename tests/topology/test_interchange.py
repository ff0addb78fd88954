"""networkx: there and back."""

from __future__ import annotations

import sys

import networkx
import numpy as np
import pytest
from hypothesis import given

from pccl.errors import PcclError, TopologyError, UnitError
from pccl.topology import (
    Link,
    Switch,
    Topology,
    from_networkx,
    mesh,
    parse_topology,
    switch,
    to_networkx,
)
from pccl.units import BytesPerSecond, Picoseconds
from tests.strategies import topologies

CABLE = {"bandwidth": "50GB/s", "latency": "500ns"}


@given(topologies())
def test_there_and_back(network):
    assert from_networkx(to_networkx(network)) == network
    assert Topology.from_networkx(network.to_networkx()) == network


def test_what_the_graph_says():
    graph = to_networkx(switch(2, bandwidth="50GB/s", buffer=3, reduce=True, gap="5ns"))
    assert graph.nodes[0] == {"name": "npu0", "kind": "npu"}
    assert graph.nodes[2] == {
        "name": "switch0",
        "kind": "switch",
        "buffer": 3,
        "multicast": False,
        "reduce": True,
    }
    assert graph.edges[0, 2, 0] == {
        "bandwidth": 50 * 10**9,
        "latency": 500_000,
        "exclusive": False,
        "gap": 5_000,
        "link": 0,
    }
    assert networkx.shortest_path_length(graph, 0, 1, weight="latency") == 10**6


def test_absent_devices_are_left_out():
    graph = to_networkx(mesh(2, 2).without(devices=[1]))
    assert list(graph) == [0, 2, 3]
    assert from_networkx(graph).num_npus == 3


def test_labels_of_any_kind_and_switches_last():
    graph = networkx.Graph(name="mixed")
    graph.add_node("hub", switch=True, buffer=2, multicast=True)
    graph.add_edge((0, 0), "hub", **CABLE, gap="5ns")
    graph.add_edge("hub", "left", **CABLE, exclusive=True)
    assert from_networkx(graph) == Topology.from_links(
        ["(0, 0)", "left"],
        [
            Link(2, 0, "50GB/s", "500ns", gap="5ns"),
            Link(0, 2, "50GB/s", "500ns", gap="5ns"),
            Link(2, 1, "50GB/s", "500ns", exclusive=True),
            Link(1, 2, "50GB/s", "500ns", exclusive=True),
        ],
        [Switch("hub", buffer=2, multicast=True)],
        name="mixed",
    )


def test_switches_of_a_graph_are_plain_unless_it_says_otherwise():
    graph = networkx.star_graph(2)
    networkx.set_edge_attributes(graph, "50GB/s", "bandwidth")
    networkx.set_edge_attributes(graph, "500ns", "latency")
    graph.nodes[0]["switch"] = True
    assert from_networkx(graph).plain
    graph.nodes[0].update(multicast=True, reduce=True)
    assert not from_networkx(graph).plain


def star(**about):
    graph = networkx.star_graph(2)
    networkx.set_edge_attributes(graph, "50GB/s", "bandwidth")
    networkx.set_edge_attributes(graph, "500ns", "latency")
    graph.nodes[0].update(about)
    return graph


@pytest.mark.parametrize("yes", [True, np.True_, 1, "yes", "True", "1"])
@pytest.mark.parametrize("no", [False, np.False_, 0, "no", "False", "0"])
def test_truth_values_mean_what_they_say(yes, no):
    network = from_networkx(star(switch=yes, multicast=yes, reduce=no))
    assert network.labels[2] == "switch0"
    assert (network.multicast[2], network.reduce[2]) == (True, False)
    assert from_networkx(star(switch=no)).num_npus == 3


def test_truth_values_of_graphml_mean_what_they_say(tmp_path):
    path = tmp_path / "star.graphml"
    networkx.write_graphml(star(kind="switch", multicast="no", reduce="yes"), path)
    network = parse_topology(str(path))
    assert (network.multicast[2], network.reduce[2]) == (False, True)
    networkx.write_graphml(star(switch="no"), path)
    assert parse_topology(str(path)).num_npus == 3
    networkx.write_graphml(star(kind="switch", multicast="maybe"), path)
    with pytest.raises(PcclError, match=r"multicast of node '0' is yes or no, not 'maybe'"):
        parse_topology(str(path))


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"switch": "maybe"}, "switch of node 0 is yes or no, not 'maybe'"),
        ({"switch": True, "multicast": 2}, "multicast of node 0 is yes or no, not 2"),
        ({"kind": "swich"}, "kind of node 0 is npu or switch, not 'swich'"),
        ({"kind": "npu", "switch": True}, "kind='npu' and switch=True, which contradict"),
        ({"kind": "switch", "switch": "no"}, "kind='switch' and switch='no', which contradict"),
        ({"multicast": True}, "node 0 is an NPU, and only switches have multicast"),
        ({"kind": "npu", "reduce": "no"}, "node 0 is an NPU, and only switches have reduce"),
    ],
)
def test_nodes_that_are_none(about, message):
    with pytest.raises(TopologyError, match=message):
        from_networkx(star(**about))


def test_exclusive_means_what_it_says():
    graph = networkx.DiGraph(
        [(0, 1, CABLE | {"exclusive": "no"}), (1, 0, CABLE | {"exclusive": 1})]
    )
    assert from_networkx(graph).exclusive.tolist() == [False, True]
    graph.edges[0, 1]["exclusive"] = "maybe"
    with pytest.raises(TopologyError, match="exclusive of edge 0 -> 1 is yes or no, not 'maybe'"):
        from_networkx(graph)


def test_a_gap_has_a_unit():
    graph = networkx.Graph()
    graph.add_edge(0, 1, **CABLE, gap=5)
    with pytest.raises(PcclError, match=r"gap of .* 5 has no unit"):
        from_networkx(graph)


@pytest.mark.parametrize(
    ("graph", "links"),
    [
        (networkx.Graph, 2),
        (networkx.DiGraph, 1),
        (networkx.MultiGraph, 4),
        (networkx.MultiDiGraph, 2),
    ],
)
def test_parallel_edges_stay_and_undirected_ones_go_both_ways(graph, links):
    assert from_networkx(graph([(0, 1, CABLE), (0, 1, CABLE)])).num_links == links


def test_attributes_by_any_name_and_as_quantities():
    graph = networkx.DiGraph([(0, 1, {"speed": BytesPerSecond(50), "delay": Picoseconds(7)})])
    network = from_networkx(graph, bandwidth="speed", latency="delay")
    assert (network.bandwidth.tolist(), network.latency.tolist(), network.name) == (
        [50],
        [7],
        "networkx",
    )


@pytest.mark.parametrize(
    ("attributes", "error", "message"),
    [
        (
            {"latency": "1us"},
            TopologyError,
            "edge 'a' -> 'b' has no attribute 'bandwidth'; its attributes: 'latency'",
        ),
        ({}, TopologyError, "has no attribute 'bandwidth'; its attributes: none"),
        (
            {"bandwidth": 50, "latency": "1us"},
            UnitError,
            "bandwidth of edge 'a' -> 'b' 50 has no unit",
        ),
        (
            {"bandwidth": "50GB/s", "latency": "1"},
            UnitError,
            "latency of edge 'a' -> 'b' '1' has no unit",
        ),
        ({"bandwidth": "0GB/s", "latency": "1us"}, TopologyError, "must be positive"),
    ],
)
def test_edges_that_are_none(attributes, error, message):
    with pytest.raises(error, match=message):
        from_networkx(networkx.Graph([("a", "b", attributes)]))


def test_other_mistakes():
    with pytest.raises(TopologyError, match="leads from a device to itself"):
        from_networkx(networkx.DiGraph([(0, 0, CABLE)]))
    with pytest.raises(TopologyError, match="two devices are called 'npu1'"):
        from_networkx(networkx.DiGraph([(1, "npu1", CABLE)]))
    with pytest.raises(TopologyError, match="has no NPU"):
        from_networkx(networkx.Graph())


def test_without_networkx(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(PcclError, match=r"pip install networkx"):
        to_networkx(mesh(2, 2))


def test_importing_topology_imports_none_of_the_slow_ones():
    import subprocess

    code = "import sys, pccl.topology; print(sorted({'networkx', 'yaml', 'msgspec'} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )
