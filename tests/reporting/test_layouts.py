"""Layouts: every device has a place of its own, and networks look as people know them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pccl.reporting import Drawing, arrange
from pccl.reporting.layouts import drawing as drawings
from pccl.reporting.layouts import npus as shapes
from pccl.topology import Link, Switch, Topology, dragonfly, grid, parse_topology, ring, zoo
from tests.strategies import networks, topologies


def distances(drawing: Drawing) -> np.ndarray:
    xy = np.stack([drawing.x, drawing.y], axis=1)
    apart = np.hypot(*(xy[:, None] - xy[None]).transpose(2, 0, 1))
    np.fill_diagonal(apart, np.inf)
    return apart


def along(curve: np.ndarray, count: int = 41) -> np.ndarray:
    t = np.linspace(0, 1, count)[:, None]
    a, b, c, d = curve
    return (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d


def touched(topology: Topology, drawing: Drawing) -> int:
    """How many links lead over devices that are not theirs."""
    xy = np.stack([drawing.x, drawing.y], axis=1)
    count = 0
    for link, curve in enumerate(drawing.curves()):
        others = np.delete(xy, [topology.src[link], topology.dst[link]], axis=0)
        if len(others):
            near = np.hypot(*(along(curve)[:, None] - others[None]).transpose(2, 0, 1)).min()
            count += near < drawing.radius
    return count


@settings(deadline=None)
@given(topologies(absent=True) | networks())
def test_no_two_devices_touch(topology):
    drawing = arrange(topology)
    assert np.all(np.isfinite(drawing.x) & np.isfinite(drawing.y))
    assert distances(drawing).min() > 2 * drawing.radius > 0


@pytest.mark.parametrize(
    "text", [entry.example for entry in zoo()] + ["h100:32", "dgx1:4", "ring:3 x switch:4"]
)
def test_every_network_with_a_name_can_be_drawn(text):
    topology = parse_topology(text)
    drawing = arrange(topology)
    assert distances(drawing).min() > 2 * drawing.radius > 0
    assert drawing.curves(0.1).shape == (topology.num_links, 4, 2)
    left, top, right, bottom = drawing.extent
    assert left <= drawing.x.min() < right
    assert top <= drawing.y.min()
    assert drawing.y.max() <= bottom


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=4).filter(
        lambda shape: sum(s > 1 for s in shape) > 1
    ),
    st.data(),
)
def test_grid_neighbours_are_next_to_each_other(shape, data):
    wrap = [data.draw(st.booleans()) for _ in shape]
    topology = grid(*shape, wrap=wrap)
    drawing = arrange(topology)
    assert drawing.kind == "grid"
    step = np.abs(
        np.subtract(
            *(np.stack(np.unravel_index(ends, shape)) for ends in (topology.src, topology.dst))
        )
    )
    assert np.array_equal(drawing.wraps, step.max(axis=0) > 1)
    delta = np.stack(
        [
            drawing.x[topology.dst] - drawing.x[topology.src],
            drawing.y[topology.dst] - drawing.y[topology.src],
        ]
    )
    for axis in range(len(shape)):  # along a dimension, a step is the same everywhere
        steps = np.abs(delta[:, (step[axis] == 1) & ~drawing.wraps])
        assert np.allclose(steps, steps[:, :1], atol=0.002)
    if sum(size > 1 for size in shape) == 2:
        neighbours = np.hypot(*delta)[~drawing.wraps]
        assert np.allclose(neighbours, distances(drawing).min())


@pytest.mark.parametrize("text", ["torus:4x4", "torus:4x6", "dgx1", "mi250", "mi250:2", "ndv2:2", "h100:4",
                                  "switch2d:8x4", "leaf-spine:4x8x2", "fat-tree:4", "dragonfly:5x4x2", "switch:8",
                                  "dgx1:2", "mesh:3x3x3", "hypercube:4"])  # fmt: skip
def test_links_lead_round_other_devices(text):
    topology = parse_topology(text)
    assert touched(topology, arrange(topology)) == 0


def test_wrap_links_are_arcs_that_both_directions_share():
    topology = ring(4)
    torus = parse_topology("torus:3x4")
    drawing = arrange(torus)
    assert not arrange(topology).wraps.any()  # a circle needs none
    assert np.all((drawing.rise != 0) == drawing.wraps)
    for link in np.flatnonzero(drawing.wraps):
        back = np.flatnonzero((torus.src == torus.dst[link]) & (torus.dst == torus.src[link]))[0]
        assert np.allclose(drawing.curves()[link], drawing.curves()[back][::-1])


def test_directions_and_parallel_links_are_apart():
    links = [Link(0, 1, "1GB/s", "0ns"), Link(1, 0, "1GB/s", "0ns"), Link(0, 1, "1GB/s", "0ns")]
    drawing = arrange(Topology.from_links(2, links))
    assert drawing.lane.tolist() == [0, 0, 1]
    assert drawing.curves(0.1)[:, 0, 1].tolist() == [0.05, -0.05, 0.15]


def test_a_ring_is_a_circle_whatever_its_numbers():
    order = [0, 3, 1, 4, 2]
    links = [Link(a, b, "1GB/s", "0ns") for a, b in zip(order, order[1:] + order[:1], strict=True)]
    drawing = arrange(Topology.from_links(5, links))
    centre = drawing.x.mean(), drawing.y.mean()
    assert drawing.kind == "ring"
    assert np.ptp(np.hypot(drawing.x - centre[0], drawing.y - centre[1])) < 0.01
    lengths = np.hypot(*(drawing.curves()[:, 0] - drawing.curves()[:, 3]).T)
    assert np.allclose(lengths, distances(drawing).min(), atol=0.002)


@pytest.mark.parametrize(("text", "boxes", "npus"), [("h100:4", 4, 8), ("a100:2", 2, 8), ("ndv2:2", 2, 8),
                                                     ("dgx2:2", 2, 16), ("h100:20", 20, 8)])  # fmt: skip
def test_boxes_frame_their_npus_and_leave_shared_switches_outside(text, boxes, npus):
    topology = parse_topology(text)
    drawing = arrange(topology)
    assert drawing.kind == "boxes"
    assert len(drawing.frames) == boxes
    for number, frame in enumerate(drawing.frames):
        inside = (
            (frame.left < drawing.x)
            & (drawing.x < frame.right)
            & (frame.top < drawing.y)
            & (drawing.y < frame.bottom)
        )
        own = np.flatnonzero(inside & (topology.kind == 0))
        assert own.tolist() == list(range(number * npus, (number + 1) * npus))
        assert not any(
            topology.labels[s].startswith(("infiniband", "rail")) for s in np.flatnonzero(inside)
        )
    for a, b in combinations(drawing.frames, 2):
        assert a.right < b.left or b.right < a.left or a.bottom < b.top or b.bottom < a.top


def test_boxes_are_found_without_a_shape():
    machine = parse_topology("h100:2")
    plain = Topology.from_links(16, [Link(*ends, bandwidth=f"{rate}B/s", latency="0ns") for *ends, rate in zip(
        machine.src.tolist(), machine.dst.tolist(), machine.bandwidth.tolist(), strict=True)],
        [Switch(machine.labels[s]) for s in machine.switches])  # fmt: skip
    assert plain.shape == (16,)
    assert len(arrange(plain).frames) == 2


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 7), st.integers(2, 7), st.integers(1, 9))
def test_groups_of_a_dragonfly_do_not_touch(groups, routers, npus):
    drawing = arrange(dragonfly(groups, routers, npus))
    assert drawing.kind == "groups"
    assert len(drawing.frames) == groups
    assert distances(drawing).min() > 0.5
    for a, b in combinations(drawing.frames, 2):
        assert a.right < b.left or b.right < a.left or a.bottom < b.top or b.bottom < a.top


def test_trees_stand_in_levels():
    tree = parse_topology("fat-tree:4")
    height = arrange(tree).y
    for upper, lower in (("core", "middle"), ("middle", "edge"), ("edge", "npu")):
        above, below = (
            [height[i] for i, name in enumerate(tree.labels) if name.startswith(w)]
            for w in (upper, lower)
        )
        assert max(above) < min(below)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("mesh:32x32", "grid"),
        ("torus:10x10x10", "grid"),
        ("h100:128", "boxes"),
        ("fat-tree:16", "levels"),
        ("ring:1000", "ring"),
        ("switch:1000", "star"),
    ],
)
def test_a_thousand_npus_are_not_spread_and_no_way_round_is_looked_for(text, kind, monkeypatch):
    def too_much(*arguments):
        raise AssertionError("this takes long")

    monkeypatch.setattr(drawings, "_bow", too_much)
    monkeypatch.setattr(shapes, "_improved", too_much)
    assert arrange(parse_topology(text)).kind == kind


@pytest.mark.parametrize("npus", [100, 1000, 3000])
def test_a_network_without_order_is_spread_with_so_much_work(npus, monkeypatch):
    improve = shapes._improved
    looked_at = []

    def counted(xy, hops):
        looked_at.append(hops.size)
        return improve(xy, hops)

    monkeypatch.setattr(shapes, "_improved", counted)
    ends = np.random.default_rng(0).integers(0, npus, (3 * npus, 2))
    links = [Link(int(a), int(b), "1GB/s", "0ns") for a, b in ends if a != b]
    assert arrange(Topology.from_links(npus, links)).kind == "spread"
    assert len(looked_at) <= 150
    assert sum(looked_at) <= 60_000_000


def test_the_same_topology_gets_the_same_layout():
    links = [
        Link(a, b, "1GB/s", "0ns")
        for a, b in [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3), (1, 6)]
    ]
    first, second = (arrange(Topology.from_links(40, links)) for _ in range(2))
    assert np.array_equal(first.curves(), second.curves())


def test_damaged_networks_keep_their_places():
    whole, damaged = (
        arrange(t)
        for t in (parse_topology("torus:3x3"), parse_topology("torus:3x3").without(devices=[4]))
    )
    assert np.array_equal(whole.x, damaged.x)
    assert np.array_equal(whole.y, damaged.y)


def test_rails_are_buses_along_boxes_in_one_row():
    """Every NPU meets its rail straight above itself, and no rail is in two places."""
    topology = parse_topology("h100:8")
    drawing = arrange(topology)
    assert len({frame.top for frame in drawing.frames}) == 1
    rails = [
        device
        for device in topology.switches.tolist()
        if topology.labels[device].startswith("rail")
    ]
    assert np.all(drawing.span[rails] > 0)
    assert len(set(drawing.y[rails].tolist())) == len(rails)
    to_rail = np.flatnonzero(np.isin(topology.dst, rails))
    curves = drawing.curves()[to_rail]
    np.testing.assert_allclose(curves[:, 0, 0], curves[:, 3, 0], atol=2e-3)
    # Two boxes are joined well enough by lines.
    two = parse_topology("h100:2")
    assert not np.any(arrange(two).span[two.labels.index("rail0") :])


def test_a_switch_is_as_wide_as_its_name():
    topology = parse_topology("a100:2")
    drawing = arrange(topology)
    wide = {topology.labels[device] for device in np.flatnonzero(drawing.span)}
    assert wide == {"nvswitch0", "nvswitch1", "infiniband0", "infiniband1"}
    for switch in topology.switches.tolist():
        beside = np.abs(drawing.y - drawing.y[switch]) < 0.5
        beside[switch] = False
        apart = np.abs(drawing.x - drawing.x[switch])[beside]
        assert drawing.span[switch] + drawing.radius < apart.min(initial=np.inf)


@pytest.mark.parametrize(("text", "boxes"), [("mi250", 0), ("mi250:2", 2)])
def test_dies_stand_in_their_packages(text, boxes):
    """Of eight packages, each has a frame around its two dies and around nothing else."""
    topology = parse_topology(text)
    drawing = arrange(topology)
    inside = [
        np.flatnonzero(
            (frame.left < drawing.x)
            & (drawing.x < frame.right)
            & (frame.top < drawing.y)
            & (drawing.y < frame.bottom)
        ).tolist()
        for frame in drawing.frames
    ]
    packages = [[die, die + 1] for die in range(0, topology.num_npus, 2)]
    assert sorted(devices for devices in inside if len(devices) == 2) == packages
    assert len(inside) == len(packages) + boxes
    # They keep their places without one of the links between them.
    damaged = arrange(topology.without(links=["0:8"]))
    assert np.array_equal(damaged.xy, drawing.xy)


def test_only_those_with_one_nearest_neighbour_are_twins():
    def clique(*fast: tuple[int, int]) -> Topology:
        rates = dict.fromkeys(combinations(range(4), 2), "1GB/s") | dict.fromkeys(fast, "2GB/s")
        links = [
            Link(*ends, rate, "0ns") for pair, rate in rates.items() for ends in (pair, pair[::-1])
        ]
        return Topology.from_links(4, links)

    assert arrange(clique((0, 3), (1, 2))).kind == "pairs"
    assert arrange(clique((0, 3))).kind == "circle"
    assert arrange(clique((0, 1), (1, 2), (2, 3))).kind == "circle"
    assert not np.any(arrange(parse_topology("leaf-spine:4x4x2")).span)
