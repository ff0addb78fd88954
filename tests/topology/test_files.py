"""Files: what they say, and what is said about broken ones."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from pccl.errors import FormatError
from pccl.topology import (
    Link,
    Switch,
    Topology,
    fully_connected,
    load,
    mesh,
    parse_topology,
    product,
    ring,
    save_topology,
    switch,
    topology_from_dict,
    topology_to_dict,
    zoo,
)
from tests.strategies import topologies

OURS = """
name: example
npus: [left, right]
switches:
  - {name: hub, buffer: 4, reduce: yes}
links:
  - {src: left, dst: hub, bandwidth: 50GB/s, latency: 500ns, both: true}
  - {src: hub, dst: 1, bandwidth: 400Gbps, latency: 0.5us, count: 2, exclusive: true, gap: 5ns}
"""
EXAMPLE = Topology.from_links(
    ["left", "right"],
    [
        Link(0, 2, "50GB/s", "500ns"),
        Link(2, 0, "50GB/s", "500ns"),
        Link(2, 1, "50GB/s", "500ns", exclusive=True, gap="5ns"),
        Link(2, 1, "50GB/s", "500ns", exclusive=True, gap="5ns"),
    ],
    [Switch("hub", buffer=4, reduce=True)],
    name="example",
)


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_our_yaml(write):
    assert load(write("net.yaml", OURS)) == EXAMPLE


def test_a_file_without_a_name_is_called_after_itself(write):
    assert load(write("net.yaml", OURS.replace("name: example", ""))).name == "net"


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".json"])
def test_saved_files_read_back(tmp_path, suffix):
    path = tmp_path / f"net{suffix}"
    for network in (
        EXAMPLE,
        mesh(2, 3),
        EXAMPLE.without(devices=[2]),
        mesh(2, 2).without(devices=[0, 3]),
    ):
        save_topology(network, path)
        assert load(str(path)) == network


@given(topologies(absent=True))
def test_dictionaries_read_back_exactly(network):
    document = topology_to_dict(network)
    assert topology_from_dict(document) == network
    assert topology_from_dict(json.loads(json.dumps(document))) == network


@given(network=topologies(absent=True))
@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_files_read_back_exactly(tmp_path_factory, suffix, network):
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    save_topology(network, path)
    assert load(path) == network


@pytest.mark.parametrize("entry", zoo(), ids=lambda entry: entry.name)
def test_the_zoo_reads_back(entry):
    network = parse_topology(entry.example)
    assert topology_from_dict(topology_to_dict(network)) == network


def test_what_is_usual_is_not_written():
    """A switch is plain and a link has no gap unless the file says so."""
    document = topology_to_dict(switch(2))
    assert document["switches"] == [{"name": "switch0"}]
    assert "gap" not in document["links"][0]
    able = topology_to_dict(switch(2, multicast=True, reduce=True, gap="5ns"))
    assert able["switches"] == [{"name": "switch0", "multicast": True, "reduce": True}]
    assert able["links"][0]["gap"] == "5ns"


def test_edge_lists(write):
    text = "# a comment\n\n0 sw 500ns 50GB/s\nsw 2 1us 400Gbps  # one way\n0 2 0ns 1GB/s\n0 2 0ns 1GB/s\n"
    for name in ("net.txt", "net.edges"):
        assert load(write(name, text)) == Topology.from_links(
            3,
            [
                Link(0, 3, "50GB/s", "500ns"),
                Link(3, 2, "50GB/s", "1us"),
                Link(0, 2, "1GB/s", "0ns"),
                Link(0, 2, "1GB/s", "0ns"),
            ],
            [Switch("sw")],
            name="net",
        )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 1 500ns", "expected 'src dst latency bandwidth', not '0 1 500ns'"),
        ("0 1 500 50GB/s", "latency '500' has no unit"),
        ("0 1 500ns 50", "bandwidth '50' has no unit"),
        ("0 1 500ns 0GB/s", "the bandwidth must be positive"),
        ("0 1 500ns -1GB/s", "not a number followed by a unit"),
        ("0 1 50GB/s 500ns", "unknown unit 'GB/s'"),
        ("0 hub 500ns 50GB/s", "'hub' is neither the number of an NPU nor the name of a switch"),
        ("-1 0 500ns 50GB/s", "'-1' is neither"),
        ("99999999999 0 500ns 50GB/s", "'99999999999' is neither"),
        ("3 3 500ns 50GB/s", "the link leads from 3 to itself"),
    ],
)
def test_broken_edge_lists(write, line, message):
    path = write("net.txt", f"# fine\n0 1 500ns 50GB/s\n{line}\n")
    with pytest.raises(FormatError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert message in str(caught.value)


def test_an_edge_list_without_npus(write):
    with pytest.raises(FormatError, match=r"net.txt: net has no NPU"):
        load(write("net.txt", "# nothing\n"))


def test_astra_sim_networks(write):
    text = "topology: [ Ring, FullyConnected, Switch ]\nnpus_count: [ 4, 3, 2 ]\n"
    text += "bandwidth: [ 200.0, 100.0, 50 ]  # GB/s\nlatency: [ 50, 936.25, 2000.0 ]  # ns\n"
    network = load(write("net.yml", text))
    first = ring(4, bandwidth="200GiB/s", latency="50ns")
    second = fully_connected(3, bandwidth="100GiB/s", latency="936.25ns")
    third = switch(2, bandwidth="50GiB/s", latency="2us")
    assert network == product(third, second, first, name="net")
    assert set(network.bandwidth[(network.src == 0) & (network.dst == 1)].tolist()) == {200 * 2**30}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("Ring", "Torus"), "$.topology[0]"),
        (("[4, 2]", "[4]"), "1 entries for 2 dimensions - at `$.npus_count`"),
        (("[4, 2]", "[4, 0]"), "$.npus_count[1]"),
        (("100.0", ".nan"), "$.bandwidth[1]"),
        (("100.0", ".inf"), "$.bandwidth[1]"),
        (("100.0", "0"), "$.bandwidth[1]"),
        (("500", "-500"), "$.latency[0]"),
        (("latency", "latencies"), "latencies"),
    ],
)
def test_broken_astra_sim_networks(write, change, message):
    text = "topology: [Ring, Switch]\nnpus_count: [4, 2]\nbandwidth: [50.0, 100.0]\nlatency: [500, 600]\n"
    with pytest.raises(FormatError) as caught:
        load(write("net.yaml", text.replace(*change)))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("src: left", "src: middle"), "there is no device 'middle' - at `$.links[0].src`"),
        (("dst: 1", "dst: 3"), "there is no device 3 - at `$.links[1].dst`"),
        (("dst: 1", "dst: -1"), "there is no device -1 - at `$.links[1].dst`"),
        (("dst: 1", "dst: 1.5"), "$.links[1].dst"),
        (("dst: 1, ", ""), "missing required field `dst` - at `$.links[1]`"),
        (("dst: 1", "dst: hub"), "the link leads from a device to itself - at `$.links[1]`"),
        (("50GB/s", "50"), "bandwidth 50 has no unit: write for example '50Gbps'"),
        (("50GB/s", "1e9"), "bandwidth '1e9' has no unit"),
        (("50GB/s", "0GB/s"), "the bandwidth must be positive - at `$.links[0]`"),
        (("50GB/s", "-5GB/s"), "not a number followed by a unit"),
        (("500ns", "[500]"), "$.links[0].latency"),
        (("gap: 5ns", "gap: 5"), "gap 5 has no unit: write for example '5us'"),
        (("gap: 5ns", "gap: -5ns"), "must not be negative - at `$.links[1]`"),
        (("reduce: yes", "reduce: 1"), "$.switches[0].reduce"),
        (("count: 2", "count: 0"), "$.links[1].count"),
        (("both", "bth"), "bth"),
        (("buffer: 4", "buffer: 0"), "$.switches[0].buffer"),
        (("switches:", "switches:\n  - {name: left}"), "two devices are called 'left'"),
        (("[left, right]", "[left, left]"), "two devices are called 'left'"),
        (("[left, right]", "0"), "$.npus"),
        (("[left, right]", "two"), "$.npus"),
        (("npus:", "nodes:"), "nodes"),
        (("links:", "absent: [7]\nlinks:"), "there is no device 7 - at `$.absent[0]`"),
        (("links:", "absent: [1]\nlinks:"), "a link ends at an absent device"),
        (("links:", "shape: [3]\nlinks:"), "shape (3,) does not fit"),
        (("links:", "shape: [0]\nlinks:"), "$.shape[0]"),
        (("links:", "npus: 3\nlinks:"), "line 6: the key 'npus' appears twice"),
        (("links:", "npus: ["), "line "),
        (("example", "2024-99-99"), "month must be in 1..12"),
        (("example", "{[1]: 2}"), "unhashable"),
        (("name: example", "1: example"), ""),
    ],
)
def test_broken_yaml_says_where(write, change, message):
    path = write("net.yaml", OURS.replace(*change))
    with pytest.raises(FormatError) as caught:
        load(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("{\n\n!", "line 3"),
        ("[]", "not list"),
        ("[" * 100_000, ""),
        ('{"npus": 2, "npus": 3, "links": []}', "the key 'npus' appears twice"),
        ('{"npus": 2}', "missing required field `links`"),
        ('{"npus": 2, "links": [{"src": 0, "dst": "1"}]}', "$.links[0]"),
    ],
)
def test_broken_json_says_where(write, text, message):
    path = write("net.json", text)
    with pytest.raises(FormatError) as caught:
        load(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 100_000,
        "\n".join(" " * i + "a:" for i in range(300)),
    ],
)
def test_endless_nesting_is_refused_before_it_exhausts_the_stack(write, text):
    with pytest.raises(FormatError, match="more than 200 lists or maps inside each other"):
        load(write("deep.yaml", text))


def test_what_is_no_text(tmp_path):
    with pytest.raises(FormatError, match="there is no such file"):
        load(tmp_path / "missing.yaml")
    with pytest.raises(FormatError, match="directory"):
        load(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match=r"binary.yaml is not a topology: it is not a text file"):
        load(tmp_path / "binary.yaml")


def test_where_nothing_is_saved(tmp_path):
    with pytest.raises(FormatError, match=r"saved as .yaml, .yml or .json, not as '.txt'"):
        save_topology(mesh(2, 2), tmp_path / "net.txt")
    with pytest.raises(FormatError, match="No such file"):
        save_topology(mesh(2, 2), tmp_path / "missing" / "net.yaml")
