"""Compiled code is cached under a name that follows its sources, and works without a cache."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

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
