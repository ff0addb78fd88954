"""What a bound is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pccl._arrays import Bools
from pccl.bounds.cut_search import best_cuts
from pccl.collective import Conditions
from pccl.topology import Topology

__all__ = ["Case"]


@dataclass(frozen=True)
class Case:
    """Conditions on a network, and how their data may be cut.

    Attributes
    ----------
    whole_chunks
        Whether bounds are wanted that hold for chunks as they are cut now.
    cut_freely
        Per chunk: whether it might be cut further.
    """

    topology: Topology
    conditions: Conditions
    whole_chunks: bool
    cut_freely: Bools

    @cached_property
    def cuts(self) -> list[Bools]:
        """The narrowest sets of devices, the narrowest of all first."""
        return best_cuts(self.topology, self.conditions)
