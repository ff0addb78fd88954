"""Chakra execution traces: an algorithm as a custom collective of ASTRA-sim; ``writer`` writes them."""

from __future__ import annotations

from pccl.formats.format import LOWERED, Format, Option

__all__ = ["FORMATS"]

FORMATS = (
    Format(
        "chakra",
        "Chakra execution traces for ASTRA-sim, a folder",
        writer="pccl.formats.chakra.writer:write",
        options=(
            Option(
                "chain",
                "flag",
                "Whether sends leave over a link in the planned order. Default: they do.",
                opposite="no_chain",
            ),
            LOWERED,
        ),
    ),
)
