"""The network itself: what is refused, and what the verbs do."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pccl.errors import TopologyError, UnitError
from pccl.topology import (
    Link,
    Switch,
    Topology,
    dgx_a100,
    fat_tree,
    grid,
    mesh,
    parse_topology,
    ring,
    switch,
)
from pccl.topology.core import transmission_time
from pccl.units import BytesPerSecond, Picoseconds
from tests.strategies import topologies


def pair(**changes):
    link = {"src": 0, "dst": 1, "bandwidth": "50GB/s", "latency": "500ns"} | changes
    return Topology.from_links(2, [Link(**link)], name="pair")


def test_a_network_written_link_by_link():
    hub = Topology.from_links(
        ["left", "right"],
        [Link(0, 2, "50GB/s", "1us"), Link(2, 1, "25GB/s", "0ns"), Link(2, 1, "25GB/s", "0ns")],
        [Switch("hub", buffer=4)],
        name="one way",
    )
    assert (
        repr(hub) == "Topology('one way': 2 NPUs, 1 switch, 3 links, 25GB/s to 50GB/s, 0ps to 1us)"
    )
    assert hub.npus.tolist() == [0, 1]
    assert hub.switches.tolist() == [2]
    assert hub.shape == (2,)
    assert hub.limited
    assert hub.link_text(0) == "link 0 (NPU 0 (left) -> switch 2 (hub))"
    offsets, links = hub.out_links
    assert links[offsets[2] : offsets[3]].tolist() == [1, 2]
    offsets, links = hub.in_links
    assert links[offsets[1] : offsets[2]].tolist() == [1, 2]


def test_a_transfer_holds_a_link_for_its_gap_and_an_exclusive_one_for_its_latency_too():
    network = Topology.from_links(
        2,
        [
            Link(0, 1, "50GB/s", "1us"),
            Link(0, 1, "50GB/s", "1us", gap="5ns"),
            Link(0, 1, "50GB/s", "1us", exclusive=True, gap="5ns"),
        ],
    )
    assert network.gap.tolist() == [0, 5_000, 5_000]
    assert network.overhead.tolist() == [0, 5_000, 1_005_000]


def test_one_plain_switch_makes_a_network_plain():
    def network(*switches):
        return Topology.from_links(2, [], switches)

    able = Switch("able", multicast=True, reduce=True)
    assert not network().plain
    assert not network(able).plain
    for lacking in (Switch(), Switch(multicast=True), Switch(reduce=True)):
        assert network(able, lacking).plain
        assert not network(able, lacking).without(devices=["switch1"]).plain
    assert not network(able, Switch()).limited


@given(topologies(absent=True))
def test_verbs_keep_what_switches_can_do_and_what_messages_cost(network):
    same = network.without(name=network.name)
    for changed in (same, network.restrict(network.npus)):
        assert changed.multicast.tolist() == network.multicast.tolist()
        assert changed.reduce.tolist() == network.reduce.tolist()
    if network.num_links:
        shorter = network.without(links=[0])
        assert shorter.gap.tolist() == network.gap[1:].tolist()


@given(topologies(absent=True))
def test_to_add_is_to_multiply_seen_from_the_other_end(network):
    """A sum is the mirror image of a broadcast, so that turning links round swaps what switches can do."""
    there = network.transpose()
    assert there.multicast.tolist() == network.reduce.tolist()
    assert there.reduce.tolist() == network.multicast.tolist()
    assert there.gap.tolist() == network.gap.tolist()
    assert there.plain == network.plain


def test_columns_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        pair().src[0] = 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bandwidth": "0GB/s"}, r"link 0 \(0 -> 1\) has no bandwidth; it must be positive"),
        ({"bandwidth": "1PB/s"}, "beyond 900 TB/s"),
        ({"dst": 2}, r"link 0 \(0 -> 2\): there is no device 2"),
        ({"src": -1}, "there is no device -1"),
        ({"dst": 0}, "leads from a device to itself"),
    ],
)
def test_links_that_are_none(changes, message):
    with pytest.raises(TopologyError, match=message):
        pair(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bandwidth": 50}, r"bandwidth of link 0 \(0 -> 1\) 50 has no unit"),
        ({"latency": "500"}, r"latency of link 0 \(0 -> 1\) '500' has no unit"),
        ({"latency": [500]}, "must be text with a unit"),
        ({"gap": "5"}, r"gap of link 0 \(0 -> 1\) '5' has no unit"),
        ({"gap": "-5ns"}, "must not be negative"),
        ({"bandwidth": "-50GB/s"}, "not a number followed by a unit"),
        ({"bandwidth": BytesPerSecond(-50)}, "negative"),
        ({"latency": Picoseconds(-1)}, "negative"),
    ],
)
def test_quantities_that_are_none(changes, message):
    with pytest.raises(UnitError, match=message):
        pair(**changes)


def test_a_bare_number_is_refused_beside_an_equal_quantity():
    with pytest.raises(UnitError, match="of link 1"):
        Topology.from_links(2, [Link(0, 1, BytesPerSecond(50), "0ns"), Link(1, 0, 50, "0ns")])


@pytest.mark.parametrize(
    ("npus", "switches", "message"),
    [
        (0, [], "has no NPU"),
        (["a", "a"], [], "two devices are called 'a'"),
        (["switch0"], [Switch()], "two devices are called 'switch0'"),
        (["a"], [Switch("a")], "two devices are called 'a'"),
        (2, [Switch("hub", buffer=0)], "switch 'hub' has a buffer of 0; it must hold a chunk"),
        (2, [Switch("hub"), Switch(buffer=0)], "switch 'switch1' has a buffer of 0"),
        (2, [Switch("s", multicast="no")], "multicast of switch 's' is True or False, not 'no'"),
        (2, [Switch("s", reduce=1)], "reduce of switch 's' is True or False, not 1"),
        (2, ["hub"], "switch 0 is 'hub'; write Switch"),
    ],
)
def test_devices_that_are_none(npus, switches, message):
    with pytest.raises(TopologyError, match=message):
        Topology.from_links(npus, [], switches)


@pytest.mark.parametrize("shape", [(3,), (2, 2), (1,), (-2, -1), (0,)])
def test_shapes_that_do_not_fit(shape):
    with pytest.raises(TopologyError, match="does not fit 2 NPUs followed by 1 switch"):
        Topology.from_links(2, [], [Switch()], shape=shape)


def test_transmission_is_exact_and_rounded_up():
    assert transmission_time([1, 2, 3], 3).tolist() == [333_333_333_334, 666_666_666_667, 10**12]
    assert transmission_time(2**20, [50 * 2**30, 25 * 2**30]).tolist() == [19_531_250, 39_062_500]


@given(st.integers(0, 2**40), st.integers(10**6, 9 * 10**14))
def test_transmission_agrees_with_whole_numbers(size, bandwidth):
    assert transmission_time(size, bandwidth) == -(-size * 10**12 // bandwidth)


@given(topologies(absent=True))
def test_transposing_twice_changes_nothing_but_the_name(network):
    there = network.transpose()
    back = there.transpose()
    assert there.src.tolist() == network.dst.tolist()
    assert back.name != network.name
    assert back.without(name=network.name) == network


def test_devices_have_names():
    network = parse_topology("h100:2")
    assert network.device("rail3") == network.labels.index("rail3")
    assert network.without(links=[("npu4", "rail4")]).num_links == network.num_links - 1
    assert network.without(devices=["rail0"]) == network.without(devices=[network.device("rail0")])
    assert network.restrict(["npu0", "npu1", "nvswitch0"]).num_links == 4


def test_what_is_derived_is_as_good_as_what_is_checked():
    network = parse_topology("switch2d:2x2")
    for derived in (network.transpose(), network.without(devices=[1]), network.restrict([0, 1])):
        assert replace(derived) == derived
        with pytest.raises(ValueError, match="read-only"):
            derived.src[0] = 1
    assert network.transpose() is network.transpose()


@pytest.mark.parametrize(
    ("text", "hops"),
    [
        ("line:5", 4),
        ("ring:8", 4),
        ("ring:8,unidirectional", 7),
        ("fully-connected:9", 1),
        ("mesh:3x4", 5),
        ("torus:4x4x4", 6),
        ("hypercube:6", 6),
        ("switch:9", 2),
        ("fat-tree:4", 6),
        ("line:1", 0),
    ],
)
def test_diameter(text, hops):
    assert parse_topology(text).diameter() == hops


def test_a_network_in_two_parts_has_no_diameter():
    with pytest.raises(TopologyError, match="NPU 0 cannot reach NPU 2"):
        parse_topology("line:4").without(links=[(1, 2)]).diameter()
    with pytest.raises(TopologyError, match="NPU 1 cannot reach NPU 0"):
        parse_topology("line:2").without(links=[0, 1]).diameter()


def test_without_links_and_devices():
    network = mesh(2, 2)
    assert network.without(links=[(0, 1)]).num_links == 7
    assert network.without(links=[0, (1, 0)]).num_links == 6
    broken = network.without(devices=[3])
    assert broken.npus.tolist() == [0, 1, 2]
    assert (broken.num_devices, broken.num_links, broken.shape) == (4, 4, (2, 2))
    assert broken.device_text(3) == "absent device 3 (npu3)"
    assert network.restrict([0, 1, 2]).without(name="x") == broken.without(name="x")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"links": [(0, 3)]}, "mesh:2x2 has no link 0 -> 3"),
        ({"links": [8]}, "mesh:2x2 has no link 8; it has 8"),
        ({"links": [-1]}, "has no link -1"),
        ({"devices": [4]}, "mesh:2x2 has no device 4"),
        ({"devices": [-1]}, "has no device -1"),
        ({"devices": range(4)}, "has no NPU"),
    ],
)
def test_what_cannot_be_taken_out(changes, message):
    with pytest.raises(TopologyError, match=message):
        mesh(2, 2).without(**changes)


def test_an_absent_device_is_gone():
    broken = mesh(2, 2).without(devices=[3])
    for verb in (lambda: broken.without(devices=[3]), lambda: broken.restrict([3])):
        with pytest.raises(TopologyError, match="has no device 3"):
            verb()


def test_unrolling_a_switch_shares_its_bandwidth():
    direct = switch(5, bandwidth="40GB/s", latency="1us").unroll_switches()
    assert repr(direct) == "Topology('switch:5, unrolled': 5 NPUs, 20 links, 10GB/s, 2us)"


def test_a_way_through_switches_has_the_largest_gap_of_its_links():
    """The links of a way are held at the same time, so that the slowest sets the pace."""
    links = [Link(0, 2, "50GB/s", "1us", gap="3ns"), Link(2, 1, "50GB/s", "1us", gap="8ns")]
    direct = Topology.from_links(2, links, [Switch()]).unroll_switches()
    assert direct.gap.tolist() == [8_000]
    assert not direct.plain


@given(topologies(absent=True))
def test_equal_networks_are_equal(network):
    assert network == network.without(name=network.name)
    assert hash(network) == hash(network.without(name=network.name))
    assert network != network.without(name=network.name + "!")
    assert network != "network"


@given(topologies(absent=True))
def test_adjacency_lists_every_link_once(network):
    for (offsets, links), ends in (
        (network.out_links, network.src),
        (network.in_links, network.dst),
    ):
        assert sorted(links.tolist()) == list(range(network.num_links))
        assert np.array_equal(
            np.repeat(np.arange(network.num_devices), np.diff(offsets)), ends[links]
        )


@given(topologies(absent=True))
def test_shape_counts_the_places_of_npus(network):
    assert math.prod(network.shape) >= network.num_npus
    assert not any(network.is_switch(device) for device in range(math.prod(network.shape)))


def test_one_ring_is_not_another():
    assert ring(4) != ring(4, latency="1us")


def test_unrolling_switches_that_are_joined_to_switches():
    """One direct link for each pair of NPUs, which shares the links on its way with all others that take them."""
    direct = fat_tree(4, bandwidth="60GB/s", latency="1us").unroll_switches()
    assert (direct.num_npus, len(direct.switches), direct.num_links) == (16, 0, 16 * 15)
    pair = {
        (int(s), int(d)): i for i, (s, d) in enumerate(zip(direct.src, direct.dst, strict=True))
    }
    assert direct.latency[pair[0, 1]] == 2_000_000  # over one switch
    assert direct.latency[pair[0, 15]] == 6_000_000  # over five
    for npu in range(16):
        assert direct.bandwidth[direct.src == npu].sum() <= 60 * 10**9


def test_unrolling_keeps_numbers_and_separate_ways():
    damaged = switch(4).without(devices=[1]).unroll_switches()
    assert damaged.npus.tolist() == [0, 2, 3]
    two_switches = parse_topology("a100:2").unroll_switches()
    assert np.count_nonzero((two_switches.src == 0) & (two_switches.dst == 2)) == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Topology.from_links(2, [Link(0, 1.5, "1GB/s", "0ns")]), "no device 1.5"),
        (lambda: Topology.from_links(2, [Link("0", 1, "1GB/s", "0ns")]), "no device '0'"),
        (lambda: switch(4, buffer=1.5), "switch 'switch0' has a buffer of 1.5"),
        (lambda: switch(4, buffer=2**70), "a chunk or more, up to 999,999,999"),
        (lambda: replace(switch(1), reduce=["no"] * 2), "'reduce' is True or False, not 'no'"),
        (lambda: replace(switch(1), multicast=[0, 2]), "'multicast' is True or False, not 2"),
        (lambda: switch(4, multicast="no"), "multicast of switch 'switch0' is True or False"),
        (lambda: mesh(2, 2, exclusive="no"), r"exclusive of link 0 \(0 -> 1\) is True or False"),
        (lambda: ring(4, unidirectional="no"), "unidirectional is True or False, not 'no'"),
        (lambda: grid(4, 4, wrap="no"), "wrap is True or False, not 'no'"),
        (lambda: ring(True), "positive number, not True"),
        (lambda: fat_tree("4"), "even number of ports"),
        (lambda: ring(4).without(devices=3), "must be a list of device numbers"),
        (lambda: ring(4).without(devices=["npu9"]), "no device 'npu9'"),
        (lambda: ring(4).restrict("01"), "must be a list of device numbers"),
        (lambda: ring(4).without(links=["x"]), "no link 'x'"),
        (lambda: ring(4).without(links=[("npu0", "npu9")]), "no device 'npu9'"),
        (lambda: Topology.from_links(2, [(0, 1)]), r"link 0 is \(0, 1\); write Link"),
        (lambda: Topology.from_links(10**12, []), "NPUs are beyond 10,000,000"),
        (lambda: mesh(10**9), "more than 10,000,000 links"),
        (lambda: dgx_a100("4"), "a100 needs a positive number of boxes, not '4'"),
        (lambda: dgx_a100(10**9), "more than 10,000,000 links"),
    ],
)
def test_numbers_are_numbers(wrong, message):
    with pytest.raises(TopologyError, match=message):
        wrong()


def test_numbers_of_numpy_and_lists_of_files_are_fine():
    assert ring(np.int64(4)).num_npus == 4
    assert ring(4).without(links=[[0, 1]], devices=np.array([2])).num_npus == 3
