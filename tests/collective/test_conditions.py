"""What every collective comes down to, as small worked examples: chunk by chunk, who has it and who must get it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import pccl
from pccl import (
    AllGather,
    AllReduce,
    AllToAll,
    AllToAllV,
    Broadcast,
    Collective,
    Condition,
    Conditions,
    Custom,
    Gather,
    Reduce,
    ReduceScatter,
    Scatter,
    SendRecv,
    Topology,
)
from pccl.collective import compile_conditions
from tests.strategies import problems

MESH = pccl.topology.mesh(3, 3)


def rows(
    collective: Collective, topology: Topology = MESH
) -> list[tuple[list[int], list[int], int]]:
    """Sources, destinations and bytes of every chunk."""
    return table(collective.conditions(topology))


def table(conditions: Conditions) -> list[tuple[list[int], list[int], int]]:
    return [
        (
            conditions.sources(i).tolist(),
            conditions.destinations(i).tolist(),
            int(conditions.bytes[i]),
        )
        for i in range(len(conditions))
    ]


# The size is the buffer of one NPU: 12 bytes among the group (5, 0, 7), whose ranks are in that order.
EXAMPLES = [
    (AllGather("12B", (5, 0, 7)), [([5], [0, 7], 4), ([0], [5, 7], 4), ([7], [5, 0], 4)]),
    (ReduceScatter("12B", (5, 0, 7)), [([5, 0, 7], [5], 4), ([5, 0, 7], [0], 4), ([5, 0, 7], [7], 4)]),
    (AllReduce("12B", (5, 0, 7)), [([5, 0, 7], [5, 0, 7], 4)] * 3),
    (
        AllToAll("12B", (5, 0, 7)),
        [([5], [0], 4), ([5], [7], 4), ([0], [5], 4), ([0], [7], 4), ([7], [5], 4), ([7], [0], 4)],
    ),
    (AllToAllV([[9, 1, 0], [2, 9, 3], ["1kB", 0, 9]], (5, 0, 7)),
     [([5], [0], 1), ([0], [5], 2), ([0], [7], 3), ([7], [5], 1000)]),
    (Broadcast("12B", (5, 0, 7)), [([5], [0, 7], 12)]),
    (Broadcast("12B", (5, 0, 7), root=7), [([7], [5, 0], 12)]),
    (Reduce("12B", (5, 0, 7)), [([5, 0, 7], [5], 12)]),
    (Reduce("12B", (5, 0, 7), root=0), [([5, 0, 7], [0], 12)]),
    (Scatter("12B", (5, 0, 7)), [([5], [0], 4), ([5], [7], 4)]),
    (Gather("12B", (5, 0, 7), root=0), [([5], [0], 4), ([7], [0], 4)]),
    (SendRecv("12B", (5, 0, 7)), [([5], [0], 12), ([0], [7], 12)]),
    (SendRecv("12B", (5, 0, 7), cyclic=True), [([5], [0], 12), ([0], [7], 12), ([7], [5], 12)]),
    (Custom([Condition(5, [0, 5, 7], "3B"), Condition([0, 7], [7, 1], "4B", reduces=True)]),
     [([5], [0, 7], 3), ([0, 7], [7, 1], 4)]),
]  # fmt: skip


@pytest.mark.parametrize(("collective", "expected"), EXAMPLES, ids=lambda x: getattr(x, "kind", ""))
def test_worked_examples(
    collective: Collective, expected: list[tuple[list[int], list[int], int]]
) -> None:
    assert rows(collective) == expected


@pytest.mark.parametrize(("collective", "expected"), EXAMPLES, ids=lambda x: getattr(x, "kind", ""))
def test_only_reductions_reduce(collective: Collective, expected: object) -> None:
    conditions = collective.conditions(MESH)
    if collective.kind == "custom":
        assert conditions.reduces.tolist() == [False, True]
    else:
        assert set(conditions.reduces.tolist()) == {"reduce" in collective.kind}


def test_chunks_cut_every_share_into_pieces() -> None:
    conditions = AllGather("12B", (5, 0), chunks=3).conditions(MESH)
    assert table(conditions) == [([5], [0], 2)] * 3 + [([0], [5], 2)] * 3
    assert conditions.piece.tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    "kind", [AllGather, ReduceScatter, AllReduce, AllToAll, Broadcast, Reduce, Scatter, Gather]
)
def test_pieces_are_numbered_share_by_share(kind: type[Collective]) -> None:
    whole, cut = (kind("1200B", (5, 0, 7, 2), chunks=chunks).conditions(MESH) for chunks in (1, 3))
    assert cut.piece.tolist() == [0, 1, 2] * len(whole)
    assert table(cut) == [(a, b, size // 3) for a, b, size in table(whole) for _ in range(3)]


def test_pieces_of_unequal_shares() -> None:
    conditions = AllToAllV([[0, 4], [2, 0]], (3, 4), chunks=2).conditions(MESH)
    assert table(conditions) == [([3], [4], 2), ([3], [4], 2), ([4], [3], 1), ([4], [3], 1)]
    assert conditions.piece.tolist() == [0, 1, 0, 1]


def test_concurrent_collectives_are_numbered_in_order() -> None:
    both = compile_conditions(
        MESH, [Broadcast("1B", (0, 1)), AllToAll("2B", (2, 3)), Reduce("1B", (4, 5))]
    )
    assert both.collective.tolist() == [0, 1, 1, 2]
    assert both.reduces.tolist() == [False, False, False, True]
    assert table(both) == [([0], [1], 1), ([2], [3], 1), ([3], [2], 1), ([4, 5], [4], 1)]


def test_without_a_group_all_npus_take_part() -> None:
    assert rows(Broadcast("1B")) == [([0], list(range(1, 9)), 1)]
    assert rows(Broadcast("1B", root=8)) == [([8], list(range(8)), 1)]


def test_switches_and_absent_npus_do_not_take_part() -> None:
    assert rows(Broadcast("1B"), pccl.topology.switch(3)) == [([0], [1, 2], 1)]
    assert rows(Broadcast("1B"), MESH.without(devices=[0, 4])) == [([1], [2, 3, 5, 6, 7, 8], 1)]


def test_a_group_of_one_has_nothing_to_send() -> None:
    assert rows(AllGather("1B", [4])) == [([4], [], 1)]
    assert rows(Broadcast("1B", [4])) == [([4], [], 1)]
    assert (
        rows(AllReduce("1B", [4]))
        == rows(ReduceScatter("1B", [4]))
        == rows(Reduce("1B", [4]))
        == [([4], [4], 1)]
    )
    assert rows(AllToAll("1B", [4])) == rows(Scatter("1B", [4])) == rows(Gather("1B", [4])) == []
    assert rows(AllToAllV([[5]], [4])) == []


def test_a_group_may_be_any_iterable() -> None:
    assert (
        AllGather("4B", range(0, 8, 2)).ranks
        == AllGather("4B", np.arange(0, 8, 2)).ranks
        == (0, 2, 4, 6)
    )
    assert AllGather("4B", (2 * i for i in range(4))).ranks == (0, 2, 4, 6)
    assert AllGather("4B").ranks == ()


def test_collectives_are_values() -> None:
    assert AllGather("1KiB", [0, 1]) == AllGather("1024B", (0, 1)) != AllGather("1KiB", (1, 0))
    assert len({AllGather("1KiB"), AllGather("1KiB"), ReduceScatter("1KiB")}) == 2


@pytest.mark.parametrize(
    ("collective", "text"),
    [
        (AllGather("8MiB", chunks=1), "all-gather of 8MiB among all NPUs, 1 chunk"),
        (AllToAll("8MiB", range(4), chunks=2), "all-to-all of 8MiB among 4 NPUs (0-3), 2 chunks"),
        (
            AllGather("8MiB", range(0, 64, 2)),
            "all-gather of 8MiB among 32 NPUs (0,2,4,6,8,10,12,14,16,18,20,22,24,26,28…)",
        ),
        (AllToAllV([[0, 3], [4, 0]]), "all-to-all-v of 4B among all NPUs"),
    ],
)
def test_text_for_people(collective: Collective, text: str) -> None:
    assert str(collective) == text


def test_distinct_sizes() -> None:
    values, of_chunk = compile_conditions(
        MESH, [Broadcast("9B"), Broadcast("1B"), Broadcast("9B")]
    ).sizes
    assert values.tolist() == [1, 9]
    assert of_chunk.tolist() == [1, 0, 1]


@given(problems())
def test_every_condition_is_well_formed(problem: tuple[Topology, list[Collective]]) -> None:
    topology, collectives = problem
    conditions = compile_conditions(topology, collectives)
    assert conditions == compile_conditions(topology, collectives)
    assert np.all(np.diff(conditions.collective) >= 0)
    for i, (sources, destinations, size) in enumerate(table(conditions)):
        assert size > 0
        assert sources
        for devices in (sources, destinations):
            assert len(set(devices)) == len(devices)
            assert set(devices) <= set(topology.npus.tolist())
        if not conditions.reduces[i]:
            assert len(sources) == 1
            assert not set(sources) & set(destinations)


@given(problems())
def test_destinations_and_sources_are_members(problem: tuple[Topology, list[Collective]]) -> None:
    topology, collectives = problem
    conditions = compile_conditions(topology, collectives)
    for i, (sources, destinations, _) in enumerate(table(conditions)):
        members = collectives[conditions.collective[i]].ranks or tuple(topology.npus.tolist())
        assert set(sources) | set(destinations) <= set(members)
