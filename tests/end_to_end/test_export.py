"""``pccl export``, ``pccl check`` and ``pccl import``."""

from __future__ import annotations

import json

import pytest

from tests.end_to_end.program import pccl as run
from tests.end_to_end.program import refused


@pytest.fixture
def xml(ring, tmp_path):
    path = tmp_path / "ring.xml"
    assert run("export", ring, "--format", "msccl", "-o", path).exit_code == 0
    return path


def test_export_says_what_it_wrote(ring, tmp_path):
    result = run(
        "export",
        ring,
        "-o",
        tmp_path / "a.xml",
        "--in-place",
        "--max-bytes",
        "64MiB",
        "--protocol",
        "LL",
    )
    assert result.exit_code == 0
    assert "allgather among 4 ranks, in place" in result.stdout
    text = (tmp_path / "a.xml").read_text()
    assert 'proto="LL"' in text
    assert 'inplace="1" outofplace="0" minBytes="0" maxBytes="67108864"' in text
    assert run("export", ring, "-o", tmp_path / "b.xml", "-q").stdout == ""


def test_check_accepts_what_export_writes(xml):
    result = run("check", xml)
    assert result.exit_code == 0
    assert "exact, without races or deadlock" in result.stdout
    assert json.loads(run("check", xml, "--json", "--depth", 1).stdout)["correct"] is True


def test_check_lists_problems_one_by_one(xml):
    text = xml.read_text()
    xml.write_text(
        text.replace('type="s"', 'type="cpy"', 1).replace(
            'maxBytes="1099511627776"', 'maxBytes="-1"'
        )
    )
    result = run("check", xml)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "algo: there are no sizes from 0 to -1 bytes" in result.stderr
    xml.write_text(text.replace('type="s"', 'type="cpy"', 1))
    result = run("check", xml, "--json")
    problems = json.loads(result.stdout)["problems"]
    assert result.exit_code == 1
    assert len(problems) == result.stderr.count("\n") == 1
    assert "it receives what nobody sends" in problems[0]


def test_a_group_that_relays(tmp_path):
    file, out = tmp_path / "group.pccl", tmp_path / "group.xml"
    run(
        "synthesize",
        "-t",
        "mesh:4x4",
        "-c",
        "all-gather",
        "-s",
        "5kB",
        "--group",
        "0,3,5,10,15",
        "-o",
        file,
    )
    assert "outside the group of 5 NPUs (0,3,5,10,15)" in refused(
        "export", file, "-o", out, "--group-ranks"
    )
    assert "the others only relay" in run("export", file, "-o", out).stdout
    assert (
        "ranks 0,3,5,10,15; the others only relay" in run("check", out).stdout
    )  # as the file says
    assert run("check", out, "--group", "0-15").exit_code == 1
    assert run("check", out, "--group", "0,3,5,10,15").exit_code == 0


def test_there_and_back(xml, tmp_path):
    back = tmp_path / "back.pccl"
    result = run("import", xml, "-t", "ring:4", "-s", "4MiB", "-o", back)
    assert result.exit_code == 0
    assert "imported from ring.xml" in result.stdout
    assert run("verify", back).exit_code == 0
    assert run("simulate", back).exit_code == 0


def test_check_stops_where_nobody_reads_on(tmp_path):
    bad = tmp_path / "bad.xml"
    bad.write_text("hello\n" * 1_000)
    lines = run("check", bad).stderr.splitlines()
    assert len(lines) == 101
    assert lines[-1].endswith("more, which --json lists")
    listed = json.loads(run("check", bad, "--json").stdout)["problems"]
    assert len(listed) >= 1_000


def test_wrong_questions_get_one_line(ring, xml, tmp_path):
    out = tmp_path / "x.xml"
    assert "there is no format 'xls'; there are msccl" in refused(
        "export", ring, "-f", "xls", "-o", out
    )
    assert "does not end like any format" in refused("export", ring, "-o", tmp_path / "x")
    assert "the format csv has no option --target; it" in refused(
        "export", ring, "-f", "csv", "-o", tmp_path / "x.csv", "--target", "rccl"
    )
    assert "there is no folder" in refused("export", ring, "-o", tmp_path / "none" / "x.xml")
    assert "no such file" in refused("export", tmp_path / "none.pccl", "-o", out)
    assert "missing option '-o'" in refused("export", ring)
    assert "has no unit" in refused("export", ring, "-o", out, "--min-bytes", "1")
    assert "no such file" in refused("check", tmp_path / "none.xml")
    assert "cannot be checked" in refused("check", tmp_path / "a.csv")
    assert "is not a rank or range" in refused("check", xml, "--group", "x")
    assert "is saved as .pccl" in refused("import", xml, "-t", "ring:4", "-s", "4MiB", "-o", out)
    assert "is for 4 ranks" in refused(
        "import", xml, "-t", "ring:5", "-s", "4MiB", "-o", tmp_path / "x.pccl"
    )


def test_a_plan_for_a_runtime(tmp_path):
    """Without it, the switch would multiply and add; with it, messages take as long as planned."""
    plan, out = tmp_path / "sum.pccl", tmp_path / "sum.plan.json"
    task = ("-t", "h100:1,nvls=yes", "-c", "all-reduce", "-s", "1MiB", "--chunks", "2", "-o", plan)
    assert (
        "needs        switches that multiply messages (multicast) and add them up"
        in run("synthesize", *task).stdout
    )
    assert "--for mscclpp" in refused("export", plan, "-o", out)
    assert "as messages between NPUs" in run("export", plan, "-o", out, "--lowered").stdout
    shown = run("synthesize", *task, "--for", "mscclpp").stdout
    assert "needs " not in shown
    assert "balanced for mscclpp: " in shown
    assert "as planned and as messages between NPUs" in run("export", plan, "-o", out).stdout


def test_a_runtime_that_is_not_known():
    task = ("-t", "ring:4", "-c", "all-gather", "-s", "4MiB")
    assert "there is no target 'nccl'" in refused("synthesize", *task, "--for", "nccl")


def test_traffic_of_any_sizes_is_shown_and_with_a_unit_exported(tmp_path):
    """Their largest common divisor is a byte, of which there are hundreds of millions."""
    (tmp_path / "m.csv").write_text("0,1000003,7\n310823339,0,15485863\n2,3,0\n")
    task = ("-t", "ring:3", "-c", "all-to-all-v", "--matrix", tmp_path / "m.csv", "--chunks", 1)
    plan = tmp_path / "m.pccl"
    made = run("synthesize", *task, "--effort", "fast", "-o", plan)
    assert "units" not in made.stdout
    assert run("show", plan).exit_code == 0
    assert run("verify", plan).exit_code == 0
    assert run("simulate", plan).exit_code == 0
    assert run("plot", plan, "-k", "gantt", "-o", tmp_path / "m.svg").exit_code == 0
    assert run("report", plan, "-o", tmp_path / "m.html").exit_code == 0
    page = (tmp_path / "m.html").read_text()
    assert "<dt>Not for mscclpp</dt><dd>all-to-all-v: the file counts in chunks of one size" in page
    assert "plan it with shares that are rounded up" in refused(
        "export", plan, "-o", tmp_path / "m.plan.json"
    )
    made = run("synthesize", *task, "--round", "64KiB", "--effort", "fast", "-o", plan)
    assert "in units of 64KiB (298.1 KiB more in all)" in made.stdout
    assert "in units of 64KiB" in run("show", plan).stdout
    assert run("export", plan, "-o", tmp_path / "m.plan.json").exit_code == 0
    assert run("check", tmp_path / "m.plan.json").exit_code == 0
    spec = tmp_path / "task.yaml"
    entry = "{kind: all-to-all-v, matrix: m.csv, round: 64KiB, chunks: 1}"
    spec.write_text(f"topology: ring:3\neffort: fast\ncollectives:\n  - {entry}\n")
    assert "in units of 64KiB" in run("synthesize", spec).stdout
