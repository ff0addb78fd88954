"""Compiled loops over plain arrays."""

from __future__ import annotations

from pccl._arrays import Indices, Ints
from pccl._kernels import kernel

__all__ = ["counting_order"]


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
