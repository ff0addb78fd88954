"""Events in order, and messages found without walking: compiled loops and columns against slow and obvious twins."""

from __future__ import annotations

import dataclasses
import heapq
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.algorithm import Algorithm
from pccl.formats import tracing
from pccl.formats.ordering import offsets_of, sorted_events
from tests import strategies

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


def test_offsets() -> None:
    assert offsets_of(np.array([2, 0, 2]), 4).tolist() == [0, 1, 1, 3, 3]


@settings(max_examples=60, deadline=None)
@given(problem=strategies.problems(), data=st.data())
def test_messages_without_switches_and_sums_are_transfers(
    problem: Any, data: st.DataObject
) -> None:
    topology, tasks = problem
    algorithm = strategies.synthesized((topology.unroll_switches(), tasks), effort="fast")
    which = data.draw(st.integers(0, len(tasks) - 1))
    chunks = np.flatnonzero(algorithm.conditions.collective == which)
    if algorithm.conditions.reduces[chunks].any():
        return
    found, walked = tracing.trace(algorithm, chunks), walk(algorithm, chunks)
    for column in dataclasses.fields(found):
        assert np.array_equal(getattr(found, column.name), getattr(walked, column.name)), (
            column.name
        )


def walk(algorithm: Algorithm, chunks: np.ndarray) -> tracing.Trace:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracing, "_has_switches", lambda _: True)
        return tracing.trace(algorithm, chunks)


def test_what_is_sent_too_early_is_refused() -> None:
    algorithm = pccl.synthesize(pccl.topology.line(3), pccl.Broadcast("4kB"), effort="fast")
    broken = dataclasses.replace(
        algorithm,
        transfers=dataclasses.replace(algorithm.transfers, start=algorithm.transfers.start * 0),
    )
    for traced in (tracing.trace, walk):
        with pytest.raises(
            pccl.PcclError, match=r"chunk 0 is sent by .*1.*, which does not have it; verify"
        ):
            traced(broken, np.arange(1))
