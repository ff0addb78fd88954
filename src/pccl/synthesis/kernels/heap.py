"""A heap of (score, tie, device): the least score first, then the least tie."""

from __future__ import annotations

import numpy as np

from pccl._kernels import inlined
from pccl.synthesis.kernels.tables import INDEX, Ints


@inlined
def comes_before(heap: Ints, slot: int, score: int, tie: int) -> bool:
    """Whether the entry in the slot goes before another."""
    return (heap[slot, 0] < score) | ((heap[slot, 0] == score) & (heap[slot, 1] < tie))


@inlined
def move(heap: Ints, source: int, target: int) -> None:
    """Copy an entry from slot to slot."""
    heap[target, 0], heap[target, 1], heap[target, 2] = heap[source, 0], heap[source, 1], heap[source, 2]


@inlined
def push(heap: Ints, size: int, score: int, tie: int, device: int) -> int:
    """Add an entry; returns the new size."""
    hole = size
    while hole > 0:
        parent = ((hole - 1) >> 1) & INDEX
        if comes_before(heap, parent, score, tie):
            break
        move(heap, parent, hole)
        hole = parent
    heap[hole, 0], heap[hole, 1], heap[hole, 2] = score, tie, device
    return size + 1


@inlined
def pop(heap: Ints, size: int) -> int:
    """Move the least entry to just behind the others; returns the new size, which is its slot."""
    last = (size - 1) & INDEX
    score, tie, device = heap[last, 0], heap[last, 1], heap[last, 2]
    move(heap, 0, last)
    hole = np.int64(0)
    while True:
        child = (2 * hole + 1) & INDEX
        if child >= last:
            break
        right = child + 1
        if right < last and comes_before(heap, right, heap[child, 0], heap[child, 1]):
            child = right
        if not comes_before(heap, child, score, tie):
            break
        move(heap, child, hole)
        hole = child
    if last > 0:
        heap[hole, 0], heap[hole, 1], heap[hole, 2] = score, tie, device
    return last
