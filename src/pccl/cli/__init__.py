"""The command line: ``pccl synthesize``, ``verify``, ``show`` and ``topology``.

::

    app          the program: its exit codes, and errors in one line
    console      tables and progress on a terminal, plain text in a pipe
    synthesize   from flags or a spec file to a .pccl file
    inspect      verify and show .pccl files
    topology     the zoo, and one network described

Nothing here imports NumPy, Numba, Rich, YAML or msgspec before a command needs it: ``--help`` answers at once.
"""

from __future__ import annotations

from pccl.cli.app import main

__all__ = ["main"]
