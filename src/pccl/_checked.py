"""Kernels as plain Python, for tests: arrays refuse negative indices, and every kernel that is called is noted.

Compiled kernels look at no index, so that -1, which mostly says that there is nothing, would be read from somewhere
else. With ``PCCL_CHECK_KERNELS=1`` in the environment nothing is compiled, and it is an error.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import numpy as np

__all__ = ["CALLED", "CHECKED", "KERNELS", "checked"]

CHECKED = os.environ.get("PCCL_CHECK_KERNELS") == "1"

KERNELS: set[str] = set()  # all that have been imported
CALLED: set[str] = set()

# Arrays are wrapped once, where Python calls a kernel; kernels call each other with what they have.
_thread = threading.local()


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it stands, with arrays that check what they are asked for."""
    name = f"{function.__module__}.{function.__qualname__}"
    KERNELS.add(name)

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        CALLED.add(name)
        if getattr(_thread, "is_inside", False):
            return function(*arguments, **named)
        _thread.is_inside = True
        try:
            # Compiled code is silent where numbers overflow, as those of hashes and of random numbers do.
            with np.errstate(over="ignore"):
                named = {name: _wrapped(value) for name, value in named.items()}
                return _plain(function(*map(_wrapped, arguments), **named))
        finally:
            _thread.is_inside = False

    return call


class _Checked(np.ndarray[Any, Any]):
    """An array that refuses negative indices; NumPy itself refuses those that are too large."""

    def __getitem__(self, key: Any) -> Any:
        _check(key)
        found = super().__getitem__(key)
        # Whole numbers are of 64 bits in kernels, whatever they are kept in.
        return found if isinstance(found, (np.ndarray, np.uint64)) else found.item()

    def __setitem__(self, key: Any, value: Any) -> None:
        _check(key)
        super().__setitem__(key, value)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


def _check(key: Any) -> None:
    for part in key if isinstance(key, tuple) else (key,):
        ends = (part.start or 0, part.stop or 0) if isinstance(part, slice) else (part,)
        if min(ends) < 0:
            raise IndexError(f"a kernel asks for place {key} of an array")


def _wrapped(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.view(_Checked)
    if isinstance(value, tuple):
        parts = map(_wrapped, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _plain(value: Any) -> Any:
    """What compiled code would return: numbers of Python."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value.item() if isinstance(value, np.generic) else value
