"""Traces for ui.perfetto.dev; ``writer`` writes them."""

from __future__ import annotations

from pccl.formats.format import Format, Option

__all__ = ["FORMATS"]

FORMATS = (
    Format(
        "perfetto",
        "a trace for ui.perfetto.dev",
        writer="pccl.formats.perfetto.writer:write",
        suffixes=(".pftrace",),
        options=(
            Option(
                "merge",
                "flag",
                "Join transfers that follow one another on a link, if there are very many.",
            ),
            Option(
                "intervals", "count", "For how many intervals of time to count how busy links are."
            ),
            Option(
                "unit",
                "choice",
                "What a nanosecond of the viewer stands for.",
                choices=("ns", "ps"),
            ),
        ),
    ),
)
