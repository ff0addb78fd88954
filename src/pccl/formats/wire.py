"""The wire format of protocol buffers: a field at a time for what is rare, a column at a time for what is many.

A message is a run of fields; a field is a key (its number and how its value is written) and the value: a varint, eight
bytes, or a length and so many bytes. That is all there is to it, so it needs no package.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pccl._arrays import Ints, offsets_of
from pccl.formats import wire_kernels as kernels
from pccl.formats.wire_kernels import Bytes

# How the value of a field is written.
VARINT = 0
EIGHT_BYTES = 1
LENGTH = 2
# The least numbers that need two bytes as a varint, three, and so on.
_LIMITS = np.array([1 << bits for bits in range(7, 64, 7)], np.uint64)


def varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; all bytes but the last have the highest bit set."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def key(tag: int, written: int) -> bytes:
    """What a field begins with."""
    return varint(tag << 3 | written)


def field(tag: int, value: int | str | bytes) -> bytes:
    """One field: a number that is not negative, a text, or a message that is written already.

    Examples
    --------
    >>> field(1, 150).hex(), field(2, "testing").hex()
    ('089601', '120774657374696e67')
    """
    if isinstance(value, int):
        return key(tag, VARINT) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return key(tag, LENGTH) + varint(len(content)) + content


@dataclass(frozen=True)
class Column:
    """Some bytes for each of many rows.

    Each part holds a run of bytes for every row: all of them in one buffer, and how long each is. A row consists of its
    runs, part by part. Parts are put together only when the column is rendered, so that nesting messages costs nothing.
    """

    parts: tuple[tuple[Bytes, Ints], ...]

    @cached_property
    def lengths(self) -> Ints:
        """How many bytes each row has."""
        total = self.parts[0][1].copy()
        for _, lengths in self.parts[1:]:
            total += lengths
        return total

    def render(self) -> Bytes:
        """All rows, one after another."""
        if len(self.parts) == 1:
            return self.parts[0][0]
        out = np.empty(int(self.lengths.sum()), np.uint8)
        # Part by part: the kernel moves the beginnings behind what it has placed.
        begin = np.cumsum(self.lengths) - self.lengths
        for data, lengths in self.parts:
            kernels.place(data, lengths, begin, out)
        return out


def concat(*columns: Column) -> Column:
    """Row by row, what the columns hold, one after another."""
    return Column(tuple(part for column in columns for part in column.parts))


def constant(content: bytes, rows: int) -> Column:
    """The same bytes in every row."""
    data = np.frombuffer(content, np.uint8)
    return Column(((np.tile(data, rows), np.full(rows, len(data), np.int64)),))


def numbers(tag: int, values: ArrayLike) -> Column:
    """A field with a number that is not negative, in every row.

    Examples
    --------
    >>> numbers(1, [1, 150]).render().tobytes().hex(" ")
    '08 01 08 96 01'
    """
    return _keyed(tag, VARINT, _varints(np.asarray(values)))


def fixed64s(tag: int, values: NDArray[Any]) -> Column:
    """A field with a number of eight bytes, whole or not, in every row."""
    data = np.ascontiguousarray(values, "<f8" if values.dtype.kind == "f" else "<u8").view(np.uint8)
    return _keyed(tag, EIGHT_BYTES, Column(((data, np.full(len(values), 8, np.int64)),)))


def messages(tag: int, content: Column) -> Column:
    """A field with a message or a text, in every row."""
    return _keyed(tag, LENGTH, delimited(content))


def delimited(content: Column) -> Column:
    """A message behind its length, in every row: how messages follow one another in a file."""
    return concat(_varints(content.lengths), content)


def digits(values: NDArray[Any]) -> Column:
    """A number that is not negative in every row, as people write it.

    Examples
    --------
    >>> concat(constant(b" no. ", 2), digits(np.array([7, 1234]))).render().tobytes()
    b' no. 7 no. 1234'
    """
    width = len(str(int(values.max(initial=0))))
    # NumPy fills texts up with zero bytes, which are left out.
    content = values.astype(f"S{width}").view(np.uint8).reshape(len(values), width)
    used = content != 0
    return Column(((content[used], used.sum(axis=1, dtype=np.int64)),))


def grouped(column: Column, counts: Ints) -> Column:
    """Join rows: the first `counts[0]` of them become the first row, and so on. So a field is repeated within a row."""
    lengths = offsets_of(column.lengths)
    return Column(((column.render(), np.diff(lengths[offsets_of(counts)])),))


def spread(column: Column, rows: NDArray[Any], count: int) -> Column:
    """A column of `count` rows, all empty but these, which ascend."""
    parts = []
    for data, lengths in column.parts:
        wide = np.zeros(count, np.int64)
        wide[rows] = lengths
        parts.append((data, wide))
    return Column(tuple(parts))


def _keyed(tag: int, written: int, values: Column) -> Column:
    return concat(constant(key(tag, written), len(values.lengths)), values)


def _varints(values: NDArray[Any]) -> Column:
    values = values.astype(np.uint64)
    lengths = np.searchsorted(_LIMITS, values, side="right") + 1
    data = np.empty(lengths.sum(), np.uint8)
    kernels.write_varints(values, data)
    return Column(((data, lengths),))
