"""Rip-up and re-route: what it gains, that it breaks nothing, and that it never loses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import pccl
from pccl.collective import compile_conditions
from pccl.synthesis.methods import Method, assembled, attempt
from pccl.synthesis.problem import Problem
from pccl.synthesis.rerouting import rerouted
from tests.algorithm.reference import is_correct
from tests.strategies import problems

EVEN = {"bandwidth": "1GB/s", "latency": "0ns"}
BUDGET = 100_000


def posed(topology, *collectives):
    return Problem(topology, compile_conditions(topology, collectives), 0, lambda *_: None)


def algorithm_of(problem, collectives, solution):
    columns = assembled(solution, len(problem.conditions))
    return pccl.Algorithm.build(
        problem.topology, collectives, *columns, conditions=problem.conditions
    )


@settings(max_examples=100, deadline=None)
@given(problems(limits=False))
def test_what_is_re_routed_is_correct_and_never_slower(case):
    topology, collectives = case
    problem = posed(topology, *collectives)
    solution = attempt(problem, Method("earliest-arrival"))
    better = rerouted(
        problem, solution, int(problem.quick_bound.value), BUDGET, seed=0, minimal=False
    )
    assert better.duration <= solution.duration
    algorithm = algorithm_of(problem, collectives, better)
    assert algorithm.duration == better.duration
    pccl.verify(algorithm)
    assert is_correct(algorithm)


@pytest.mark.parametrize(
    "kind", [pccl.AllToAll, pccl.AllGather, pccl.ReduceScatter, pccl.AllReduce]
)
def test_all_parts_gain_by_it(kind):
    """Chunks placed in a bad order leave much to do, in both directions of time and in both phases of an All-Reduce."""
    topology = pccl.topology.mesh(4, 4, **EVEN)
    problem = posed(topology, kind("64kB", chunks=4))
    bad = attempt(problem, Method("earliest-arrival", order="random", routes="minimal"))
    better = rerouted(
        problem, bad, int(problem.quick_bound.value), 30 * BUDGET, seed=0, minimal=False
    )
    assert better.rerouted
    assert better.duration < bad.duration


def test_an_all_to_all_on_a_small_mesh_becomes_optimal():
    """No order of the paper's method does that: it takes 17 steps, where 16 have to cross the middle."""
    problem = posed(pccl.topology.mesh(4, 4, **EVEN), pccl.AllToAll("16kB"))
    found = attempt(problem, Method("earliest-arrival"))
    better = rerouted(
        problem, found, int(problem.quick_bound.value), 30 * BUDGET, seed=0, minimal=False
    )
    assert better.duration == problem.quick_bound.value == 16_000_000


def test_the_same_seed_finds_the_same():
    problem = posed(pccl.topology.torus(4, 4, **EVEN), pccl.AllToAll("16kB"))
    found = attempt(problem, Method("earliest-arrival"))
    one, two = (
        assembled(rerouted(problem, found, 0, BUDGET, 7, minimal=False), 240) for _ in range(2)
    )
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_minimal_routes_stay_minimal():
    topology = pccl.topology.mesh(4, 4, **EVEN)
    exchange = pccl.AllToAll("64kB", range(4), chunks=4)
    problem = posed(topology, exchange)
    found = attempt(problem, Method("earliest-arrival", order="random", routes="minimal"))
    better = rerouted(problem, found, int(problem.quick_bound.value), BUDGET, seed=0, minimal=True)
    transfers = algorithm_of(problem, [exchange], better).transfers
    assert len(transfers.link) == 4 * sum(abs(a - b) for a in range(4) for b in range(4))
