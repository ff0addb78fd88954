"""Messages that share a signal where room is short: neighbours, as few as possible, and those first that lose least."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.formats.lowering import Program, lower, lowered_time
from pccl.formats.mscclpp import joining
from pccl.formats.mscclpp.batches import Batches, single
from pccl.formats.mscclpp.joining import MOST_TOGETHER, Joining
from pccl.formats.mscclpp.schedule import _costs, _load
from pccl.topology import parse_topology
from tests import strategies


def prepared(algorithm: pccl.Algorithm) -> tuple[Program, Batches, np.ndarray]:
    """What is lowered, its single messages, and the operations of every rank."""
    program = lower(algorithm, collective=0, in_place=False, all_ranks=True)
    batches = single(program, len(program.npus))
    return program, batches, _load(program, batches, _costs(batches))


def planned(topology: str, collective: pccl.Collective) -> pccl.Algorithm:
    return pccl.synthesize(parse_topology(topology), collective, effort="fast")


def test_nothing_is_joined_where_there_is_room() -> None:
    _, singles, load = prepared(planned("ring:4", pccl.AllReduce("4MiB", chunks=4)))
    assert Joining(singles, load).within(load).messages == [
        [i] for i in np.argsort(singles.position[: len(singles)])
    ]


def test_a_row_of_messages_becomes_batches() -> None:
    """All that NPU 0 sends to its only neighbour, in the order in which it is sent."""
    _, singles, load = prepared(planned("line:2", pccl.Broadcast("1MiB", chunks=40)))
    batches = Joining(singles, load).within(np.zeros(2, np.int64))
    assert len(batches) == 3
    assert max(map(len, batches.messages)) == MOST_TOGETHER
    assert [*chain.from_iterable(batches.messages)] == np.argsort(
        singles.time[:40], kind="stable"
    ).tolist()


@pytest.mark.parametrize("kind", [pccl.AllReduce, pccl.AllGather])
def test_those_that_lose_least_come_first(kind: type[pccl.Collective]) -> None:
    """A tenth of the operations can be saved with next to no loss of time."""
    algorithm = planned("mesh:3x3", kind("9MiB", chunks=8))
    program, singles, load = prepared(algorithm)
    batches = Joining(singles, load).within(load * 9 // 10)
    assert len(batches) < len(singles)
    assert np.all(_load(program, batches, _costs(batches)) <= load * 9 // 10)
    assert lowered_time(algorithm, batch=batches.batch_of) <= 1.01 * algorithm.duration


def test_only_ranks_without_room_join() -> None:
    algorithm = planned("mesh:3x3", pccl.AllGather("9MiB", chunks=8))
    _, singles, load = prepared(algorithm)
    room = load.copy()
    room[4] = 0  # the one in the middle
    batches = Joining(singles, load).within(room)
    together = [len(batch) > 1 for batch in batches.messages]
    in_the_middle = (batches.src == 4) | (batches.dst == 4)
    assert np.any(together)
    assert not np.any(together & ~in_the_middle)


def test_what_is_delayed_in_two_ways_is_delayed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What leaves later and, for the same reason, is received later does not take both times longer."""
    algorithm = planned("mesh:3x3", pccl.AllReduce("9MiB", chunks=16))
    _, singles, load = prepared(algorithm)
    ends = []

    def watched(waits, runs, *rest) -> None:
        join(waits, runs, *rest)
        ends.append(runs.land.max())

    join = joining.join
    monkeypatch.setattr(joining, "join", watched)
    Joining(singles, load).within(load * 2 // 5)
    # One after another they would take no longer than this.
    travel = np.sum(singles.time[len(singles) : 2 * len(singles)] - singles.time[: len(singles)])
    assert algorithm.duration <= ends[0] <= travel


@settings(max_examples=25, deadline=None)
@given(problem=strategies.problems(), share=st.floats(0, 1))
def test_batches_of_anything(problem, share: float) -> None:
    """Every message is in one batch with neighbours between the same ranks, and nothing waits in a circle."""
    algorithm = strategies.synthesized(problem, effort="fast")
    program, singles, load = prepared(algorithm)
    # This raises if something waits in a circle.
    batches = Joining(singles, load).within((share * load).astype(np.int64))
    assert sorted(chain.from_iterable(batches.messages)) == [*range(len(singles))]
    sent = {}
    for i in np.argsort(singles.position[: len(singles)]).tolist():
        sent.setdefault((singles.src[i], singles.dst[i]), []).append(i)
    for batch in batches.messages:
        row = sent[singles.src[batch[0]], singles.dst[batch[0]]]
        first = row.index(batch[0])
        assert batch == row[first : first + len(batch)]
        assert len(batch) <= MOST_TOGETHER
    assert np.all(_load(program, batches, _costs(batches)) <= load)
