"""Baselines shaped like NCCL: channels over all NICs, right on every network, in the time that arithmetic says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.schemes.channels import boxes_of, rings_of
from pccl.schemes.nccl import trees_across
from pccl.schemes.workload import UnsupportedError, Workload
from pccl.topology import Link, Switch, Topology, parse_topology

NCCL = ("nccl-ring", "nccl-tree", "nvls")


def workload(topology, group=None):
    return Workload.of(topology, pccl.AllGather("1MiB", group))


def milliseconds(name, topology, collective):
    algorithm = pccl.baseline(name, topology, collective)
    pccl.verify(algorithm)
    return algorithm.duration / 10**9


def rails(boxes, npus, *, multicast=False, reduce=False, box="100GB/s", nic="10GB/s"):
    """Boxes of NPUs on a switch; the NPUs at the same place of each box share a rail."""
    links = []
    for npu in range(boxes * npus):
        inside = boxes * npus + npu // npus
        outside = boxes * npus + boxes + npu % npus
        for hub, bandwidth in ((inside, box), (outside, nic)):
            links += [Link(npu, hub, bandwidth, "1us"), Link(hub, npu, bandwidth, "1us")]
    switches = [Switch(f"box{i}", None, multicast, reduce) for i in range(boxes)]
    switches += [Switch(f"rail{i}") for i in range(npus)]
    shape = (boxes, npus) if boxes > 1 else ()
    return Topology.from_links(boxes * npus, links, switches, name="rails", shape=shape)


# --- channels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "nics"),
    [
        ("h100:4", [(i, i) for i in range(8)]),
        ("a100:2", [(i, i) for i in range(8)]),
        ("dgx2:2", [(i + 1, i) for i in range(0, 16, 2)]),  # the odd NPU of a NIC sends
        ("ndv2:4", [(0, 1)]),
        ("dgx1:2", [(0, 0), (2, 2), (4, 4), (6, 6)]),  # two NPUs share a NIC
        ("switch2d:4x4", [(i, i) for i in range(4)]),
        ("mesh:4x4", []),  # rows are no boxes: not all of them are joined
        ("torus:4x4", []),
    ],
)
def test_there_is_a_channel_for_every_nic(name, nics):
    boxes = boxes_of(workload(parse_topology(name)))
    assert [tuple(nic) for nic in boxes.nics] == nics
    assert (len(boxes.member) > 1) == bool(nics)


@pytest.mark.parametrize("name", ["h100:2", "h100:3", "h100:4", "a100:2", "dgx2:2", "dgx2:4"])
def test_every_ring_enters_and_leaves_a_box_once_and_shares_no_nic(name):
    topology = parse_topology(name)
    boxes, npus = topology.shape
    rings = rings_of(workload(topology))
    assert all(sorted(ring) == list(range(boxes * npus)) for ring in rings.tolist())
    crossings = set()
    for ring in rings:
        after = np.roll(ring, -1)
        crosses = ring // npus != after // npus
        assert np.count_nonzero(crosses) == boxes
        ends = zip(ring[crosses].tolist(), after[crosses].tolist(), strict=True)
        crossings |= set(ends)
    assert len({sender for sender, _ in crossings}) == boxes * len(rings)
    assert len({receiver for _, receiver in crossings}) == boxes * len(rings)


@pytest.mark.parametrize(
    ("name", "rings"),
    [
        ("switch:8", 1),  # one ring keeps all ports busy
        ("ring:6", 2),  # one for each direction
        ("mesh:4x4", 2),
        ("dgx1", 6),  # three cycles both ways, one of which takes double links twice
    ],
)
def test_without_boxes_rings_share_no_bandwidth(name, rings):
    topology = parse_topology(name)
    found = rings_of(workload(topology))
    assert len(found) == rings
    hops = np.concatenate([np.stack([ring, np.roll(ring, -1)], axis=1) for ring in found])
    pairs, uses = np.unique(hops, axis=0, return_counts=True)
    slowest = topology.bandwidth.min()
    for (here, there), count in zip(pairs.tolist(), uses.tolist(), strict=True):
        joining = (topology.src == here) & (topology.dst == there)
        if np.any(joining):
            assert count * slowest <= topology.bandwidth[joining].sum()


def test_a_group_has_the_channels_of_its_places():
    h100 = parse_topology("h100:4")
    first_four = [8 * box + place for box in range(4) for place in range(4)]
    assert len(boxes_of(workload(h100, first_four)).nics) == 4
    one_rail = list(range(3, 32, 8))
    assert boxes_of(workload(h100, one_rail)).member.shape == (4, 1)
    ragged = [0, 1, 2, 8, 9, 16]
    assert len(boxes_of(workload(h100, ragged)).member) == 1


@pytest.mark.parametrize("boxes", range(2, 18))
def test_boxes_that_pass_on_in_one_tree_are_leaves_of_the_other(boxes):
    inner = []
    for parents in trees_across(boxes).tolist():
        assert parents.count(-1) == 1
        root = parents.index(-1)
        for box in range(boxes):
            steps = 0
            while parents[box] >= 0:
                box = parents[box]
                steps += 1
                assert steps <= boxes.bit_length()
            assert box == root
        inner.append({parent for parent in parents if parents.count(parent) == 2})
    assert not inner[0] & inner[1]


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("boxes", [2, 3, 4])
def test_rings_use_all_nics(boxes):
    """Each of four NICs carries a fourth of nearly everything; of a ring through one NIC all goes there."""
    topology = rails(boxes, 4)
    n = 4 * boxes
    alone = (
        40 * (n - 1) / n
    )  # ms that 400 MB, but for one's own share, take over one NIC of 10 GB/s
    gathered = milliseconds("nccl-ring", topology, pccl.AllGather("400MB"))
    assert gathered == pytest.approx(alone / 4, rel=0.03)
    reduced = milliseconds("nccl-ring", topology, pccl.AllReduce("400MB"))
    assert reduced == pytest.approx(2 * alone / 4, rel=0.05)


def test_trees_are_soon_there():
    """Across eight boxes of two: three levels up and down instead of fifteen steps round, twice."""
    topology = rails(8, 2)
    small = pccl.AllReduce("1KiB")
    assert (
        milliseconds("nccl-tree", topology, small) < milliseconds("nccl-ring", topology, small) / 2
    )


def test_switches_that_add_and_multiply_halve_what_leaves_an_npu():
    """Four NPUs on a switch of 1 GB/s. Everyone sends its data once and gets the result once, at the same time."""
    able = pccl.topology.switch(4, bandwidth="1GB/s", latency="0ns", multicast=True, reduce=True)
    everything = pccl.AllReduce("400MB")
    # Three fourths up to the heads, one fourth of sums to be spread: 400 MB each way, nearly.
    assert milliseconds("nvls", able, everything) == pytest.approx(400, rel=0.1)
    assert milliseconds("nccl-ring", able, everything) == pytest.approx(600, rel=0.05)
    gather = pccl.AllGather("400MB")
    assert milliseconds("nvls", able, gather) == pytest.approx(300, rel=0.05)


def test_more_pieces_are_taken_for_more_data():
    topology = parse_topology("h100:2")
    pieces = [
        pccl.baseline("nccl-ring", topology, pccl.AllGather(size)).collectives[0].pieces
        for size in ("1KiB", "1GiB")
    ]
    assert pieces[0] == 1 < pieces[1]
    given = pccl.baseline("nccl-ring", topology, pccl.AllGather("1GiB", chunks=3))
    assert given.collectives[0].pieces == 3


# --- right everywhere -------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["all-gather", "reduce-scatter", "all-reduce", "broadcast", "reduce"]),
    st.sampled_from([1, 2, 3, None]),
    st.sampled_from(["7B", "1kB", "1MB"]),
)
def test_they_are_right_on_boxes_of_any_size(boxes, npus, multicast, reduce, kind, chunks, size):
    topology = rails(boxes, npus, multicast=multicast, reduce=reduce)
    collective = pccl.collective.COLLECTIVES[kind](size, chunks=chunks)
    bound = pccl.lower_bound(topology, collective).value
    ran = set()
    for name in NCCL:
        try:
            algorithm = pccl.baseline(name, topology, collective)
        except UnsupportedError:
            continue
        pccl.verify(algorithm)
        assert bound <= algorithm.duration
        ran.add(name)
    assert "nccl-ring" in ran
    able = multicast and reduce and npus > 1
    assert ("nvls" in ran) == (able and kind in ("all-gather", "reduce-scatter", "all-reduce"))


@pytest.mark.parametrize("name", ["a100:2", "h100:3", "mi250:2", "ndv2:2", "dgx1:2", "mesh:3x3"])
@pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter", "broadcast"])
def test_they_are_right_on_machines(name, kind):
    topology = parse_topology(name)
    for baseline in NCCL[:2]:
        if kind in {entry.name: entry.kinds for entry in pccl.baselines()}[baseline]:
            milliseconds(baseline, topology, pccl.collective.COLLECTIVES[kind]("1MiB"))


def test_nvls_is_asked_for():
    with pytest.raises(pccl.PcclError, match="needs a switch that multiplies and adds"):
        pccl.baseline("nvls", parse_topology("h100:2"), pccl.AllReduce("1MiB"))
    milliseconds("nvls", parse_topology("h100:2,nvls=yes"), pccl.AllReduce("1MiB"))


def test_they_are_the_same_every_time():
    topology = parse_topology("mi250:2")
    first, second = (pccl.baseline("nccl-ring", topology, pccl.AllReduce("1MiB")) for _ in "ab")
    assert first == second
