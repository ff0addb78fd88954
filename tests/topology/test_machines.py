"""Real machines: counts, a few links, and total bandwidths."""

from __future__ import annotations

import pytest

from pccl.errors import TopologyError
from pccl.topology import dgx1, dgx2, dgx_a100, hgx_h100, mi250, ndv2, tpu_v4, tpu_v5e, tpu_v5p

GB = 10**9


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
        (tpu_v5e(4, 4), 16, 0, 64, 64 * 50),
        (tpu_v5p(4, 4, 4), 64, 0, 384, 384 * 100),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_counts_and_total_bandwidth_in_gb_per_s(network, npus, switches, links, total):
    assert (network.num_npus, len(network.switches), network.num_links) == (npus, switches, links)
    assert network.bandwidth.sum() == pytest.approx(total * GB)


@pytest.mark.parametrize("build", [dgx1, ndv2, dgx2, dgx_a100, hgx_h100, mi250])
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
    assert speed(dgx_a100(2), 8, "infiniband0") == speed(dgx_a100(2), "infiniband1", 15) == (25, 0)
    assert speed(hgx_h100(2), 10, "rail2") == speed(hgx_h100(2), "rail7", 15) == (50, 1000)
    assert speed(hgx_h100(2), 10, "nvswitch1") == (400 * 2**30 / GB, 936.25)


def test_mi250():
    assert [speed(mi250(), *pair)[0] for pair in ((0, 1), (0, 4), (0, 8))] == [200, 100, 50]
    assert speed(mi250(2), "infiniband", 31) == (16, 0)


@pytest.mark.parametrize("build", [dgx1, ndv2, dgx2, dgx_a100, hgx_h100, mi250])
def test_no_boxes(build):
    with pytest.raises(TopologyError, match="needs a positive number of boxes, not 0"):
        build(0)


def test_dimensions_of_tpus():
    with pytest.raises(TopologyError, match="a tpu-v4 has 3 dimensions, not 2"):
        tpu_v4(4, 4)
