"""The public names: what ``__all__`` lists is there, is loaded lazily, and is what type checkers see."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pccl


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
        for alias in node.names
    }
    assert imported == set(pccl.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = pccl.nonsense


def test_importing_loads_nothing_heavy():
    code = "import sys, pccl; assert not {'numpy', 'numba', 'yaml', 'msgspec', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_errors_a_user_can_mend_have_one_base():
    errors = [
        value for name in pccl.__all__ if name.endswith("Error") and (value := getattr(pccl, name))
    ]
    assert all(
        issubclass(error, pccl.PcclError) for error in errors if error is not pccl.InternalError
    )
    assert not issubclass(pccl.InternalError, pccl.PcclError)
