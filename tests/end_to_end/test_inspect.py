"""``pccl verify`` and ``pccl show``, on good files and on bad ones."""

from __future__ import annotations

import json
import re
import shutil
import zipfile

import numpy as np
import pytest

import pccl
from tests.end_to_end.program import pccl as run
from tests.end_to_end.program import refused


def rewritten(source, target, change):
    """Copy a .pccl file with another header."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(
                name, json.dumps(change(json.loads(content))) if name == "header.json" else content
            )
    return target


@pytest.fixture
def wrong(ring, tmp_path):
    """An algorithm that sends everything at once."""
    good = pccl.load(ring)
    t = good.transfers
    path = tmp_path / "wrong.pccl"
    pccl.Algorithm.build(
        good.topology, good.collectives, t.chunk, t.link, np.zeros_like(t.start)
    ).save(path)
    return path


def test_verify_says_what_was_verified(ring):
    result = run("verify", ring)
    assert result.exit_code == 0
    assert result.stdout.startswith(
        f"{ring}: correct: all-gather on ring:4; 12 transfers deliver 4 chunks in "
    )
    assert run("verify", ring, "--quiet").output == ""


def test_verify_names_the_offence(wrong):
    assert refused("verify", wrong, status=1).startswith(f"{wrong}: transfer ")


def test_verify_goes_on_after_a_bad_file(ring, wrong, tmp_path):
    result = run("verify", wrong, ring)
    assert (result.exit_code, result.stderr.count("\n"), result.stdout.count("\n")) == (1, 1, 1)
    result = run("verify", wrong, tmp_path / "none.pccl", ring, "--json")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 2)
    files = json.loads(result.stdout)["files"]
    assert [file["correct"] for file in files] == [False, False, True]
    assert "transfer" in files[0]["error"]
    assert files[2]["chunks"] == 4


def test_show_lists_few_transfers_in_the_order_of_time(ring):
    lines = run("show", ring).stdout.splitlines()
    table = lines[lines.index("") + 1 :]
    assert table[0].split()[:2] == ["start", "us"]
    assert len(table) == 13
    starts = [float(row.split()[0]) for row in table[1:]]
    assert starts == sorted(starts)


def test_show_limits(ring, tmp_path):
    assert run("show", ring, "--limit", "0").stdout.endswith(
        "\n12 transfers are not shown; --transfers shows all, --limit N some\n"
    )
    assert "9 further transfers are not shown" in run("show", ring, "--limit", "3").stdout
    many = tmp_path / "many.pccl"
    run(
        "synthesize",
        "-t",
        "ring:10",
        "-c",
        "all-gather",
        "-s",
        "10KiB",
        "--chunks",
        "1",
        "-o",
        many,
    )
    assert "90 transfers are not shown" in run("show", many).stdout
    assert len(run("show", many, "--transfers").stdout.splitlines()) > 90


def test_show_as_json(ring):
    assert "first_transfers" not in json.loads(run("show", ring, "--json").stdout)
    document = json.loads(run("show", ring, "--json", "--transfers").stdout)
    algorithm = pccl.load(ring)
    assert len(document["first_transfers"]) == document["transfers"] == len(algorithm.transfers)
    assert max(row["arrival_ps"] for row in document["first_transfers"]) == algorithm.duration


def test_names_cannot_draw_on_the_terminal(tmp_path):
    nasty = tmp_path / "nasty.yaml"
    nasty.write_text(
        'npus: ["a\\e[31m", "b"]\nlinks: [{src: 0, dst: 1, bandwidth: 1GB/s, latency: 1us, both: yes}]'
    )
    assert "a?[31m" in run("topology", nasty).stdout
    pair = [pccl.Link(0, 1, "1GB/s", "1us"), pccl.Link(1, 0, "1GB/s", "1us")]
    named = pccl.Topology.from_links(2, pair, name="ring\x1b[31m")
    saved = tmp_path / "nasty.pccl"
    pccl.synthesize(named, pccl.SendRecv("1kB"), effort="fast").save(saved)
    assert "ring?[31m" in run("verify", saved).stdout


def test_one_is_not_called_several(tmp_path):
    """Two NPUs and one link, over which one chunk goes, in all that can be said about them."""
    pair = tmp_path / "pair.yaml"
    pair.write_text("npus: 2\nlinks: [{src: 0, dst: 1, bandwidth: 1GB/s, latency: 1us}]\n")
    plan = tmp_path / "plan.pccl"
    task = ("-t", pair, "-c", "broadcast", "-s", "1kB", "--chunks", "1")
    said = [
        run("synthesize", *task, "-o", plan),
        run("show", plan),
        run("verify", plan),
        run("simulate", plan),
        run("bound", *task),
        run("compare", *task),
        run("topology", pair),
        run("topology", "line:1"),
        run("export", plan, "-o", tmp_path / "plan.json", "--format", "mscclpp"),
        run("check", tmp_path / "plan.json", "--format", "mscclpp"),
        run("plot", plan, "-k", "timeline", "-o", tmp_path / "time.svg"),
        run("plot", plan, "-k", "critical", "-o", tmp_path / "critical.svg"),
    ]
    assert [result.exit_code for result in said] == [0] * len(said)
    texts = [result.stdout for result in said]
    texts += [repr(pccl.load(plan)), repr(pccl.load(plan).transfers)]
    texts += [path.read_text() for path in tmp_path.glob("*.svg")]
    several = [re.findall(r"\b1 [A-Za-z]{3,}s\b", text) for text in texts]
    assert several == [[]] * len(texts)


@pytest.mark.parametrize("command", ["verify", "show"])
def test_files_that_are_none(command, ring, tmp_path):
    bad = tmp_path / "bad.pccl"
    assert "there is no such file" in refused(command, bad)
    bad.write_text("not a zip file")
    assert (
        refused(command, bad)
        == f"{bad} is not a .pccl file, or is corrupted: File is not a zip file"
    )
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("hello", "world")
    assert "it has no header" in refused(command, bad)
    rewritten(ring, bad, lambda header: header | {"version": 99})
    assert "has version 99; this pccl reads version" in refused(command, bad)
    rewritten(
        ring, bad, lambda header: {key: header[key] for key in header if key != "collectives"}
    )
    assert "is corrupted" in refused(command, bad)


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_files(ring, tmp_path, share):
    bad = tmp_path / "bad.pccl"
    content = ring.read_bytes()
    bad.write_bytes(content[: int(len(content) * share)])
    assert "is not a .pccl file, or is corrupted" in refused("verify", bad)


def test_a_flipped_byte_never_ends_in_a_traceback(ring, tmp_path):
    bad = tmp_path / "bad.pccl"
    content = ring.read_bytes()
    noticed = 0
    for place in range(0, len(content), 7):
        bad.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        result = run("verify", bad)
        assert result.exit_code in (0, 1, 2), (
            place,
            result.output,
        )  # some bytes of a zip file mean nothing
        assert result.stderr.count("\n") == (result.exit_code > 0), place
        noticed += result.exit_code > 0
    assert noticed > len(content) // 7 * 0.7


def test_a_flipped_byte_of_a_column(ring, tmp_path):
    bad = tmp_path / "bad.pccl"
    shutil.copy(ring, bad)
    with zipfile.ZipFile(ring) as archive:
        entry = archive.getinfo("start.npy")
    content = bytearray(bad.read_bytes())
    content[entry.header_offset + 30 + len(entry.filename) + entry.compress_size // 2] ^= 1
    bad.write_bytes(content)
    assert "is not a .pccl file, or is corrupted" in refused("verify", bad)
