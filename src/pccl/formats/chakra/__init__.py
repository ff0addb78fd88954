"""Chakra execution traces: an algorithm as a custom collective of ASTRA-sim.

writer    write(): the traces of all ranks, and the files beside them
network   the network as ASTRA-sim has it
"""

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
                "Whether sends leave over a link in the planned order. Default: they do.",
                opposite="no_chain",
            ),
        ),
    ),
)
