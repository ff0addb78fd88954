"""Loops over plain arrays against what NumPy says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pccl._array_kernels import move_rows
from pccl._arrays import sorted_order
from pccl._kernels import kernel

NUMBERS = st.one_of(st.integers(-5, 5), st.integers(-(2**40), 2**60))


@settings(deadline=None)
@given(st.lists(NUMBERS, max_size=60), st.randoms(use_true_random=False))
def test_whole_numbers_are_sorted_and_equal_ones_keep_their_order(numbers, random):
    keys = np.array(numbers, np.int64)
    order = np.array(random.sample(range(len(keys)), len(keys)), np.int64)
    assert sorted_order(keys).tolist() == np.argsort(keys, kind="stable").tolist()
    expected = order[np.argsort(keys[order], kind="stable")]
    assert sorted_order(keys, order).tolist() == expected.tolist()


@kernel
def moved(rows, source, target, count):
    """Kernels alone can move rows."""
    move_rows(rows, source, target, count)


@pytest.mark.parametrize(("source", "target"), [(1, 2), (2, 1), (0, 4), (3, 3)])
def test_rows_move_even_where_they_overlap(source, target):
    rows = np.arange(20).reshape(10, 2)
    expected = rows.copy()
    expected[target : target + 4] = rows[source : source + 4]
    moved(rows, source, target, 4)
    assert rows.tolist() == expected.tolist()
