"""Chakra execution traces: an algorithm as a custom collective of ASTRA-sim."""

from __future__ import annotations

from pccl.formats.format import Format, Option

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
                "Make sends over a link wait for one another, in the planned order.",
            ),
        ),
    ),
)
