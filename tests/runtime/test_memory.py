"""Memory is asked for before it is taken."""

from __future__ import annotations

import pytest

import pccl
from pccl._memory import free_memory
from pccl.runtime import memory
from pccl.runtime.checking import trial_buffers, trials
from pccl.runtime.memory import check_fits, data_bytes, size_unasked
from pccl.runtime.scripts import scripts_of
from tests.end_to_end.program import pccl as run

GIB = 2**30
RING = pccl.topology.ring(4)
TASKS = [
    pccl.AllGather("4MiB"),
    pccl.AllReduce("4MiB", chunks=2),
    pccl.AllToAll("4MiB"),
    pccl.AllToAllV([[0, 1000, 0, 0], [8000, 0, 8, 8], [800, 8, 0, 0], [0, 0, 77, 0]]),
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.kind)
def test_estimates_are_near_what_buffers_take(task):
    plan = pccl.synthesize(RING, task, effort="fast")
    scripts = scripts_of(plan)
    found = trials(scripts, [int(task.size)], dtype="uint8")
    taken = sum(
        len(array) for pairs in trial_buffers(scripts, found) for pair in pairs for array in pair
    )
    # Buffers, and as much to compare them with; what is only relayed lies in scratch on top.
    assert 1.2 * taken <= data_bytes(plan) <= 3 * taken
    # As many elements of four bytes take four times as much, and half as many bytes half of it.
    assert data_bytes(plan, "float32") == data_bytes(plan)
    assert data_bytes(plan, size=int(task.size) // 2) == data_bytes(plan) // 2


@pytest.fixture
def large(monkeypatch, tmp_path):
    """A plan that takes more than is free, where that is little."""
    path = tmp_path / "large.pccl"
    plan = pccl.synthesize(RING, pccl.AllReduce("1MiB", chunks=1), effort="fast")
    plan.save(path)
    monkeypatch.setattr(memory, "free_memory", lambda: 2**20)
    return plan, path


def test_unasked_a_plan_runs_with_a_size_that_fits(large):
    plan, path = large
    assert size_unasked(plan, "float32") == 2**14
    result = run("run", path, "--on", "numpy", "--iterations", 1)
    assert result.exit_code == 0
    assert result.stderr.startswith("note: run with 16KiB, since at the 1MiB of the plan")
    assert result.stdout.splitlines()[-1].split()[1] == "16,384"


def test_a_size_that_does_not_fit_is_refused_at_once(large):
    plan, path = large
    result = run("run", path, "--on", "numpy", "--size", "1MiB")
    assert result.exit_code == 2
    assert "the data of 4 ranks take about 16.0 MiB of memory, and 1.0 MiB is free" in result.stderr
    check_fits(plan, "uint8", 2**12)


def test_small_plans_run_as_they_are():
    plan = pccl.synthesize(RING, pccl.AllReduce("1MiB", chunks=1), effort="fast")
    assert size_unasked(plan, "uint8") == 2**20


def test_a_plan_of_gigabytes_does_not_take_them_unasked(monkeypatch):
    plan = pccl.synthesize(RING, pccl.AllReduce("16GiB", chunks=1), effort="fast")
    monkeypatch.setattr(memory, "free_memory", lambda: 2**50)
    assert data_bytes(plan, "uint8", size_unasked(plan, "uint8")) <= memory.MOST_UNASKED


def test_the_limit_of_a_process_counts():
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = free_memory()
    try:
        resource.setrlimit(resource.RLIMIT_AS, (2**45, hard))
        assert free_memory() == before or free_memory() < 2**45
        resource.setrlimit(resource.RLIMIT_AS, (1, hard))
        assert free_memory() == 0
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
