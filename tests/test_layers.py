"""The layers hold: a package imports only what stands to its left in the picture of the architecture."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pccl

SOURCE = Path(pccl.__file__).parent
FOUNDATION = {
    "_array_kernels",
    "_arrays",
    "_checked",
    "_files",
    "_heap_kernels",
    "_kernels",
    "_lazy",
    "_memory",
    "_version",
    "errors",
    "units",
}
LAYERS = [
    FOUNDATION,
    {"targets"},
    {"settings"},
    {"topology"},
    {"collective"},
    {"algorithm"},
    {"network"},
    {"bounds"},
    {"schemes"},
    {"synthesis"},
    {"analysis"},
    {"doctor"},
    {"spec"},
    {"formats"},
    {"runtime"},
    {"jax", "lab", "mpi", "torch"},
    {"reporting"},
    {"tuning"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def imported_packages(path: Path) -> set[str]:
    """The packages of pccl that a module imports, also inside functions and for type checkers."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "pccl":
            names = [f"pccl.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("pccl.")}
    return found


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_what_stands_to_its_left(path):
    mine = package_of(path)
    wrong = {name for name in imported_packages(path) if name != mine and LEVEL[name] > LEVEL[mine]}
    same = {name for name in imported_packages(path) if name != mine and LEVEL[name] == LEVEL[mine]}
    assert not wrong
    assert not same or mine in FOUNDATION


def test_every_package_has_a_layer():
    assert {package_of(path) for path in MODULES} == set(LEVEL)


def test_what_the_test_looks_for_is_found():
    """A module that reaches to its right is noticed."""
    assert "synthesis" in imported_packages(SOURCE / "analysis" / "baselines.py")
