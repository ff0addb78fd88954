"""What both interpreters are made of: clocks, memory with its races, problems as values, promises."""

from __future__ import annotations

import numpy as np
import pytest

from pccl.errors import FormatError
from pccl.formats.machine import (
    BY_NAME,
    Conflict,
    Kind,
    Line,
    Memory,
    Place,
    Problem,
    Problems,
    promise_of,
    unfit_buffers,
    wrong_outputs,
)

SIZES = [{"i": 1, "o": 2, "s": 1}, {"i": 1, "o": 2, "s": 0}]


def test_what_is_heard_counts_from_the_next_synchronization_on() -> None:
    speaker, listener = (Line(index, 2) for index in range(2))
    speaker.synchronize(3)
    listener.hear(speaker.clock)
    assert listener.clock.tolist() == [-1, -1]
    listener.synchronize(0)
    assert listener.clock.tolist() == [3, 0]
    assert speaker.clock.tolist() == [3, -1]


@pytest.mark.parametrize(("in_place", "first"), [(False, [0, 2, 4, 6]), (True, [0, 0, 3, 4])])
def test_buffers_lie_one_after_another_or_in_each_other(in_place: bool, first: list[int]) -> None:
    memory = Memory(SIZES, in_place)
    assert [memory.first[rank, buffer] for rank in range(2) for buffer in "oi"] == first


def test_accesses_that_nothing_orders_are_in_conflict() -> None:
    memory = Memory(SIZES, in_place=False)
    memory.fill(seed=1)
    writer, reader = (Line(index, 2) for index in range(2))
    cells = memory.cells(0, "o", 0, 1)
    value = np.array([7], np.uint64)
    assert memory.write(writer, 0, cells, value) == []
    assert memory.read(reader, 0, cells) == [Conflict(cells.start, 0, 0, "writes")]
    assert memory.write(writer, 1, cells, value) == [
        Conflict(cells.start, 0, 0, "writes"),
        Conflict(cells.start, 1, 0, "reads"),
    ]
    writer.synchronize(1)
    reader.hear(writer.clock)
    reader.synchronize(0)
    assert memory.read(reader, 1, cells) == []


def test_a_problem_is_found_once() -> None:
    problems = Problems()
    for _ in range(2):
        problems.add(Kind.RACE, "gpu 1: race", Place(1))
    assert list(problems) == [Problem(Kind.RACE, "gpu 1: race", Place(1))]
    assert str(next(iter(problems))) == "gpu 1: race"


@pytest.mark.parametrize("name", BY_NAME)
def test_what_a_promise_says_is_right_and_all_else_wrong(name: str) -> None:
    """Outputs that hold what is promised pass; one other number does not."""
    matrix = [[2, 0, 1], [1, 1, 1], [0, 3, 0]]
    inputs = [sum(row) for row in matrix] if name == "alltoallv" else [3] * 3
    promise = promise_of(name, 3, range(3), inputs=inputs, cyclic=True, matrix=matrix)
    outputs = promise.output_bytes.tolist()
    sizes = [{"i": i, "o": max(o, 1), "s": 0} for i, o in zip(inputs, outputs, strict=True)]
    memory = Memory(sizes, in_place=False, parts=2)
    held = memory.fill(seed=3)
    assert list(unfit_buffers(promise, sizes)) == []
    assert {rank for rank, _ in wrong_outputs(promise, held, memory)} == {*promise.rank.tolist()}
    for rank, (chunks, values) in enumerate(promise.expected(held)):
        for chunk, value in zip(chunks.tolist(), values, strict=True):
            memory.values[memory.cells(rank, "o", chunk, 1)] = value
    assert list(wrong_outputs(promise, held, memory)) == []
    rank, chunk = int(promise.rank[0]), int(promise.output_offset[0])
    memory.values[memory.cells(rank, "o", chunk, 1)] += np.uint64(1)
    assert [(rank, [chunk])] == [(r, w.tolist()) for r, w in wrong_outputs(promise, held, memory)]


def test_buffers_that_do_not_fit() -> None:
    with pytest.raises(
        FormatError, match="do not fit reducescatter: 3 chunks cannot be divided into 2"
    ):
        promise_of("reducescatter", 2, range(2), inputs=[3, 3])
    promise = promise_of("allgather", 2, range(2), inputs=[1, 1])
    sizes = [{"i": 1, "o": 2, "s": 0}, {"i": 2, "o": 1, "s": 0}]
    assert list(unfit_buffers(promise, sizes)) == [
        "rank 1 has 2 input chunks, not 1",
        "rank 1 has 1 output chunks, not 2",
    ]
    assert promise_of("allgather", 4, [1, 3], largest=8).input_bytes.tolist() == [2] * 4
