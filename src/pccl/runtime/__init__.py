"""Plans on real processes.

scripts     scripts_of(): from an algorithm to what every rank does, in an order that cannot deadlock
sizes       script_of(): the steps of one rank for so many elements
arrays      buffers, copies and sums; NumPy
transport   what carries messages between ranks
execute     Rank: one rank at work
local       run_locally(): all ranks in one process, the reference
rounds      rounds_of(): which messages go at the same time, for transports that take many at once
checking    numbers to run a plan on, and what must come out of them
sockets     a transport of TCP connections and NumPy
pool        Pool: local processes that are the ranks, for one task after another
measure     run, check and measure: what ``pccl run`` prints
registry    where plans can be run

A transport is a class with ``rank``, ``size``, ``arrays``, ``send``, ``receive`` and ``exchange`` (see
:class:`~pccl.runtime.transport.Transport`). Given one, on every rank::

    rank = Rank(scripts_of(algorithm), transport)
    rank.run([Buffers(input, output)], op="sum")     # of every collective that this rank is a member of

A place for ``pccl run --on`` is a line in ``PLACES`` (registry): a function that takes an algorithm and a ``Job`` and
returns a ``Report``. Ranks that a launcher has started make their transport and call ``measure.join``; ranks that we
start ourselves need a function that connects them, for ``measure.run_in_pool``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pccl._lazy import lazy_names

if TYPE_CHECKING:
    from pccl.runtime.arrays import DTYPES, OPS, Arrays, NumpyArrays
    from pccl.runtime.execute import Buffers, Rank, Signature
    from pccl.runtime.local import run_locally
    from pccl.runtime.scripts import Action, Scripts, scripts_of
    from pccl.runtime.sizes import Elements, Room, Script, Step, script_of
    from pccl.runtime.transport import Handle, Transport

_MODULES = ("arrays", "execute", "local", "scripts", "sizes", "transport")

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

# On first use: the list of places to run plans, which --help shows, lies in this package too.
__getattr__ = lazy_names(__name__, __all__, _MODULES)
