"""What NPUs deliver to one another, and what of it waits for what."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import pccl
from pccl import AllReduce, Broadcast, PcclError, Reduce, Switch
from pccl.formats.lowering import Deliveries, follow
from pccl.formats.lowering.deliveries import feeds
from tests.algorithm.examples import LINE, network, schedule, star
from tests.formats.walk import walk
from tests.strategies import problems, synthesized

slow_but_fine = settings(deadline=None, suppress_health_check=list(HealthCheck))


def routes_of(found: Deliveries) -> list[tuple[int, ...]]:
    return [tuple(part) for part in lists(found.link_offsets, found.links)]


def lists(offsets: np.ndarray, values: np.ndarray) -> list[list[int]]:
    return [part.tolist() for part in np.split(values, offsets[1:-1])][: len(offsets) - 1]


def inputs_of(found: Deliveries) -> list[list[int]]:
    return [sorted(part) for part in lists(*found.inputs())]


def ends(found: Deliveries) -> list[tuple[int, int]]:
    return list(zip(found.src.tolist(), found.dst.tolist(), strict=True))


@settings(slow_but_fine, max_examples=100)
@given(problems())
def test_they_are_what_a_walk_finds(problem) -> None:
    """Row by row, those of several collectives at once, through switches and into sums."""
    algorithm = synthesized(problem)
    found = follow(algorithm)
    columns = ("start", "arrival", "reduce", "from_input", "adds_input")
    rows = zip(
        found.chunk.tolist(), *zip(*ends(found), strict=True), routes_of(found),
        *(getattr(found, name).tolist() for name in columns), strict=True,
    ) if len(found) else []  # fmt: skip
    in_turn = [row for _, row in sorted(zip(found.sequence.tolist(), rows, strict=True))]
    assert in_turn == walk(algorithm)
    assert np.all(np.diff(found.start) >= 0)
    for one in range(len(algorithm.collectives)):
        chunks = np.flatnonzero(algorithm.conditions.collective == one)
        if len(chunks):
            alone = follow(algorithm, int(chunks[0]), int(chunks[-1]) + 1)
            assert ends(alone) == [
                pair
                for pair, chunk in zip(ends(found), found.chunk.tolist(), strict=True)
                if chunk in set(chunks.tolist())
            ]


@settings(slow_but_fine, max_examples=40)
@given(problems())
def test_inputs_are_what_has_arrived(problem) -> None:
    found = follow(synthesized(problem))
    expected = [
        np.flatnonzero(
            (found.chunk == found.chunk[i])
            & (found.dst == found.src[i])
            & (found.arrival <= found.start[i])
        ).tolist()
        for i in range(len(found))
    ]
    assert inputs_of(found) == expected


def test_what_a_switch_multiplies_is_delivered_to_each() -> None:
    hub = star(3, multicast=True, reduce=True)
    found = follow(schedule(hub, Broadcast("1kB"), (0, 0, 3, 0), (0, 3, 1, 1), (0, 3, 2, 1)))
    assert routes_of(found) == [(0, 3), (0, 5)]
    assert not len(found.inputs()[1])


def test_what_a_switch_adds_up_is_delivered_by_each() -> None:
    rows = [
        (0, 1, 3, 0, "add"),
        (0, 2, 3, 0, "add"),
        (0, 3, 0, 1, "add"),
        (0, 0, 3, 2),
        (0, 3, 1, 3),
        (0, 3, 2, 3),
    ]
    found = follow(schedule(star(3, multicast=True, reduce=True), AllReduce("3kB"), *rows))
    assert ends(found) == [(1, 0), (2, 0), (0, 1), (0, 2)]
    assert found.reduce.tolist() == [True, True, False, False]
    assert found.adds_input.tolist() == [True, False, False, False]
    assert inputs_of(found)[2] == [0, 1]


def test_what_a_switch_that_cannot_multiply_has_sent_it_no_longer_has() -> None:
    """A sum that passes it a second time does not take along what it has sent before."""
    hub = star(3, reduce=True)
    rows = [(0, 0, 3, 0, "add"), (0, 3, 1, 1, "add"), (0, 1, 3, 2, "add"), (0, 3, 2, 3, "add")]
    algorithm = schedule(hub, Reduce("1kB", root=2), *rows)
    pccl.verify(algorithm)
    assert ends(follow(algorithm)) == [(0, 1), (1, 2)]
    assert [row[1:3] for row in walk(algorithm)] == [(0, 1), (1, 2)]


def test_a_sum_of_a_switch_for_many_is_made_by_one_of_them() -> None:
    hub = star(3, multicast=True, reduce=True)
    rows = [(1, npu, 3, 0, "add") for npu in range(3)] + [(1, 3, npu, 1) for npu in range(3)]
    found = follow(schedule(hub, AllReduce("3kB"), *rows))
    assert ends(found) == [(0, 1), (2, 1), (1, 2), (1, 0)]  # chunk 1: its turn
    assert inputs_of(found) == [[], [], [0, 1], [0, 1]]
    for (src, dst), route in zip(ends(found), routes_of(found), strict=True):
        assert (hub.src[route[0]], hub.dst[route[-1]]) == (src, dst)


@pytest.mark.parametrize("machine", ["switch:8", "h100", "leaf-spine:2x4x2"])
def test_sums_that_switches_make_by_default(machine: str) -> None:
    """Nobody sends to itself, which nobody could read, and no more than reduce-scatter and all-gather would."""
    algorithm = pccl.synthesize(pccl.topology.parse_topology(machine), AllReduce("8MiB", chunks=2))
    found = follow(algorithm)
    assert len(found) == 2 * 7 * 16
    assert np.all(found.src != found.dst)


def test_a_send_waits_for_all_that_was_there() -> None:
    """Also for what a copy has replaced, as in our simulator."""
    rows = [(2, 0, 1, 0, "add"), (2, 1, 2, 1, "add"), (2, 2, 1, 2), (2, 1, 0, 3)]
    found = follow(schedule(LINE, AllReduce("3kB"), *rows))
    assert inputs_of(found) == [[], [0], [1], [0, 2]]


def test_only_a_copy_is_handed_on() -> None:
    """It replaces what was added before."""
    rows = [(2, 0, 1, 0, "add"), (2, 1, 2, 1, "add"), (2, 2, 1, 2), (2, 1, 0, 3)]
    pairs = feeds(schedule(LINE, AllReduce("3kB"), *rows))
    assert sorted(zip(*(rows.tolist() for rows in pairs), strict=True)) == [(0, 1), (1, 2), (2, 3)]


def test_ways_of_different_length() -> None:
    """Over one switch, over two, and over none."""
    links = [(0, 3), (3, 4), (3, 1), (4, 2), (1, 2)]
    topology = network(3, *links, switches=[Switch("near", multicast=True), Switch("far")])
    rows = [(0, 0, 3, 0), (0, 3, 1, 1), (0, 3, 4, 1), (0, 4, 2, 2), (1, 1, 2, 0)]
    algorithm = schedule(topology, [Broadcast("1kB"), Broadcast("1kB", [1, 2])], *rows)
    assert sorted(routes_of(follow(algorithm))) == [(0, 1, 3), (0, 2), (4,)]


def test_a_sum_that_cannot_be_given_back() -> None:
    """NPU 0 has added something to what it gave the switch, which gives that back within a sum."""
    hub = network(3, (0, 3), (2, 3), (3, 0), (1, 0), (1, 2), switches=[Switch("hub", reduce=True)])
    rows = [
        (0, 0, 3, 0, "add"),
        (0, 1, 0, 0, "add"),
        (0, 1, 2, 0, "add"),
        (0, 2, 3, 1, "add"),
        (0, 3, 0, 2),
    ]
    algorithm = schedule(hub, AllReduce("3kB"), *rows)
    with pytest.raises(PcclError, match=r"chunk 0: NPU 0 gets back, within a sum made by a switch"):
        follow(algorithm)


def test_what_is_sent_too_early_is_refused() -> None:
    algorithm = pccl.synthesize(pccl.topology.line(3), Broadcast("4kB"), effort="fast")
    start = algorithm.transfers.start * 0
    broken = dataclasses.replace(
        algorithm, transfers=dataclasses.replace(algorithm.transfers, start=start)
    )
    with pytest.raises(PcclError, match=r"NPU 1 is not planned to have chunk 0 at 0ps; verify"):
        follow(broken)
