"""Mirrored: sums are spread as they were collected, backwards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.synthesis.methods import Mirrored, mirrored
from pccl.synthesis.symmetry import symmetries
from pccl.topology import parse_topology
from tests.synthesis.test_search import pose


def even(*sides):
    return pccl.topology.mesh(*sides, bandwidth="1GB/s", latency="0ns")


@pytest.fixture(autouse=True)
def few_tries(monkeypatch):
    """So that a test takes no longer than it must."""
    monkeypatch.setattr(mirrored, "MOST_TRIES", 300)


def test_what_is_collected_over_a_link_is_spread_over_the_link_back():
    mesh = even(4, 4)
    schedule = Mirrored().find(pose(mesh, pccl.AllReduce("16kB", chunks=1)))
    _, link, _, reduce = schedule.columns()
    between = np.empty((16, 16), np.int64)
    between[mesh.src, mesh.dst] = np.arange(mesh.num_links)
    back = between[mesh.dst, mesh.src]
    collected = np.bincount(link[reduce], minlength=mesh.num_links)
    spread = np.bincount(back[link[~reduce]], minlength=mesh.num_links)
    assert collected.tolist() == spread.tolist()


def test_links_that_a_symmetry_moves_to_one_another_carry_as_much():
    mesh = even(4, 4)
    schedule = Mirrored().find(pose(mesh, pccl.AllReduce("16kB", chunks=1)))
    load = np.zeros((16, 16), np.int64)
    np.add.at(load, (mesh.src[schedule.columns()[1]], mesh.dst[schedule.columns()[1]]), 1)
    for move in symmetries(mesh):
        assert np.array_equal(load[np.ix_(move, move)], load)


def test_a_square_mesh_takes_two_steps_more_than_its_bound():
    algorithm = pccl.synthesize(
        even(4, 4), pccl.AllReduce("16kB", chunks=1), method="mirrored", effort="fast"
    )
    bound = pccl.lower_bound(even(4, 4), pccl.AllReduce("16kB", chunks=1))
    pccl.verify(algorithm)
    assert algorithm.duration <= bound.value + 2 * 10**6


def test_a_mesh_of_64_takes_a_step_more_than_its_bound(monkeypatch):
    # Corners alone need 45: they send 63 times over two links, and the last of it has 14 to go.
    monkeypatch.setattr(mirrored, "MOST_TRIES", 100_000)
    algorithm = pccl.synthesize(
        even(8, 8), pccl.AllReduce("64kB", chunks=1), method="mirrored", effort="fast"
    )
    pccl.verify(algorithm)
    assert algorithm.duration == 46 * 10**6


def test_the_same_seed_finds_the_same():
    problem = pose(even(4, 4), pccl.AllReduce("16kB", chunks=1))
    first, second = (Mirrored(seed=3).find(problem) for _ in range(2))
    assert np.array_equal(first.start, second.start)
    assert np.array_equal(first.arc, second.arc)


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(
        [
            "ring:5",
            "line:4",
            "mesh:2x3",
            "mesh:3x3",
            "torus:3x4",
            "hypercube:3",
            "fully-connected:4",
        ]
    ),
    st.sampled_from(["2160B", "2160kB"]),
    st.integers(1, 3),
)
def test_whatever_it_finds_is_right(name, size, chunks):
    """Latencies, networks without symmetries, and trees that cannot be changed among them."""
    topology = parse_topology(name)
    collective = pccl.AllReduce(size, chunks=chunks)
    pccl.verify(pccl.synthesize(topology, collective, method="mirrored", effort="fast"))


@pytest.mark.parametrize(
    ("topology", "collective", "reason"),
    [
        ("switch:4", pccl.AllReduce("4kB", chunks=1), "knows no switches"),
        ("mesh:2x2", pccl.AllGather("4kB", chunks=1), "serves one All-Reduce"),
        ("mesh:2x2", pccl.AllReduce("4kB", group=[0, 1], chunks=1), "serves all NPUs"),
        ("dgx1", pccl.AllReduce("8MB", chunks=1), "links and chunks that are alike"),
        ("ring:4,unidirectional=yes", pccl.AllReduce("4kB", chunks=1), "one link back"),
    ],
)
def test_it_says_what_it_cannot_do(topology, collective, reason):
    with pytest.raises(pccl.PcclError, match=reason):
        pccl.synthesize(parse_topology(topology), collective, method="mirrored")
