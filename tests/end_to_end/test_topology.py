"""``pccl topology``: the zoo, and one network described."""

from __future__ import annotations

import json

import pytest

from pccl.topology import load, parse_topology, save_topology, zoo
from tests.end_to_end.program import pccl as run
from tests.end_to_end.program import refused


def test_the_zoo():
    text = run("topology").stdout
    assert all(entry.example in text and entry.description in text for entry in zoo())
    assert [row["name"] for row in json.loads(run("topology", "--json").stdout)] == [
        entry.name for entry in zoo()
    ]


def test_one_network():
    text = run("topology", "switch:3,buffer=2@10GB/s").stdout
    assert text.startswith(
        "name         switch:3\nNPUs         3\nswitches     1, plain\nlinks        6\n"
        "bandwidth    10GB/s\nlatency      500ns\ngap          none\n"
    )
    assert "diameter     2 hops between the farthest NPUs\n" in text
    assert "plain, buffer of 2" in text
    assert "switch 3 (switch0)" in text


@pytest.mark.parametrize(
    ("network", "switches"),
    [
        ("switch2d:2x2,multicast,reduce", "4, all multiply and add"),
        ("switch2d:2x2,multicast", "4, all multiply"),
        ("switch:2,reduce", "1, add"),
        ("a100:2", "4, all plain"),
        ("dgx1:2,sharp", "9: 8 plain (nic0 to nic7), 1 multiply and add (infiniband)"),
        (
            "h100:2,nvls=yes",
            "10: 2 multiply and add (nvswitch0 to nvswitch1), 8 plain (rail0 to rail7)",
        ),
    ],
)
def test_which_switches_multiply_and_add(network, switches):
    assert f"\nswitches     {switches}\n" in run("topology", network).stdout


def test_what_messages_cost_and_who_says_so():
    text = run("topology", "a100:2").stdout
    assert "latency      300ns (32 links), 1.35us (32 links)\n" in text
    assert "gap          none (32 links), 4.7ns (32 links)\n" in text
    assert "source       bandwidth: ForestColl; latency: NCCL's tuning; gap: ConnectX-6\n" in text
    changed = run("topology", "a100:2,nic_gap=0ns").stdout
    assert "gap          none\n" in changed
    assert "ConnectX-6; options as given\n" in changed
    of_both = run("topology", "tpu-v5e:2x2", "x", "dgx1").stdout
    assert "source of tpu-v5e bandwidth: Google Cloud" in of_both
    assert "source of dgx1    TE-CCL" in of_both
    assert "source" not in run("topology", "ring:4").stdout
    assert list(json.loads(run("topology", "a100", "--json").stdout)["sources"]) == ["a100"]


def test_large_networks_have_no_tables():
    assert "\n\n" not in run("topology", "mesh:16x16").stdout


def test_a_product_needs_no_quotes():
    assert (
        run("topology", "ring:4", "x", "switch:2").stdout
        == run("topology", "ring:4 x switch:2").stdout
    )


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_save(tmp_path, suffix):
    path = tmp_path / f"network{suffix}"
    result = run("topology", "dgx1:2", "--save", path)
    assert result.stdout.count(f"saved to     {path}") == 1
    assert load(path) == parse_topology("dgx1:2")
    assert json.loads(run("topology", path, "--json").stdout)["num_npus"] == 16


def test_the_diameter_is_left_out_where_it_takes_long():
    assert "diameter" not in run("topology", "mesh:64x64").stdout
    assert json.loads(run("topology", "mesh:64x64", "--json").stdout)["diameter_hops"] is None


def test_a_network_in_two_parts(tmp_path):
    path = tmp_path / "parts.yaml"
    save_topology(parse_topology("line:4").without(links=[(1, 2)]), path)
    assert "diameter     none: NPU 0 cannot reach NPU 2\n" in run("topology", path).stdout
    assert json.loads(run("topology", path, "--json").stdout)["diameter_hops"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "there is no 'nope'"),
        (["nope.yaml"], "there is no such file"),
        (["--save", "x.yaml"], "--save needs the network to save"),
        (["ring:4", "--save", "x.txt"], "a topology is saved as .yaml"),
        (["ring:4", "--save", "nowhere/x.yaml"], "there is no folder nowhere"),
        (["fully-connected:9999999"], "beyond 1,000,000 NPUs"),
        (["hypercube:1000"], "more than 10,000,000 links"),
    ],
)
def test_bad_input(arguments, message):
    assert message in refused("topology", *arguments)
