"""What a lower bound says, as data. How bounds are found and proven is the business of :mod:`pccl.bounds`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pccl.units import Picoseconds

Certificate: TypeAlias = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Bound:
    """A time that no algorithm can beat, and what proves it.

    Attributes
    ----------
    kind
        The argument that proves it, by its name in :data:`pccl.bounds.KINDS`: ``"latency"``, ``"cut"`` or ``"prices"``.
    value
        Picoseconds.
    certificate
        The numbers that the argument needs, by name; :func:`pccl.bounds.check` proves the bound again from them.
    whole_chunks
        Whether it holds for chunks as they are cut now; otherwise it holds however the data are cut.
    reason
        Why nobody can be faster, in a few words.
    cut_short
        Whether the search for it was ended by a limit: with more time, a better one might be found.
    """

    kind: str
    value: Picoseconds
    certificate: Certificate = field(default_factory=dict)
    whole_chunks: bool = False
    reason: str = ""
    cut_short: bool = False

    def __str__(self) -> str:
        note = " (the search for a better bound was cut short)" if self.cut_short else ""
        return f"{self.value}, {self.reason}{note}"

    @property
    def prices(self) -> tuple[int, ...]:
        """What a transfer costs per byte, link by link; empty if the argument is about something else."""
        return self.certificate.get("prices", ())
