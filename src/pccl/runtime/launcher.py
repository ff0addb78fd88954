"""The launcher of MPI, wherever it is."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from pccl.errors import RunError


def find_mpiexec() -> str:
    """The path of ``mpiexec``: the one beside our Python, where wheels put it, or else that of the machine."""
    found = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    found = found or shutil.which("mpiexec")
    if found is None:
        raise RunError("there is no mpiexec; pip install mpich brings one")
    return found
