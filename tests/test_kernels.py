"""Compiled code is cached under a name that follows its sources, and works without a cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from numba.core.event import install_timer

from pccl import _kernels


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
    sources = str(Path(_kernels.__file__).parents[1])
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": sources}
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
