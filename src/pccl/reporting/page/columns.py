"""Columns of numbers as text in a page: few bytes, and quick to read back."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping

import numpy as np

from pccl._arrays import Column

__all__ = ["pack"]


def pack(columns: Mapping[str, Column]) -> tuple[list[list[object]], str]:
    """Return a directory of the columns (name, type, length), and all of them deflated, as base64.

    Whole numbers take as few bytes as the largest needs; all first bytes of a column come before all second ones, since
    that deflates better.

    Examples
    --------
    >>> directory, text = pack({"link": np.array([1, 700]), "share": np.array([0.5])})
    >>> directory
    [['link', 'u2', 2], ['share', 'f4', 1]]
    """
    directory: list[list[object]] = []
    parts = []
    for name, column in columns.items():
        short, values = _shortened(np.ravel(column))
        directory.append([name, short, len(values)])
        parts.append(values.view(np.uint8).reshape(len(values), values.itemsize).T.tobytes())
    return directory, base64.b64encode(zlib.compress(b"".join(parts), 6)).decode("ascii")


def _shortened(column: Column) -> tuple[str, Column]:
    if column.dtype.kind == "f":
        return "f4", np.ascontiguousarray(column, "<f4")
    largest = int(column.max(initial=0))
    short = "u1" if largest < 2**8 else "u2" if largest < 2**16 else "u4"
    return short, np.ascontiguousarray(column, f"<{short}")
