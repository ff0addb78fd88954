"""What is loaded on first use, so that the command line does not wait for NumPy and Numba."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

__all__ = ["lazy_names", "load_target"]


def lazy_names(
    package: str, names: Sequence[str], modules: Sequence[str], **homes: str
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package: it finds these names in these modules, asked in this order.

    A module that lists its own names in ``__all__`` is only asked for those; `homes` says where a name is meant that
    several of them have.
    """

    def load(name: str) -> Any:
        if name in names and name in modules:
            return import_module(f"{package}.{name}")
        known = [homes[name]] if name in homes else modules
        for module in known if name in names else ():
            found = import_module(f"{package}.{module}")
            if name in getattr(found, "__all__", vars(found)):
                value = getattr(found, name)
                # The next time it is an ordinary name, which costs nothing to look up.
                setattr(sys.modules[package], name, value)
                return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load


def load_target(target: str) -> Any:
    """Import what ``module:name`` names.

    Examples
    --------
    >>> load_target("math:gcd")(4, 6)
    2
    """
    module, _, name = target.partition(":")
    # Not before it is called: writers and figures take NumPy, kernels and more.
    return getattr(import_module(module), name)
