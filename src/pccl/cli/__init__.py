"""The command line: commands in modules, loaded when they are called.

::

    app       the program: the registry of commands, exit codes, and errors in one line
    options   how a command is made, and the options that several take; those of settings and formats are read off them
    task      what to do, by flags or by a spec file
    console   tables on a terminal, plain text in a pipe
    progress  what a long command tells while it lasts
    stopping  how a command ends early

    search    synthesize and bound
    compare   compare
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

from typing import TYPE_CHECKING, NoReturn

from pccl._lazy import lazy_names

if TYPE_CHECKING:
    from pccl.cli.app import main

__all__ = ["main", "run"]
__getattr__ = lazy_names(__name__, ["main"], ["app"])


def run() -> NoReturn:
    """Be the program ``pccl``, which can be stopped from here on."""
    import os
    import signal

    def leave(number: int, frame: object) -> None:  # noqa: ARG001
        os.write(2, b"interrupted\n")
        os._exit(128 + number)

    # Until there is more to say than that.
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leave)
    from pccl.cli.stopping import program

    def begin() -> None:
        from pccl.cli.app import main

        main.main()

    program(begin)
