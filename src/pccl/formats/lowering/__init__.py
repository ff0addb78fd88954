"""From transfers over links to what NPUs send to one another, which is all that other programs know.

deliveries   what NPUs deliver to one another: transfers followed through switches
program      what the ranks of a collective do: messages, copies, and what waits for what
ordering     what has to wait for what
replay       how long it takes as messages between NPUs
lower        lower(): from an algorithm to a program, and where ranks keep chunks in their buffers
"""

from __future__ import annotations

from pccl.formats.lowering.deliveries import Deliveries, follow
from pccl.formats.lowering.lower import chosen_collective, lower
from pccl.formats.lowering.program import INPUT, OUTPUT, SCRATCH, Copies, Messages, Program
from pccl.formats.lowering.replay import lowered_time

__all__ = [
    "INPUT",
    "OUTPUT",
    "SCRATCH",
    "Copies",
    "Deliveries",
    "Messages",
    "Program",
    "chosen_collective",
    "follow",
    "lower",
    "lowered_time",
]
