"""Every step as soon as it can be done: the same results, whatever comes first."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.runtime import OPS, Rank, scripts_of
from pccl.runtime.arrays import NumpyArrays
from pccl.runtime.checking import trial_buffers, trials, wrong_elements
from pccl.runtime.eager import needs_of
from pccl.runtime.local import LocalTransport, Wires, take_turns
from tests.strategies import problems, synthesized


class First:
    """Through when the first of several messages is."""

    def __init__(self, handles):
        self.handles = handles

    @property
    def done(self):
        return any(handle.done for handle in self.handles)


class EagerTransport(LocalTransport):
    """Ranks of one process that wait for the first of several messages."""

    def send(self, data, peer, tag):
        return self.between(super().send(data, peer, tag), peer)

    def receive(self, data, peer, tag):
        return self.between(super().receive(data, peer, tag), peer)

    def first(self, handles):
        return First(handles)

    @staticmethod
    def between(handle, peer):
        handle.peer = peer
        return handle


def run(plan, elements, **options):
    """Run a plan in one process; how many elements are wrong."""
    scripts = scripts_of(plan)
    in_place = options.pop("in_place", False)
    found = trials(scripts, elements, **options)
    buffers = trial_buffers(scripts, found, in_place=in_place)
    wires = Wires(NumpyArrays())
    turns = []
    for number, pairs in enumerate(buffers):
        rank = Rank(scripts, EagerTransport(wires, number, len(buffers)), check=False)
        own = [elements[part] for part in rank.mine]
        turns.append(rank.start(pairs, op=options.get("op", "sum"), elements=own))
    take_turns(turns)
    wrong = wrong_elements(found, buffers)
    return sum(wrong) if not isinstance(wrong, int) else wrong


@settings(max_examples=40, deadline=None)
@given(problem=problems(), data=st.data())
def test_random_plans_come_out_right(problem, data):
    plan = synthesized(problem)
    elements = [data.draw(st.integers(0, 40) | st.just(997)) for _ in problem[1]]
    op = data.draw(st.sampled_from(OPS))
    dtype = "float32" if op == "avg" else data.draw(st.sampled_from(["int32", "float16"]))
    assert run(plan, elements, op=op, dtype=dtype, in_place=data.draw(st.booleans())) == 0


@pytest.mark.parametrize("collective", [pccl.AllReduce("1MiB", chunks=2), pccl.AllToAll("1MiB")])
def test_sums_and_exchanges_on_a_mesh_come_out_right(collective):
    assert run(pccl.synthesize(pccl.topology.mesh(3, 3), collective), [1000]) == 0


def test_what_is_sent_on_needs_what_was_taken_and_nothing_else():
    """In the middle of a line, one message is taken and sent on: the second waits for the first."""
    plan = pccl.synthesize(pccl.topology.line(3), pccl.Broadcast("1kB", chunks=1))
    scripts = scripts_of(plan)
    first = int((scripts.messages.src == 0).argmax())
    second = int((scripts.messages.src == 1).argmax())
    assert dict(needs_of(scripts, 1)) == {2 * second: [2 * first + 1]}
    assert dict(needs_of(scripts, 0)) == dict(needs_of(scripts, 2)) == {}
