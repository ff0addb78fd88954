"""The command line: commands in modules, loaded when they are called.

::

    app       the program: the registry of commands, exit codes, and errors in one line
    options   how a command is made, and the options that several take; those of settings and formats are read off them
    task      what to do, by flags or by a spec file
    console   tables and a live line on a terminal, plain text in a pipe

    search    the commands synthesize, compare and bound
    show      show and verify
    simulate  simulate
    formats   export, check and import
    pictures  plot and report
    topology  topology
    doctor    doctor
    tune      tune
    completion  completion

Nothing here imports NumPy, Numba, Rich, YAML or msgspec before a command needs it:
``--help`` answers at once.
"""

from __future__ import annotations

from pccl.cli.app import main

__all__ = ["main"]
