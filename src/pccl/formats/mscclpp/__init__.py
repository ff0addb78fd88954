"""Execution plans of MSCCL++ (JSON), in the schema of version 0.8 and later.

writer         algorithms as plans in files
batches        what is sent and received together, and in which order
schedule       batches as threadblocks, and streams between them
resources      places, channels and semaphores, by number
assembly       the operations of threadblocks

plan           the schema, as data
rules          limits, and what each operation must have
resolver       a plan with all indirections followed, and what is wrong with it at first sight
results        what each collective promises
state          buffers, clocks and semaphores of a plan that runs
interpreter    runs a plan, ours or not, and says what is wrong with it

The writer and the interpreter share nothing but the schema and its limits.
"""

from __future__ import annotations

from pccl.formats.mscclpp.interpreter import check
from pccl.formats.mscclpp.writer import write

__all__ = ["check", "write"]
