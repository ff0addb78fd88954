"""Execution plans of MSCCL++ (JSON), in the schema of version 0.8 and later.

writer         algorithms as plans in files
batches        what is sent and received together, and in which order
joining        single messages joined where there is no room for each
schedule       batches as threadblocks, and streams between them
resources      places, channels and semaphores, by number
assembly       the operations of threadblocks

plan           the schema and its limits, as data
rules          what each operation must have
resolver       a plan with all indirections followed, and what is wrong with it at first sight
interpreter    runs a plan, ours or not, and says what is wrong with it

The writer and the interpreter share nothing but the schema and its limits.
"""

from __future__ import annotations

from pccl.formats.format import (
    ALL_RANKS,
    COLLECTIVE,
    GROUP,
    IN_PLACE,
    INSTANCES,
    LOWERED,
    SIZES,
    Format,
    Option,
)

__all__ = ["FORMATS"]

FORMATS = (
    Format(
        "mscclpp",
        "an execution plan of MSCCL++",
        writer="pccl.formats.mscclpp.writer:write",
        suffixes=(".plan.json",),
        options=(
            INSTANCES,
            Option(
                "ranks_per_box",
                "count",
                "How many ranks reach each other's memory; ports lead to others.",
            ),
            Option(
                "max_threadblocks",
                "count",
                "How many threadblocks the GPU runs at once. Default: 80.",
            ),
            Option(
                "threads_per_block",
                "count",
                "Threads of a threadblock, at most 1024, which is the default.",
            ),
            IN_PLACE,
            *SIZES,
            ALL_RANKS,
            COLLECTIVE,
            LOWERED,
        ),
        checker="pccl.formats.mscclpp.interpreter:check",
        checks=(
            GROUP,
            Option(
                "root",
                "number",
                "The rank that is special to the collective. Default: the first.",
            ),
        ),
    ),
)
