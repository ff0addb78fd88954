"""``pccl simulate``: the plan against what happens."""

from __future__ import annotations

import json

from tests.end_to_end.program import pccl as run
from tests.end_to_end.program import refused


def test_a_plan_goes_as_planned(ring):
    lines = run("simulate", ring).stdout.splitlines()
    assert any(line.startswith("finish") and line.endswith("as planned") for line in lines)


def test_slow_links_and_jitter_cost_time(ring):
    for options in (["--slow", "0=2.0"], ["--jitter", "0.5"], ["--topology", "ring:4@1GB/s,1us"]):
        result = json.loads(run("simulate", ring, *options, "--json").stdout)
        assert result["finish_ps"] > result["planned_ps"]


def test_first_come_first_served(ring):
    assert "first come, first served" in run("simulate", ring, "--discipline", "fifo").stdout


def test_wrong_questions_get_one_line(ring, tmp_path):
    assert "3=2.0" in refused("simulate", ring, "--slow", "x")
    assert "has no link 99" in refused("simulate", ring, "--slow", "99=2")
    assert "does not have the links" in refused("simulate", ring, "--topology", "mesh:3x3")
    assert "no such file" in refused("simulate", tmp_path / "none.pccl")
