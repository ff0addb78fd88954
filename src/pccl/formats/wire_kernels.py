"""Compiled loops of the wire format."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Bits, Ints
from pccl._kernels import kernel

__all__ = ["measure_varints", "place", "write_varints"]

Bytes = NDArray[np.uint8]


@kernel
def measure_varints(values: Bits, lengths: Ints) -> int:
    """How many bytes each number takes, and all of them together."""
    total = 0
    for i in range(len(values)):
        rest, length = values[i] >> np.uint64(7), 1
        while rest != 0:
            rest, length = rest >> np.uint64(7), length + 1
        lengths[i] = length
        total += length
    return total


@kernel
def write_varints(values: Bits, out: Bytes) -> None:
    """Seven bits a byte, the lowest first; all bytes of a number but its last have the highest bit set."""
    at = 0
    for i in range(len(values)):
        rest = values[i]
        while rest > np.uint64(127):
            out[at] = np.uint8(rest & np.uint64(127) | np.uint64(128))
            rest, at = rest >> np.uint64(7), at + 1
        out[at] = np.uint8(rest)
        at += 1


@kernel
def place(data: Bytes, lengths: Ints, begin: Ints, out: Bytes) -> None:
    """Copy the runs of all rows to where they begin, and move the beginnings behind them."""
    at = 0
    for row in range(len(lengths)):
        for i in range(lengths[row]):
            out[begin[row] + i] = data[at + i]
        at += lengths[row]
        begin[row] += lengths[row]
