"""The runtimes that plans can be made for. To add one, add a line below.

This module imports nothing heavy: the search asks a runtime only if it is told to, or if a plan is so large that files
might have no room for it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pccl._lazy import load_target
from pccl.errors import PcclError
from pccl.units import Picoseconds

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True)
class Target:
    """A runtime, as the search sees it.

    Attributes
    ----------
    name
        What to call it.
    fit
        The function, as ``module:function``, that takes an algorithm and returns how long it takes in the runtime: as
        messages between NPUs. It raises :class:`~pccl.errors.PcclError`, with the reason, if the runtime cannot take
        it. With ``quick=True`` it may return the planned time instead, and leave out what takes long to find out.
    limited
        Whether it has no room for some plans, such as those with many chunks.
    fill
        The function, also as ``module:function``, that takes an algorithm and returns about which share of the room in
        the runtime it takes, if messages go one by one; empty if nobody knows.
    multicast, reduce
        Whether it lets switches multiply messages, and add them up.
    """

    name: str
    fit: str
    limited: bool = True
    fill: str = ""
    multicast: bool = False
    reduce: bool = False

    def time_of(self, algorithm: Any, quick: bool = False) -> Picoseconds:
        """How long an algorithm takes in the runtime; raises with the reason if it cannot take it."""
        found: Picoseconds = load_target(self.fit)(algorithm, quick=quick)
        return found

    def filled_by(self, algorithm: Any) -> float:
        """About which share of its room an algorithm takes; 0 if nobody knows, or if it cannot take it at all."""
        found = 0.0
        if self.fill:
            with suppress(PcclError):
                found = load_target(self.fill)(algorithm)
        return found


TARGETS = {
    target.name: target
    for target in (
        Target(
            "mscclpp", "pccl.formats.mscclpp.writer:fit", fill="pccl.formats.mscclpp.writer:fill"
        ),
        Target("msccl", "pccl.formats.msccl.writer:fit"),
        Target("chakra", "pccl.formats.chakra.writer:fit", limited=False),
        Target("torch", "pccl.runtime.fitting:fit_torch", limited=False),
        Target("mpi", "pccl.runtime.fitting:fit_mpi", limited=False),
        Target("jax", "pccl.runtime.fitting:fit_jax", limited=False),
    )
}
