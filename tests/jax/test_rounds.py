"""Messages in rounds, and the tables that devices look up; run on NumPy, device by device."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import pccl
from pccl.errors import RunError
from pccl.jax.rounds import color_ways
from pccl.jax.tables import (
    ADD,
    COPY_COUNT,
    COPY_READ,
    COPY_WRITE,
    COUNT,
    READ,
    REDUCE,
    WRITE,
    schedule,
    slots_of,
    tables_of,
)
from pccl.runtime import scripts_of
from pccl.runtime.checking import trials
from tests.strategies import problems, synthesized


def play(scripts, lengths):
    """Run the tables as devices would, all in one process; how many elements are wrong."""
    rounds = schedule(scripts)
    ranks = range(scripts.ranks)
    tables = tables_of(scripts, rounds, lengths)
    found = trials(scripts, tables.elements, dtype="int32")
    inputs = [[] for _ in ranks]
    for trial in found:
        for member, rank in enumerate(trial.members):
            inputs[rank].append(trial.input(member))
    buffers = np.full((scripts.ranks, tables.size + max(tables.message, tables.copy)), 77, np.int32)
    for rank in ranks:
        for (begin, _), array in zip(tables.inputs, inputs[rank], strict=False):
            buffers[rank, begin : begin + len(array)] = array
    for copies in tables.copies:
        for rank, row in enumerate(copies):
            source = slice(row[COPY_READ], row[COPY_READ] + row[COPY_COUNT])
            target = slice(row[COPY_WRITE], row[COPY_WRITE] + row[COPY_COUNT])
            buffers[rank, target] = buffers[rank, source]
    for table in tables.exchanges:
        before = buffers.copy()
        for pairs, rows in zip(rounds.permutations, table, strict=True):
            for src, dst in pairs:
                row = rows[dst]
                length = row[COUNT]
                message = before[src, rows[src][READ] :][:length]
                if row[REDUCE]:
                    message = message + buffers[dst, row[ADD] :][:length]
                buffers[dst, row[WRITE] : row[WRITE] + length] = message
    wrong = 0
    used = [0] * scripts.ranks
    for trial in found:
        for member, rank in enumerate(trial.members):
            begin = tables.outputs[used[rank]][0]
            used[rank] += 1
            output = buffers[rank, begin : begin + trial.output_size(member)]
            wrong += trial.wrong(member, output)
    return wrong


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=60))
def test_ways_of_one_color_are_a_partial_permutation_and_no_color_is_wasted(ways):
    src = [a for a, _ in ways]
    dst = [b for _, b in ways]
    colors = color_ways(src, dst)
    assert len(set(zip(src, colors, strict=True))) == len(ways)
    assert len(set(zip(dst, colors, strict=True))) == len(ways)
    most = max([*Counter(src).values(), *Counter(dst).values()], default=0)
    assert len(set(colors)) <= most


@settings(max_examples=40, deadline=None)
@given(problem=problems(), data=st.data())
def test_random_plans_come_out_right_round_by_round(problem, data):
    plan = synthesized(problem)
    scripts = scripts_of(plan, join=False)
    slots = max(len(mine) for mine in slots_of(scripts))
    # What is first for one rank may be second for another, which then must be as long.
    length = data.draw(st.integers(1, 40))
    try:
        wrong = play(scripts, [length] * slots)
    except RunError as error:
        # Not every length divides into the shares of every plan; nothing else may fail.
        if "do not divide" not in str(error):
            raise
        reject()
    assert wrong == 0


@pytest.mark.parametrize(
    ("collective", "steps"),
    [
        (pccl.AllToAll("16kB", chunks=1), 16),
        (pccl.AllGather("16kB", chunks=1), 8),
    ],
)
def test_a_round_is_a_step_of_the_plan_where_all_links_are_equal(collective, steps):
    """A mesh takes four permutations, as a device has four neighbours at most."""
    mesh = pccl.topology.mesh(4, 4, bandwidth="1GB/s", latency="0ns")
    plan = pccl.synthesize(mesh, collective)
    rounds = schedule(scripts_of(plan, join=False))
    assert rounds.count == steps == plan.duration // 1_000_000
    assert len(rounds.permutations) == 4
