"""Whatever people write: a line that says what is wrong, no traceback, and no more memory than it is worth."""

from __future__ import annotations

import json
import os
import random
import subprocess
import zipfile
from itertools import product
from pathlib import Path

import pytest

from tests.end_to_end.program import PROGRAM
from tests.end_to_end.program import pccl as run

TOPOLOGIES = (
    "", " ", ":", "ring", "ring:", "ring:0", "ring:-1", "ring:1e9", "ring:4x4", "ring:999999999999", "mesh:", "mesh:x",
    "mesh:0x4", "mesh:100000x100000", "fully-connected:100000", "torus:4x", "h100:0", "h100:-2", "h100:x", "h100:4,",
    "h100:4,nvls", "h100:4,nvls=perhaps", "h100:4,speed=1GB/s", "h100:2,nic=fast", "ring:4@", "ring:4@fast", "ring:4@1",
    "ring:4@0GB/s", "ring:4@-1GB/s", "ring:4@1GB/s,soon", "ring:4 x", "x ring:4", "ring:4 x ring:0", "nvl7", "rnig:4",
    "/dev/null", "/dev/zero", "/", "none.yaml", "none.json", "\x00", "\x1b[31mred", "ring:٣", "ring:4;rm", "🚀",
    "a" * 9999,
)  # fmt: skip
SIZES = (
    "", "0", "0B", "-1MiB", "4", "4.5", "4XB", "MiB", "1e400MiB", "nan", "nanMiB", "infGiB", "1MiBMiB", "1 000MiB",
    "9999999999TiB", "0.1B", "٤MiB", "4MiB;", "\x00",
)  # fmt: skip
GROUPS = (
    "", "a", "0-", "-1", "0-99", "3-1", "0,0", "0-3,2", "0:2", "0-3:0", "0-3:-1", "0-3:x", "1.5", "0-999999999999",
    "0,,1", "4", "\x1b", "٠-٣",
)  # fmt: skip
COUNTS = ("0", "-1", "x", "1.5", "", "99999999999999999999", "1e3", "٣")
MESHES = (
    "",
    "dp",
    "dp=",
    "=2",
    "dp=0,tp=4",
    "dp=3",
    "dp=2,dp=2",
    "dp=99999999",
    "dp=2;tp=2",
    "dp=-2,tp=-2",
)
KINDS = (
    "",
    "all",
    "allreduce!",
    "all-to-all-v",
    "custom",
    "ALL GATHER NOW",
    "\x00",
    "all-gather,all-reduce",
)
TIMES = ("0", "-1", "nan", "inf", "x", "")
NAMES = ("", "x", "\x00", "fast ", "FAST!", "../..")

GOOD = {"-t": "ring:4", "-c": "all-gather", "-s": "4MiB"}
BAD = {
    "-t": TOPOLOGIES,
    "-s": SIZES,
    "-g": GROUPS,
    "--chunks": COUNTS,
    "--mesh": MESHES,
    "-c": KINDS,
    "--time-limit": TIMES,
    "--gap": ("", "x", "-1", "nan", "5%%", "%", "inf"),
    "--seed": ("-1", "x", "", "1.5"),
    "--effort": NAMES,
    "--method": NAMES,
    "--order": NAMES,
    "--routes": NAMES,
    "--for": NAMES,
    "--root": ("-1", "x", "9", ""),
    "--dtype": ("", "float", "int7", "\x1b", "float64x"),
    "-o": ("", "/", "/none/x.pccl", "x.txt", "/dev/full/x.pccl", "x.pccl/y.pccl"),
}
COMMANDS = ("synthesize", "compare", "bound")
# What is only odd, and works.
FINE = {
    ("--time-limit", "inf"),
    ("--mesh", "dp=3"),
    ("-t", "h100:4,nvls"),
    ("-g", ""),
    ("--chunks", "٣"),
    ("--gap", "inf"),
    ("--root", "٣"),
}


def wrong_flags() -> list[tuple[str, ...]]:
    """Every bad value of every flag, each with a command that has the flag."""
    cases = []
    for number, (flag, value) in enumerate((f, v) for f, values in BAD.items() for v in values):
        if (flag, value) in FINE:
            continue
        task = GOOD | {"--effort": "fast"} | {flag: value}
        if flag == "--mesh":
            task["--along"] = "dp"
        if flag in ("--order", "--routes"):
            task["--method"] = "earliest-arrival"
        if flag == "--root":
            task["-c"] = "broadcast"
        task_flags = ("-t", "-s", "-c", "-g", "--chunks", "--mesh", "--dtype")
        command = COMMANDS[number % 3] if flag in task_flags else "synthesize"
        if command == "bound":
            del task["--effort"]
        cases.append((command, *(word for pair in task.items() for word in pair)))
    return cases


def wrong_files() -> list[tuple[str, ...]]:
    """Commands that read files, with what is no such file."""
    files = (
        "none.pccl",
        "",
        "/",
        "/dev/null",
        "text.pccl",
        "empty.pccl",
        "text.xml",
        "text.json",
        "text.yaml",
    )
    files += (
        "bomb.pccl",
        "claims.pccl",
        "version.pccl",
        "deep.json",
        "deep.yaml",
        "indented.yaml",
        "half.pccl",
        "bytes.xml",
    )
    verbs = (
        ("verify",), ("show",), ("simulate",), ("check",), ("synthesize",), ("compare",), ("bound",), ("topology",),
        ("export", "-o", "out.xml"), ("report", "-o", "out.html"), ("plot", "-k", "heatmap", "-o", "out.svg"),
        ("plot", "-k", "topology", "-o", "out.svg"), ("import", "-t", "ring:4", "-s", "4MiB", "-o", "out.pccl"),
    )  # fmt: skip
    return [(*verb, file) for verb, file in product(verbs, files)]


# What is taken out of a network, and what is changed in it.
DAMAGE = (
    "", "npu99", "**", "0:9", ":", "0:", "::", "0-99", "nic*", "[", "[a-", "\x00", "0:1:2", "-", "npu0;rm", "a" * 5_000,
)  # fmt: skip
CHANGES = (
    "", "x", "a=b", ".bandwidth=1GB/s", "*.bandwidth=", "*.bandwidth=0GB/s", "*.bandwidth=-1GB/s", "*.bandwidth=1",
    "*.colour=red", "*.latency=1GB/s", "0:1.bandwidth=0%", "0:1.bandwidth=-5%", "0:1.bandwidth=nan%",
    "*.bandwidth=1e99GB/s", "none.bandwidth=1GB/s", "*.multicast=perhaps", "=", "*.bandwidth=1GB/s=2", "[.latency=1us",
)  # fmt: skip


def wrong_machines() -> list[tuple[str, ...]]:
    """Commands about real machines: with networks that are none, logs, matrices and figures that make no sense."""
    files = (
        "none", "", "/", "/dev/null", "text.xml", "text.json", "text.yaml", "bytes.xml", "empty.pccl", "deep.json",
        "indented.yaml", "bomb.pccl",
    )  # fmt: skip
    matrix = ("synthesize", "-t", "ring:4", "-c", "all-to-all-v", "--matrix")
    tune = ("tune", "--collectives", "all-gather", "--sizes", "1KiB:1KiB", "-o", "plans")
    ring = (*tune, "-t", "ring:4")
    lab = ("lab", "run", "good.pccl")
    cases: list[tuple[str, ...]] = []
    for file in files:
        cases += [("doctor", file, "-t", "h100"), (*matrix, file), ("run", file)]
        cases += [("lab", "run", file, "--rate", "1mbit"), ("probe", "-t", file, "-o", "p.yaml")]
        cases += [("compare", "-t", "h100", "-c", "all-gather", "-s", "1MiB", "--nccl-graph", file)]
    for text in DAMAGE:
        cases += [("topology", "h100:2", "--without", text), (*ring, "--without", text)]
    for text in CHANGES:
        cases += [("topology", "h100:2", "--set", text), (*ring, "--set", text)]
    for count in ("0", "-1", "x", "", "nan", "99999999999999999999"):
        cases += [
            ("run", "good.pccl", "--iterations", count),
            (*lab, "--rate", "1mbit", "--runs", count),
        ]
        cases += [(*ring, "--step", count[:2] or "1"), (*lab, "--scale", count)]
        cases += [("run", "good.pccl", "--timeout", count), (*lab, "--rate", count)]
        cases += [
            (
                "bound",
                "-t",
                "ring:4",
                "-c",
                "all-reduce",
                "-s",
                "1MiB",
                "--trees",
                "--chunks",
                count,
            )
        ]
    return cases


def wrong_words() -> list[tuple[str, ...]]:
    """Words in any order, drawn by lot."""
    dice = random.Random(7)
    words = [
        "synthesize", "verify", "plot", "export", "topology", "bound", "-t", "-c", "-s", "-o", "--json", "-q", "--nope",
        "ring:4", "all-gather", "4MiB", "--", "-", "--help=1", "=", "-t=ring:4", "--size=", "-k", "x.svg", "heatmap",
        "0",
    ]  # fmt: skip
    return [tuple(dice.choices(words, k=dice.randint(1, 6))) for _ in range(250)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Files that are not what they are called."""
    path = tmp_path_factory.mktemp("bad")
    good = path / "good.pccl"
    task = [word for pair in GOOD.items() for word in pair]
    assert run("synthesize", *task, "--effort", "fast", "-o", good).exit_code == 0
    for ending in ("pccl", "xml", "json", "yaml"):
        (path / f"text.{ending}").write_text("what is this \x1b[31m: [{<\n")
    (path / "bytes.xml").write_bytes(bytes(range(256)) * 9)
    (path / "empty.pccl").write_bytes(b"")
    (path / "half.pccl").write_bytes(good.read_bytes()[:900])
    (path / "deep.json").write_text("[" * 100_000)
    (path / "deep.yaml").write_text("a: " + "[" * 100_000)
    (path / "indented.yaml").write_text("- " * 100_000 + "x")
    with zipfile.ZipFile(good) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(entries["header.json"])
    _write(
        path / "version.pccl",
        entries | {"header.json": json.dumps(header | {"version": "1"}).encode()},
    )
    # A few bytes that speak of a billion chunks, and a few thousand that inflate to a gigabyte.
    greedy = [header["collectives"][0] | {"chunks": 2**30, "size": "1TiB"}]
    _write(
        path / "claims.pccl",
        entries | {"header.json": json.dumps(header | {"collectives": greedy}).encode()},
    )
    _write(path / "bomb.pccl", entries | {"link.npy": bytes(2**30)})
    return path


def _write(path: Path, entries: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    "cases",
    [wrong_flags(), wrong_files(), wrong_machines(), wrong_words()],
    ids=["flags", "files", "machines", "words"],
)
def test_bad_input_gets_a_line(cases, folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert len(cases) > 150
    for case in cases:
        result = run(*case)  # which asks that there is no traceback
        if result.exit_code:
            assert result.exit_code in (1, 2), (case, result.output)
            lines = result.stderr.splitlines()
            assert all(line.startswith("error: ") for line in lines), (case, result.output)
            # Several files, or a file that is wrong in several ways, have a line for each.
            assert len(lines) == 1 or case[0] in ("verify", "check"), (case, result.output)
            assert len(result.stderr) < 12_000, case


def test_every_bad_flag_is_refused(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for case in wrong_flags():
        assert run(*case).exit_code, " ".join(case)


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "/dev/zero"),
        ("synthesize", "/dev/zero"),
        ("check", "/dev/zero", "--format", "msccl"),
        ("check", "/dev/zero", "--format", "mscclpp"),
        ("topology", "/dev/zero"),
        ("show", "bomb.pccl"),
        ("verify", "claims.pccl"),
        ("synthesize", "-t", "ring:4", "-c", "all-gather", "-s", "4GiB", "--chunks", "67108864"),
        ("bound", "-t", "ring:100000", "-c", "all-to-all", "-s", "1GiB"),
        ("compare", "-t", "ring:90000", "-c", "all-reduce", "-s", "1GiB"),
    ],
    ids=lambda arguments: " ".join(arguments)[:50],
)  # fmt: skip
def test_what_would_fill_the_memory_is_refused_before(arguments, folder):
    process = subprocess.Popen(
        [*PROGRAM, *arguments], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    line = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    assert process.returncode == 2
    assert line.startswith("error: ")
    assert line.count("\n") == 1
    assert usage.ru_maxrss < 2**21  # in KiB: two gigabytes
