"""Kernels end, and read nothing that is not there; compiled code is cached under a name that follows its sources."""

from __future__ import annotations

import ast
import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numba.core.event import install_timer

from pccl import _kernels
from pccl.algorithm.kernels import lowest_bit
from pccl.algorithm.timing_kernels import Inputs, list_followers
from pccl.errors import InternalError
from pccl.network.calendar_kernels import Stores, free_from
from tests.loops import endless_loops

SOURCES = Path(_kernels.__file__).parents[1]
# Loops that end although their source alone does not show it.
END_ALL_THE_SAME = {"sort_by_start": "moves by the step of the loop around it, which is above zero"}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package's sources, with a cache of its own."""
    copy = tmp_path / "pccl"
    shutil.copytree(
        Path(_kernels.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__")
    )
    monkeypatch.setattr(_kernels, "_PACKAGE", copy)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return copy


@pytest.mark.parametrize("source", ["_kernels.py", "algorithm/kernels.py", "_heap_kernels.py"])
def test_a_change_in_any_kernel_means_another_cache(package, source):
    before = _kernels._cache_directory()
    (package / source).write_text((package / source).read_text() + "\n# changed\n")
    assert _kernels._cache_directory() != before


def test_a_change_elsewhere_keeps_the_cache(package):
    before = _kernels._cache_directory()
    (package / "units.py").write_text("# changed\n")
    assert _kernels._cache_directory() == before


def test_every_kernel_is_in_a_file_that_counts():
    package = Path(_kernels.__file__).parent
    for source in package.rglob("*.py"):
        if "@kernel" in source.read_text(encoding="utf-8"):
            assert source.name.endswith("kernels.py") or source.parent.name == "kernels", source


def test_without_a_place_for_a_cache_kernels_still_compile(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")
    assert _kernels._cache_directory() is None
    monkeypatch.setattr(_kernels, "_DIRECTORY", None)
    assert _kernels.kernel(lambda x: x + 1)(1) == 2
    assert not _kernels.kernels_are_cached()


PROBE = """
import sys, time
from pathlib import Path
from pccl._kernels import kernel

@kernel
def double(x):
    return x + x

folder = Path(sys.argv[1])
(folder / f"ready{sys.argv[2]}").touch()
while not (folder / "go").exists():
    time.sleep(0.001)
assert double(4) == 8
print(sum(double.stats.cache_misses.values()))
"""


def test_of_two_processes_that_need_a_kernel_one_compiles_it(tmp_path):
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE)
    environment = os.environ | {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": str(SOURCES),
    }
    processes = [
        subprocess.Popen(
            [sys.executable, probe, tmp_path, str(number)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    while len(list(tmp_path.glob("ready*"))) < len(processes):
        assert all(process.poll() is None for process in processes)
        time.sleep(0.01)
    (tmp_path / "go").touch()
    compiled = [int(process.communicate()[0]) for process in processes]
    assert sorted(compiled) == [0, 1]


def test_nobody_waits_for_ever_and_waiting_counts_as_compiling(tmp_path, monkeypatch):
    """A process that was suspended while it compiled keeps its lock."""
    monkeypatch.setattr(_kernels, "_DIRECTORY", tmp_path)
    monkeypatch.setattr(_kernels, "_PATIENCE", 0.3)

    def double(x):
        return x + x

    quick = _kernels.kernel(double)
    lock = tmp_path / f"{double.__module__}.{double.__qualname__}.lock"
    waited: list[float] = []
    with lock.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with install_timer("numba:compile", waited.append):
            assert quick(4) == 8
    assert sum(waited) >= 0.3


# --- loops end -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", sorted(SOURCES.rglob("*kernels.py")), ids=lambda path: path.stem)
def test_every_loop_of_a_kernel_ends(source):
    endless = {name for name, _ in endless_loops(ast.parse(source.read_text(encoding="utf-8")))}
    assert not endless - END_ALL_THE_SAME.keys()


def is_endless(loop: str) -> bool:
    body = loop.strip().replace("\n", "\n    ")
    return any(endless_loops(ast.parse(f"@kernel\ndef walk():\n    {body}")))


@pytest.mark.parametrize(
    "loop",
    [
        "while i < count:\n    i += 1",
        "while i < count and ready[i]:\n    if odd(i):\n        i += 1\n        continue\n    i += 1",
        "while full(i):\n    i += 1\n    if i == count:\n        return",
        "while hole > 0:\n    parent = (hole - 1) >> 1\n    hole = parent",
        "while waiting > 0:\n    waiting = pop(heap, waiting)",
        "while low < high:\n    middle = (low + high) >> 1\n    if ok(middle):\n        high = middle\n"
        "    else:\n        low = middle + 1",
        "while at != root:\n    if steps == most:\n        raise InternalError('too far')\n    at = above[at]",
    ],
)
def test_loops_that_end(loop):
    assert not is_endless(loop)


@pytest.mark.parametrize(
    "loop",
    [
        "while True:\n    i += 1",
        "while at != root:\n    at = above[at]",
        "while i < count:\n    if ready[i]:\n        i += 1",
        "while i < count:\n    if ready[i]:\n        continue\n    i += 1",
        "while i < count:\n    i += 1\n    count += 1",
        "while i < count:\n    i += 1\n    i = first[i]",
        "while i > count:\n    i += 1",
        "while waiting > 0:\n    waiting = pop(heap, waiting)\n    waiting = push(heap, waiting)",
        "while low < high:\n    middle = (low + high) >> 1\n    if ok(middle):\n        high = middle\n"
        "    else:\n        low = middle",
    ],
)
def test_loops_that_may_not_end(loop):
    assert is_endless(loop)


def test_what_would_go_on_for_ever_is_an_error():
    """From compiled code as well: a word without bits, a list that bites its tail, and a buffer that stays full."""
    with pytest.raises(InternalError, match="of a word that has none"):
        lowest_bit(np.uint64(0))
    circle = Inputs(newest=np.array([0, 1]), previous=np.array([1, 0]))
    counts = np.zeros((2, 4), np.int64)
    with pytest.raises(InternalError, match="a list without an end"):
        list_followers(circle, counts[0], np.empty(0, np.int64), counts[1])
    moment, level = np.array([[[0, 5]], [[1, 1]]])
    full = Stores(capacity=np.array([1]), count=np.array([2]), moment=moment, level=level)
    with pytest.raises(InternalError, match="full for ever"):
        free_from(full, 0, 0, 9)


# --- indices are those of something ----------------------------------------------------------------------------------

READS = """
import numpy as np
from pccl._kernels import inlined, kernel

@inlined
def read(table, i):
    return table[i]

@kernel
def total(tables, places):
    found = 0
    for i in places:
        found += read(tables[0], i)
    return found

print(total((np.arange(3),), np.array([0, 2])))
for wrong in (-1, 3):
    try:
        total((np.arange(3),), np.array([wrong]))
    except IndexError as error:
        print(error)
"""


def run_in_python(*arguments: str) -> str:
    """What a program prints with kernels that check their indices."""
    tests = str(Path(__file__).parents[1])
    environment = os.environ | {
        "PCCL_CHECK_KERNELS": "1",
        "PYTHONPATH": os.pathsep.join([str(SOURCES), tests]),
    }
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=600
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_what_is_not_there_is_not_read(tmp_path):
    program = tmp_path / "reads.py"
    program.write_text(READS)
    total, *errors = run_in_python(str(program)).splitlines()
    assert total == "2"
    assert errors[0] == "a kernel asks for place -1 of an array"
    assert len(errors) == 2


def test_no_kernel_reads_what_is_not_there():
    """Nor is there a kernel that the problems do not come to."""
    assert run_in_python("-m", "tests.kernels_in_python").split() == []
