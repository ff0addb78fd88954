"""Ctrl-C and SIGTERM: any command ends within two seconds, says so, keeps what it has, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import pccl
from pccl.cli import progress
from pccl.lab import why_not
from pccl.runtime.launcher import find_mpiexec
from pccl.topology import parse_topology
from tests.doctor.logs import text_of
from tests.end_to_end.program import PROGRAM
from tests.end_to_end.program import pccl as run

# Seconds that a command has. We promise two; the machines that tests run on are busy.
MOST = 4.0
# For what comes before, which is not what is tested.
PATIENCE = 120.0
BOTH = [signal.SIGINT, signal.SIGTERM]
THOROUGH = ("synthesize", "-t", "h100:16", "-c", "all-reduce", "-s", "1GiB", "--effort", "thorough")
# Keeps a thread in compiled code for ever, whatever signals come, and lets other threads run: a mutex, locked twice.
STUCK = """
import ctypes
mutex = ctypes.create_string_buffer(64)
for _ in range(2):
    ctypes.CDLL(None).pthread_mutex_lock(mutex)
"""


class Command:
    """The program in a process of its own, which nothing outlives."""

    def __init__(self, *arguments: object, code: str = "", folder: Path) -> None:
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        # With a short name, as sockets in it must have one.
        self.scratch = Path(tempfile.mkdtemp(prefix="s", dir="/tmp"))
        program = [sys.executable, "-c", code] if code else PROGRAM
        self.process = subprocess.Popen(
            [*program, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "STOPPING_TEST": self.mark, "TMPDIR": str(self.scratch)},
            cwd=folder,
            # What a shell starts in the background ignores Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def wait_until_it_listens(self) -> None:
        """Wait until it would notice a signal: until then the interpreter begins, which a busy machine lets wait."""
        deadline = time.monotonic() + PATIENCE
        mask = 1 << (signal.SIGTERM - 1)
        while time.monotonic() < deadline and self.process.poll() is None:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
            if int(caught.split()[1], 16) & mask:
                return
            time.sleep(0.01)

    def read_until(self, text: str, stream: str) -> None:
        """Wait until it has said something."""
        said = b""
        file = getattr(self.process, stream)
        deadline = time.monotonic() + PATIENCE
        os.set_blocking(file.fileno(), False)
        while text.encode() not in said:
            assert self.process.poll() is None, said.decode()
            assert time.monotonic() < deadline, said.decode()
            said += os.read(file.fileno(), 65536) if self._is_ready(file) else b""
        os.set_blocking(file.fileno(), True)
        self.said = said.decode()

    def _is_ready(self, file: object) -> bool:
        import select

        return bool(select.select([file], [], [], 0.05)[0])

    def stop(self, number: signal.Signals) -> tuple[int, str, str]:
        """Send a signal; return the status, and what it says from then on."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=MOST)
        return self.process.returncode, out.decode(), err.decode()

    def leftovers(self) -> list[str]:
        """Processes and files that should be gone."""
        files = [str(path) for path in self.scratch.iterdir()]
        processes = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if self.mark.encode() in path.read_bytes():
                    processes.append(path.with_name("cmdline").read_text())
            except OSError:  # it has ended meanwhile, or is somebody else's
                continue
        return files + processes

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan that no command is done with soon."""
    path = tmp_path_factory.mktemp("large") / "large.pccl"
    flags = ("-s", "64MiB", "--effort", "fast", "--no-verify", "-q", "-o", path)
    assert run("synthesize", "-t", "mesh:16x16", "-c", "all-to-all", *flags).exit_code == 0
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """What nccl-tests would print on a machine that is much too slow."""
    from pccl.doctor.expectation import Run

    network = parse_topology("h100:16")
    sizes = [2**power for power in range(10, 31)]
    members = Run("all-reduce", tuple(network.npus.tolist()), tuple(sizes))
    path = tmp_path / "reduce.log"
    path.write_text(text_of(network, members, [size / 2e10 for size in sizes]))
    return path


def has_mpi() -> bool:
    try:
        find_mpiexec()
    except pccl.PcclError:
        return False
    return True


needs_mpi = pytest.mark.skipif(not has_mpi(), reason="there is no mpiexec")
needs_box = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
# Of one word or more, with files of fixtures by name, and about how many seconds each takes at least.
LONG = [
    (THOROUGH, 3.0),
    (("synthesize", "-t", "h100:16", "-c", "all-to-all", "-s", "1GiB", "--for", "mscclpp"), 3.0),
    (("bound", "-t", "h100:32", "-c", "all-to-all", "-s", "1GiB"), 1.5),
    (("compare", "-t", "h100:16", "-c", "all-to-all", "-s", "1GiB", "--json"), 3.0),
    (("tune", "-t", "mesh:4x4", "--collectives", "all-reduce", "-o", "plans"), 3.0),
    (("tune", "-t", "mesh:4x4", "--collectives", "all-reduce", "--jobs", "2", "-o", "plans"), 3.0),
    (("run", "RING", "--iterations", "1000000"), 3.0),
    (("run", "RING", "--iterations", "1000000", "--on", "numpy"), 3.0),
    pytest.param(("run", "RING", "--iterations", "1000000", "--on", "mpi"), 3.0, marks=needs_mpi),
    pytest.param(("lab", "run", "RING", "--rate", "1mbit"), 3.0, marks=needs_box),
    pytest.param(("lab", "exec", "-t", "ring:4", "--rate", "1mbit", "--", "sleep", "99"), 3.0, marks=needs_box),
    (("probe", "-t", "mesh:4x4", "-o", "measured.yaml"), 1.0),
    (("doctor", "LOG", "-t", "h100:16", "-c", "all-reduce"), 1.0),
    (("verify", *["LARGE"] * 9), 1.0),
    (("show", "LARGE", "--transfers"), 0.8),
    (("simulate", "LARGE"), 0.8),
    (("export", "LARGE", "-o", "large.xml"), 0.8),
    (("plot", "LARGE", "-k", "timeline", "-o", "large.svg"), 0.8),
    (("report", "LARGE", "-o", "large.html"), 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "seconds"), LONG)
def test_any_command_ends_soon(arguments, seconds, ring, large, log, tmp_path):
    files = {"RING": ring, "LARGE": large, "LOG": log}
    words = [files.get(word, word) for word in arguments]
    # Another moment for each, and the same in each run; early enough for quick machines to be at work.
    dice = random.Random(str(arguments))
    moment = dice.uniform(0.05, 0.4 * seconds)
    number = dice.choice(BOTH)
    with Command(*words, folder=tmp_path) as command:
        command.wait_until_it_listens()
        time.sleep(moment)
        is_done = command.process.poll() is not None
        status, out, err = command.stop(number)
        # Its children are gone with it, but for the time that the system takes.
        deadline = time.monotonic() + MOST
        while command.leftovers() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert command.leftovers() == []
    assert "Traceback" not in err
    assert not list(tmp_path.glob(".*"))
    if is_done or status == -number:
        # The machine was quicker than we; while the interpreter ends, all has been said.
        assert status in (0, -number), err
        assert out or status == 0
        return
    if status == 0:  # something was found
        assert "interrupted" in out
        return
    assert status == 128 + number, err
    assert err.splitlines()[-1].startswith("interrupted")


@pytest.mark.parametrize("number", BOTH, ids=lambda number: number.name)
@pytest.mark.parametrize("as_json", [False, True])
def test_the_best_so_far_is_kept(number, as_json, tmp_path):
    flags = ("--verbose", "-o", "best.pccl", *(["--json"] if as_json else []))
    task = ("-t", "mesh:5x5", "-c", "all-to-all", "-s", "64MiB", "--effort", "thorough")
    with Command("synthesize", *task, *flags, folder=tmp_path) as command:
        command.read_until("%", "stderr")  # of the gap of the first plan
        status, out, err = command.stop(number)
        assert status == 0, err
    found = pccl.load(tmp_path / "best.pccl")
    pccl.verify(found)
    if as_json:
        said = json.loads(out)
        assert (said["interrupted"], said["verified"]) == (True, True)
        assert said["duration_ps"] == int(found.duration)
    else:
        assert "\nverified     yes\ninterrupted  this is the best that was found by then\n" in out
        assert out.endswith("saved to     best.pccl\n")


def stuck_after(found: bool) -> str:
    """The program with a search that does not come back, after it has told of a plan or before that."""
    return f"""
import pccl.synthesis
import pccl.cli
find = pccl.synthesis.synthesize
def stuck(*task, **how):
    if {found}:
        find(*task, **how)
    print("stuck", flush=True)
    {STUCK.strip().replace(chr(10), chr(10) + "    ")}
pccl.synthesis.synthesize = stuck
pccl.cli.run()
"""


TASK = ("-t", "ring:4", "-c", "all-gather", "-s", "4MiB")


@pytest.mark.parametrize("number", BOTH, ids=lambda number: number.name)
def test_what_is_stuck_in_compiled_code_is_ended_with_its_best(number, tmp_path):
    flags = ("-o", "best.pccl")
    code = stuck_after(True)
    with Command("synthesize", *TASK, *flags, code=code, folder=tmp_path) as command:
        command.read_until("stuck", "stdout")
        status, out, err = command.stop(number)
    assert (status, err) == (0, "")
    assert "\ninterrupted  this is the best that was found by then\n" in out
    found = pccl.load(tmp_path / "best.pccl")
    pccl.verify(found)
    assert found.provenance.method == "balanced: flooding"
    assert found.bound is not None


def test_what_is_stuck_says_so_where_there_is_nothing(tmp_path):
    for command_name in ("synthesize", "compare"):
        code = stuck_after(False)
        with Command(command_name, *TASK, code=code, folder=tmp_path) as command:
            command.read_until("stuck", "stdout")
            status, _, err = command.stop(signal.SIGTERM)
        assert (status, err) == (143, "interrupted before a first plan was found\n")


def test_a_second_signal_ends_at_once_and_leaves_nothing(tmp_path):
    """Here while a plan is being saved, which the first signal does not cut short."""
    code = f"""
import pccl.algorithm
import pccl.cli
from pccl._files import replacing
def stuck(self, path):
    with replacing(path):
        print("stuck", flush=True)
        {STUCK.strip().replace(chr(10), chr(10) + "        ")}
pccl.algorithm.Algorithm.save = stuck
pccl.cli.run()
"""
    with Command("synthesize", *TASK, "-o", "best.pccl", code=code, folder=tmp_path) as command:
        command.read_until("stuck", "stdout")
        command.process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            command.process.wait(2.5)
        assert list(tmp_path.glob(".best*"))
        status, _, _ = command.stop(signal.SIGTERM)
    assert status == 143
    assert not list(tmp_path.glob(".best*"))


def test_a_plan_that_is_being_saved_is_saved(tmp_path):
    code = """
import os, signal
import pccl.algorithm
import pccl.cli
save = pccl.algorithm.Algorithm.save
def stopped(self, path):
    os.kill(os.getpid(), signal.SIGINT)
    save(self, path)
pccl.algorithm.Algorithm.save = stopped
pccl.cli.run()
"""
    with Command("synthesize", *TASK, "-o", "best.pccl", code=code, folder=tmp_path) as command:
        out, err = command.process.communicate(timeout=PATIENCE)
    assert (command.process.returncode, err) == (0, b"")
    assert out.endswith(b"saved to     best.pccl\n")
    pccl.verify(pccl.load(tmp_path / "best.pccl"))


def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    """As ``nohup`` and shells have it for what runs in the background."""
    code = "import signal, pccl.cli; signal.signal(signal.SIGINT, signal.SIG_IGN); pccl.cli.run()"
    with Command(*THOROUGH, "--verbose", code=code, folder=tmp_path) as command:
        command.read_until("found by", "stderr")
        command.process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            command.process.wait(MOST / 4)
        assert command.stop(signal.SIGTERM)[0] == 0


@pytest.mark.parametrize("as_json", [False, True])
def test_a_comparison_over_sizes_ends_with_the_rows_so_far(as_json, tmp_path):
    flags = ("--sizes", "1MiB:1GiB", *(["--json"] if as_json else []))
    with Command("compare", "-t", "ring:4", "-c", "all-reduce", *flags, folder=tmp_path) as command:
        if as_json:
            time.sleep(2)
            command.said = ""
        else:
            command.read_until("2MiB", "stdout")  # rows come as soon as there are any
        status, out, err = command.stop(signal.SIGINT)
    out = command.said + out
    if as_json:
        if status:  # on a busy machine there is nothing yet
            assert (status, out, err) == (130, "", "interrupted before a first plan was found\n")
            return
        said = json.loads(out)
        assert said["interrupted"]
        assert "1GiB" in said["not_reached"]
        assert {row["size"] for row in said["rows"]} >= {2**20}
        return
    assert status == 0, err
    *_, last = out.splitlines()
    assert last.startswith("interrupted")
    assert last.endswith("512MiB, 1GiB")
    rows = [line for line in out.splitlines() if line.startswith(("size", "1MiB", "2MiB"))]
    assert len({len(line.rstrip()) for line in rows if "x" in line[-1:]}) == 1  # columns line up


# --- what is told meanwhile -------------------------------------------------------------------------------------------


class Screen(list[str]):
    """What is drawn on a terminal."""

    def write(self, text: str) -> int:
        self.append(text)
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


def test_the_clock_goes_on_when_all_is_done(monkeypatch):
    """Proving and saving come after everything has been placed."""
    screen = Screen()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen)
    with progress.watching(quiet=False) as watch:
        watch.progress(7, 7, "verifying")
        watch.begin -= 3661
        time.sleep(0.3)  # drawn ten times a second
    assert "1:01:01" in "".join(screen)


def test_where_there_is_no_terminal_a_line_comes_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_PAUSE", 0.2)
    with progress.watching(quiet=False) as watch:
        watch.progress(0, 1, "compiling kernels, first run only")
        watch.progress(0, 1, "compiling kernels, first run only")
        watch.progress(3, 7, "re-routing, at most 12 s left")
        time.sleep(0.5)
    first, *others = capsys.readouterr().err.splitlines()
    assert first == "compiling kernels, first run only"
    assert set(others) == {"0:00:00 3 of 7; re-routing, at most 12 s left"}
    with progress.watching(quiet=True) as watch:
        watch.progress(0, 1, "compiling kernels, first run only")
        time.sleep(0.3)
    assert capsys.readouterr().err == ""
