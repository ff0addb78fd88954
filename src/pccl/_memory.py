"""How much memory there is to take, asked for before it is taken."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

# What nobody limits.
_ENDLESS = 2**62


def free_memory() -> int:
    """The bytes that this process may still take, as the system and the limits of the process say.

    Where nobody says, there is no end of it.
    """
    return max(min(_available(), _allowed(), _in_group()), 0)


def _available() -> int:
    """What the machine has left, with what it keeps of files and can drop."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return _ENDLESS


def _allowed() -> int:
    """What is left of the limit of this process, as ``ulimit -v`` sets it."""
    try:
        import resource
    except ImportError:
        return _ENDLESS
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return _ENDLESS
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return limit - pages * resource.getpagesize()
    return limit


def _in_group() -> int:
    """The limit of the container, if there is one."""
    with suppress(OSError, ValueError):
        return int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
    return _ENDLESS
