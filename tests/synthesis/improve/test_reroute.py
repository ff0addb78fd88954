"""Rip-up and re-route: what it gains, that it breaks nothing, and that it never loses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import pccl
from pccl.synthesis.improve import rerouted
from pccl.synthesis.methods import EarliestArrival
from tests.algorithm.reference import is_correct
from tests.strategies import problems
from tests.synthesis.posing import pose

EVEN = {"bandwidth": "1GB/s", "latency": "0ns"}
BUDGET = 100_000


@settings(max_examples=100, deadline=None)
@given(problems(limits=False))
def test_what_is_re_routed_is_correct_and_never_slower(case):
    topology, collectives = case
    problem = pose(topology, *collectives)
    solution = EarliestArrival().find(problem)
    better = rerouted(solution, int(problem.quick_bound.value), BUDGET, seed=0, minimal=False)
    assert better.duration <= solution.duration
    algorithm = better.algorithm()
    assert algorithm.duration == better.duration
    pccl.verify(algorithm)
    assert is_correct(algorithm)


@pytest.mark.parametrize(
    "kind", [pccl.AllToAll, pccl.AllGather, pccl.ReduceScatter, pccl.AllReduce]
)
def test_all_parts_gain_by_it(kind):
    """Chunks placed in a bad order leave much to do, in both directions of time and in both phases of an All-Reduce."""
    topology = pccl.topology.mesh(4, 4, **EVEN)
    problem = pose(topology, kind("64kB", chunks=4))
    bad = EarliestArrival(order="random", routes="minimal").find(problem)
    better = rerouted(bad, int(problem.quick_bound.value), 30 * BUDGET, seed=0, minimal=False)
    assert better.origin.rerouted
    assert better.duration < bad.duration


def test_an_all_to_all_on_a_small_mesh_becomes_optimal():
    """No order of the paper's method does that: it takes 17 steps, where 16 have to cross the middle."""
    problem = pose(pccl.topology.mesh(4, 4, **EVEN), pccl.AllToAll("16kB"))
    found = EarliestArrival().find(problem)
    better = rerouted(found, int(problem.quick_bound.value), 30 * BUDGET, seed=0, minimal=False)
    assert better.duration == problem.quick_bound.value == 16_000_000


def test_the_same_seed_finds_the_same():
    problem = pose(pccl.topology.torus(4, 4, **EVEN), pccl.AllToAll("16kB"))
    found = EarliestArrival().find(problem)
    one, two = (rerouted(found, 0, BUDGET, 7, minimal=False).algorithm() for _ in range(2))
    assert one == two


def test_minimal_routes_stay_minimal():
    topology = pccl.topology.mesh(4, 4, **EVEN)
    exchange = pccl.AllToAll("64kB", range(4), chunks=4)
    problem = pose(topology, exchange)
    found = EarliestArrival(order="random", routes="minimal").find(problem)
    better = rerouted(found, int(problem.quick_bound.value), BUDGET, seed=0, minimal=True)
    transfers = better.algorithm().transfers
    assert len(transfers.link) == 4 * sum(abs(a - b) for a in range(4) for b in range(4))
