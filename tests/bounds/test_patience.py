"""A search for a bound that is ended: what was found by then is proven too, and says that it may not be the best."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.bounds.patience import Patience
from pccl.topology import parse_topology
from tests.strategies import problems

BOXES = parse_topology("h100:2")


def test_a_bound_without_a_limit_is_not_cut_short():
    assert not pccl.lower_bound(BOXES, pccl.AllReduce("64MiB")).cut_short


@pytest.mark.parametrize("kind", [pccl.AllReduce, pccl.AllGather, pccl.AllToAll])
def test_without_time_there_is_still_a_bound(kind):
    least = pccl.lower_bound(BOXES, kind("64MiB"), time_limit=0.0)
    best = pccl.lower_bound(BOXES, kind("64MiB"))
    assert 0 < least.value <= best.value
    assert least.cut_short
    assert "cut short" in str(least)
    assert "cut short" not in str(best)


@settings(max_examples=20, deadline=None)
@given(problems(), st.sampled_from([0.0, 0.001, 0.01]))
def test_what_is_found_in_time_is_proven(problem, seconds):
    topology, collectives = problem
    bound = pccl.lower_bound(topology, *collectives, time_limit=seconds)
    as_cut = [one.in_one() if one.chunks is None else one for one in collectives]
    conditions = pccl.collective.compile_conditions(topology, as_cut)
    pccl.bounds.check(bound, topology, conditions)


def test_a_bound_that_is_saved_keeps_what_it_says(tmp_path):
    plan = pccl.synthesize(BOXES, pccl.AllReduce("1MiB"), effort="fast")
    bound = pccl.lower_bound(BOXES, pccl.AllReduce("1MiB"), time_limit=0.0)
    replace(plan, bound=bound).save(tmp_path / "a.pccl")
    assert pccl.load(tmp_path / "a.pccl").bound == bound


def test_nobody_is_out_of_patience_who_was_not_asked_to_stop():
    patience = Patience.of(1000.0)
    assert not patience.ends()
    assert not patience.is_over
