"""Names for the arrays that everything is made of, and what is done to lists of lists kept in columns.

A list of lists is two arrays: the values of row ``i`` are ``values[offsets[i]:offsets[i + 1]]``.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Bits",
    "Bools",
    "Column",
    "Floats",
    "Indices",
    "Ints",
    "count_within",
    "distinct",
    "inverse",
    "largest",
    "offsets_by_owner",
    "offsets_of",
    "sorted_order",
    "stable_order",
    "take_rows",
]

Ints: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Bits: TypeAlias = NDArray[np.uint64]
Column: TypeAlias = NDArray[Any]


def offsets_of(widths: Column) -> Ints:
    """Where rows of these widths begin, and where the last ends.

    Examples
    --------
    >>> offsets_of(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    offsets = np.zeros(len(widths) + 1, np.int64)
    np.cumsum(widths, out=offsets[1:])
    return offsets


def offsets_by_owner(owner: Column, count: int) -> Ints:
    """Where what belongs to each of `count` owners begins, once sorted by owner, and where the last one's ends."""
    return offsets_of(np.bincount(owner, minlength=count))


def take_rows(offsets: Ints, values: Column, rows: Column) -> tuple[Ints, Column]:
    """Some rows of a list of lists, in this order.

    Examples
    --------
    >>> offsets, values = take_rows(np.array([0, 2, 2, 5]), np.array([7, 8, 4, 5, 6]), np.array([2, 0]))
    >>> offsets.tolist(), values.tolist()
    ([0, 3, 5], [4, 5, 6, 7, 8])
    """
    widths = np.diff(offsets)[rows]
    if np.all(widths == 1):  # the usual case of All-to-All, without more arithmetic
        return np.arange(len(rows) + 1), values[offsets[rows]]
    taken = offsets_of(widths)
    # By how much each row moves from where it lies to where it is taken to, and then places in a
    # row.
    index = np.repeat(offsets[rows] - taken[:-1], widths) + np.arange(taken[-1])
    return taken, values[index]


def stable_order(keys: Indices, count: int) -> Ints:
    """Indices that sort keys from 0 to ``count - 1`` and otherwise keep the order, in linear time.

    Examples
    --------
    >>> stable_order(np.array([1, 0, 1, 0], np.int32), 2).tolist()
    [1, 3, 0, 2]
    """
    from pccl._array_kernels import counting_order  # Numba takes a moment to load

    order = np.empty(len(keys), np.int64)
    counting_order(keys, np.zeros(count + 1, np.int64), order)
    return order


def sorted_order(keys: Column, order: Ints | None = None) -> Ints:
    """Indices that sort whole numbers, in linear time; equal ones keep the order that is given, or theirs.

    Examples
    --------
    >>> sorted_order(np.array([3, -1, 3, 0])).tolist()
    [1, 3, 0, 2]
    >>> sorted_order(np.array([3, -1, 3, 0]), np.array([3, 2, 1, 0])).tolist()
    [1, 3, 2, 0]
    """
    from pccl._array_kernels import DIGIT, sort_by_digit  # Numba takes a moment to load

    found = np.arange(len(keys)) if order is None else order
    low = int(keys.min(initial=0))
    above = keys.astype(np.int64) - low
    count = np.empty(2**DIGIT, np.int64)
    for shift in range(0, int(above.max(initial=0)).bit_length(), DIGIT):
        before = found
        found = np.empty_like(before)
        sort_by_digit(above, shift, count, before, found)
    return found


def count_within(widths: Column) -> Ints:
    """Count the values of every row from zero on, where rows have these widths.

    Examples
    --------
    >>> count_within(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    offsets = offsets_of(widths)
    return np.arange(offsets[-1]) - np.repeat(offsets[:-1], widths)


def largest(values: Column, most: int) -> Ints:
    """Where the few largest values are, the largest first, of equal ones the first; zeros never count.

    Examples
    --------
    >>> largest(np.array([3, 0, 5, 3]), 3).tolist(), largest(np.array([0, 1]), 3).tolist()
    ([2, 0, 3], [1])
    """
    order = np.argsort(-values, kind="stable")[:most]
    return order[values[order] > 0]


def distinct(values: Column) -> Column:
    """All values once, the least first; where most differ, in a tenth of the time that :func:`numpy.unique` takes.

    Examples
    --------
    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(values)
    differs = np.ones(len(ordered), np.bool_)
    differs[1:] = ordered[1:] != ordered[:-1]
    return ordered[differs]


def inverse(order: Column) -> Ints:
    """Where everything stands in an order.

    Examples
    --------
    >>> inverse(np.array([2, 0, 1])).tolist()
    [1, 2, 0]
    """
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place
