"""Real machines: counts, a few links, bandwidths in sum, what switches can do, and that figures can be replaced."""

from __future__ import annotations

import inspect
from functools import partial

import numpy as np
import pytest

from pccl.errors import TopologyError, UnitError
from pccl.topology import (
    aws_p4d,
    aws_p5,
    aws_p5e,
    aws_trn2,
    aws_trn2_ultraserver,
    azure_ndv4,
    azure_ndv5,
    dgx1,
    dgx2,
    dgx_a100,
    dgx_spark,
    gb200_nvl72,
    gb300_nvl72,
    hgx_b200,
    hgx_h100,
    hgx_h200,
    mi250,
    mi300x,
    mi355x,
    ndv2,
    parse_topology,
    tpu,
    tpu7x,
    tpu_v4,
    tpu_v5e,
    tpu_v5p,
    tpu_v6e,
)

GB = 10**9
# Every machine, with a network if it has one.
INFINIBAND = [
    dgx1,
    ndv2,
    dgx2,
    dgx_a100,
    hgx_h100,
    hgx_h200,
    hgx_b200,
    gb200_nvl72,
    gb300_nvl72,
    azure_ndv4,
    azure_ndv5,
    mi250,
    mi300x,
    mi355x,
]
BOXES = [*INFINIBAND, aws_p4d, aws_p5, aws_p5e, aws_trn2, aws_trn2_ultraserver]
MACHINES = [
    *(partial(build, 3) for build in BOXES),
    partial(tpu_v4, 2, 2, 2),
    partial(tpu_v5e, 2, 2),
    partial(tpu_v5p, 2, 2, 2),
    partial(tpu_v6e, 2, 2),
    partial(tpu7x, 2, 2, 2),
    partial(dgx_spark, 3),
]


def speed(network, src, dst):
    """GB/s and nanoseconds of the only link between two devices, given by number or name."""
    a, b = (end if isinstance(end, int) else network.labels.index(end) for end in (src, dst))
    (link,) = ((network.src == a) & (network.dst == b)).nonzero()[0]
    return network.bandwidth[link] / GB, network.latency[link] / 1000


@pytest.mark.parametrize(
    ("network", "npus", "switches", "links", "total"),
    [
        (dgx1(), 8, 0, 32, 1200),
        (dgx1(2), 16, 9, 64 + 2 * 16 + 2 * 8, 2400 + 32 * 16 + 16 * 12.5),
        (ndv2(), 8, 0, 32, 1200),
        (ndv2(2), 16, 0, 66, 2425),
        (ndv2(4), 32, 1, 136, 4900),
        (dgx2(), 16, 1, 32, 4000),
        (dgx2(2), 32, 2, 80, 8200),
        (dgx2(3), 48, 3 + 8, 96 + 48, 12000 + 48 * 12.5),
        (dgx_a100(), 8, 1, 16, 4800),
        (dgx_a100(2), 16, 4, 64, 10400),
        (dgx_a100(4), 32, 6, 128, 20800),
        (mi250(), 16, 0, 56, 5600),
        (mi250(2), 32, 1, 176, 12224),
        (hgx_h100(), 8, 1, 16, 16 * 400 * 2**30 / GB),
        (hgx_h100(4), 32, 12, 128, 64 * 400 * 2**30 / GB + 64 * 50),
        (tpu_v4(4, 4, 4), 64, 0, 384, 384 * 50),
        (tpu_v5e(4, 4), 16, 0, 48, 48 * 50),
        (tpu_v5e(16, 16), 256, 0, 1024, 1024 * 50),
        (tpu_v6e(8, 16), 128, 0, 2 * (8 * 16 + 7 * 16), 480 * 100),
        (tpu7x(4, 4, 4), 64, 0, 384, 384 * 100),
        (hgx_h200(2), 16, 10, 64, 32 * 450 + 32 * 50),
        (hgx_b200(), 8, 1, 16, 16 * 900),
        (gb200_nvl72(2), 144, 2 + 4, 576, 288 * 900 + 288 * 50),
        (gb300_nvl72(), 72, 1, 144, 144 * 900),
        (mi300x(), 8, 0, 56, 56 * 64),
        (mi355x(2), 16, 8, 144, 112 * 76.8 + 32 * 50),
        (aws_p4d(2), 16, 2 + 8 + 1, 80, 32 * 300 + 32 * 16 + 16 * 12.5),
        (aws_p5(2), 16, 3, 64, 32 * 450 + 32 * 50),
        (azure_ndv4(2), 16, 3, 64, 32 * 300 + 32 * 25),
        (azure_ndv5(2), 16, 3, 64, 32 * 450 + 32 * 50),
        (aws_trn2(), 16, 0, 64, 64 * 128),
        (aws_trn2_ultraserver(), 64, 0, 384, 256 * 128 + 128 * 64),
        (dgx_spark(2), 2, 0, 2, 2 * 25),
        (dgx_spark(4), 4, 0, 8, 8 * 25),
        (tpu_v5p(4, 4, 4), 64, 0, 384, 384 * 100),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_counts_and_total_bandwidth_in_gb_per_s(network, npus, switches, links, total):
    assert (network.num_npus, len(network.switches), network.num_links) == (npus, switches, links)
    assert network.bandwidth.sum() == pytest.approx(total * GB)


@pytest.mark.parametrize("build", BOXES)
@pytest.mark.parametrize("boxes", [1, 2, 3, 5])
def test_every_box_is_like_the_first(build, boxes):
    one, many = build(), build(boxes)
    per_box = one.num_npus
    assert many.shape == ((per_box,) if boxes == 1 else (boxes, per_box))
    assert many.name == (one.name if boxes == 1 else f"{one.name}:{boxes}")
    inside = [
        (a % per_box, b % per_box)
        for a, b in zip(many.src.tolist(), many.dst.tolist(), strict=True)
        if max(a, b) < many.num_npus and a // per_box == b // per_box
    ]
    direct = [
        pair for pair in zip(one.src.tolist(), one.dst.tolist(), strict=True) if max(pair) < per_box
    ]
    assert sorted(inside) == sorted(direct * boxes)


def test_dgx1():
    assert speed(dgx1(), 0, 1) == (50, 700)
    assert speed(dgx1(), 0, 2) == (25, 700)
    two = dgx1(2)
    assert speed(two, 15, "nic7") == (16, 0)
    assert speed(two, "nic7", "infiniband") == (12.5, 1300)


def test_ndv2_sends_from_its_first_and_receives_at_its_second_npu():
    assert speed(ndv2(2), 0, 9) == speed(ndv2(2), 8, 1) == (12.5, 1300)
    assert speed(ndv2(3), 16, "infiniband") == speed(ndv2(3), "infiniband", 17) == (12.5, 1300)


def test_dgx2_sends_from_odd_and_receives_at_even_npus():
    assert speed(dgx2(), 3, "nvswitch0") == (125, 350)
    assert speed(dgx2(2), 1, 16) == speed(dgx2(2), 31, 14) == (12.5, 2600)
    assert speed(dgx2(3), 47, "infiniband7") == speed(dgx2(3), "infiniband7", 14) == (12.5, 1300)


def test_a100_and_h100_rails():
    for ends in ((8, "infiniband0"), ("infiniband1", 15)):
        assert speed(dgx_a100(2), *ends) == (25, 1350)
    assert speed(dgx_a100(), 0, "nvswitch0") == (300, 300)
    assert speed(hgx_h100(2), 10, "rail2") == speed(hgx_h100(2), "rail7", 15) == (50, 1000)
    assert speed(hgx_h100(2), 10, "nvswitch1") == (400 * 2**30 / GB, 936.25)


def test_mi250():
    assert [speed(mi250(), *pair)[0] for pair in ((0, 1), (0, 4), (0, 8))] == [200, 100, 50]
    assert speed(mi250(), 0, 1) == (200, 800)
    assert speed(mi250(2), "infiniband", 31) == (16, 1350)


@pytest.mark.parametrize("build", BOXES)
def test_no_boxes(build):
    with pytest.raises(TopologyError, match="needs a positive number of boxes, not 0"):
        build(0)


def test_dimensions_of_tpus():
    with pytest.raises(TopologyError, match="a tpu-v4 has 3 dimensions, not 2"):
        tpu_v4(4, 4)


def able(network):
    """The names of the switches that multiply, and of those that add."""
    return tuple(
        {network.labels[switch] for switch in network.switches if column[switch]}
        for column in (network.multicast, network.reduce)
    )


@pytest.mark.parametrize("build", BOXES)
def test_switches_are_plain_unless_a_runtime_uses_what_they_can_do(build):
    assert able(build(3)) == (set(), set())


def test_nvls_is_for_nvswitches_and_sharp_for_those_of_infiniband():
    boxes = {"nvswitch0", "nvswitch1", "nvswitch2"}
    rails = {f"rail{i}" for i in range(8)}
    assert able(hgx_h100(3, nvls=True)) == (boxes, boxes)
    assert able(hgx_h100(3, sharp=True)) == (rails, rails)
    assert able(hgx_h100(3, nvls=True, sharp=True)) == (boxes | rails, boxes | rails)
    assert not hgx_h100(3, nvls=True, sharp=True).plain


@pytest.mark.parametrize("build", INFINIBAND)
def test_sharp_leaves_nvswitches_and_nics_plain(build):
    network = build(3, sharp=True)
    middle = {name for name in network.labels if name.startswith(("infiniband", "rail"))}
    assert middle
    assert able(network) == (middle, middle)
    assert network.name.endswith(":3,sharp=yes")


@pytest.mark.parametrize(
    "build",
    [dgx1, partial(dgx2, 2), hgx_h100, mi300x, partial(ndv2, 2), partial(hgx_h100, nvls=True)],
)
def test_sharp_needs_a_switch_of_infiniband(build):
    assert build(sharp=False).num_npus
    with pytest.raises(
        TopologyError, match=r"sharp is for InfiniBand switches, and .* none; leave it out"
    ):
        build(sharp=True)


def test_who_has_nvls():
    """NVSwitches multiply and add from their third generation on, which is that of H100."""
    able_ones = {build for build in BOXES if "nvls" in options(build)}
    racks = {gb200_nvl72, gb300_nvl72}
    assert able_ones == {hgx_h100, hgx_h200, hgx_b200, aws_p5, aws_p5e, azure_ndv5} | racks


@pytest.mark.parametrize(
    ("name", "shape", "wraps"),
    [
        ("v5p-8", (2, 2, 1), False),
        ("v5p-128", (4, 4, 4), True),
        ("v4-4096", (8, 16, 16), True),
        ("v6e-64", (8, 8), False),
        ("v6e-256", (16, 16), True),
        ("v5litepod-16", (4, 4), False),
        ("tpu7x-256", (4, 4, 8), True),
    ],
)
def test_slices_by_name_wrap_round_where_they_are_whole(name, shape, wraps):
    network = tpu(name)
    assert network.shape == shape
    longest = max(range(len(shape)), key=shape.__getitem__)
    far = (shape[longest] - 1) * int(np.prod(shape[longest + 1 :]))
    assert ((network.src == 0) & (network.dst == far)).any() == (wraps or shape[longest] == 2)
    assert parse_topology(f"tpu:{name}") == network


def test_slices_can_be_edited_and_must_exist():
    assert speed(parse_topology("tpu:v6e-8,ici=7GB/s,wrap=yes"), 0, 3) == (7, 500)
    with pytest.raises(TopologyError, match=r"v5p has no slice of 100; it has 8, 16"):
        tpu("v5p-100")
    with pytest.raises(TopologyError, match=r"no slice of TPUs such as v5p-128"):
        parse_topology("tpu:v9-8")


def test_a_rack_is_found_by_what_it_is_called():
    with pytest.raises(TopologyError, match="there is no 'nvl72'; did you mean 'gb200' or 'gb300'"):
        parse_topology("nvl72")


def test_an_answer_is_yes_or_no():
    with pytest.raises(TopologyError, match="h100: nvls is True or False, not 'no'"):
        hgx_h100(2, nvls="no")
    assert hgx_h100(2, nvls=np.True_) == hgx_h100(2, nvls=True)


def options(build):
    parameters = inspect.signature(build).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def figures(build):
    return {name: default for name, default in options(build).items() if isinstance(default, str)}


@pytest.mark.parametrize("build", MACHINES, ids=lambda build: build.func.__name__)
def test_every_figure_can_be_replaced(build):
    """Each figure is that of some links, and a new one reaches all of them and nothing else."""
    usual = build()
    columns = {"latency": "7us", "gap": "77ns", "": "7GB/s"}
    touched = dict.fromkeys(columns, 0)
    for name, default in figures(build.func).items():
        wire, _, kind = name.partition("_")
        changed = build(**{name: columns[kind]})
        column = kind or "bandwidth"
        before, after = getattr(usual, column), getattr(changed, column)
        assert (before != after).any(), name
        touched[kind] += (before != after).sum()
        for other in {"bandwidth", "latency", "gap"} - {column}:
            assert (getattr(usual, other) == getattr(changed, other)).all()
        assert build(**{name: default}) == usual
        assert wire in figures(build.func), "a latency and a gap belong to a kind of link"
    assert set(touched.values()) == {usual.num_links}, "every link has all three figures"


@pytest.mark.parametrize("build", MACHINES, ids=lambda build: build.func.__name__)
def test_every_figure_needs_its_unit(build):
    for name in figures(build.func):
        with pytest.raises(UnitError, match=f"^{name} 7 has no unit"):
            build(**{name: 7})


def test_several_wires_to_a_pair_are_one_link_of_their_sum():
    assert speed(dgx1(nvlink="20GB/s"), 0, 1) == (40, 700)
    assert speed(mi250(xgmi="40GB/s"), 0, 1) == (160, 800)


def test_two_dgx2_are_joined_nic_to_nic():
    assert speed(dgx2(2, nic_latency="1us"), 1, 16) == (12.5, 2000)


@pytest.mark.parametrize("build", BOXES)
def test_all_links_take_time_but_pcie_and_messages_over_nics_cost_some(build):
    network = build(3)
    ends = [
        {network.labels[src], network.labels[dst]}
        for src, dst in zip(network.src, network.dst, strict=True)
    ]
    inside = [any(name.startswith(("npu", "nvswitch")) for name in pair) for pair in ends]
    to_network = [
        any(name.startswith(("infiniband", "rail", "efa")) for name in pair) for pair in ends
    ]
    for link, between in enumerate(to_network):
        assert inside[link] or between
        assert (network.gap[link] > 0) == between
        assert network.gap[link] < network.latency[link] / 100 or not between
    assert (network.latency > 0).all() or build is dgx1
