"""Compiled loops over plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.cpython.unsafe import numbers
from numba.extending import intrinsic

from pccl._arrays import Bits, Indices, Ints
from pccl._checked import CHECKED
from pccl._kernels import inlined, kernel

__all__ = ["DIGIT", "counting_order", "draw", "move_rows", "sort_by_digit", "trailing_zeros"]

DIGIT = 11  # bits that are sorted by at a time: as many counters as stay near


@inlined
def draw(random: Bits, below: int) -> int:
    """A random number from 0 to below - 1 (xorshift)."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return np.int64((x >> np.uint64(33)) % np.uint64(below))


@kernel
def counting_order(keys: Indices, first: Ints, order: Ints) -> None:
    """Indices that sort by key and otherwise keep the order; `first` begins as zeros, one more than there are keys."""
    for i in range(len(keys)):
        first[keys[i] + 1] += 1
    for i in range(1, len(first)):
        first[i] += first[i - 1]
    for i in range(len(keys)):
        order[first[keys[i]]] = i
        first[keys[i]] += 1
    # Every entry has moved on to where the next key begins: back by one, they are right again.
    for i in range(len(first) - 1, 0, -1):
        first[i] = first[i - 1]
    first[0] = 0


@kernel
def sort_by_digit(keys: Ints, shift: int, count: Ints, order: Ints, found: Ints) -> None:
    """Sort an order by one digit of the keys, from bit `shift` on; equal ones keep their order."""
    last = len(count) - 1
    count[:] = 0
    for i in range(len(keys)):
        count[(keys[i] >> shift) & last] += 1
    begin = 0
    for digit in range(len(count)):
        width = count[digit]
        count[digit] = begin
        begin += width
    for i in range(len(order)):
        digit = (keys[order[i]] >> shift) & last
        found[count[digit]] = order[i]
        count[digit] += 1


@intrinsic
def _move_memory(_: Any, array: Any, source: Any, target: Any, count: Any) -> Any:
    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        tools: Any = cgutils
        rows = context.make_array(signature.args[0])(context, builder, values[0])
        width = tools.unpack_tuple(builder, rows.strides)[0]
        begin = tools.pointer_add(builder, rows.data, builder.mul(values[1], width))
        end = tools.pointer_add(builder, rows.data, builder.mul(values[2], width))
        tools.raw_memmove(builder, end, begin, values[3], width)
        return context.get_dummy_value()

    return types.void(array, source, target, count), write


def _move_in_python(array: Any, source: int, target: int, count: int) -> None:
    for i in range(count) if target < source else reversed(range(count)):
        array[target + i] = array[source + i]


def _zeros_in_python(word: Any) -> int:
    return (int(word) & -int(word)).bit_length() - 1


# Move so many rows of an array to other places in it, which may overlap: several times as fast as a loop.
move_rows: Any = _move_in_python if CHECKED else _move_memory
# How many of the lowest bits of a word, which is not zero, are not set.
trailing_zeros: Any = _zeros_in_python if CHECKED else numbers.trailing_zeros
