"""What the interpreters of both runtimes share: they run files that neither of them has written.

problems   what is wrong with a file, as values
memory     the buffers of all ranks, what they hold, what is ordered before what, and races
promises   what every rank must end with
"""

from __future__ import annotations

from pccl.formats.machine.memory import Clock, Conflict, Line, Memory
from pccl.formats.machine.problems import Kind, Place, Problem, Problems
from pccl.formats.machine.promises import BY_NAME, promise_of, unfit_buffers, wrong_outputs

__all__ = [
    "BY_NAME",
    "Clock",
    "Conflict",
    "Kind",
    "Line",
    "Memory",
    "Place",
    "Problem",
    "Problems",
    "promise_of",
    "unfit_buffers",
    "wrong_outputs",
]
