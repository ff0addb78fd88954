"""``pccl bound`` and ``pccl compare``: how good it is."""

from __future__ import annotations

import json
import re

import pytest

import pccl
from pccl.topology import mesh
from tests.end_to_end.program import EXAMPLES, Terminal, refused
from tests.end_to_end.program import pccl as run

TASK = (
    "--topology",
    "mesh:4x4",
    "--collective",
    "all-to-all",
    "--size",
    "4MiB",
    "--group",
    "0-3",
    "--chunks",
    "2",
)


def test_a_bound_comes_with_its_proof():
    result = json.loads(run("bound", *TASK, "--json").stdout)
    assert result["kind"] in ("cut", "latency")
    assert result["bound_ps"] > 0
    assert (
        "must send 64MiB over 4 links"
        in run("bound", "-t", "mesh:4x4", "-c", "all-to-all", "-s", "16MiB").stdout
    )


def test_ours_stands_beside_baselines_and_the_bound():
    rows = {
        row["algorithm"]: row for row in json.loads(run("compare", *TASK, "--json").stdout)["rows"]
    }
    assert set(rows) == {"pccl", "direct", "confined", "bruck", "hierarchical", "bound"}
    assert rows["bound"]["time_ps"] <= rows["pccl"]["time_ps"] < rows["direct"]["time_ps"]
    assert rows["pccl"]["busbw"] == rows["pccl"]["algbw"] * 3 / 4
    assert rows["direct"]["speedup"] == rows["direct"]["time_ps"] / rows["pccl"]["time_ps"]


def test_baselines_that_do_not_apply_are_left_out_and_named():
    task = ("compare", "-t", "ring:6", "-c", "all-reduce", "-s", "6MiB")
    result = json.loads(run(*task, "--json").stdout)
    names = [row["algorithm"] for row in result["rows"]]
    assert names == [
        "pccl", "nccl-ring", "nccl-tree", "ring", "best-ring", "two-shot", "recursive-doubling", "exchange",
        "double-tree", "multitree", "bound",
    ]  # fmt: skip
    assert result["left_out"] == {
        "nvls": "needs a switch that multiplies and adds in every box, as in h100:4,nvls=yes; ring:6 has none",
        "direct": "does not support all-reduce",
        "one-shot": "needs a way from every NPU of the group to every other that passes through no NPU and no switch "
        "that multiplies or adds",
        "scattered-exchange": "needs boxes, some NPUs of which are next to those at the same place of the others",
        "halving-doubling": "needs a power of two NPUs per group; all-reduce has 6",
        "bruck": "does not support all-reduce",
        "hierarchical": "needs a network with dimensions, such as mesh:4x4; ring:6 has none",
    }
    assert "left out: direct, bruck (does not support all-reduce)" in run(*task).stdout.splitlines()


def test_it_says_what_people_have_today():
    task = ("compare", "-t", "h100:2", "-c", "all-reduce", "--sizes", "1K:2K")
    rows = json.loads(run(*task, "--json").stdout)["rows"]
    today = [(row["size"], row["algorithm"], row["speedup"]) for row in rows if row["today"]]
    assert [name for _, name, _ in today] == ["nccl-tree", "nccl-tree"]
    lines = run(*task).stdout.splitlines()
    assert len([line for line in lines if " nccl-tree * " in line]) == 2
    for size, name, speedup in today:
        line = f"* what you have today at {size // 1024}KiB: {name}; ours is {speedup:.2f}x as fast"
        assert line in lines


def test_the_command_prints_what_python_finds():
    """Every number comes from pccl.compare(); the bound is that of the algorithm."""
    ours = pccl.synthesize(mesh(4, 4), pccl.AllToAll("4MiB", range(4), chunks=2))
    expected = [
        (row.name, row.duration, row.bus_bandwidth, row.links_busy, row.of_bound)
        for row in pccl.compare(ours).rows
    ]
    rows = json.loads(run("compare", *TASK, "--json").stdout)["rows"]
    keys = ("algorithm", "time_ps", "busbw", "links_busy", "of_bound")
    assert [tuple(row[key] for key in keys) for row in rows] == expected


@pytest.mark.parametrize("width", [60, 80])
def test_names_keep_their_width_on_a_narrow_terminal(width):
    with Terminal("compare", *TASK, "--effort", "fast", COLUMNS=str(width)) as terminal:
        text = terminal.read()
        assert terminal.process.wait() == 0
    for name in ("pccl", "hierarchical", "bound", "4MiB"):
        assert re.search(rf"\b{name}\b", text), text


def test_a_sweep_over_sizes():
    lines = run(
        "compare", "-t", "ring:4", "-c", "all-gather", "--sizes", "1M:4M"
    ).stdout.splitlines()
    assert [line.split()[0] for line in lines if " pccl " in line] == ["1MiB", "2MiB", "4MiB"]


def test_wrong_questions_get_one_line():
    assert "has no unit" in refused(
        "compare", "-t", "ring:4", "-c", "all-gather", "--sizes", "1:4M"
    )
    assert "an empty range" in refused(
        "compare", "-t", "ring:4", "-c", "all-gather", "--sizes", "4M:1M"
    )
    assert "cannot change all-to-all-v" in refused(
        "compare", EXAMPLES / "mix.yaml", "--sizes", "1M:2M"
    )
    assert "spec file" in refused("bound")
    assert "--size and --sizes exclude each other" in refused(
        "compare", "-t", "ring:4", "-c", "all-gather", "-s", "4MiB", "--sizes", "1M:1M"
    )
    assert "describe all-gather and all-reduce in a spec file" in refused(
        "compare", "-t", "ring:4", "-c", "all-gather", "-c", "all-reduce", "-s", "4MiB"
    )


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (("--chunks", "1"), "its number of chunks is given"),
        (("--effort", "fast"), "effort fast is one pass"),
    ],
)
def test_why_ours_may_be_slower_is_said(asked, reason):
    task = ("compare", "-t", "switch:4", "-c", "all-reduce", "-s", "16MiB")
    said = f"\nours is slower than it might be: {reason}"
    assert said in run(*task, *asked).stdout
    assert "slower than it might be" not in run(*task).stdout
