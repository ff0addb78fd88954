"""Calendars of links and levels of buffers against sets of moments."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.network import Ten, network
from pccl.network import calendar_kernels as calendars
from pccl.network.calendar_kernels import Lanes, Stores


def one_lane(*, stepwise: bool = False) -> Lanes:
    return Lanes(
        head=np.zeros((1, 4), np.int64),
        busy=np.empty((1, 200, 2), np.int64),
        slack=np.ones(1, np.int64),
        steps=np.zeros((1, 16), np.uint64),
        stepwise=stepwise,
    )


@settings(deadline=None)  # the first question compiles
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 5)), max_size=60))
def test_intervals_find_the_gap_that_a_set_of_moments_finds(questions):
    lanes, taken = one_lane(), set()
    for time, hold in questions:
        begin = next(t for t in range(time, 1000) if taken.isdisjoint(range(t, t + hold)))
        start, slot = calendars.first_gap(lanes, 0, time, hold)
        assert start == begin
        calendars.occupy(lanes, 0, slot, start, start + hold)
        taken |= set(range(start, start + hold))
    busy = lanes.busy[0, : lanes.head[0, 0]]
    assert sorted(taken) == [t for begin, end in busy.tolist() for t in range(begin, end)]


@settings(deadline=None)
@given(
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 5), st.booleans()), max_size=80),
)
def test_what_is_given_back_is_free_again(stepwise, questions):
    lanes, transfers = one_lane(stepwise=stepwise), []
    for time, hold, gives_back in questions:
        if gives_back and transfers:
            begin, end = transfers.pop(time % len(transfers))
            calendars.give_back(lanes, 0, begin, end)
            continue
        hold = 1 if stepwise else hold
        taken = {moment for begin, end in transfers for moment in range(begin, end)}
        first = next(t for t in range(time, 1000) if taken.isdisjoint(range(t, t + hold)))
        start, slot = calendars.first_gap(lanes, 0, time, hold)
        assert start == first
        calendars.occupy(lanes, 0, slot, start, start + hold)
        transfers.append((start, start + hold))


@settings(deadline=None)
@given(st.lists(st.integers(0, 300), max_size=200))
def test_bits_and_intervals_agree(times):
    bits, intervals = one_lane(stepwise=True), one_lane()
    for time in times:
        starts = []
        for lanes in (bits, intervals):
            start, slot = calendars.first_gap(lanes, 0, time, 1)
            calendars.occupy(lanes, 0, slot, start, start + 1)
            starts.append(start)
        assert starts[0] == starts[1]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 10)), max_size=30), st.integers(1, 3))
def test_a_store_counts_what_stays(stays, capacity):
    stores = Stores(np.array([capacity]), np.zeros(1, np.int64), *np.zeros((2, 1, 100), np.int64))
    level = np.zeros(200, np.int64)
    for begin, length in stays:
        full = np.flatnonzero(level[begin : begin + length] >= capacity)
        free = calendars.free_from(stores, 0, begin, begin + length)
        if len(full):
            after = begin + full[0]
            assert free == after + next(t for t in range(200) if level[after + t] < capacity)
        else:
            assert free == begin
            calendars.stay(stores, 0, begin, begin + length)
            level[begin : begin + length] += 1


def test_long_ways_are_not_counted_in_bits():
    """A link across the country carries a chunk for thousands of steps: bits for all of them would fill the memory."""
    ring = pccl.topology.ring(64, bandwidth="50GB/s", latency="30ms")
    net = network(ring, np.array([1024]), steps=True)
    assert not Ten.empty(ring, net).lanes.stepwise
