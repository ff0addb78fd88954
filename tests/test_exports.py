"""The public names: what ``__all__`` lists is there, is loaded lazily, and is what type checkers see."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

import pccl

MODULES = ["pccl"] + [
    module.name
    for module in pkgutil.walk_packages(pccl.__path__, "pccl.")
    if not module.name.endswith("__main__")  # which runs the program when it is imported
]


@pytest.mark.parametrize("name", MODULES)
def test_every_module_has_the_names_that_it_lists(name):
    module = import_module(name)
    assert module.__doc__
    listed = getattr(module, "__all__", [])
    assert len(listed) == len(set(listed))
    assert [missing for missing in listed if not hasattr(module, missing)] == []


@pytest.mark.parametrize("name", pccl.__all__)
def test_every_public_name_is_described(name):
    value = getattr(pccl, name)
    if isinstance(value, str):  # the version
        return
    text = inspect.getdoc(value)
    assert text
    assert not text.startswith(f"{name}(")  # what a dataclass says of itself if nobody else does


@pytest.mark.parametrize("name", pccl.__all__)
def test_every_listed_name_is_there(name):
    assert getattr(pccl, name) is not None
    assert name in dir(pccl)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(pccl.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pccl")
        if node.module != "pccl._lazy"  # how names are loaded, not one of them
        for alias in node.names
    }
    assert imported == set(pccl.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = pccl.nonsense


def test_importing_loads_nothing_heavy():
    code = "import sys, pccl; assert not {'numpy', 'numba', 'yaml', 'msgspec', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def mistakes() -> dict[str, Callable[[], object]]:
    """What people try, who take an object for its name, or a name for an object."""
    ring = pccl.topology.ring(4)
    wrong: Any = "x.pccl"
    return {
        "verify": lambda: pccl.verify(wrong),
        "compare": lambda: pccl.compare(wrong),
        "simulate": lambda: pccl.simulate(wrong),
        "report": lambda: pccl.report(wrong, "x.html"),
        "plot": lambda: pccl.plot(wrong, "heatmap", "x.svg"),
        "export": lambda: pccl.export(wrong, "x.xml"),
        "load": lambda: pccl.load(cast("Any", 3)),
        "a topology": lambda: pccl.synthesize(wrong, pccl.AllGather("4MiB")),
        "a topology of a bound": lambda: pccl.lower_bound(wrong, pccl.AllGather("4MiB")),
        "a collective": lambda: pccl.synthesize(ring, wrong),
        "a collective of a baseline": lambda: pccl.baseline("ring", ring, wrong),
        "nothing to do": lambda: pccl.synthesize(ring),
        "a link": lambda: pccl.Topology.from_links(2, [cast("Any", (0, 1))]),
        "boxes": lambda: pccl.topology.dgx_a100(cast("Any", "4")),
        "too large": lambda: pccl.topology.mesh(10**9),
    }


@pytest.mark.parametrize("name", mistakes())
def test_mistakes_of_users_are_errors_of_ours(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pccl.PcclError):
        mistakes()[name]()


def test_hints_to_install_something_are_true():
    """The pccl of package indexes is another project: what we tell people to install is ours, or somebody else's."""
    root = Path(pccl.__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    hints = []
    for path in [*root.glob("src/**/*.py"), *root.glob("docs/*.md"), root / "README.md"]:
        hints += re.findall(r"pip install '?([\w.\[\],-]+)", path.read_text(encoding="utf-8"))
    assert len(hints) > 10
    for hint in hints:
        name, _, extras = hint.rstrip("].").partition("[")
        assert name != "pccl", hint
        if extras:
            assert name in (".", project["name"]), hint
            assert set(extras.split(",")) <= set(project["optional-dependencies"]), hint


def test_errors_a_user_can_mend_have_one_base():
    errors = [
        value for name in pccl.__all__ if name.endswith("Error") and (value := getattr(pccl, name))
    ]
    assert all(
        issubclass(error, pccl.PcclError) for error in errors if error is not pccl.InternalError
    )
    assert not issubclass(pccl.InternalError, pccl.PcclError)
