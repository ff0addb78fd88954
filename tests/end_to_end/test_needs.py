"""A plan that needs switches which multiply or add says so wherever it is shown."""

from __future__ import annotations

import json
import re

import pytest

import pccl
from tests.end_to_end.program import pccl as run

NEEDS = "switches that multiply messages (multicast) and add them up (reduce), and a runtime that has them do it"
WORK = ["multicast", "reduce"]
TASK = ("-t", "switch:4,multicast=yes,reduce=yes", "-c", "all-reduce", "-s", "1MiB")


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """An All-Reduce in a switch."""
    path = tmp_path_factory.mktemp("needs") / "able.pccl"
    able = pccl.topology.switch(4, multicast=True, reduce=True)
    pccl.synthesize(able, pccl.AllReduce("1MiB", chunks=4), effort="fast").save(path)
    return path


@pytest.mark.parametrize("command", ["show", "simulate"])
def test_facts(plan, command):
    assert f"\nneeds        {NEEDS}\n" in run(command, plan).stdout
    assert json.loads(run(command, plan, "--json").stdout)["needs"] == WORK


def test_verify(plan, ring):
    assert run("verify", plan).stdout.endswith(f" us; needs {NEEDS}\n")
    files = json.loads(run("verify", plan, ring, "--json").stdout)["files"]
    assert [file["needs"] for file in files] == [WORK, []]
    assert "needs" not in run("verify", ring).stdout


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet", "pftrace"])
def test_tables_and_traces(plan, ring, suffix, tmp_path):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / f"out.{suffix}"
    assert f"\nneeds        {NEEDS}\n" in run("export", plan, "-o", out).stdout
    assert "needs" not in run("export", ring, "-o", out).stdout


@pytest.mark.parametrize("name", ["a.xml", "a.plan.json", "a"])
def test_files_of_runtimes(plan, name, tmp_path):
    """They need no such switches; that is why they take longer than planned."""
    chakra = () if "." in name else ("-f", "chakra")
    shown = run("export", plan, "-o", tmp_path / name, *chakra, "--lowered").stdout
    assert " planned, but " in shown
    assert f"\nneeds        to be as planned, {NEEDS}\n" in shown


def test_compare():
    task = ("compare", *TASK, "--chunks", "4", "--effort", "fast")
    lines = run(*task).stdout.splitlines()
    marked = {line.split()[1] for line in lines[1:] if " + " in line[:30]}
    assert {"pccl", "nvls"} <= marked
    assert "bound" not in marked
    assert f"+ pccl, nvls: needs {NEEDS}" in lines
    rows = json.loads(run(*task, "--json").stdout)["rows"]
    needs = {row["algorithm"]: row["needs"] for row in rows}
    assert needs["pccl"] == needs["nvls"] == WORK
    assert {name for name, work in needs.items() if work} == marked


def test_compare_for_a_runtime_that_has_no_use_of_them():
    shown = run("compare", *TASK, "--chunks", "1", "--effort", "fast", "--for", "msccl").stdout
    assert f"left out: nvls (needs {NEEDS}, which the one asked for does not)" in shown
    assert "\n+ " not in shown


def test_run(plan, ring):
    """Ranks send messages, which take longer than planned."""
    once = ("--on", "numpy", "--iterations", 1)
    header, line, note = run("run", plan, *once).stdout.splitlines()
    assert re.search("planned us +messages us +time us", header)
    document = json.loads(run("run", plan, "--json", *once).stdout)
    (row,) = document["runs"]
    assert document["needs"] == WORK
    assert row["messages_ps"] > row["planned_ps"]
    assert line.split()[5:7] == [f"{row[name] / 1e6:.2f}" for name in ("planned_ps", "messages_ps")]
    assert note == f"to be as planned, it needs {NEEDS}"
    plain = run("run", ring, *once).stdout
    assert "messages us" not in plain
    assert "needs" not in plain
    document = json.loads(run("run", ring, "--json", *once).stdout)
    (row,) = document["runs"]
    assert document["needs"] == []
    assert row["messages_ps"] == row["planned_ps"]


def test_run_and_export_say_the_same_time(plan, tmp_path):
    planned, messages = (
        run("run", plan, "--on", "numpy", "--iterations", 1).stdout.split("\n")[1].split()[5:7]
    )
    shown = run("export", plan, "-f", "chakra", "-o", tmp_path / "a", "--lowered").stdout
    assert f"{planned} us planned, but {messages} us as messages between NPUs" in shown
