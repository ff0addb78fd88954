"""Algorithms for others: files that runtimes execute, simulators replay, and people look at.

format     what a format is: its options, and where its functions are
registry   the formats by name, and the verbs export() and check()
lowering   from transfers over links to what NPUs send to one another
machine    exact memory, clocks, problems and promises, which both interpreters of runtimes use
runtime_files  options, sizes and the trial before saving, which both writers for runtimes use
wire       the wire format of protocol buffers

Each of the others is a format, or several, declared in its ``__init__``::

    msccl      MSCCL-IR XML
    mscclpp    execution plans of MSCCL++
    chakra     Chakra execution traces for ASTRA-sim
    perfetto   traces for ui.perfetto.dev
    tables     JSON, CSV and Parquet
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pccl._lazy import lazy_names
from pccl.formats.format import Format, Option
from pccl.formats.registry import FORMATS, CheckResult, check, export, find_format

if TYPE_CHECKING:
    from pccl.formats.msccl.importer import import_msccl

__all__ = [
    "FORMATS",
    "CheckResult",
    "Format",
    "Option",
    "check",
    "export",
    "find_format",
    "import_msccl",
]

# Not before it is needed: it takes NumPy and more.
__getattr__ = lazy_names(__name__, __all__, ("msccl.importer",))
