"""Building blocks and their products."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pccl.errors import TopologyError
from pccl.topology import (
    dragonfly,
    fat_tree,
    fully_connected,
    grid,
    hypercube,
    leaf_spine,
    line,
    mesh,
    product,
    ring,
    switch,
    switch_2d,
    torus,
)
from tests.strategies import topologies


def links(network):
    return sorted(zip(network.src.tolist(), network.dst.tolist(), strict=True))


def test_small_pieces():
    assert links(line(3)) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert links(ring(3, unidirectional=True)) == [(0, 1), (1, 2), (2, 0)]
    assert links(ring(3)) == links(fully_connected(3))
    assert links(switch(2)) == [(0, 2), (1, 2), (2, 0), (2, 1)]


def test_the_smallest_pieces():
    assert (
        links(ring(2)) == links(line(2)) == links(ring(2, unidirectional=True)) == [(0, 1), (1, 0)]
    )
    for maker in (line, ring, fully_connected):
        assert (maker(1).num_npus, maker(1).num_links) == (1, 0)


def test_a_mesh_is_numbered_row_by_row():
    network = mesh(2, 3)
    assert network.shape == (2, 3)
    assert (0, 1) in links(network)  # the next column
    assert (0, 3) in links(network)  # the next row
    assert (2, 3) not in links(network)


def test_dimensions_have_their_own_speed():
    network = grid(2, 3, wrap=(False, True), bandwidth=("1GB/s", "2GB/s"), latency=["1us", "2us"])
    rows = network.src // 3 == network.dst // 3
    assert set(network.bandwidth[rows].tolist()) == {2 * 10**9}
    assert set(network.latency[~rows].tolist()) == {10**6}
    assert (0, 2) in links(network)


@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_a_hypercube_joins_numbers_that_differ_in_one_bit(dimensions):
    npus = range(2**dimensions)
    assert links(hypercube(dimensions)) == [
        (a, b) for a in npus for b in npus if (a ^ b).bit_count() == 1
    ]


def test_a_2d_switch_has_a_switch_per_node_and_per_place():
    network = switch_2d(4, 3)
    assert (network.num_npus, len(network.switches), network.shape) == (12, 7, (3, 4))
    neighbours = {
        tuple(sorted(network.src[network.dst == s].tolist())): set(
            network.bandwidth[network.dst == s].tolist()
        )
        for s in network.switches
    }
    assert neighbours[(0, 1, 2, 3)] == {400 * 2**30}
    assert neighbours[(1, 5, 9)] == {50 * 2**30}


def test_trees_and_dragonflies():
    tree = fat_tree(4)
    ports = [int(n) for n in (tree.out_links[0][1:] - tree.out_links[0][:-1])[tree.switches]]
    assert ports == [4] * 20
    two_levels = leaf_spine(4, 8, 2)
    assert (two_levels.num_npus, len(two_levels.switches), two_levels.num_links) == (
        32,
        6,
        2 * (32 + 8),
    )
    fly = dragonfly(5, 4, 1)
    between = [(a, b) for a, b in links(fly) if min(a, b) >= 20 and (a - 20) // 4 != (b - 20) // 4]
    assert len(between) == 5 * 4  # one link between every two groups
    assert len({a for a, _ in between}) == 20  # each leaves from a router of its own


@given(topologies(), topologies())
def test_counts_of_products(first, second):
    both = product(first, second)
    assert both.num_npus == first.num_npus * second.num_npus
    assert both.shape == first.shape + second.shape
    for count in ("num_links", "num_devices"):
        fixed = 0 if count == "num_links" else both.num_npus
        ours = [getattr(t, count) - (t.num_npus if fixed else 0) for t in (first, second)]
        assert getattr(both, count) - fixed == ours[0] * second.num_npus + ours[1] * first.num_npus
    assert both.limited == (first.limited or second.limited)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_counts_of_grids(shape):
    npus = math.prod(shape)
    assert mesh(*shape).num_links == 2 * sum(npus // n * (n - 1) for n in shape)
    assert torus(*shape).num_links == 2 * sum(npus // n * (n if n > 2 else n - 1) for n in shape)


def test_properties_reach_every_piece():
    assert mesh(3, 3, exclusive=True).exclusive.all()
    assert switch_2d(2, 2, buffer=1).limited
    assert not switch_2d(2, 2).limited
    assert mesh(3, 3, gap="50ns").gap.tolist() == [50_000] * 24
    assert set(mesh(3, 3, gap=("50ns", "0ns")).gap.tolist()) == {0, 50_000}


@pytest.mark.parametrize(
    "build",
    [
        lambda **able: switch(3, **able),
        lambda **able: switch_2d(2, 2, **able),
        lambda **able: leaf_spine(2, 2, 2, **able),
        lambda **able: fat_tree(2, **able),
        lambda **able: dragonfly(2, 2, 2, **able),
        lambda **able: product(switch(2, **able), ring(3)),
    ],
)
def test_switches_are_plain_unless_asked(build):
    """Multicast and reduce are two abilities, each of which is off by default."""
    for multicast in (False, True):
        for reduce in (False, True):
            network = build(multicast=multicast, reduce=reduce)
            assert (network.multicast[network.switches] == multicast).all()
            assert (network.reduce[network.switches] == reduce).all()
            assert network.multicast[network.npus].all()
            assert network.reduce[network.npus].all()
            assert network.plain == (not (multicast and reduce))
    assert build() == build(multicast=False, reduce=False)


def test_every_factor_of_a_product_keeps_what_its_switches_can_do():
    both = product(switch(2, multicast=True, gap="9ns"), switch(3, reduce=True), name="both")
    able = dict(zip(both.labels, zip(both.multicast, both.reduce, strict=True), strict=True))
    assert able["dim0.0.switch0"] == (True, False)
    assert able["dim1.0.switch0"] == (False, True)
    of_first = [both.labels[end].startswith("dim0") for end in both.src]
    to_first = [both.labels[end].startswith("dim0") for end in both.dst]
    ours = [a or b for a, b in zip(of_first, to_first, strict=True)]
    assert both.gap.tolist() == [9_000 if own else 0 for own in ours]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: line(0), "a line needs a positive number, not 0"),
        (lambda: ring(-1), "a ring needs a positive number"),
        (lambda: switch(2.0), "a switch needs a positive number, not 2.0"),
        (lambda: mesh(), "at least one dimension"),
        (lambda: mesh(2, 0), "positive"),
        (lambda: mesh(2, 2, bandwidth=["1GB/s"] * 3), "bandwidth has 3 entries for 2 dimensions"),
        (lambda: fat_tree(3), "even number of ports"),
        (lambda: leaf_spine(1, 1, 0), "spines"),
        (lambda: product(), "at least one topology"),
        (lambda: product(line(3).without(devices=[0]), line(2)), "damaged"),
    ],
)
def test_what_cannot_be_built(build, message):
    with pytest.raises(TopologyError, match=message):
        build()
