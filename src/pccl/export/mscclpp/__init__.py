"""Execution plans of MSCCL++ (JSON), in the schema of version 0.8 and later.

schedule       a lowered program as threadblocks: streams, order, semaphores
writer         the plan as a file
plan           the schema, as data
resolver       a plan with all indirections followed, and what is wrong with it at first sight
results        what each collective promises
state          buffers, clocks and semaphores of a plan that runs
interpreter    runs a plan, ours or not, and says what is wrong with it

A writer and an interpreter that share nothing but the schema.
"""

from __future__ import annotations

from pccl.export.mscclpp.interpreter import check
from pccl.export.mscclpp.writer import write

__all__ = ["check", "write"]
