"""The optimum over trees: figures known in closed form, and heights from anywhere, which prove no more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.bounds import tree_optimum
from pccl.bounds.case import Case
from pccl.bounds.rising import alike
from pccl.bounds.trees import Landscapes, prove
from pccl.collective import compile_conditions
from tests.strategies import networks


def milliseconds(machine: str) -> float:
    topology = pccl.topology.parse_topology(machine)
    return tree_optimum(topology, pccl.AllReduce("1GB")) / 1e9


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("a100:2", 5.7692),
        ("mi250:2", 5.6476),
        ("h100:4", 4.0407),
        ("ndv2:2", 80),
        ("ndv2:4", 120),
        ("switch:8", 32.5963),
        ("switch:8,multicast=yes,reduce=yes", 18.6265),
    ],
)
def test_real_machines(machine, expected):
    assert milliseconds(machine) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("width", "share"), [(3, 2 / 3), (4, 5 / 8), (6, 7 / 12)])
def test_square_meshes(width, share):
    """Two messages for each NPU but one, over all links."""
    mesh = pccl.topology.mesh(width, width, bandwidth="1GB/s")
    assert tree_optimum(mesh, pccl.AllReduce("1GB")) / 1e12 == pytest.approx(share, rel=1e-4)


def test_links_in_one_direction_only():
    """Around a one-way ring of four each byte takes three links to be collected, and three to be spread."""
    ring = pccl.topology.ring(4, bandwidth="1GB/s", unidirectional=True)
    assert tree_optimum(ring, pccl.AllReduce("4MB")) / 1e9 == pytest.approx(6, rel=1e-4)


@settings(max_examples=40, deadline=None)
@given(networks(limits=False, flags=True), st.integers(0, 999))
def test_any_heights_prove_no_more_than_the_best(topology, seed):
    collective = pccl.AllReduce(f"{10 * topology.num_npus}MB")
    conditions = compile_conditions(topology, [collective])
    (share,) = alike(Case(topology, conditions))
    random = np.random.default_rng(seed)
    tables = [random.integers(0, 9, (topology.num_npus, topology.num_devices)) for _ in range(2)]
    slack = [random.integers(-9, 9, topology.num_devices) for _ in range(2)]
    best = tree_optimum(topology, collective)
    assert prove(topology, share, Landscapes(*tables, *slack)) <= best * (1 + 1e-4)


def test_other_collectives_are_refused():
    with pytest.raises(pccl.PcclError, match="for one all-reduce, not for all-gather"):
        tree_optimum(pccl.topology.ring(4), pccl.AllGather("4MB"))
