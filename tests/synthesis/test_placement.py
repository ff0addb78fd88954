"""The parts of the search against slow, obvious twins, and the ways in which its arrays grow."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.network import calendar
from pccl.synthesis import jobs
from pccl.synthesis.methods import placement

TINY = {"bandwidth": "1GB/s", "latency": "0ns"}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 5), st.sampled_from(["farthest-first", "rounds"]))
def test_small_arrays_grow_to_the_same_result(seed, order):
    """Calendars, buffers and output begin small here, and large enough there."""
    mesh, limited = pccl.topology.mesh(4, 4, latency="3us"), pccl.topology.switch(6, buffer=2)
    tasks = [(mesh, pccl.AllToAll("32MiB", chunks=2)), (limited, pccl.AllToAll("12MiB", chunks=2))]
    before = [pccl.synthesize(*task, seed=seed, order=order) for task in tasks]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calendar, "FIRST_ROOM", 2)
        patch.setattr(placement, "_empty_routes", tiny_at_first(placement._empty_routes))
        after = [pccl.synthesize(*task, seed=seed, order=order) for task in tasks]
    assert before == after


def tiny_at_first(empty_routes):
    """Room for twenty transfers, to begin with."""
    return lambda jobs, capacity: empty_routes(jobs, min(capacity, 20))


def test_a_tree_larger_than_all_before_it_finds_room():
    """A far pair first, then trees along a long line: the output grows by more than what came before foretells."""
    n = 2000
    links = [pccl.Link(i, i + 1, "1GB/s", "0ns") for i in range(n - 1)]
    links += [pccl.Link(0, n, "1GB/s", "1s"), pccl.Link(0, n + 1, "1GB/s", "1s")]
    topology = pccl.Topology.from_links(n + 2, links)
    far, long = pccl.Condition(0, [n, n + 1], "1kB"), pccl.Condition(0, [1, n - 1], "1kB")
    assert len(pccl.synthesize(topology, pccl.Custom([far, long, long])).transfers) == 2 + 2 * (
        n - 1
    )


def test_a_hasty_search_is_nearly_as_good(monkeypatch):
    mesh = pccl.topology.mesh(6, 6, **TINY)
    careful = pccl.synthesize(
        mesh,
        pccl.AllToAll("72kB", chunks=2),
        effort="fast",
        order="farthest-first",
        routes="minimal",
    )
    monkeypatch.setattr(jobs, "SMALL", 0)
    hasty = pccl.synthesize(
        mesh,
        pccl.AllToAll("72kB", chunks=2),
        effort="fast",
        order="farthest-first",
        routes="minimal",
    )
    assert hasty != careful
    assert hasty.duration <= 1.05 * careful.duration


def test_the_result_does_not_depend_on_the_process(tmp_path):
    """Nor on hash seeds: the columns of two processes are the same bytes."""
    code = (
        "import pccl, hashlib; a = pccl.synthesize(pccl.topology.switch_2d(4, 2), pccl.AllReduce('8MiB', chunks=2),"
        " pccl.AllToAll('4MiB', group=[5, 1, 2, 7])); t = a.transfers;"
        "print([hashlib.sha256(column.tobytes()).hexdigest() for column in (t.chunk, t.link, t.start, t.reduce)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "77")
    }
    assert len(outputs) == 1
