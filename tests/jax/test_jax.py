"""Plans in JAX, on virtual devices of the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pccl

ROOT = Path(pccl.__file__).parents[2]


def in_process(*words):
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines_of(devices):
    said = in_process("-m", "tests.jax.devices", str(devices))
    return [json.loads(line) for line in said.splitlines()]


@pytest.fixture(scope="module")
def eight():
    return lines_of(8)


def test_plans_are_exact_on_eight_devices(eight):
    """Collectives of all sorts, operations, types, lengths that do not divide, relays, and two groups at once."""
    assert eight[0] == [0] * 8


def test_a_plan_can_be_differentiated(eight):
    """Every share goes to eight devices, which weigh it by 0 to 7."""
    assert eight[1] == [28.0] * 8


def test_plans_are_exact_on_sixteen_devices():
    assert lines_of(16)[0] == [0, 0]


def test_the_example_runs():
    done = in_process("examples/run_jax.py")
    assert done == "every device has the mean: [17.5, 18.5, 19.5, 20.5, 21.5]\n"


def test_the_command_runs_plans_on_as_many_devices_as_it_takes(tmp_path):
    """A process of its own, as JAX is told of the devices when it is first asked for them."""
    path = tmp_path / "groups.pccl"
    groups = [pccl.AllReduce("3kB", group=pair) for pair in ([0, 1], [2, 3])]
    pccl.synthesize(pccl.topology.ring(4), *groups, effort="fast").save(path)
    words = ["run", str(path), "--on", "jax", "--iterations", "1", "--json"]
    runs = json.loads(in_process("-m", "pccl.cli", *words))["runs"]
    assert [row["wrong"] for row in runs] == [0, 0]


def test_import_of_pccl_imports_none_of_what_plans_run_on():
    code = (
        "import sys, pccl, pccl.runtime, pccl.lab, pccl.cli\n"
        "print([name for name in ('jax', 'mpi4py', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
