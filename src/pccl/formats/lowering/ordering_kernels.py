"""Compiled loops that order events, and find what they know of each other."""

from __future__ import annotations

from pccl._arrays import Bools, Ints
from pccl._heap_kernels import pop_key, push_key
from pccl._kernels import kernel

__all__ = ["find_waits", "order_events"]


@kernel
def order_events(missing: Ints, offsets: Ints, followers: Ints, heap: Ints, order: Ints) -> int:
    """All events, each after those it waits for, and otherwise by number; returns how many have a place.

    `missing` counts for how many others each event waits; those that wait for event `e` are
    ``followers[offsets[e]:offsets[e + 1]]``.
    """
    # An event is its own key, so that one array is both halves of the heap.
    size = 0
    for event in range(len(missing)):
        if missing[event] == 0:
            size = push_key(heap, heap, size, event, event)
    done = 0
    while size > 0:
        event = heap[0]
        size = pop_key(heap, heap, size)
        order[done] = event
        done += 1
        for k in range(offsets[event], offsets[event + 1]):
            follower = followers[k]
            missing[follower] -= 1
            if missing[follower] == 0:
                size = push_key(heap, heap, size, follower, follower)
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
