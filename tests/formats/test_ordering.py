"""Events in order: compiled loops against a slow and obvious twin."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pccl.formats.lowering.ordering import sorted_events

events = st.integers(0, 11)


def slowly(time: list[int], pairs: list[tuple[int, int]]) -> list[int]:
    """The earliest of those that wait for nothing any more, again and again."""
    done: list[int] = []
    while True:
        ready = [
            (time[e], e)
            for e in range(len(time))
            if e not in done and all(before in done for before, after in pairs if after == e)
        ]
        if not ready:
            return done
        done.append(heapq.nsmallest(1, ready)[0][1])


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=12, max_size=12),
    st.lists(st.tuples(events, events), max_size=20),
)
def test_events_are_sorted_by_time_and_dependencies(
    time: list[int], pairs: list[tuple[int, int]]
) -> None:
    before, after = np.array(pairs, np.int64).reshape(-1, 2).T
    assert sorted_events(np.array(time), before, after).tolist() == slowly(time, pairs)


def test_circles_are_left_out() -> None:
    assert sorted_events(np.zeros(3, np.int64), np.array([0, 1]), np.array([1, 0])).tolist() == [2]
