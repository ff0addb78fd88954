"""``pccl run``, and what is imported when."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import pccl
from pccl.runtime.measure import Job, Outcome, Report, together
from pccl.runtime.registry import PLACES
from tests.end_to_end.program import pccl as run

HEAVY = {"torch", "mpi4py", "jax", "ml_dtypes"}


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "ar.pccl"
    pccl.synthesize(pccl.topology.ring(3), pccl.AllReduce("3kB", chunks=2)).save(path)
    return path


def test_a_plan_runs_on_processes_and_every_element_is_right(plan):
    result = run("run", plan, "--size", "3kB", "--size", "1KiB", "--iterations", 1)
    assert result.exit_code == 0
    header, *lines = result.stdout.splitlines()
    names = [
        "size B",
        "count",
        "type",
        "redop",
        "planned us",
        "time us",
        "algbw GB/s",
        "busbw GB/s",
        "#wrong",
    ]
    assert all(name in header for name in names)
    assert [line.split()[1:5] for line in lines] == [
        ["3,000", "750", "float32", "sum"],
        ["1,024", "256", "float32", "sum"],
    ]
    assert [line.split()[-1] for line in lines] == ["0", "0"]


def test_json_has_the_figures_and_planned_times(plan):
    options = ("--on", "numpy", "--dtype", "int32", "--op", "max", "--in-place", "--iterations", 1)
    document = json.loads(run("run", plan, "--json", *options).stdout)
    (row,) = document["runs"]
    assert (row["size"], row["count"], row["type"], row["redop"], row["wrong"]) == (
        3000,
        750,
        "int32",
        "max",
        0,
    )
    assert row["planned_ps"] == int(pccl.load(plan).duration)
    assert row["busbw"] == pytest.approx(row["algbw"] * 4 / 3)


def test_a_wrong_element_is_counted_and_is_exit_code_1(plan, monkeypatch):
    """A plan of which a rank forgets to add: the file is fine, what runs it is not."""
    from pccl.runtime.arrays import NumpyArrays

    monkeypatch.setattr(
        NumpyArrays, "combine", lambda self, op, target, one, other: self.copy(target, one)
    )
    result = run("run", plan, "--on", "numpy", "--iterations", 1)
    assert result.exit_code == 1
    assert int(result.stdout.split()[-1].replace(",", "")) > 700


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dtype", "float31"], "no dtype 'float31'"),
        (["--op", "xor"], "no operation 'xor'"),
        (["--on", "carrier-pigeon"], "'carrier-pigeon' is not one of"),
        (["--size", "3"], "--size"),
        (["--timeout", "nan"], "'nan' is no number of seconds"),
        (["--timeout", "inf"], "invalid value for '--timeout'"),
        (["--iterations", "99999999999999999999"], "invalid value for '--iterations'"),
        (["--on", "numpy", "--op", "avg", "--dtype", "int32"], "average of int32 is not defined"),
    ],
)
def test_mistakes_have_one_line(plan, options, message):
    result = run("run", plan, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_slowest_rank_counts_and_what_is_wrong_anywhere():
    ranks = [[Outcome(1.0, (0, 1))], [Outcome(3.0, (2, 0))]]
    assert together(ranks) == (Outcome(3.0, (2, 1)),)
    assert Report(together(ranks)).speaks


def test_jobs_refuse_what_there_is_not():
    with pytest.raises(pccl.RunError, match="no dtype 'complex64'; there are uint8"):
        Job(((1,),), dtype="complex64")


@pytest.mark.parametrize("target", ["torch", "mpi", "jax"])
def test_plans_can_be_made_for_runtimes_that_send_messages(target):
    """A switch that could multiply messages does not when the plan is for a runtime that only sends them."""
    nvls = pccl.topology.parse_topology("switch:4,bandwidth=1GB/s,latency=0ns,multicast=yes")
    plan = pccl.synthesize(nvls, pccl.Broadcast("4kB", chunks=1), target=target)
    assert plan.needs == ()


@pytest.mark.parametrize(
    "code",
    [
        "import pccl, pccl.runtime, pccl.runtime.registry",
        "from pccl.cli.app import main; main(['run', '--help'], standalone_mode=False)",
        "import pccl; plan = pccl.synthesize(pccl.topology.ring(3), pccl.AllReduce('3kB'), target='torch')",
    ],
)
def test_what_runs_nothing_imports_neither_torch_nor_mpi_nor_jax(code):
    check = f"try:\n    {code}\nexcept SystemExit: pass\nimport sys; print(sorted({HEAVY!r} & set(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines()[-1] == "[]"


def test_every_place_names_something_that_is_there():
    assert {"numpy", "processes", "torch"} <= set(PLACES)
    for place in PLACES.values():
        assert place.about
        assert ":" in place.runs


@pytest.mark.parametrize(
    ("size", "kind"), [("3B", "uint8"), ("4B", "float32"), ("12345B", "uint8")]
)
def test_all_bytes_of_a_plan_are_sent(size, kind, tmp_path):
    file = tmp_path / "ring.pccl"
    pccl.synthesize(pccl.topology.ring(4), pccl.AllReduce(size), effort="fast").save(file)
    (row,) = json.loads(run("run", file, "--on", "numpy", "--iterations", 1, "--json").stdout)[
        "runs"
    ]
    assert (f"{row['size']}B", row["type"], row["wrong"]) == (size, kind, 0)
