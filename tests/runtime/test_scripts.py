"""Scripts of the ranks: what is sent, in which order, on which part of the buffers, for any number of elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.runtime import OPS, Action, Buffers, Rank, run_locally, script_of, scripts_of
from pccl.runtime.arrays import NumpyArrays
from pccl.runtime.checking import trial_buffers, trials, wrong_elements
from pccl.runtime.local import LocalTransport, Wires
from tests.strategies import problems, synthesized


def run(plan, elements, *, op="sum", dtype="int32", in_place=False, **options):
    """Run a plan in one process; how many elements are wrong."""
    scripts = scripts_of(plan, **options)
    found = trials(scripts, elements, op=op, dtype=dtype)
    buffers = trial_buffers(scripts, found, in_place=in_place)
    run_locally(scripts, buffers, op=op, elements=elements)
    return sum(wrong_elements(found, buffers))


@settings(max_examples=60, deadline=None)
@given(problem=problems(), data=st.data())
def test_random_plans_do_what_their_collectives_promise(problem, data):
    plan = synthesized(problem)
    elements = [data.draw(st.integers(0, 40) | st.just(997)) for _ in problem[1]]
    op = data.draw(st.sampled_from(OPS))
    dtype = data.draw(
        st.sampled_from(["float32"] if op == "avg" else ["int32", "float16", "uint8"])
    )
    in_place, join, only_busy = (data.draw(st.booleans()) for _ in range(3))
    assert (
        run(plan, elements, op=op, dtype=dtype, in_place=in_place, join=join, only_busy=only_busy)
        == 0
    )


def test_a_row_whose_neighbours_relay_for_it_has_its_buffers_for_its_members_alone():
    """Members have shares in the order of the group; those who only relay have nothing but scratch."""
    mesh = pccl.topology.mesh(3, 3)
    plan = pccl.synthesize(mesh, pccl.AllToAll("3MiB", group=[5, 3, 4], chunks=4), effort="fast")
    scripts = scripts_of(plan)
    assert len(scripts.parts[0].helpers)
    assert scripts.parts[0].members.tolist() == [5, 3, 4]
    helper = int(scripts.parts[0].helpers[0])
    room = script_of(scripts, helper, [12]).rooms[0]
    assert (room.input, room.output) == (0, 0)
    assert room.scratch > 0
    assert run(plan, [1000]) == 0


def test_shares_differ_by_one_element_and_some_messages_are_empty():
    plan = pccl.synthesize(pccl.topology.ring(4), pccl.AllReduce("4MiB", chunks=2))
    scripts = scripts_of(plan)
    lengths = [step.length for step in script_of(scripts, 0, [3]).steps]
    assert set(lengths) == {1}
    assert run(plan, [3]) == 0
    assert run(plan, [0]) == 0


def test_messages_side_by_side_travel_as_one_where_nobody_needs_the_first_earlier():
    """Both halves of a share go straight to their destination, one after the other: one message does for them."""
    plan = pccl.synthesize(pccl.topology.fully_connected(4), pccl.AllToAll("4MiB", chunks=8))
    joined, single = scripts_of(plan), scripts_of(plan, join=False)
    assert len(single.messages) == len(plan.transfers)
    assert len(joined.messages) < len(single.messages)
    assert (
        np.bincount(single.messages.chunks).tolist() == np.bincount(joined.messages.chunks).tolist()
    )


def test_what_is_passed_on_is_not_held_back_by_joining():
    """On a line the middle passes each chunk on while the next comes in, so that chunks stay apart."""
    plan = pccl.synthesize(pccl.topology.mesh(3), pccl.SendRecv("8MiB", group=[0, 2], chunks=8))
    assert len(scripts_of(plan).messages) == len(plan.transfers)


def test_unequal_shares_on_a_plan_for_equal_ones():
    """What every member sends to every other is said when it runs; the plan was made for equal shares."""
    plan = pccl.synthesize(pccl.topology.mesh(2, 2), pccl.AllToAll("4MiB", chunks=2))
    matrix = np.array([[1, 0, 5, 2], [3, 3, 0, 0], [0, 9, 0, 1], [2, 2, 2, 2]])
    assert run(plan, [matrix]) == 0


def test_shares_that_the_plan_has_no_chunks_for_are_refused():
    plan = pccl.synthesize(pccl.topology.ring(3), pccl.AllToAllV([[0, 8, 0], [8, 0, 8], [8, 8, 0]]))
    assert run(plan, [np.array([[7, 3, 0], [1, 9, 1], [2, 2, 2]])]) == 0
    with pytest.raises(pccl.CollectiveError, match="some have nothing to send"):
        run(plan, [np.ones((3, 3), np.int64)])


def test_every_row_waits_only_for_what_stands_above_it():
    """A message is expected, then sent, then taken; what it overwrites has been sent before."""
    plan = pccl.synthesize(pccl.topology.ring(5), pccl.AllReduce("5MiB", chunks=3))
    scripts = scripts_of(plan)
    place = {
        (action, item): row
        for row, (action, item) in enumerate(
            zip(scripts.action.tolist(), scripts.item.tolist(), strict=True)
        )
    }
    for item in range(len(scripts.messages)):
        rows = [place[action, item] for action in (Action.POST, Action.SEND, Action.TAKE)]
        assert rows == sorted(rows)
    owner = np.repeat(np.arange(len(scripts.rank)), np.diff(scripts.wait_offsets))
    for row, sent in zip(owner.tolist(), scripts.waits.tolist(), strict=True):
        assert place[Action.SEND, sent] < row


def test_plans_have_a_digest_that_tells_them_apart():
    plans = [
        pccl.synthesize(pccl.topology.ring(4), pccl.AllGather("4MiB", chunks=chunks))
        for chunks in (1, 2)
    ]
    one, other = map(scripts_of, plans)
    assert one.digest != other.digest
    assert one.digest == scripts_of(plans[0]).digest


@pytest.fixture
def rank():
    plan = pccl.synthesize(pccl.topology.ring(2), pccl.AllGather("2MiB"))
    return Rank(scripts_of(plan), LocalTransport(Wires(NumpyArrays()), 0, 2))


def test_buffers_that_do_not_fit_are_named(rank):
    with pytest.raises(pccl.RunError, match="the input of rank 0 has 3 elements; it must have 2"):
        rank.run([Buffers(np.zeros(3), np.zeros(4))])
    with pytest.raises(pccl.RunError, match="without its input of 2 elements"):
        rank.run([Buffers(None, np.zeros(4))])
    with pytest.raises(pccl.RunError, match="differ in type: float32 and float64"):
        rank.run([Buffers(np.zeros(2, np.float32), np.zeros(4))])
    with pytest.raises(pccl.RunError, match="no operation 'xor'"):
        rank.run([Buffers(np.zeros(2), np.zeros(4))], op="xor")
    with pytest.raises(pccl.RunError, match="a member of 1 collective of"):
        rank.run([])


def test_the_number_of_ranks_must_be_that_of_the_plan(rank):
    with pytest.raises(pccl.RunError, match="for 2 ranks, but there are 3"):
        Rank(rank.scripts, LocalTransport(Wires(NumpyArrays()), 0, 3))


def test_an_input_inside_the_output_at_another_place_is_copied_first():
    plan = pccl.synthesize(pccl.topology.ring(2), pccl.AllGather("2MiB"))
    whole = [np.arange(6), np.arange(10, 16)]
    # Inputs are the last four elements, where outputs of four elements at the beginning overlap with them.
    run_locally(plan, [[(array[2:4], array[:4])] for array in whole])
    assert [array[:4].tolist() for array in whole] == [[2, 3, 12, 13]] * 2
