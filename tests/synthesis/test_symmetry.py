"""Symmetries: what a network looks like after its NPUs have moved."""

from __future__ import annotations

import numpy as np
import pytest

import pccl
from pccl.synthesis.symmetry import symmetries
from pccl.topology import parse_topology

NAMES = [
    "ring:6",
    "line:4",
    "mesh:4x4",
    "mesh:4x6",
    "mesh:3x4",
    "torus:4x4x4",
    "hypercube:3",
    "mesh:4x4x4",
]


def links(topology, place):
    return set(zip(place[topology.src].tolist(), place[topology.dst].tolist(), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_the_network_looks_the_same_after_every_move(name):
    topology = parse_topology(name)
    moves = symmetries(topology)
    assert len(moves) > 1
    for move in moves:
        assert links(topology, move) == links(topology, np.arange(len(move)))


@pytest.mark.parametrize("name", NAMES)
def test_two_moves_one_after_the_other_are_a_move(name):
    moves = symmetries(parse_topology(name))
    known = {tuple(move.tolist()) for move in moves}
    assert len(known) == len(moves)
    assert all(tuple(one[other].tolist()) in known for one in moves for other in moves)


@pytest.mark.parametrize("name", NAMES)
def test_a_move_takes_all_npus_to_other_places(name):
    first, *others = symmetries(parse_topology(name))
    assert first.tolist() == list(range(len(first)))
    assert all(np.all(move != first) for move in others)


def test_a_slow_link_takes_symmetries_away():
    mesh = pccl.topology.mesh(4, 4)
    assert len(symmetries(mesh)) == 4
    slow = mesh.derived(
        name="slow", bandwidth=np.where(np.arange(mesh.num_links) == 0, 10**9, mesh.bandwidth)
    )
    assert len(symmetries(slow)) == 1


def test_networks_with_switches_have_none_that_we_know():
    assert len(symmetries(parse_topology("switch:4"))) == 1
