"""The program as such: its start, its exit codes, its behaviour towards terminals and pipes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

import pccl
from pccl.cli import main
from pccl.cli.app import COMMANDS
from pccl.collective import COLLECTIVES
from tests.end_to_end.program import PROGRAM, Terminal, refused, spawn
from tests.end_to_end.program import pccl as run

HEAVY = {"numpy", "numba", "rich", "yaml", "msgspec"}
SYNTHESIZE = ("synthesize", "-t", "ring:4", "-c", "all-gather", "-s", "4MiB")


@pytest.mark.parametrize("arguments", [[], ["synthesize"], ["topology"], ["verify"], ["show"]])
def test_help_is_there_at_once(arguments):
    code = (
        "import sys\nfrom pccl.cli import main\n"
        f"try: main({[*arguments, '--help']})\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        f"print(*({HEAVY} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == ""
    assert "Examples:" in done.stdout
    assert "\x1b" not in done.stdout


def test_help_without_a_command():
    plain, long, short = (spawn(*arguments) for arguments in ((), ("--help",), ("-h",)))
    assert plain.returncode == 0
    assert plain.stdout == long.stdout == short.stdout


def test_version():
    assert run("--version").stdout == f"pccl {pccl.__version__}\n"


def test_the_help_names_every_kind_that_flags_can_describe():
    text = " ".join(run("synthesize", "--help").stdout.split()).replace("- ", "-")
    listed = text.partition("One of ")[2].partition(".")[0].split(", ")
    # A matrix fits into a flag, a pattern of chunks does not.
    assert listed == [name for name in COLLECTIVES if name != "custom"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["synthesise"], "no such command 'synthesise'"),
        (["--nope"], "no such option '--nope'"),
        (
            ["synthesize", "--topolgy", "ring:4"],
            "no such option '--topolgy'. Did you mean '--topology'?",
        ),
        (["verify"], "missing argument 'FILE...' (see 'pccl verify --help')"),
        (["show", "a.pccl", "--limit", "-1"], "invalid value for '--limit'"),
        # Of two values, the first would be lost without a word.
        (["synthesize", "-t", "ring:4", "--topology", "ring:8"], "--topology is given 2 times"),
        (["lab", "run", "a.pccl", "--rate", "1mbit", "--rate", "2mbit"], "--rate is given 2 times"),
        (
            ["export", "a.pccl", "-o", "a.xml", "--in-place", "--out-of-place"],
            "--in-place and --out-of-place contradict each other; give one of them",
        ),
        (
            ["export", "a.pccl", "-o", "a.xml", "--out-of-place", "--out-of-place"],
            "--out-of-place is given 2 times",
        ),
    ],
)
def test_usage_errors_are_one_line(arguments, message):
    text = refused(*arguments)
    assert message.replace("pccl", "main") in text.replace("pccl", "main")


@pytest.mark.parametrize("error", [ValueError("boom\nboom"), pccl.InternalError("boom boom")])
def test_a_bug_asks_to_be_reported(monkeypatch, error):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr("pccl.synthesis.synthesize", broken)
    text = refused(*SYNTHESIZE, status=70)
    assert "boom boom" in text
    assert "please report it" in text
    monkeypatch.setenv("PCCL_DEBUG", "1")
    result = CliRunner().invoke(main, SYNTHESIZE)
    assert "Traceback" in result.stderr
    assert "please report it" in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (KeyboardInterrupt(), 130, "interrupted before a first plan was found\n"),
        (
            MemoryError(),
            2,
            "error: there is not enough memory for this; try a smaller size, fewer chunks or a smaller group\n",
        ),
        (OSError(28, "No space left on device"), 2, "error: No space left on device\n"),
        (pccl.VerificationError("wrong\x1b[31m\nindeed"), 1, "error: wrong [31m indeed\n"),
    ],
)
def test_other_ends(monkeypatch, error, status, line):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr("pccl.synthesis.synthesize", broken)
    result = run(*SYNTHESIZE)
    assert (result.exit_code, result.stdout, result.stderr) == (status, "", line)


def test_in_a_pipe_there_is_no_colour_and_no_progress(ring):
    for arguments in (
        SYNTHESIZE,
        ("show", ring),
        ("verify", ring),
        ("topology", "ring:3"),
        ("topology",),
    ):
        done = spawn(*arguments, env={**os.environ, "FORCE_COLOR": "1"})
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout
        assert "\x1b" not in done.stdout


def test_json_is_alone_on_stdout(ring):
    for arguments in (
        SYNTHESIZE,
        ("show", ring),
        ("verify", ring),
        ("topology", "ring:3"),
        ("topology",),
    ):
        done = run(*arguments, "--json")
        assert (done.exit_code, done.stderr) == (0, "")
        assert json.loads(done.stdout)


def test_a_reader_that_leaves_is_no_error(ring):
    command = f"{' '.join(PROGRAM)} topology fully-connected:99 --json | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("{\n", "")


def test_a_closed_stdout_is_no_error():
    command = f"{' '.join(PROGRAM)} topology ring:3 >&-"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, check=True)
    assert done.stderr == ""


def test_colours_on_a_terminal():
    with Terminal("topology", "ring:3") as terminal:
        text = terminal.read()
        assert terminal.process.wait() == 0
    assert "\x1b[1;36m" in text
    assert "NPU 2" in text


def test_the_first_run_says_why_it_takes_long_and_can_be_stopped(tmp_path):
    said = "compiling kernels, first run only"
    with Terminal(*SYNTHESIZE, XDG_CACHE_HOME=str(tmp_path)) as terminal:
        assert said in terminal.read(until=said)
        # Once, although inside the compiler it may get lost.
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(timeout=6) == 130
        text = terminal.read()
    assert "Traceback" not in text
    assert text.rstrip().endswith("interrupted before a first plan was found")


def test_what_is_stopped_keeps_its_best_and_says_so(monkeypatch):
    """Ctrl-C reaches the search as always; that it came is told beside the result."""

    def stopped(*_, **__):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return algorithm

    algorithm = pccl.synthesize(pccl.topology.ring(4), pccl.AllGather("4MiB"), effort="fast")
    monkeypatch.setattr("pccl.synthesis.synthesize", stopped)
    assert "interrupted  this is the best that was found by then\n" in run(*SYNTHESIZE).stdout
    assert json.loads(run(*SYNTHESIZE, "--json").stdout)["interrupted"] is True
    monkeypatch.undo()
    assert json.loads(run(*SYNTHESIZE, "--json").stdout)["interrupted"] is False


def test_who_has_had_enough_of_what_is_told_has_the_plan_all_the_same(monkeypatch, tmp_path):
    def enough(*_, **__):
        raise KeyboardInterrupt

    spec = tmp_path / "two.yaml"
    spec.write_text(
        "topology: ring:4\ncollectives: [{kind: all-gather, size: 1MiB}, {kind: broadcast, size: 1KiB}]\n"
    )
    monkeypatch.setattr("pccl.analysis.each_collective", enough)
    monkeypatch.setattr("pccl.bounds.lower_bound", enough)
    result = run("synthesize", spec, "--effort", "fast", "-o", tmp_path / "two.pccl")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].startswith("saved to")
    pccl.verify(pccl.load(tmp_path / "two.pccl"))


def test_the_log_is_asked_for(ring):
    done = run(*SYNTHESIZE, "--verbose")
    assert done.stderr.splitlines()[0].split() == ["time", "best", "bound", "gap", "found", "by"]
    assert run(*SYNTHESIZE).stderr == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_registry_is_there(name):
    text = run(name, "--help").stdout
    assert "Examples:" in text
    assert f"pccl {name} " in text
