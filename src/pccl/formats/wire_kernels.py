"""Compiled loops of the wire format."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Bits, Ints
from pccl._kernels import kernel

Bytes = NDArray[np.uint8]


@kernel
def write_varints(values: Bits, out: Bytes) -> None:
    """Seven bits a byte, the lowest first; all bytes of a number but its last have the highest bit set."""
    at = 0
    for i in range(len(values)):
        rest = values[i]
        while rest > np.uint64(127):
            out[at] = np.uint8(rest & np.uint64(127) | np.uint64(128))
            rest >>= np.uint64(7)
            at += 1
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
