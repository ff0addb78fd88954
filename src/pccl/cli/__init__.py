"""The command line: a module for every command, loaded when it is called.

::

    app       the program: the registry of commands, exit codes, and errors in one line
    options   how a command is made, and the options that several take; those of settings and formats are read off them
    task      what to do, by flags or by a spec file
    console   tables and a live line on a terminal, plain text in a pipe

All others are commands. Nothing here imports NumPy, Numba, Rich, YAML or msgspec before a command needs it:
``--help`` answers at once.
"""

from __future__ import annotations

from pccl.cli.app import main

__all__ = ["main"]
