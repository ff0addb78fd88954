"""``@kernel``: Numba compilation with a cache that cannot go stale.

Numba keys its cache on the file of the function alone, so a change in a kernel that another file calls would go
unnoticed. We key the cache directory on the sources of all kernels instead, and do without a cache where none can be
written. Of several processes that need the same kernel one compiles it, and the others wait for what it writes.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import numba
from numba.core.compiler_lock import global_compiler_lock
from numba.core.event import trigger_event

from pccl._checked import CHECKED, checked

try:
    import fcntl
except ImportError:  # Windows: every process compiles what it needs.
    fcntl = None  # type: ignore[assignment]

__all__ = ["inlined", "kernel", "kernels_are_cached"]

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = Path(__file__).parent
# Seconds after which a process compiles a kernel itself: the one that it waits for may have been suspended.
_PATIENCE = 60.0
# Seconds between two looks at whether another process is done.
_PAUSE = 0.02


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
    if CHECKED:
        return cast(F, checked(function))
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
    if _DIRECTORY is not None and fcntl is not None:
        name = f"{function.__module__}.{function.__qualname__}.lock"
        compiled.compile = _taking_turns(compiled.compile, _DIRECTORY / name)
    return cast(F, compiled)


def _forgiving(method: Callable[..., Any]) -> Callable[..., Any]:
    """Do without the cache when it cannot be read or written, as on a full disk."""

    def attempt(*args: Any) -> Any:
        try:
            return method(*args)
        except (OSError, EOFError, pickle.PickleError):
            return None

    return attempt


def _taking_turns(compile_for: Callable[..., Any], lock: Path) -> Callable[..., Any]:
    """Compile in one process at a time; whoever comes later finds the result in the cache."""

    def attempt(signature: Any) -> Any:
        # Numba's own lock first, as it is held while the kernels that a kernel calls are compiled: otherwise two
        # threads could hold one lock each and wait for the other.
        with global_compiler_lock, ExitStack() as scope:
            # Not on a full disk, nor on a file system without locks.
            with suppress(OSError):
                scope.enter_context(_turn(lock))
            return compile_for(signature)

    return attempt


@contextmanager
def _turn(lock: Path) -> Iterator[None]:
    """Hold a lock, which the system takes from a process that is killed."""
    with lock.open("ab") as file:
        _wait_for(file)
        try:
            yield
        finally:
            # Closing the file would not do if this process was forked meanwhile.
            fcntl.flock(file, fcntl.LOCK_UN)


def _wait_for(file: BinaryIO) -> None:
    deadline = time.monotonic() + _PATIENCE
    # To those who ask how much time went into compiling, waiting is the same.
    with trigger_event("numba:compile"):
        while time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_PAUSE)
            else:
                return


def inlined(function: F) -> F:
    """Compile a function into the kernels that call it."""
    if CHECKED:
        return cast(F, checked(function))
    return cast(F, numba.njit(function, forceinline=True, **_OPTIONS))


def kernels_are_cached() -> bool:
    """Whether some kernel has been compiled by an earlier process."""
    return _DIRECTORY is not None and any(_DIRECTORY.rglob("*.nbi"))
