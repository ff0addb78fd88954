"""The parts of the search against slow, obvious twins, and the ways in which its arrays grow."""

from __future__ import annotations

import heapq
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl import _heap_kernels as heap
from pccl import network as ten
from pccl.network import NEVER, calendar
from pccl.network import calendar_kernels as calendars
from pccl.network.calendar_kernels import Lanes, Stores
from pccl.synthesis import jobs, placement

TINY = {"bandwidth": "1GB/s", "latency": "0ns"}


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


def test_distances_are_those_of_networkx():
    networkx = pytest.importorskip("networkx")
    topology = pccl.topology.parse_topology("a100:2")
    net = ten.network(topology, np.array([2**20]))
    times = ten.unloaded_times(net, np.array([3]), np.array([0]))[0] * net.unit
    graph = networkx.DiGraph()
    for src, dst, latency, bandwidth in zip(
        topology.src.tolist(),
        topology.dst.tolist(),
        topology.latency.tolist(),
        topology.bandwidth.tolist(),
        strict=True,
    ):
        graph.add_edge(src, dst, weight=latency + -(-(2**20) * 10**12 // bandwidth))
    expected = networkx.single_source_dijkstra_path_length(graph, 3)
    assert {device: time for device, time in enumerate(times.tolist()) if time < NEVER} == expected


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 5), st.sampled_from(["farthest-first", "rounds"]))
def test_small_arrays_grow_to_the_same_result(seed, order):
    """Calendars, buffers and output begin small here, and large enough there."""
    mesh, limited = pccl.topology.mesh(4, 4, latency="3us"), pccl.topology.switch(6, buffer=2)
    tasks = [(mesh, pccl.AllToAll("32MiB", chunks=2)), (limited, pccl.AllToAll("12MiB", chunks=2))]
    before = [pccl.synthesize(*task, seed=seed, order=order) for task in tasks]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calendar, "FIRST_ROOM", 2)
        patch.setattr(placement, "_output", tiny_at_first(placement._output))
        after = [pccl.synthesize(*task, seed=seed, order=order) for task in tasks]
    assert before == after


def tiny_at_first(output):
    """Room for twenty transfers, unless it is asked for by the function that grows it."""
    return lambda jobs, capacity: output(
        jobs, capacity if sys._getframe(1).f_code.co_name == "_grown" else 20
    )


def test_a_tree_larger_than_all_before_it_finds_room():
    """A far pair first, then trees along a long line: the output grows by more than what came before foretells."""
    n = 2000
    links = [pccl.Link(i, i + 1, "1GB/s", "0ns") for i in range(n - 1)]
    links += [pccl.Link(0, n, "1GB/s", "1s"), pccl.Link(0, n + 1, "1GB/s", "1s")]
    topology = pccl.Topology.from_links(n + 2, links)
    far, long = pccl.Condition(0, [n, n + 1], "1kB"), pccl.Condition(0, [1, n - 1], "1kB")
    assert len(pccl.synthesize(topology, pccl.Custom([far, long, long])).transfers) == 2 + 2 * (
        n - 1
    )


def test_long_ways_are_not_counted_in_bits():
    """A link across the country carries a chunk for thousands of steps: bits for all of them would fill the memory."""
    ring = pccl.topology.ring(64, bandwidth="50GB/s", latency="30ms")
    net = ten.network(ring, np.array([1024]), steps=True)
    assert not ten.Ten.empty(ring, net).lanes.stepwise
    assert pccl.synthesize(ring, pccl.AllGather("64KiB")).duration > 0


def test_a_hasty_search_is_nearly_as_good(monkeypatch):
    mesh = pccl.topology.mesh(6, 6, **TINY)
    careful = pccl.synthesize(
        mesh,
        pccl.AllToAll("72kB", chunks=2),
        effort="fast",
        order="farthest-first",
        routes="minimal",
    )
    monkeypatch.setattr(jobs, "SMALL", 0)
    hasty = pccl.synthesize(
        mesh,
        pccl.AllToAll("72kB", chunks=2),
        effort="fast",
        order="farthest-first",
        routes="minimal",
    )
    assert hasty != careful
    assert hasty.duration <= 1.05 * careful.duration


def test_the_result_does_not_depend_on_the_process(tmp_path):
    """Nor on hash seeds: the columns of two processes are the same bytes."""
    code = (
        "import pccl, hashlib; a = pccl.synthesize(pccl.topology.switch_2d(4, 2), pccl.AllReduce('8MiB', chunks=2),"
        " pccl.AllToAll('4MiB', group=[5, 1, 2, 7])); t = a.transfers;"
        "print([hashlib.sha256(column.tobytes()).hexdigest() for column in (t.chunk, t.link, t.start, t.reduce)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "77")
    }
    assert len(outputs) == 1
