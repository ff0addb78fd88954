"""What a topology becomes in a box: wires, addresses, rates and routes; nothing is built for it."""

from __future__ import annotations

import numpy as np
import pytest

import pccl
from pccl.lab import Wiring, parse_rate
from pccl.lab.wiring import MOST_DEVICES
from pccl.topology import Link, Switch, Topology


def test_links_between_two_devices_are_one_wire():
    """Links that lead one way only have a wire to themselves."""
    links = [Link(0, 1, "2GB/s", "1us"), Link(1, 2, "1GB/s", "1us"), Link(1, 0, "1GB/s", "1us")]
    wiring = Wiring.of(Topology.from_links(3, links), rate="20MB/s")
    assert [(wire.devices, wire.links) for wire in wiring.wires] == [
        ((0, 1), ((0,), (2,))),
        ((1, 2), ((1,), ())),
    ]
    assert wiring.topology.bandwidth.tolist() == [20_000_000, 10_000_000, 10_000_000]


def test_a_wire_has_an_address_at_either_end_and_a_device_one_of_its_own():
    wiring = Wiring.of(pccl.topology.mesh(3, 3), rate="40mbit")
    ends = [wiring.end_address(wire, end) for wire, _ in enumerate(wiring.wires) for end in (0, 1)]
    homes = [wiring.home(device) for device in wiring.devices]
    assert len(set(ends + homes)) == 2 * len(wiring.wires) + 9
    one, other = wiring.wires[0].devices
    assert {wiring.near_address(one, other), wiring.near_address(other, one)} == set(ends[:2])
    assert wiring.near_address(0, 8) == wiring.home(8)


def test_routes_are_those_of_the_baselines():
    """A grid is crossed along its last dimension first, as 'direct' does."""
    mesh = pccl.topology.mesh(3, 3)
    wiring = Wiring.of(mesh, rate="40mbit")
    link = wiring.towards[8, 0]
    assert (mesh.src[link], mesh.dst[link]) == (0, 1)
    star = pccl.topology.switch(3)
    towards = Wiring.of(star, rate="40mbit").towards
    # Everything goes to the switch, and from there to where it belongs.
    assert star.dst[towards[2, 0]] == 3
    assert (star.src[towards[2, 3]], star.dst[towards[2, 3]]) == (3, 2)


def test_rates_count_what_packets_hold_besides():
    wiring = Wiring.of(pccl.topology.ring(4), rate="40mbit")
    assert wiring.topology.bandwidth[0] == 5_000_000
    assert 40_000_000 < wiring.wire_rate(0, 0) < 42_000_000


def test_parallel_links_share_a_wire_that_is_as_fast_as_all_of_them():
    links = [Link(0, 1, "1MB/s", "0ns"), Link(0, 1, "2MB/s", "0ns"), Link(1, 0, "1MB/s", "0ns")]
    wiring = Wiring.of(Topology.from_links(2, links))
    assert [wire.links for wire in wiring.wires] == [((0, 1), (2,))]
    assert wiring.wire_rate(0, 0) == pytest.approx(3 * wiring.wire_rate(0, 1), abs=2)


@pytest.mark.parametrize(
    ("text", "rate"), [("40mbit", 5e6), ("1Gbit", 125e6), ("5MB/s", 5e6), ("8kbit", 1e3)]
)
def test_rates_are_read_as_tc_writes_them_too(text, rate):
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("topology", "options", "text"),
    [
        (pccl.topology.ring(4), {}, "more than the 4GB/s that a box can play"),
        (pccl.topology.ring(4), {"rate": "40"}, "has no unit"),
        (pccl.topology.ring(4), {"rate": "0mbit"}, "above 0"),
        (pccl.topology.ring(4), {"scale": -1.0}, "a number above 0"),
        (pccl.topology.ring(4), {"scale": float("nan")}, "a number above 0"),
        (pccl.topology.ring(4), {"scale": 1e99}, "more than the 4GB/s that a box can play"),
        (pccl.topology.ring(4), {"rate": "1mbit", "scale": 1.0}, "not both"),
        (pccl.topology.ring(MOST_DEVICES + 1), {"rate": "1mbit"}, "a box holds up to 128"),
        (Topology.from_links(1, []), {"rate": "1mbit"}, "has no links"),
    ],
)
def test_what_cannot_be_built_is_refused(topology, options, text):
    with pytest.raises(pccl.PcclError, match=text):
        Wiring.of(topology, **options)


def test_absent_devices_are_left_out():
    left = pccl.topology.mesh(3, 3).without(devices=[4])
    wiring = Wiring.of(left, scale=1e-4)
    assert wiring.devices == [0, 1, 2, 3, 5, 6, 7, 8]
    assert np.all(wiring.topology.bandwidth == np.rint(left.bandwidth * 1e-4))


def test_a_switch_is_a_device_as_well():
    net = Topology.from_links(
        2, [Link(0, 2, "1GB/s", "0ns"), Link(2, 1, "1GB/s", "0ns")], [Switch()]
    )
    assert Wiring.of(net, rate="1mbit").devices == [0, 1, 2]
