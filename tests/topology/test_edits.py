"""Damage and changes: what numbers, names, ranges and wildcards mean, and what becomes of a network."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pccl.errors import PcclError, TopologyError, UnitError
from pccl.topology import (
    dgx_a100,
    hgx_h100,
    load,
    mesh,
    ring,
    save_topology,
    topology_from_dict,
    topology_to_dict,
)
from pccl.topology.edits import damaged, find_devices

GB = 10**9


@pytest.mark.parametrize(
    ("given", "devices"),
    [
        ("npu5", [5]),
        ("5", [5]),
        ("rail*", list(range(18, 26))),
        ("nvswitch?", [16, 17]),
        ("rail[0-2]", [18, 19, 20]),
        ("3-6", [3, 4, 5, 6]),
        ("3,rail0,8-9", [3, 18, 8, 9]),
        (7, [7]),
    ],
)
def test_what_names_mean(given, devices):
    assert find_devices(hgx_h100(2), [given]) == devices


def test_a_pair_takes_out_one_direction_and_a_cable_both():
    network = dgx_a100(4)
    assert network.without(links=[("npu24", "infiniband0")]).num_links == network.num_links - 1
    assert network.without(links=["npu24:infiniband0"]).num_links == network.num_links - 2
    assert network.without(links=["npu24->infiniband0"]).num_links == network.num_links - 1
    # Every other NPU is on infiniband0, so each of the four has one cable to one of the two.
    assert network.without(links=["24-27:infiniband*"]).num_links == network.num_links - 8
    assert network.without(links=[("24-27", "infiniband*")]).num_links == network.num_links - 4


def test_damage_in_words_is_that_of_python():
    network = dgx_a100(4)
    expected = network.without(links=["24-27:infiniband*"], devices=[5])
    assert damaged(network, ["24-27:infiniband*", "npu5"]) == expected
    assert damaged(network, []) is network


def test_what_was_lost_is_remembered_and_survives_a_file(tmp_path):
    broken = mesh(2, 2).without(links=["0:1"])
    assert sorted(broken.lost) == [(0, 1), (1, 0)]
    assert broken.transpose().lost == tuple((b, a) for a, b in broken.lost)
    save_topology(broken, tmp_path / "broken.yaml")
    assert load(tmp_path / "broken.yaml").lost == broken.lost
    assert mesh(2, 2).restrict([0, 1]).lost == ()
    document = topology_to_dict(broken)
    with pytest.raises(PcclError, match="a lost link ends at a device that does not exist"):
        topology_from_dict(document | {"lost": [[0, 99]]})


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["npu99"], "no device 'npu99'"),
        (["rial*"], "no device 'rial\\*'"),
        (["rail9"], "no device 'rail9'; did you mean 'rail"),
        (["0:1"], "no link 0:1"),
        (["5-99"], "no device 99"),
        ([""], "no device ''"),
    ],
)
def test_what_is_not_there(texts, problem):
    with pytest.raises(TopologyError, match=problem):
        damaged(hgx_h100(2), texts)


def test_figures_of_links_and_abilities_of_switches():
    network = hgx_h100(2)
    slow = network.edited({"rail*.bandwidth": "25GB/s"})
    at_rails = np.isin(network.dst, range(18, 26)) | np.isin(network.src, range(18, 26))
    assert set(slow.bandwidth[at_rails].tolist()) == {25 * GB}
    assert (slow.bandwidth[~at_rails] == network.bandwidth[~at_rails]).all()
    half = network.edited(["0-7:nvswitch0.bandwidth=50%", "0:rail0.latency=3us", "*.gap=10ns"])
    assert set(half.bandwidth[half.dst == 16].tolist()) == {200 * 2**30}
    assert set(half.bandwidth[half.dst == 17].tolist()) == {400 * 2**30}
    assert set(half.gap.tolist()) == {10_000}
    able = network.edited(
        {"nvswitch*.multicast": True, "nvswitch0.reduce": "yes", "rail0.buffer": 4}
    )
    assert able.multicast[16:18].all()
    assert able.reduce[16:18].tolist() == [True, False]
    assert able.buffer[18] == 4
    assert network.edited([]) is network


@pytest.mark.parametrize(
    ("change", "error", "problem"),
    [
        ("rail*", TopologyError, "is not NAMES.FIGURE=VALUE"),
        ("rail*.speed=1GB/s", TopologyError, "figures are bandwidth, latency, gap"),
        ("rail0.bandwidth=25", UnitError, "has no unit"),
        ("rail0.bandwidth=x%", TopologyError, "a share such as 50%"),
        ("rail0.bandwidth=0%", TopologyError, "has no bandwidth"),
        ("npu0.reduce=yes", TopologyError, "names no switch"),
        ("rail0.reduce=maybe", TopologyError, "is yes or no"),
        ({"rail0.reduce": 1}, TopologyError, "rail0.reduce is yes or no, not 1"),
        ("rail0.buffer=-1", TopologyError, "a positive number of chunks"),
        ("rail0.buffer=1234567890", TopologyError, "a positive number of chunks up to 999,999,999"),
        ("0:1.bandwidth=1GB/s", TopologyError, "no link 0:1"),
    ],
)
def test_wrong_changes(change, error, problem):
    with pytest.raises(error, match=problem):
        hgx_h100(2).edited([change] if isinstance(change, str) else change)


def test_a_change_is_given_once():
    twice = ["rail0.multicast=no", "rail1.multicast=yes", "rail0.multicast=yes"]
    with pytest.raises(TopologyError, match=r"rail0\.multicast is given 2 times"):
        hgx_h100(2).edited(twice)
    # One of them refines the other.
    assert hgx_h100(2).edited(["rail*.reduce=yes", "rail0.reduce=no"]).reduce[18:].sum() == 7


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_understood_or_refused(names, value):
    network = ring(4)
    for act in (
        lambda: damaged(network, [names]),
        lambda: network.edited([f"{names}.gap={value}"]),
    ):
        with suppress(PcclError):
            act()
