"""``@kernel``: Numba compilation with a cache that cannot go stale.

Numba keys its cache on the file of the function alone, so a change in a kernel that another file calls would go
unnoticed. We key the cache directory on the sources of all kernels instead, and do without a cache where none can be
written.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

__all__ = ["inlined", "kernel", "kernels_are_cached"]

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = Path(__file__).parent


def _cache_directory() -> Path | None:
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted([*_PACKAGE.rglob("*kernels.py"), *_PACKAGE.rglob("kernels/*.py")]):
        digest.update(source.read_bytes())
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        directory = home / "pccl" / digest.hexdigest()[:16]
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return directory if os.access(directory, os.W_OK) else None


_DIRECTORY = _cache_directory()
# Kernels allocate nothing; without the run-time that counts references to arrays they are a third faster.
_OPTIONS: dict[str, Any] = {"nogil": True, "_nrt": False}


def kernel(function: F) -> F:
    """Compile a function to machine code on its first call and keep the result for later processes."""
    config: Any = numba.config
    before = config.CACHE_DIR
    # Numba looks at the setting when it decorates, so that it can be put back at once and other
    # code keeps its own cache.
    try:
        if _DIRECTORY is not None:
            config.CACHE_DIR = str(_DIRECTORY)
        compiled = numba.njit(function, cache=_DIRECTORY is not None, **_OPTIONS)
    finally:
        config.CACHE_DIR = before
    if _DIRECTORY is not None:
        for name in ("load_overload", "save_overload"):
            setattr(compiled._cache, name, _forgiving(getattr(compiled._cache, name)))
    return cast(F, compiled)


def _forgiving(method: Callable[..., Any]) -> Callable[..., Any]:
    """Do without the cache when it cannot be read or written, as on a full disk."""

    def attempt(*args: Any) -> Any:
        try:
            return method(*args)
        except (OSError, EOFError, pickle.PickleError):
            return None

    return attempt


def inlined(function: F) -> F:
    """Compile a function into the kernels that call it."""
    return cast(F, numba.njit(function, forceinline=True, **_OPTIONS))


def kernels_are_cached() -> bool:
    """Whether some kernel has been compiled by an earlier process."""
    return _DIRECTORY is not None and any(_DIRECTORY.rglob("*.nbi"))
