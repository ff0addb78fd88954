"""The one-line language."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pccl import topology as zoology
from pccl.errors import FormatError, TopologyError, UnitError
from pccl.topology import (
    mesh,
    named_in,
    parse_topology,
    product,
    ring,
    save_topology,
    switch,
    switch_2d,
    topology_from_dict,
    topology_to_dict,
    torus,
    zoo,
)
from pccl.units import BytesPerSecond, Picoseconds


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("mesh:8x8", mesh(8, 8)),
        ("MESH:8x8", mesh(8, 8)),
        (" mesh : 8 x8 ", mesh(8, 8)),
        ("mesh:4x4,exclusive", mesh(4, 4, exclusive=True)),
        ("mesh:4x4,exclusive=no", mesh(4, 4)),
        ("torus:8x8x8@50GB/s,500ns", torus(8, 8, 8, bandwidth="50GB/s", latency="500ns")),
        (
            "torus:2x4@50GB/s,1us@25GB/s",
            torus(2, 4, bandwidth=["50GB/s", "25GB/s"], latency=["1us", "500ns"]),
        ),
        ("ring:8,unidirectional", ring(8, unidirectional=True)),
        ("switch:8,buffer=4,multicast=no", switch(8, buffer=4)),
        ("switch:8,multicast,reduce=yes", switch(8, multicast=True, reduce=True)),
        ("mesh:4x4@50GB/s,1us,5ns", mesh(4, 4, bandwidth="50GB/s", latency="1us", gap="5ns")),
        ("mesh:4x4,gap=5ns/0ns", mesh(4, 4, gap=("5ns", "0ns"))),
        ("switch2d:8x4", switch_2d(8, 4)),
        ("switch2d:8x4@1GB/s", switch_2d(8, 4, bandwidth="1GB/s")),
        (
            "switch2d:8x4@400GB/s,500ns@50GB/s,2us",
            switch_2d(8, 4, bandwidth=("400GB/s", "50GB/s"), latency=("500ns", "2us")),
        ),
        ("line:2 x ring:4@1GB/s", product(parse_topology("line:2"), ring(4, bandwidth="1GB/s"))),
        ("dgx1", zoology.dgx1()),
        ("a100:2", zoology.dgx_a100(2)),
        (
            "a100:4,nic=50GB/s,nic_latency=2us,nvlink_gap=9ns",
            zoology.dgx_a100(4, nic="50GB/s", nic_latency="2us", nvlink_gap="9ns"),
        ),
        ("h100:4,nvls=yes,sharp=yes", zoology.hgx_h100(4, nvls=True, sharp=True)),
        ("h100:4,nvls,sharp=no", zoology.hgx_h100(4, nvls=True)),
        ("mi250:2,xgmi=40GB/s", zoology.mi250(2, xgmi="40GB/s")),
        ("tpu-v4:2x2x2,ici_latency=1us", zoology.tpu_v4(2, 2, 2, ici_latency="1us")),
        ("tpu-v5e:2x4", zoology.tpu_v5e(2, 4)),
        ("tpu_v5e:2x4", zoology.tpu_v5e(2, 4)),
    ],
)
def test_texts_and_their_networks(text, network):
    assert parse_topology(text) == network


@pytest.mark.parametrize("entry", zoo(), ids=lambda entry: entry.name)
def test_every_example_reads_and_every_name_reads_back(entry):
    network = parse_topology(entry.example)
    assert entry.example.startswith(entry.name)
    assert entry.description
    again = parse_topology(network.name)
    assert (again.name, again.num_npus, again.num_links) == (
        network.name,
        network.num_npus,
        network.num_links,
    )


def test_every_generator_and_machine_is_in_the_zoo():
    modules = (zoology.generators.__name__, zoology.machines.__name__)
    public = {name: getattr(zoology, name) for name in zoology.__all__}
    named = {name for name, value in public.items() if value.__module__.startswith(modules)} - {
        "product"
    }
    assert {entry.build.__name__ for entry in zoo()} == named


def test_options_are_those_of_the_function():
    options = {entry.name: entry.options for entry in zoo()}
    assert options["ring"] == ("bandwidth", "latency", "exclusive", "gap", "unidirectional")
    assert options["grid"] == ("wrap", "bandwidth", "latency", "exclusive", "gap")
    assert options["tpu-v5e"] == ("ici", "ici_latency", "ici_gap", "wrap")
    assert options["h100"][:4] == ("nvls", "sharp", "nvlink", "nvlink_latency")


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("switch:8,bandwidth=50GB/s,latency=1us", "switch:8@50GB/s,1us"),
        ("switch,npus=8,latency=1us", "switch:8@50GiB/s,1us"),
        ("mesh:4x8,bandwidth=50GB/s/25GB/s", "mesh:4x8@50GB/s@25GB/s"),
        ("torus:2x4,bandwidth=50GB/s/25Gbps,latency=1us/2us", "torus:2x4@50GB/s,1us@25Gbps,2us"),
        ("switch2d:8x4,bandwidth=1GB/s", "switch2d:8x4@1GB/s"),
        ("leaf-spine:4x8,spines=2", "leaf-spine:4x8x2"),
        ("fat-tree,arity=4,buffer=2", "fat-tree:4,buffer=2"),
        ("hypercube:3,latency=1s", "hypercube:3@50GiB/s,1s"),
        ("dgx1,boxes=2", "dgx1:2"),
        ("tpu-v5e,rows=2,columns=4", "tpu-v5e:2x4"),
    ],
)
def test_options_by_name_say_the_same_as_the_short_form(text, short):
    assert parse_topology(text) == parse_topology(short)


@pytest.mark.parametrize("entry", zoo(), ids=lambda entry: entry.name)
def test_every_option_is_what_it_is_in_python(entry):
    """What a text means follows from the default of the parameter: yes or no, a quantity, or a number."""
    head = entry.example.partition("@")[0].partition(",")[0]
    words = head.partition(":")[2]
    numbers = [words] if entry.arguments == "SLICE" else [int(w) for w in words.split("x") if w]
    for name in entry.options:
        parameter = inspect.signature(entry.build).parameters[name]
        default = parameter.default
        if name == "sharp":
            # One box has no switch that it could be for.
            numbers = [3]
            head = f"{entry.name}:3"
        kind = name.rpartition("_")[2]
        quantity = {"latency": "7us", "gap": "7ns"}.get(kind, "7GB/s")
        if isinstance(default, bool) or "bool" in str(parameter.annotation):
            text, value = "yes", True
        elif name == "buffer":
            text, value = "7", 7
        else:
            text, value = quantity, quantity
        built = entry.build(*numbers, **{name: value})
        assert parse_topology(f"{head},{name}={text}") == built


@settings(max_examples=50, deadline=None)
@given(
    entry=st.sampled_from([e for e in zoo() if e.source and "ring" not in e.options]),
    bandwidth=st.integers(1, 10**11).map(BytesPerSecond),
    latency=st.integers(0, 10**9).map(Picoseconds),
    gap=st.integers(0, 10**9).map(Picoseconds),
)
def test_any_figures_of_a_machine_survive_text_and_file(entry, bandwidth, latency, gap):
    shape = {"AxB": ":2x3", "AxBxC": ":2x3x2", "SLICE": ":v6e-8"}.get(entry.arguments, "")
    # One of them alone has no link.
    shape = ":3" if entry.name == "spark" else shape
    wire = next(name for name in entry.options if f"{name}_gap" in entry.options)
    options = f"{wire}={bandwidth},{wire}_latency={latency},{wire}_gap={gap}"
    network = parse_topology(f"{entry.name}{shape},{options}")
    assert set((network.bandwidth % bandwidth).tolist()) == {0}
    assert set(network.latency.tolist()) == {latency}
    assert set(network.gap.tolist()) == {gap}
    assert topology_from_dict(topology_to_dict(network)) == network


def test_what_a_text_names():
    assert [entry.name for entry in named_in("torus:4x4@1GB/s")] == ["torus"]
    assert [entry.name for entry in named_in("A100:2,nic=1GB/s x ring:4")] == ["a100", "ring"]
    assert named_in("a100.yaml") == named_in("./a100") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tours:8x8", "topology 'tours:8x8': there is no 'tours'; did you mean 'torus'"),
        ("", "there is no ''; known are line, ring"),
        ("dgx-a100", "did you mean .*'a100'"),
        ("mesh", "'' does not describe a mesh; write mesh:AxBx..., for example mesh:8x8"),
        ("mesh:8x", "'8x' does not describe a mesh"),
        ("mesh:8x0", "'8x0' does not describe a mesh"),
        ("mesh:8x-1", "does not describe a mesh"),
        ("mesh:²", "does not describe a mesh"),
        ("line:2x2", "'2x2' does not describe a line; write line:N"),
        ("dgx1:2x2", "does not describe a dgx1; write dgx1:.boxes."),
        ("switch2d:8", "does not describe a switch2d; write switch2d:NPUSxNODES"),
        ("tpu-v4:4x4", "a tpu-v4 has 3 dimensions, not 2"),
        ("mesh:9999x9999", "beyond 1,000,000 NPUs"),
        ("h100:999999", "beyond 1,000,000 NPUs"),
        ("fully-connected:20000", "more than 10,000,000 links"),
        ("hypercube:100", "more than 10,000,000 links"),
        ("fat-tree:10000", "more than 10,000,000 links"),
        ("dragonfly:9x3000x1", "more than 10,000,000 links"),
        ("mesh:1000x100 x mesh:1000x100", "more than 10,000,000 links"),
        (
            "mesh:8x8,unidirectional",
            "mesh has no option 'unidirectional'; its options are bandwidth, latency",
        ),
        ("dgx1,exclusive", "dgx1 has no option 'exclusive'; its options are boxes"),
        ("a100,nik=1GB/s", "a100 has no option 'nik'; its options are boxes, sharp, nvlink,"),
        ("a100,nvls=yes", "a100 has no option 'nvls'"),
        ("a100:2,nic=50", "nic '50' has no unit"),
        ("a100:2,nic_latency=2", "nic_latency '2' has no unit"),
        ("a100:2,nic_gap=2GB/s", "nic_gap '2GB/s' has unknown unit"),
        ("a100:2,nic", "nic needs a value, such as nic=25GB/s"),
        ("a100:2,nic=0GB/s", "must be positive"),
        ("a100:2,nic=1GB/s/2GB/s", "nic is one value, not 2: '1GB/s/2GB/s'"),
        ("h100:2,nvls=maybe", "nvls is yes or no, not 'maybe'"),
        ("h100:2,nvls=yes/no", "nvls is one value, not 2"),
        ("h100:2,nvls=", "nvls is yes or no, not ''"),
        ("mesh:8x8,exclusive=", "exclusive is yes or no, not ''"),
        ("grid:4x4,wrap=yes/", "wrap is yes or no, not ''"),
        (
            "dgx2:2,sharp=yes",
            "dgx2:2: sharp is for InfiniBand switches, and boxes joined NIC to NIC have none",
        ),
        ("mesh:8x8,exclusive=maybe", "exclusive is yes or no, not 'maybe'"),
        ("mesh:8x8,exclusive,exclusive", "given twice"),
        (
            "a100:4,nic=50GB/s,nic=20GB/s",
            "topology 'a100:4,nic=50GB/s,nic=20GB/s': the option 'nic'",
        ),
        ("switch:8,buffer", "buffer is a positive number of chunks, not ''"),
        ("switch:8,buffer=0", "buffer is a positive number of chunks, not '0'"),
        ("switch:8,buffer=1234567890", "a positive number of chunks, of at most nine digits, not"),
        ("switch:8,npus=8", "'8' does not describe a switch"),
        ("ring:8,latency=1us@1GB/s", "the latency is given twice"),
        ("ring:8,latency", "latency needs a value, such as latency=500ns"),
        ("ring:8,bandwidth=1GB/s/2GB/s", "bandwidth is one value, not 2: '1GB/s/2GB/s'"),
        ("tpu-v4:4x4x4,speed=1", "tpu-v4 has no option 'speed'; its options are ici"),
        ("mesh:8x8@50", "bandwidth of link 0 .* '50' has no unit"),
        ("mesh:8x8@500ns", "unknown unit 'ns'"),
        ("mesh:8x8@", "not a number followed by a unit"),
        ("mesh:8x8@0GB/s", "must be positive"),
        ("mesh:8x8@50GB/s,500ns,exclusive", "options go before the first '@'"),
        (
            "mesh:2x2x2@1GB/s@2GB/s",
            "2 parts with '@': give one for all links, or one for: each dimension",
        ),
        ("ring:4@1GB/s@2GB/s", "one for: every link"),
        ("leaf-spine:4x8x2@1GB/s@1GB/s@1GB/s", "NPU to leaf, leaf to spine"),
        ("dgx1@50GB/s", "such as nvlink=25GB/s; leave out '@50GB/s'"),
        ("fat-tree:3", "even number of ports"),
        ("grid:4x4,wrap=yes/no/yes", "wrap has 3 entries for 2 dimensions"),
        ("line:2 x nothing", "topology 'line:2 x nothing': there is no 'nothing'"),
    ],
)
def test_errors_name_the_text_and_the_cure(text, message):
    with pytest.raises(TopologyError, match=message) as caught:
        parse_topology(text)
    assert repr(text) in str(caught.value)
    assert not isinstance(caught.value, UnitError)


def test_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_topology(mesh(2, 2), "net.yaml")
    assert parse_topology("net.yaml") == parse_topology(str(tmp_path / "net.yaml")) == mesh(2, 2)
    (tmp_path / "net.yaml").rename("network")
    assert parse_topology("network") == mesh(2, 2)
    with pytest.raises(FormatError, match=r"missing.yaml: there is no such file"):
        parse_topology("missing.yaml")


def test_a_known_name_is_never_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dgx1").write_text("not a network")
    assert parse_topology("dgx1") == zoology.dgx1()
    with pytest.raises(FormatError):
        parse_topology("./dgx1")
