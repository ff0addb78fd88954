"""Compiled loops that order events, and find what they know of each other."""

from __future__ import annotations

from pccl._arrays import Bools, Ints
from pccl._kernels import inlined, kernel

__all__ = ["find_waits", "order_events"]


@inlined
def push(heap: Ints, size: int, number: int) -> int:
    """Add a number to a heap; returns the new size."""
    hole = size
    while hole > 0:
        parent = (hole - 1) >> 1
        if heap[parent] <= number:
            break
        heap[hole] = heap[parent]
        hole = parent
    heap[hole] = number
    return size + 1


@inlined
def pop(heap: Ints, size: int) -> int:
    """Take the least number out of a heap, which has one less then; returns that number."""
    least, last = heap[0], heap[size - 1]
    hole, child = 0, 1
    while child < size - 1:
        if child + 1 < size - 1 and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= last:
            break
        heap[hole] = heap[child]
        hole, child = child, 2 * child + 1
    heap[hole] = last
    return least


@kernel
def order_events(missing: Ints, offsets: Ints, followers: Ints, heap: Ints, order: Ints) -> int:
    """All events, each after those it waits for, and otherwise by number; returns how many have a place.

    `missing` counts for how many others each event waits; those that wait for event `e` are
    ``followers[offsets[e]:offsets[e + 1]]``.
    """
    size = 0
    for event in range(len(missing)):
        if missing[event] == 0:
            size = push(heap, size, event)
    done = 0
    while size > 0:
        event = pop(heap, size)
        size -= 1
        order[done] = event
        done += 1
        for k in range(offsets[event], offsets[event + 1]):
            missing[followers[k]] -= 1
            if missing[followers[k]] == 0:
                size = push(heap, size, followers[k])
    return done


@kernel
def find_waits(
    order: Ints, low: int, block: Ints, position: Ints, offsets: Ints, needs: Ints, known: Ints, history: Ints,
    waits: Bools,
) -> None:  # fmt: skip
    """Which needs of every operation of a rank it has to wait for, beyond what it knows from the waits before it.

    Operation `i` is the one at ``position[i]`` of ``block[i]``, and its needs are listed from ``offsets[i]`` on. What
    block `b` knows of every block is in ``known[b]``, and what it knew after operation `i` in ``history[i - low]``.
    """
    for i in order:
        mine = known[block[i]]
        for k in range(offsets[i], offsets[i + 1]):
            other = needs[k]
            if mine[block[other]] < position[other]:
                waits[k] = True
                for b in range(len(mine)):
                    mine[b] = max(mine[b], history[other - low, b])
        mine[block[i]] = position[i]
        for b in range(len(mine)):
            history[i - low, b] = mine[b]
