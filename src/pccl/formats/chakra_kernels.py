"""Compiled loops that take protocol buffers apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Ints
from pccl._kernels import kernel

__all__ = ["read_fields", "read_lengths", "read_varints"]

Bytes = NDArray[np.uint8]


@kernel
def read_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """The number that begins at a place, and the place behind it; or -1 if it does not end in time."""
    value, shift = np.uint64(0), np.uint64(0)
    while at < end and shift < np.uint64(70):
        byte = np.uint64(data[at])
        value |= (byte & np.uint64(127)) << shift
        at, shift = at + 1, shift + np.uint64(7)
        if byte < np.uint64(128):
            return np.int64(value), np.int64(at)
    return np.int64(0), np.int64(-1)


@kernel
def read_lengths(data: Bytes, begin: Ints, end: Ints) -> int:
    """Messages that stand behind their lengths: where each begins and ends. Returns their number, or -1 if one is cut.

    Called twice: with no room it only counts.
    """
    at, count = 0, 0
    while at < len(data):
        length, at = read_varint(data, at, len(data))
        if at < 0 or length < 0 or length > len(data) - at:
            return -1
        if len(begin):
            begin[count], end[count] = at, at + length
        at += length
        count += 1
    return count


@kernel
def read_fields(
    data: Bytes, begin: Ints, end: Ints, owner: Ints, tag: Ints, value: Ints, stop: Ints
) -> int:
    """The fields of many messages: whose, which, and a number or else where its bytes begin and stop (-1 for numbers).

    Called twice: with no room it only counts. Returns their number, or -1 - i if message `i` is malformed.
    """
    count = 0
    for i in range(len(begin)):
        at = begin[i]
        while at < end[i]:
            key, at = read_varint(data, at, end[i])
            kind, content, last = key & 7, np.int64(0), np.int64(-1)
            if at < 0 or (kind != 0 and kind != 1 and kind != 2 and kind != 5):
                return -1 - i
            if kind == 0:
                content, at = read_varint(data, at, end[i])
            else:
                length = np.int64(8 if kind == 1 else 4)
                if kind == 2:
                    length, at = read_varint(data, at, end[i])
                if at < 0 or length < 0 or length > end[i] - at:
                    return -1 - i
                content, last = at, at + length
                at = last
            if at < 0:
                return -1 - i
            if len(owner):
                owner[count], tag[count], value[count], stop[count] = i, key >> 3, content, last
            count += 1
    return count


@kernel
def read_varints(data: Bytes, begin: Ints, end: Ints, owner: Ints, value: Ints) -> int:
    """Numbers that follow one another in each of many places; called and returning as `read_fields` is."""
    count = 0
    for i in range(len(begin)):
        at = begin[i]
        while at < end[i]:
            number, at = read_varint(data, at, end[i])
            if at < 0:
                return -1 - i
            if len(owner):
                owner[count], value[count] = i, number
            count += 1
    return count
