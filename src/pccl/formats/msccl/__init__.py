"""MSCCL-IR XML: written for a runtime, checked by running it, and read back.

targets        the runtimes and their limits
units          bytes of a program as chunks of a file
lanes          queues between ranks, and messages that travel as one
operations     what threadblocks do, in chunks of the file
threadblocks   who does it, and what waits for what
writer         write(): the file
file           what is in a file, read strictly
rules          what can be checked without running it
execution      in which order steps can run, and deadlocks
interpreter    check(): runs a file and compares the results with what its collective promises
importer       import_msccl(): a file as an algorithm
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

_TARGET = Option("target", "choice", "Whose limits count.", choices=("executor", "rccl", "msccl"))

FORMATS = (
    Format(
        "msccl",
        "MSCCL-IR XML, which MSCCL, its executor for NCCL, and RCCL run",
        writer="pccl.formats.msccl.writer:write",
        suffixes=(".xml",),
        options=(
            _TARGET,
            INSTANCES,
            Option(
                "channels",
                "count",
                "At most this many channels between two ranks. Default: as routes need.",
            ),
            IN_PLACE,
            *SIZES,
            Option(
                "protocol", "choice", "How messages are sent.", choices=("Simple", "LL", "LL128")
            ),
            ALL_RANKS,
            Option(
                "padded",
                "flag",
                "all-to-all-v: write an alltoall with shares as large as the largest.",
            ),
            COLLECTIVE,
            LOWERED,
        ),
        checker="pccl.formats.msccl.interpreter:check",
        checks=(
            _TARGET,
            Option(
                "depth",
                "count",
                "Messages that a connection holds. Default: as the protocol has it.",
            ),
            GROUP,
        ),
    ),
)
