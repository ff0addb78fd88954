"""Plans on real processes.

scripts     scripts_of(): from an algorithm to what every rank does, in an order that cannot deadlock
sizes       script_of(): the steps of one rank for so many elements
arrays      buffers, copies and sums; NumPy
transport   what carries messages between ranks
execute     Rank: one rank at work
local       run_locally(): all ranks in one process, the reference

A transport is a class with ``rank``, ``size``, ``arrays``, ``send``, ``receive`` and ``exchange`` (see
:class:`~pccl.runtime.transport.Transport`). Given one, on every rank::

    rank = Rank(scripts_of(algorithm), transport)
    rank.run([Buffers(input, output)], op="sum")     # of every collective that this rank is a member of
"""

from __future__ import annotations

from pccl.runtime.arrays import DTYPES, OPS, Arrays, NumpyArrays
from pccl.runtime.execute import Buffers, Rank, Signature
from pccl.runtime.local import run_locally
from pccl.runtime.scripts import Action, Scripts, scripts_of
from pccl.runtime.sizes import Elements, Room, Script, Step, script_of
from pccl.runtime.transport import Handle, Transport

__all__ = [
    "DTYPES",
    "OPS",
    "Action",
    "Arrays",
    "Buffers",
    "Elements",
    "Handle",
    "NumpyArrays",
    "Rank",
    "Room",
    "Script",
    "Scripts",
    "Signature",
    "Step",
    "Transport",
    "run_locally",
    "script_of",
    "scripts_of",
]
