"""How long links are held: one rule, whoever asks, and load over time against a slow twin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl import Algorithm, AllGather, VerificationError
from pccl.algorithm import holding
from pccl.algorithm.holding import held_time
from pccl.algorithm.timing import planned_starts, times_of
from pccl.bounds import bound_of
from tests.algorithm.reference import moves_of
from tests.strategies import problems, synthesized


def by_hand(rows, intervals, width, entries):
    """Each entry against each interval."""
    table = [[0.0] * intervals for _ in range(rows)]
    for row, start, hold in entries:
        for i in range(intervals):
            overlap = min(start + hold, (i + 1) * width) - max(start, i * width)
            table[row][i] += max(overlap, 0.0)
    return table


ENTRIES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 200), st.integers(0, 90)))


@settings(deadline=None)
@given(
    ENTRIES,
    st.integers(1, 12),
    st.floats(0.5, 40) | st.integers(1, 40),
    st.sampled_from([1, 3, 2**21]),
)
def test_held_time_is_what_every_entry_adds(entries, intervals, width, block):
    row, start, hold = np.array(entries, np.int64).reshape(-1, 3).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holding, "BLOCK", block)
        found = held_time(row, start, hold, rows=4, intervals=intervals, width=width)
    np.testing.assert_allclose(found, by_hand(4, intervals, width, entries), atol=1e-6)


@settings(deadline=None, max_examples=40)
@given(problems())
def test_everybody_holds_links_for_as_long(problem):
    """The algorithm, what times it anew, the simulator and load over time agree with the slow twin."""
    algorithm = synthesized(problem)
    t, topology = algorithm.transfers, algorithm.topology
    slow = [move.held - move.start for move in moves_of(algorithm)]
    assert t.hold.tolist() == slow
    assert times_of(t, topology, t.transmission).hold.tolist() == slow
    busy = np.bincount(t.link, slow, topology.num_links)
    assert t.link_busy.tolist() == busy.tolist()
    assert algorithm.utilization.tolist() == (busy / max(int(algorithm.duration), 1)).tolist()
    assert pccl.simulate(algorithm).link_busy.sum() == busy.sum()
    intervals = 7
    width = max(int(algorithm.duration), 1) / intervals
    over_time = held_time(
        t.link, t.start, t.hold, rows=topology.num_links, intervals=intervals, width=width
    )
    np.testing.assert_allclose(over_time.sum(axis=1), busy, rtol=1e-9, atol=1e-3)


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_link_is_free_when_its_hold_is_over_and_no_earlier(exclusive):
    """The verifier accepts a link that is used again at once, and refuses it a picosecond earlier."""
    pair = pccl.Topology.from_links(2, [pccl.Link(0, 1, "1GB/s", "1us", exclusive)])
    send = pccl.SendRecv("2kB", group=[0, 1], chunks=2)
    hold = 2_000_000 if exclusive else 1_000_000
    at_once = Algorithm.build(pair, [send], [0, 1], [0, 0], [0, hold])
    pccl.verify(at_once)
    t = at_once.transfers
    assert t.hold.tolist() == [hold, hold]
    assert planned_starts(t, pair, times_of(t, pair, t.transmission)).tolist() == [0, hold]
    early = Algorithm.build(pair, [send], [0, 1], [0, 0], [0, hold - 1])
    with pytest.raises(VerificationError, match="the link is held until"):
        pccl.verify(early)


@pytest.mark.parametrize("exclusive", [False, True])
def test_bounds_hold_links_for_as_long(exclusive):
    """One link, ten chunks: the bound for whole chunks is what the link is held, and a latency more if it is shared."""
    link = pccl.Link(0, 1, "1GB/s", "1us", exclusive)
    pair = pccl.Topology.from_links(2, [link])
    send = pccl.SendRecv("10kB", group=[0, 1], chunks=10)
    algorithm = pccl.synthesize(pair, send)
    bound = bound_of(pair, algorithm.conditions, whole_chunks=True)
    rest = 0 if exclusive else 1_000_000
    assert bound.value == algorithm.transfers.hold.sum() + rest == algorithm.duration
    assert algorithm.utilization[0] == pytest.approx((bound.value - rest) / bound.value)


def test_the_verifier_trusts_no_cache():
    """Somebody may have changed a derived column in place."""
    ring = pccl.topology.ring(4, bandwidth="1GB/s", latency="1us", exclusive=True)
    algorithm = pccl.synthesize(ring, AllGather("4kB", chunks=2))
    t = algorithm.transfers
    early = replace(algorithm, transfers=replace(t, start=t.start // 2))
    early.transfers.hold[:] = 0
    early.transfers.transmission[:] = 0
    early.transfers.arrival[:] = 0
    with pytest.raises(VerificationError):
        pccl.verify(early)
