"""Algorithms for others: files that runtimes execute, simulators replay, and people look at.

registry   the formats by name, with their options
tracing    messages between NPUs, followed through switches
layouts    where chunks lie in buffers
program    what the ranks do, shared by the formats that run
ordering   what has to wait for what
lowering   from an algorithm to a program
msccl      MSCCL-IR XML
mscclpp    execution plans of MSCCL++

For people and simulators there are::

    tables     JSON, CSV and Parquet
    timeline   what happens on links over time, which perfetto and chrome write as traces
    chakra     Chakra execution traces for ASTRA-sim; chakra_messages is what they consist of
               chakra_reader reads them (by way of chakra_files), chakra_replay runs them
    wire       the wire format of protocol buffers
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pccl.formats.registry import FORMATS, Format, Option, check_file, collector_paused, find_format

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm
    from pccl.formats.msccl import import_msccl

__all__ = ["FORMATS", "Format", "Option", "check_file", "export", "find_format", "import_msccl"]


def export(
    algorithm: Algorithm, path: str | Path, format: str | None = None, **options: Any
) -> Mapping[str, str]:
    """Write an algorithm in the format of another program.

    Parameters
    ----------
    algorithm
        What to write.
    path
        The file, or for some formats the folder, to write.
    format
        One of :data:`FORMATS`; by default the one that the end of the path stands for.
    **options
        What the format offers; ``pccl export --help`` lists all of them.

    Returns
    -------
    Mapping
        What has been written, by name, for people.

    Examples
    --------
    >>> import pccl
    >>> pccl.export(None, "a.xls")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    pccl.errors.PcclError: a.xls does not end like any format; say which: msccl, mscclpp, ...
    """
    chosen = find_format(path, format)
    chosen.refuse_others(options, chosen.options)
    with collector_paused():
        return dict(chosen.writer(algorithm, Path(path), **options) or {})


def __getattr__(name: str) -> Any:
    if name == "import_msccl":  # not before it is needed: it takes NumPy and more
        from pccl.formats.msccl import import_msccl

        return import_msccl
    raise AttributeError(f"module 'pccl.formats' has no attribute {name!r}")
