"""Plans on MPI, between processes that mpiexec starts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import pccl
from pccl.cli import main

ROOT = Path(pccl.__file__).parents[2]
# That of the wheel lies beside our Python.
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")

pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec")


def run(*arguments, program=("-m", "tests.mpi.ranks")):
    command = [MPIEXEC, "-n", "4", sys.executable, *program, *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )


def test_plans_are_exact_between_processes():
    """Operations, types, numbers of elements that do not divide, relays, and two groups at once."""
    done = run()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [0] * 6


def test_all_end_when_one_rank_dies():
    """The launcher sees to it; none is left waiting."""
    assert run("die").returncode != 0


def test_ranks_with_different_plans_say_so():
    done = run("differ")
    # Lines of ranks that speak at the same time may run into each other.
    assert done.stdout.count("rank 2 has another plan than rank 0") == 4


def test_the_example_runs():
    done = run(program=["examples/run_mpi.py"])
    assert done.stdout == "rank 0 has [0.0, 0.0, 0.0, 10.0, 10.0, 10.0]\n", done.stderr


def test_the_command_starts_ranks_by_itself(tmp_path):
    path = tmp_path / "ring.pccl"
    pccl.synthesize(pccl.topology.ring(3), pccl.AllReduce("3kB"), effort="fast").save(path)
    words = ["run", str(path), "--on", "mpi", "--iterations", "1", "--json"]
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 0, said.output
    assert [row["wrong"] for row in json.loads(said.output)["runs"]] == [0]
