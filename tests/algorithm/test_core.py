"""The algorithm as a value: columns in order, what follows from them, and what people read."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl import (
    Algorithm,
    AllGather,
    AllReduce,
    Bound,
    Broadcast,
    Link,
    Provenance,
    SendRecv,
    Topology,
    Transfers,
    VerificationError,
)
from pccl.algorithm.core import needs_text
from pccl.units import Picoseconds, time_text
from tests.algorithm.examples import LINE, US, Row, network, schedule, star

RELAY = schedule(
    LINE, Broadcast("2kB", chunks=2), (0, 0, 1, 0), (0, 1, 2, 1), (1, 0, 1, 1), (1, 1, 2, 2)
)
COLUMNS = ("chunk", "link", "start", "reduce")


def columns(algorithm: Algorithm) -> list[list[int]]:
    return [getattr(algorithm.transfers, name).tolist() for name in COLUMNS]


@settings(deadline=None)
@given(st.permutations(range(4)))
def test_rows_may_come_in_any_order(order: list[int]) -> None:
    chunk, link, start, reduce = ([column[i] for i in order] for column in columns(RELAY))
    again = Algorithm.build(RELAY.topology, RELAY.collectives, chunk, link, start, reduce)
    assert (
        columns(again)
        == columns(RELAY)
        == [[0, 0, 1, 1], [0, 1, 0, 1], [0, US, US, 2 * US], [False] * 4]
    )
    assert again == RELAY


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(-3, 3), st.booleans())))
def test_rows_are_ordered_by_chunk_start_and_link(rows: list[tuple[int, int, int, bool]]) -> None:
    given_columns = ([row[i] for row in rows] for i in range(4))
    built = columns(Algorithm.build(LINE, RELAY.collectives, *given_columns))
    found = list(zip(*built, strict=True))
    assert [(c, s, k) for c, k, s, _ in found] == sorted((c, s, k) for c, k, s, _ in rows)
    assert sorted(found) == sorted(rows)


def test_derived_columns() -> None:
    mixed = Topology.from_links(3, [Link(0, 1, "1GB/s", "5us"), Link(1, 2, "3GB/s", "1ns")])
    transfers = Algorithm.build(
        mixed, [SendRecv("1kB", (0, 2))], [0, 0], [0, 1], [0, 6 * US]
    ).transfers
    assert transfers.src.tolist() == [0, 1]
    assert transfers.dst.tolist() == [1, 2]
    assert transfers.bytes.tolist() == [1000, 1000]
    assert transfers.transmission.tolist() == [
        US,
        333_334,
    ]  # a third of a us, rounded up to whole picoseconds
    assert transfers.arrival.tolist() == [6 * US, 6 * US + 333_334 + 1000]
    assert len(transfers) == 2
    assert repr(transfers) == "Transfers(2 transfers of 1 chunk)"


def test_chunks_of_different_sizes() -> None:
    both = schedule(
        LINE, [SendRecv("1kB", (0, 1)), SendRecv("3kB", (1, 2))], (0, 0, 1, 0), (1, 1, 2, 0)
    )
    assert both.transfers.bytes.tolist() == [1000, 3000]
    assert both.transfers.transmission.tolist() == [US, 3 * US]


def test_duration_is_the_last_arrival() -> None:
    assert RELAY.duration == 3 * US
    assert (
        schedule(network(2, (0, 1), latency="5us"), SendRecv("1kB"), (0, 0, 1, 2)).duration
        == 8 * US
    )
    assert schedule(LINE, AllGather("1kB", [0])).duration == 0


def test_equality_is_about_what_is_done() -> None:
    renamed = dataclasses.replace(RELAY, provenance=Provenance("by hand", 7, 1.5))
    assert renamed == RELAY
    rows = [(0, 0, 1, 0), (0, 1, 2, 1), (1, 0, 1, 1), (1, 1, 2, 2)]
    assert schedule(LINE, [Broadcast("2kB", chunks=2)], *rows) == RELAY
    for other in (
        schedule(LINE, Broadcast("2kB", chunks=2), *rows[:3], (1, 1, 2, 3)),
        schedule(LINE, Broadcast("2kB", chunks=2), *rows[:3]),
        schedule(LINE, Broadcast("4kB", chunks=2), *rows),
        schedule(
            network(3, (0, 1), (1, 2), (1, 0), (2, 1), latency="1ns"),
            Broadcast("2kB", chunks=2),
            *rows,
        ),
    ):
        assert other != RELAY
    assert RELAY != "an algorithm"
    with pytest.raises(TypeError, match="unhashable"):
        hash(RELAY)


def test_columns_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        RELAY.transfers.start[0] = 5


def test_columns_of_the_caller_stay_his() -> None:
    start = np.array([0, US], np.int64)
    Algorithm.build(
        LINE, [SendRecv("1kB", (0, 2))], np.zeros(2, np.int32), np.arange(2, dtype=np.int32), start
    )
    start[0] = 1


def test_reduce_may_be_given_once_for_all() -> None:
    total = Algorithm.build(LINE, [pccl.Reduce("1kB")], [0, 0], [3, 2], [0, US], True)
    assert total.transfers.reduce.tolist() == [True, True]
    assert Algorithm.build(
        LINE, [SendRecv("1kB", (0, 1))], [0], [0], [0]
    ).transfers.reduce.tolist() == [False]


@pytest.mark.parametrize(
    ("given_columns", "message"),
    [
        (([0, 1], [0, 0], [0]), r"transfer columns differ in length: \[2, 2, 1, 2\]"),
        (([0, 1], [0, 0], [0, US], [True]), r"transfer columns differ in length: \[2, 2, 2, 1\]"),
        (([0, 2], [0, 0], [0, US]), "transfer 1: there is no chunk 2, only 2"),
        (([0, -1], [0, 0], [0, US]), "transfer 1: there is no chunk -1, only 2"),
        (([0, 1], [0, 4], [0, US]), "transfer 1: there is no link 4, only 4"),
        (([0, 1], [2**32, 0], [0, US]), "transfer 0: there is no link 4294967296, only 4"),
        (([2**32, 1], [0, 0], [0, US]), "transfer 0: there is no chunk 4294967296, only 2"),
        (
            ([0, 1], [0, 0], np.array([0, 2**63], np.uint64)),
            "the start column holds 9223372036854775808, which does not fit 63 bits",
        ),
        (
            ([0, 1], [0, 0], [0, 2**70]),
            "the start column must be a list of whole numbers that fit 64 bits",
        ),
        (([0, 1], [0, 0.5], [0, US]), "the link column must be a list of whole numbers"),
        (([[0], [1]], [0, 0], [0, US]), "the chunk column must be a list of whole numbers"),
        (([0, 1], ["0", "1"], [0, US]), "the link column must be a list of whole numbers"),
    ],
)
def test_columns_that_are_refused(given_columns: tuple[list[int], ...], message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        Algorithm.build(LINE, [Broadcast("2kB", chunks=2)], *given_columns)


def test_text_for_people() -> None:
    named = dataclasses.replace(RELAY, provenance=Provenance("by hand", 7, 1.5, "9.9"))
    assert repr(named) == "Algorithm(broadcast on custom: 4 transfers, 3.00 us)"
    assert named.summary().splitlines() == [
        "topology     'custom': 3 NPUs, 4 links, 1GB/s, 0ps",
        "collectives  broadcast of 2kB among all NPUs, 2 chunks",
        "chunks       2",
        "transfers    4, moving 3.9 KiB in all",
        "duration     3.00 us",
        "links        33.3% busy on average, the busiest 66.7%",
        "found by     by hand, seed 7, in 1.5 s (pccl 9.9)",
    ]


@pytest.mark.parametrize(
    ("needs", "work"),
    [
        (("multicast",), "multiply messages (multicast)"),
        (("reduce",), "add messages up (reduce)"),
        (("multicast", "reduce"), "multiply messages (multicast) and add them up (reduce)"),
    ],
)
def test_what_switches_must_do(needs: tuple[str, ...], work: str) -> None:
    assert needs_text(needs) == f"switches that {work}, and a runtime that has them do it"
    assert needs_text(()) == ""
    spread = (0, 0, 3, 0), (0, 3, 1, 1), (0, 3, 2, 1)
    collected = (0, 1, 3, 0, "add"), (0, 2, 3, 0, "add"), (0, 3, 0, 1, "add")
    # Of a third each.
    both: list[Row] = [(chunk, npu, 3, chunk, "add") for chunk in range(3) for npu in range(3)]
    both += [(chunk, 3, npu, chunk + 1) for chunk in range(3) for npu in range(3)]
    tasks: dict[tuple[str, ...], tuple[pccl.Collective, tuple[Row, ...]]] = {
        ("multicast",): (Broadcast("1kB"), spread),
        ("reduce",): (pccl.Reduce("1kB", root=0), collected),
        ("multicast", "reduce"): (AllReduce("3kB", chunks=1), tuple(both)),
    }
    collective, rows = tasks[needs]
    plan = schedule(star(3, multicast=True, reduce=True), collective, *rows)
    pccl.verify(plan)
    assert plan.facts()["needs"] == needs_text(needs)


def test_an_algorithm_knows_its_bound() -> None:
    assert (RELAY.bound, RELAY.gap) == (None, None)
    t = RELAY.transfers
    bound = Bound("cut", Picoseconds(2 * US), {"devices": (0,)}, reason="what must leave devices 0")
    bounded = Algorithm.build(
        LINE, RELAY.collectives, t.chunk, t.link, t.start, t.reduce, bound=bound
    )
    assert bounded == RELAY, "what is known about it does not change what it does"
    assert (bounded.bound, bounded.gap) == (bound, 0.5)
    assert bounded.summary().splitlines()[-2:] == [
        "bound        2us, what must leave devices 0; no algorithm is faster",
        "gap          50.0% above the bound",
    ]
    nothing = dataclasses.replace(RELAY, bound=Bound("latency", Picoseconds(0)))
    assert nothing.gap == 0


def test_transfers_need_no_collectives() -> None:
    t = RELAY.transfers
    order = [3, 0, 2, 1]
    again = Transfers.of(
        LINE, RELAY.conditions, t.chunk[order], t.link[order], t.start[order], t.reduce[order]
    )
    assert all(np.array_equal(getattr(again, name), getattr(t, name)) for name in COLUMNS)


def test_text_about_many_collectives() -> None:
    many = schedule(star(2), [AllGather("2B", [0])] * 10)
    assert (
        repr(many)
        == "Algorithm(all-gather + all-gather + all-gather + 7 more on custom: 0 transfers, 0 us)"
    )
    lines = many.summary().splitlines()
    assert lines[1] == "collectives  all-gather of 2B among 1 NPU (0)"
    assert lines[8:10] == [
        "             all-gather of 2B among 1 NPU (0)",
        "             and 2 more",
    ]
    assert many.facts()["links"] == "0.0% busy on average, the busiest 0.0%"


def test_provenance_says_how_and_with_which_seed() -> None:
    algorithm = pccl.synthesize(pccl.topology.ring(4), AllReduce("4kB"), seed=3)
    assert algorithm.provenance.seed == 3
    assert algorithm.provenance.version == pccl.__version__
    assert algorithm.provenance.method
    assert algorithm.provenance.seconds >= 0


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (0, "0 us"),
        (7, "7 ps"),
        (Picoseconds(7), "7 ps"),
        (1500, "1.50 ns"),
        (12_345_678, "12.35 us"),
        (10**12, "1.00 s"),
        (10**16, "10,000.00 s"),
    ],
)
def test_times_for_people(time: int, text: str) -> None:
    assert time_text(time) == text
