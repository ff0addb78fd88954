"""Plans in JAX, on virtual devices of the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pccl

ROOT = Path(pccl.__file__).parents[2]


def lines_of(devices):
    done = subprocess.run(
        [sys.executable, "-m", "tests.jax.devices", str(devices)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


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


def test_import_of_pccl_imports_none_of_what_plans_run_on():
    code = (
        "import sys, pccl, pccl.runtime, pccl.lab, pccl.cli\n"
        "print([name for name in ('jax', 'mpi4py', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
