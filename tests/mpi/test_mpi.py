"""Plans on MPI, between processes that mpiexec starts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pccl

ROOT = Path(pccl.__file__).parents[2]
# That of the wheel lies beside our Python.
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")

pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec")


def run(*arguments):
    command = [MPIEXEC, "-n", "4", sys.executable, "-m", "tests.mpi.ranks", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )


def test_plans_are_exact_between_processes():
    """Operations, types, numbers of elements that do not divide, relays, and two groups at once."""
    done = run()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [0] * 6


def test_all_end_when_one_rank_dies():
    """The launcher sees to it, and says which; none is left waiting."""
    done = run("die")
    assert done.returncode != 0
    assert "BAD TERMINATION" in done.stdout + done.stderr


def test_ranks_with_different_plans_say_so():
    done = run("differ")
    said = done.stdout.splitlines()
    assert len(said) == 4
    assert all("rank 2 has another plan than rank 0" in line for line in said)
