"""Plans, baselines and links measured in a box; what comes out of it is checked, not how long it takes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import pccl
from pccl.cli import main
from pccl.lab import Wiring, measure, why_not
from pccl.lab.probe import Sample, probe_box, probed, ways_over
from pccl.topology import Link, Switch, Topology, parse_topology

REASON = why_not()
BESIDE = str(Path(sys.executable).parent)
needs_a_box = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture(scope="module")
def row():
    """The second row of a mesh, for which the others relay."""
    everyone = pccl.AllToAll("96KiB", group=range(3, 6), chunks=4)
    return pccl.synthesize(pccl.topology.mesh(3, 3), everyone, effort="fast")


@needs_a_box
def test_a_plan_and_baselines_run_on_the_same_network(row):
    """What is planned is what the links of the box make of the plan; every element is checked on the way."""
    rows = measure(row, rate="80mbit", against=["direct", "confined"], runs=2)
    assert [one.name for one in rows] == ["plan", "direct", "confined"]
    assert [len(one.seconds) for one in rows] == [2, 2, 2]
    assert all(one.best == min(one.seconds) > 0 for one in rows)
    # The middle link of the row carries 16 of the 24 shares of 32 KiB, 10 MB a second, if nobody helps.
    assert rows[1].planned == pytest.approx(2 * 2 * 8 * 2**10 * 4 / 10e6, rel=0.5)
    assert rows[0].planned < rows[1].planned


@needs_a_box
def test_plans_through_switches_run_as_well():
    star = pccl.synthesize(pccl.topology.switch(3), pccl.AllReduce("48KiB"), effort="fast")
    assert len(measure(star, rate="80mbit", runs=1)) == 1


@needs_a_box
def test_the_command_says_what_was_planned_and_measured(row, tmp_path):
    path = tmp_path / "row.pccl"
    row.save(path)
    words = ["lab", "run", str(path), "--rate", "80mbit", "--runs", "1"]
    said = CliRunner().invoke(main, [*words, "--against", "direct", "--json"])
    assert said.exit_code == 0, said.output
    assert [one["name"] for one in json.loads(said.output)["rows"]] == ["plan", "direct"]
    said = CliRunner().invoke(main, words)
    assert said.output.split()[:3] == ["run", "planned", "ms"]


@needs_a_box
def test_commands_run_in_the_namespaces_of_the_npus(tmp_path):
    line = "echo $RANK $WORLD_SIZE $MASTER_ADDR $(ip -4 -o address show dev home) > $OUT/$RANK"
    script = tmp_path / "script"
    script.write_text(f"OUT={tmp_path}\n{line}\ntest $RANK != 9")
    words = ["lab", "exec", "-t", "ring:3", "--rate", "10mbit", "--", "sh", str(script)]
    assert CliRunner().invoke(main, words).exit_code == 0
    for rank in range(3):
        said = (tmp_path / str(rank)).read_text().split()
        assert said[:3] == [str(rank), "3", "10.1.0.1"]
        assert f"10.1.0.{rank + 1}/32" in said


@needs_a_box
@pytest.mark.skipif(shutil.which("mpiexec", path=BESIDE) is None, reason="there is no mpiexec")
def test_ranks_of_mpi_run_on_the_network_of_the_box(tmp_path):
    """A link of 4 Mbit/s takes a second for the 500 kB that a rank sends each way; shared memory would take none."""
    plan = pccl.synthesize(pccl.topology.ring(3), pccl.AllGather("1500kB"), effort="fast")
    plan.save(tmp_path / "ring.pccl")
    box = [sys.executable, "-m", "pccl.cli", "lab", "exec", "-t", "ring:3", "--rate", "4mbit"]
    inside = [sys.executable, "-m", "pccl.cli", "run", str(tmp_path / "ring.pccl"), "--on", "mpi"]
    said = subprocess.run(
        [*box, "--mpi", "--", *inside, "--iterations", "1", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    (run,) = json.loads(said.stdout)["runs"]
    assert run["wrong"] == 0
    assert run["time_us"] > 500_000


@needs_a_box
def test_a_command_that_fails_ends_all(tmp_path):
    words = ["sh", "-c", "test $RANK != 1 || exit 7; sleep 1000"]
    said = CliRunner().invoke(
        main, ["lab", "exec", "-t", "ring:3", "--rate", "1mbit", "--", *words]
    )
    assert said.exit_code == 7


@needs_a_box
def test_the_probe_tells_fast_links_from_slow_ones():
    """Four times as fast is seen even on a machine that is busy; how exact it is otherwise is in docs/lab.md."""
    links = [Link(0, 1, "2MB/s", "1us"), Link(1, 0, "8MB/s", "1us")]
    found = probe_box(Wiring.of(Topology.from_links(2, links)))
    there, back = found.bandwidth.tolist()
    assert back > 2 * there
    assert found.latency.min() > 0


@needs_a_box
def test_a_probe_writes_a_network(tmp_path):
    path = tmp_path / "measured.yaml"
    words = ["probe", "-t", "line:2", "--on", "lab", "--rate", "80mbit", "-o", str(path)]
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 0, said.output
    assert parse_topology(str(path)).num_links == 2


@pytest.mark.parametrize(
    "topology",
    [
        pccl.topology.mesh(3, 3),
        pccl.topology.switch(4),
        pccl.topology.dgx1(),
    ],
)
def test_every_link_is_on_a_way_that_is_measured(topology):
    """Of parallel links one stands for all."""
    ways = ways_over(topology)
    covered = set(ways.links.tolist())
    ends = list(zip(topology.src.tolist(), topology.dst.tolist(), strict=True))
    assert {ends[link] for link in covered} == set(ends)
    assert len(set(ways.pairs)) == len(ways.pairs)


def test_what_was_measured_on_ways_is_said_of_links():
    """A way of two links is as fast as the slower one; the other is as fast as another way over it shows."""
    links = [Link(0, 3, "1GB/s", "0ns"), Link(3, 1, "1GB/s", "0ns"), Link(3, 2, "1GB/s", "0ns")]
    star = Topology.from_links(3, links, [Switch()])
    ways = ways_over(star)
    assert ways.pairs == [(0, 1), (0, 2)]
    samples = {0: Sample(2e-6, 5e6, 1e-6), 1: Sample(4e-6, 8e6, 1e-6)}
    found = probed(star, ways, samples)
    assert found.bandwidth.tolist() == [8_000_000, 5_000_000, 8_000_000]
    assert found.latency.tolist() == [2_000_000, 1_000_000, 2_000_000]
    assert np.all(found.gap == 1_000_000)


def test_parallel_links_share_what_was_measured():
    links = [Link(0, 1, "1GB/s", "0ns"), Link(0, 1, "1GB/s", "0ns")]
    twins = Topology.from_links(2, links)
    found = probed(twins, ways_over(twins), {0: Sample(1e-6, 10e6, 0.0)})
    assert found.bandwidth.tolist() == [5_000_000, 5_000_000]


def test_what_makes_no_sense_is_refused(row, tmp_path):
    with pytest.raises(pccl.PcclError, match="number of runs"):
        measure(row, rate="1mbit", runs=0)
    path = tmp_path / "row.pccl"
    row.save(path)
    said = CliRunner().invoke(main, ["lab", "run", str(path)])
    assert said.exit_code == 2
    assert "give a rate for the fastest of them" in said.output
    for words, message in (
        (["probe", "-t", "line:1", "-o", "x.yaml"], "line:1 has no links between NPUs to measure"),
        (["probe", "-t", "ring:3", "-o", "none/x.yaml"], "there is no folder none"),
        (["lab", "exec", "-t", "ring:2", "--timeout", "nan", "--", "true"], "no number of seconds"),
    ):
        said = CliRunner().invoke(main, words)
        assert said.exit_code == 2
        assert message in said.output
    words = ["probe", "-t", "ring:3", "--on", "processes", "--rate", "1mbit", "-o", "x.yaml"]
    assert CliRunner().invoke(main, words).exit_code == 2
