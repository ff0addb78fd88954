"""Heaps of kernels against the one of the standard library."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pccl import _heap_kernels as heap


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=50))
def test_the_heap_is_a_heap(entries):
    ours, size, theirs = np.empty((60, 3), np.int64), 0, []
    for device, (score, tie) in enumerate(entries):
        size = heap.push(ours, size, score, tie, device)
        heapq.heappush(theirs, (score, tie))
    while theirs:
        size = heap.pop(ours, size)
        assert tuple(ours[size, :2].tolist()) == heapq.heappop(theirs)
    assert size == 0


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=50), st.sampled_from([np.int64, np.float64]))
def test_a_heap_of_keys_is_a_heap(numbers, kind):
    keys, items, size = np.empty(60, kind), np.empty(60, np.int64), 0
    for item, number in enumerate(numbers):
        size = heap.push_key(keys, items, size, kind(number), item)
    found = []
    while size:
        found.append(keys[0])
        assert numbers[items[0]] == keys[0]
        size = heap.pop_key(keys, items, size)
    assert found == sorted(numbers)
