"""What people see on a terminal: tables that fit, one live line with short names, and what a shell completes."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from pccl.cli.app import COMMANDS
from pccl.cli.progress import _brief
from tests.end_to_end.program import Terminal
from tests.end_to_end.program import pccl as run

TASK = ("-t", "ring:4", "-c", "all-gather", "-s", "4MiB", "--effort", "fast")


def shown(terminal: Terminal) -> list[str]:
    """The lines that stay, without colours and without the live line, which is drawn over."""
    text = terminal.read()
    assert terminal.process.wait() == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    return [line.rpartition("\r")[2].rstrip() for line in plain.replace("\r\n", "\n").split("\n")]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_tables_fit_and_names_stay_whole(width):
    with Terminal("compare", *TASK, COLUMNS=str(width)) as terminal:
        lines = shown(terminal)
    rows = [line for line in lines if line.startswith(("4MiB", "──"))]
    assert rows
    assert max(map(len, rows)) <= width
    names = [row.split()[1] for row in rows if row.startswith("4MiB")]
    assert {"pccl", "nccl-ring", "double-tree", "bound"} & set(names) >= {"pccl", "bound"}


def test_a_narrow_terminal_has_fewer_columns_and_a_pipe_has_all():
    heads = {}
    for width in ("60", "120"):
        with Terminal("compare", *TASK, COLUMNS=width) as terminal:
            heads[width] = " ".join(shown(terminal))
    assert "busbw" in heads["60"]
    assert "algbw" not in heads["60"]
    assert "algbw" in heads["120"]
    assert "algbw" in run("compare", *TASK).stdout


def columns_of(text: str) -> int:
    """Where a text ends on a terminal, of which signs of Chinese, Japanese and Korean take two columns each."""
    return sum(2 if "\u1100" <= sign <= "\uffdc" else 1 for sign in text)


@pytest.mark.parametrize("terminal", [False, True])
def test_columns_line_up_whatever_script_names_are_in(tmp_path, terminal):
    racks = tmp_path / "racks.yaml"
    racks.write_text(
        "name: 北京\nnpus: [机架一, b, ラック, d]\n"
        "links: [{src: 0, dst: 1, bandwidth: 1GB/s, latency: 1us}, {src: 2, dst: 3, bandwidth: 1GB/s, latency: 1us}]\n"
    )
    if terminal:
        with Terminal("topology", racks) as window:
            lines = shown(window)
    else:
        lines = run("topology", racks).stdout.splitlines()
    # The kind of each device, and the bandwidth of each link.
    for cell, rows in (("  NPU  ", 4), (")      1GB/s", 2)):
        ends = [columns_of(line[: line.index(cell)]) for line in lines if cell in line]
        assert (len(ends), len(set(ends))) == (rows, 1), lines


@pytest.mark.parametrize(
    ("text", "brief"),
    [
        ("price-guided, steepness 40, urgency 0, rounds", "price-guided"),
        ("32MiB: baseline halving-doubling-of-everything", "32MiB: baseline halving…"),
        ("compiling kernels, first run only", "compiling kernels, first run only"),
        # What is left is what people wait for.
        ("re-routing, at most 12 s left", "re-routing, at most 12 s left"),
        ("price-guided, steepness 40, at most 2 min left", "price-guided, at most 2 min left"),
    ],
)
def test_the_live_line_has_short_names(text, brief):
    assert _brief(text) == brief


@pytest.mark.parametrize("width", ["60", "110"])
def test_there_is_one_live_line_and_it_fits(width):
    with Terminal(
        "synthesize", "-t", "mesh:4x4", "-c", "all-to-all", "-s", "4MiB", COLUMNS=width
    ) as terminal:
        text = terminal.read()
    assert "\x1b[2K" in text  # it is drawn over, and gone in the end
    drawn = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n")
    live = [
        part for part in re.split(r"[\r\n]", drawn) if re.search(r"\d/\d", part) and ":" in part
    ]
    assert live
    assert max(map(len, live)) <= int(width)
    assert not any("steepness" in part for part in live)


def test_a_limit_says_beforehand_what_it_does_not_limit(monkeypatch):
    def nothing(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("pccl.synthesis.synthesize", nothing)
    large = ("synthesize", "-t", "ring:4", "-c", "all-gather", "-s", "4MiB", "--chunks", "65536")
    note = "note: the first pass is always completed, with about 1,048,576 chunks to deliver; "
    limited = run(*large, "--time-limit", "5").stderr
    assert limited.startswith(f"{note}what follows ends 5 s after the search began")
    assert run(*large).stderr.startswith(f"{note}what follows ends 20 s after the search began")
    assert run(*large, "--effort", "fast").stderr.startswith(f"{note}a fast search is over then")
    assert "note" not in run("synthesize", *TASK, "--time-limit", "5").stderr


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("pccl syn", ["synthesize"]),
        ("pccl synthesize -t h1", ["h100"]),
        ("pccl topology h1", ["h100"]),
        ("pccl synthesize -c all-g", ["all-gather"]),
        ("pccl synthesize --effort th", ["thorough"]),
        ("pccl synthesize --for msccl", ["mscclpp", "msccl"]),
        ("pccl plot x.pccl -k heat", ["heatmap"]),
        ("pccl export x.pccl -f ms", ["msccl", "mscclpp"]),
        ("pccl report x.pccl --baseline nccl-r", ["nccl-ring"]),
    ],
)
def test_a_shell_completes_values(words, offered):
    asked = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
        "_PCCL_COMPLETE": "bash_complete",
    }
    code = "from pccl.cli import main; main(prog_name='pccl')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=True,
    )
    found = [line.partition(",")[2] for line in done.stdout.splitlines()]
    assert [name for name in offered if name in found] == offered
    assert len(found) <= len(offered) + 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell):
    assert "_PCCL_COMPLETE" in run("completion", shell).stdout


def test_commands_have_a_place_in_the_list():
    assert "completion" in COMMANDS
