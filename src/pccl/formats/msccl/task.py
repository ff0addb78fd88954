"""What an MSCCL-IR file is to compute, and how the buffers of its ranks lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pccl.formats.msccl.file import Algo
from pccl.formats.msccl.targets import COLLECTIVES

__all__ = ["Task"]


@dataclass(frozen=True)
class Task:
    """A file, for whom it is, and how much of every share counts (all of it, if that is not given)."""

    algo: Algo
    group: tuple[int, ...]
    in_place: bool
    shares: Sequence[Sequence[int]] | None = None

    @property
    def kind(self) -> str:
        """Our name of the collective."""
        return COLLECTIVES[self.algo.coll]

    @property
    def sizes(self) -> tuple[int, int]:
        """Chunks of input and output of one rank."""
        whole, share = self.algo.nchunksperloop, self.algo.nchunksperloop // self.algo.ngpus
        return {"all-gather": (share, whole), "reduce-scatter": (whole, share)}.get(
            self.kind, (whole, whole)
        )

    def buffers(self, rank: int) -> dict[str, int]:
        """Where each buffer of a rank begins in its memory: one after another, or input and output in one."""
        inputs, outputs = self.sizes
        if not self.in_place:
            return {"i": 0, "o": inputs, "s": inputs + outputs}
        offset = rank * min(inputs, outputs)
        first = {"i": offset if inputs < outputs else 0, "o": offset if inputs > outputs else 0}
        return first | {"s": max(inputs, outputs)}

    def __str__(self) -> str:
        return "in place" if self.in_place else "out of place"
