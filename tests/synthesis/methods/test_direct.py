"""Fixed routes: every chunk takes a shortest way, however many sizes there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.network import unloaded_times
from pccl.synthesis.methods.direct import Direct
from pccl.topology import Switch, parse_topology
from tests.algorithm.reference import is_correct
from tests.synthesis.posing import pose

UNEVEN = ((0, 1_000_003, 7), (5, 0, 999), (123_456, 77, 0))


def uneven_matrix(npus: int, seed: int) -> list[list[int]]:
    """What experts get, as in a Mixture of Experts: few of them most of it, and no size like another."""
    random = np.random.default_rng(seed)
    sizes = (random.pareto(1.2, (npus, npus)) * 100_000).astype(np.int64)
    np.fill_diagonal(sizes, 0)
    return sizes.tolist()


def test_uneven_shares_through_a_switch():
    """Shares cut into pieces that differ by a byte have more sizes than there are tables of distances."""
    plan = pccl.synthesize(pccl.topology.switch(3), pccl.AllToAllV(matrix=UNEVEN))
    assert is_correct(plan)
    assert plan.duration <= 1.05 * plan.bound.value


@pytest.mark.parametrize("name", ["switch:8", "h100:2", "a100:2", "mi300x:2", "fat-tree:4"])
@pytest.mark.parametrize("chunks", [1, 7])
def test_uneven_shares_on_machines(name, chunks):
    topology = parse_topology(name)
    matrix = uneven_matrix(topology.num_npus, seed=0)
    problem = pose(topology, pccl.AllToAllV(matrix=matrix, chunks=chunks))
    pccl.verify(Direct().find(problem).algorithm())


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 9), st.integers(0, 2**32), st.sampled_from([1, 2, 5]))
def test_ways_are_the_shortest(npus, seed, chunks):
    """From each NPU a slow link straight to the next one, beside two fast ones through a switch."""
    ring = [pccl.Link(i, (i + 1) % npus, "1GB/s", "100ns") for i in range(npus)]
    up = [pccl.Link(i, npus, "50GB/s", "500ns") for i in range(npus)]
    down = [pccl.Link(npus, i, "50GB/s", "500ns") for i in range(npus)]
    topology = pccl.Topology.from_links(npus, ring + up + down, [Switch()])
    matrix = uneven_matrix(npus, seed)
    matrix[0][1] = max(matrix[0][1], chunks)
    matrix = [[size if size >= chunks else 0 for size in row] for row in matrix]
    problem = pose(topology, pccl.AllToAllV(matrix=matrix, chunks=chunks))
    schedule = Direct().find(problem)
    jobs = problem.jobs(Direct.root, False)[1]
    size = jobs.size.astype(np.int64)
    best = unloaded_times(jobs.net, jobs.source.astype(np.int64), size)
    direct = best[np.arange(len(jobs)), jobs.destination[jobs.first[:-1]]]
    arc = schedule.arc
    takes = jobs.net.travel[np.repeat(size, np.diff(schedule.first)), jobs.net.kind[arc]]
    taken = np.add.reduceat(takes, schedule.first[:-1])
    # With many sizes a way is chosen by the time of a chunk up to an eighth of the spread smaller.
    assert np.all(taken >= direct)
    if len(problem.planned.sizes[0]) <= 8:
        assert np.array_equal(taken, direct)
    pccl.verify(schedule.algorithm())
