"""MSCCL-IR XML: written for a runtime, checked by running it, and read back.

targets        the runtimes and their limits
units          bytes of a program as chunks of a file
lanes          queues between ranks
runs           messages that travel as one
operations     what threadblocks do, in chunks of the file
threadblocks   who does it, and what waits for what
writer         write(): the file
file           what is in a file, read strictly
rules          what can be checked without running it
task           what a file is to compute, and where its buffers lie
execution      in which order steps can run, and deadlocks
interpreter    check(): runs a file and compares the results
contents       what messages carry
importer       import_msccl(): a file as an algorithm
"""

from __future__ import annotations

from pccl.formats.msccl.importer import import_msccl
from pccl.formats.msccl.interpreter import check
from pccl.formats.msccl.writer import write

__all__ = ["check", "import_msccl", "write"]
