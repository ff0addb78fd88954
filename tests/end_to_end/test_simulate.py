"""``pccl simulate``: the plan against what happens."""

from __future__ import annotations

import json

import numpy as np

import pccl
from tests.end_to_end.program import pccl as run
from tests.end_to_end.program import refused


def test_a_plan_goes_as_planned(ring):
    lines = run("simulate", ring).stdout.splitlines()
    assert any(line.startswith("finish") and line.endswith("as planned") for line in lines)


def test_slow_links_and_jitter_cost_time(ring):
    for options in (["--slow", "0=2.0"], ["--jitter", "0.5"], ["--topology", "ring:4@1GB/s,1us"]):
        result = json.loads(run("simulate", ring, *options, "--json").stdout)
        assert result["finish_ps"] > result["planned_ps"]
    in_per_cent = run("simulate", ring, "--jitter", "10%").stdout
    assert in_per_cent == run("simulate", ring, "--jitter", "0.1").stdout


def test_the_essentials_in_json(ring):
    result = json.loads(
        run("simulate", ring, "--slow", "0=1.5", "--chunk", "0", "--link", "2", "--json").stdout
    )
    assert result["finish_over_planned"] == result["finish_ps"] / result["planned_ps"] > 1
    assert len(result["utilization_over_time"]) == 10
    assert (
        result["busiest_links"][0]["utilization"] >= result["busiest_links"][-1]["utilization"] > 0
    )
    assert result["latest_chunks"][0]["finish_ps"] == result["finish_ps"]
    assert (result["slowdown"], result["jitter"], result["seed"]) == ({"0": 1.5}, 0.0, 0)
    assert 0 < max(row["arrival_ps"] for row in result["chunk_timeline"]) <= result["finish_ps"]
    assert {row["link"] for row in result["link_timeline"]} == {2}


def test_timelines_in_text(ring):
    lines = run("simulate", ring, "--link", "0").stdout.splitlines()
    header = ["planned", "us", "start", "us", "free", "us", "arrival", "us", "chunk", "link"]
    assert header in [line.split() for line in lines]
    assert lines[-1].endswith("link 0 (NPU 0 -> NPU 1)")


def test_nothing_to_run(tmp_path):
    alone = tmp_path / "alone.pccl"
    run("synthesize", "-t", "ring:4", "-c", "all-gather", "-s", "4kB", "-g", "1", "-o", alone)
    assert "0 us, as planned" in run("simulate", alone).stdout
    assert json.loads(run("simulate", alone, "--json").stdout)["busiest_links"] == []


def test_first_come_first_served(ring):
    assert "first come, first served" in run("simulate", ring, "--discipline", "fifo").stdout


def test_wrong_questions_get_one_line(ring, tmp_path):
    assert "3=2.0" in refused("simulate", ring, "--slow", "x")
    assert "has no link 99" in refused("simulate", ring, "--slow", "99=2")
    assert "twice for one link" in refused("simulate", ring, "--slow", "0=2", "--slow", "0=3")
    assert "jitter must be a share" in refused("simulate", ring, "--jitter", "-1")
    assert "has no chunk 4" in refused("simulate", ring, "--chunk", "4")
    assert "has no link 8" in refused("simulate", ring, "--link", "8")
    assert "no such file" in refused("simulate", ring, "--topology", tmp_path / "none.yaml")
    assert "does not have the links" in refused("simulate", ring, "--topology", "mesh:3x3")
    assert "no such file" in refused("simulate", tmp_path / "none.pccl")


def test_a_difference_that_rounds_to_nothing_has_no_sign(tmp_path):
    """It is not as planned either."""
    plan = pccl.synthesize(pccl.topology.ring(4), pccl.AllGather("4MiB", chunks=1))
    late = plan.transfers.start.copy()
    late[np.argmax(late)] += 1
    t = plan.transfers
    path = tmp_path / "late.pccl"
    pccl.Algorithm.build(plan.topology, plan.collectives, t.chunk, t.link, late).save(path)
    assert " us, 0.0%\n" in run("simulate", path).stdout
