"""Where chunks lie, and what ranks are promised: against the definitions of the collectives, written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pccl
from pccl.collective import Collective
from tests import strategies

RANKS = 5


def inputs_of(collective: Collective, ranks: int) -> list[np.ndarray]:
    """Different numbers in every byte of every input."""
    rank_of = np.arange(ranks)
    topology = pccl.topology.ring(ranks)
    sizes = collective.layout(collective.conditions(topology), rank_of, ranks).input_bytes
    return [10**6 * (rank + 1) + np.arange(size) for rank, size in enumerate(sizes)]


def outputs_of(collective: Collective, inputs: list[np.ndarray]) -> list[list[int]]:
    """What is promised, from the first place of each output on; nothing may be left out in between."""
    ranks = len(inputs)
    found = []
    for places, values in collective.promise(np.arange(ranks), ranks).expected(inputs):
        order = np.argsort(places)
        assert places[order].tolist() == list(range(len(places)))
        found.append(values[order].tolist())
    return found


def shared_out(values: np.ndarray, count: int) -> list[np.ndarray]:
    """The first shares are one byte larger where that is needed."""
    return np.array_split(values, count)


DEFINITIONS = {
    "all-gather": lambda c, x, n: [np.concatenate(x)] * n,
    "all-reduce": lambda c, x, n: [np.sum(x, axis=0)] * n,
    "reduce-scatter": lambda c, x, n: shared_out(np.sum(x, axis=0), n),
    "broadcast": lambda c, x, n: [x[c.root or 0]] * n,
    "reduce": lambda c, x, n: [np.sum(x, axis=0) if i == (c.root or 0) else () for i in range(n)],
    "gather": lambda c, x, n: [np.concatenate(x) if i == (c.root or 0) else () for i in range(n)],
    "scatter": lambda c, x, n: shared_out(x[c.root or 0], n),
    "send-recv": lambda c, x, n: [x[i - 1] if i or c.cyclic else () for i in range(n)],
}


@pytest.mark.parametrize("kind", DEFINITIONS)
@given(st.data())
def test_a_promise_is_the_definition(kind: str, data: st.DataObject) -> None:
    chunks = data.draw(st.integers(1, 3))
    size = data.draw(st.integers(1, 60))
    collective = pccl.collective.COLLECTIVES[kind](pccl.units.Bytes(size), chunks=chunks)
    inputs = inputs_of(collective, RANKS)
    expected = DEFINITIONS[kind](collective, inputs, RANKS)
    assert outputs_of(collective, inputs) == [list(values) for values in expected]


@pytest.mark.parametrize(
    ("size", "ends"),
    [("6B", [[2, 4], [2, 4], [2, 4]]), ("7B", [[3, 5], [2, 4], [2, 5]]), ("1B", [[1, 1], [0, 0], [0, 1]])],
)  # fmt: skip
def test_an_all_to_all_turns_rows_into_columns(size: str, ends: list[list[int]]) -> None:
    collective = pccl.AllToAll(size, chunks=2)
    inputs = inputs_of(collective, 3)
    shares = [np.split(values, cuts) for values, cuts in zip(inputs, ends, strict=True)]
    expected = [np.concatenate([row[i] for row in shares]).tolist() for i in range(3)]
    assert outputs_of(collective, inputs) == expected


def test_an_all_to_all_of_unequal_shares() -> None:
    collective = pccl.AllToAllV([[1, 2, 0], [0, 3, 5], [4, 0, 0]], chunks=2)
    inputs = inputs_of(collective, 3)
    a, b, c = (values.tolist() for values in inputs)
    assert outputs_of(collective, inputs) == [[a[0], *c], [*a[1:], *b[:3]], b[3:]]


def test_padded_shares_begin_rooms_of_the_largest() -> None:
    collective = pccl.AllToAllV([[0, 2], [3, 1]])
    promise = collective.promise(np.arange(2), 2, padded=True)
    rows = zip(promise.rank, promise.output_offset, promise.bytes, promise.chunk, strict=True)
    assert sorted(tuple(map(int, row)) for row in rows) == [
        (0, 3, 3, 1),
        (1, 0, 2, 0),
        (1, 3, 1, 2),
    ]
    assert promise.input_offset.tolist() == [3, 0, 3]


def test_a_promise_in_a_group_in_any_order_with_relays() -> None:
    collective = pccl.ReduceScatter("4B", group=[3, 1])
    promise = collective.promise(np.arange(4), 4)
    assert promise.rank.tolist() == [3, 1]
    assert promise.input_offset.tolist() == [6, 2]
    assert [promise.contributors(chunk).tolist() for chunk in range(2)] == [[3, 1], [3, 1]]


@given(st.data())
def test_chunks_lie_inside_buffers_and_apart(data: st.DataObject) -> None:
    collective = data.draw(strategies.collectives(RANKS, any_size=data.draw(st.booleans())))
    topology = pccl.topology.ring(RANKS)
    conditions = collective.conditions(topology)
    layout = collective.layout(conditions, np.arange(RANKS), RANKS)
    promise = collective.promise(np.arange(RANKS), RANKS)
    assert np.all(promise.output_offset + promise.bytes <= layout.output_bytes[promise.rank])
    assert np.all(promise.bytes > 0)
    order = np.lexsort((promise.output_offset, promise.rank))
    end = (promise.output_offset + promise.bytes)[order]
    same_rank = np.diff(promise.rank[order]) == 0
    assert np.all(end[:-1][same_rank] <= promise.output_offset[order][1:][same_rank])
    for row, chunk in enumerate(promise.chunk.tolist()):
        for rank in promise.contributors(chunk):
            last = promise.input_offset[chunk] + promise.bytes[row]
            assert last <= layout.input_bytes[rank]


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("all-reduce", 1.5), ("all-gather", 0.75), ("reduce-scatter", 0.75), ("all-to-all", 0.75),
        ("broadcast", 1.0), ("reduce", 1.0), ("gather", 0.75), ("scatter", 0.75), ("send-recv", 1.0),
    ],
)  # fmt: skip
def test_bus_factors_are_those_of_nccl_tests(kind: str, factor: float) -> None:
    assert pccl.collective.COLLECTIVES[kind]("4kB").bus_factor(4) == factor


def test_every_collective_says_what_is_particular_to_it() -> None:
    known = pccl.collective.COLLECTIVES
    assert {kind for kind in known if known[kind].rooted} == {
        "broadcast",
        "reduce",
        "scatter",
        "gather",
    }
    assert {kind for kind in known if known[kind].collects} == {
        "all-reduce",
        "reduce-scatter",
        "reduce",
    }
    assert {kind for kind in known if known[kind].spreads} == {
        "all-gather",
        "all-reduce",
        "broadcast",
    }
    assert {kind for kind in known if known[kind].in_place_differs} == {
        "all-to-all",
        "all-to-all-v",
    }
    assert {kind for kind in known if not known[kind].has_one_size} == {"all-to-all-v", "custom"}
    assert [kind for kind in known if known[kind].nccl_name is None] == ["custom"]
