"""Binary heaps for kernels, the least entry first; they live in arrays of the caller, which keeps their size.

Searches over the time-expanded network break ties, so their entries are rows of ``(score, tie, item)``. Everything
else has one key an entry, whole or floating: keys and items are two arrays, and Numba compiles the lines for both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pccl._arrays import Ints
from pccl._kernels import inlined

__all__ = ["pop", "pop_key", "push", "push_key"]

# Masked with this, an index is plainly not negative, which spares a test at every use.
INDEX = np.int64(2**62 - 1)


@inlined
def push(heap: Ints, size: int, score: int, tie: int, item: int) -> int:
    """Add an entry; returns the new size."""
    hole = risen(heap, size, score, tie)
    heap[hole, 0] = score
    heap[hole, 1] = tie
    heap[hole, 2] = item
    return size + 1


@inlined
def pop(heap: Ints, size: int) -> int:
    """Move the least entry to just behind the others; returns the new size, which is its slot."""
    last = (size - 1) & INDEX
    score = heap[last, 0]
    tie = heap[last, 1]
    item = heap[last, 2]
    move(heap, 0, last)
    # Down to the bottom along the lesser children, and up again: most of what was last belongs near there.
    hole = np.int64(0)
    child = np.int64(1)
    while child < last:
        right = (child + 1) & INDEX
        if right < last and comes_before(heap, right, heap[child, 0], heap[child, 1]):
            child = right
        move(heap, child, hole)
        hole = child
        child = (2 * hole + 1) & INDEX
    hole = risen(heap, hole, score, tie)
    if last > 0:
        heap[hole, 0] = score
        heap[hole, 1] = tie
        heap[hole, 2] = item
    return last


@inlined
def risen(heap: Ints, hole: int, score: int, tie: int) -> int:
    """Move a hole up to where such an entry belongs; returns its slot."""
    while hole > 0:
        parent = ((hole - 1) >> 1) & INDEX
        if comes_before(heap, parent, score, tie):
            break
        move(heap, parent, hole)
        hole = parent
    return hole


@inlined
def comes_before(heap: Ints, slot: int, score: int, tie: int) -> bool:
    """Whether the entry in the slot goes before another."""
    return (heap[slot, 0] < score) | ((heap[slot, 0] == score) & (heap[slot, 1] < tie))


@inlined
def move(heap: Ints, source: int, target: int) -> None:
    """Copy an entry from slot to slot."""
    heap[target, 0], heap[target, 1], heap[target, 2] = (
        heap[source, 0],
        heap[source, 1],
        heap[source, 2],
    )


@inlined
def push_key(keys: Any, items: Ints, size: int, key: Any, item: int) -> int:
    """Add an item under its key; returns the new size."""
    hole = size
    while hole > 0 and keys[(hole - 1) >> 1] > key:
        parent = (hole - 1) >> 1
        keys[hole] = keys[parent]
        items[hole] = items[parent]
        hole = parent
    keys[hole] = key
    items[hole] = item
    return size + 1


@inlined
def pop_key(keys: Any, items: Ints, size: int) -> int:
    """Remove the entry in slot 0, which has the least key; returns the new size."""
    last = size - 1
    key = keys[last]
    item = items[last]
    # Down to the bottom along the lesser children, and up again: most of what was last belongs near there.
    hole = np.int64(0)
    child = np.int64(1)
    while child < last:
        if child + 1 < last and keys[child + 1] < keys[child]:
            child += 1
        keys[hole] = keys[child]
        items[hole] = items[child]
        hole = child
        child = 2 * hole + 1
    while hole > 0 and keys[(hole - 1) >> 1] >= key:
        parent = (hole - 1) >> 1
        keys[hole] = keys[parent]
        items[hole] = items[parent]
        hole = parent
    keys[hole] = key
    items[hole] = item
    return last
