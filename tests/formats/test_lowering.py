"""Lowering: what the ranks do is what the algorithm promises, in every order that the dependencies allow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.formats.lowering import INPUT, OUTPUT, SCRATCH, lower
from pccl.topology import Link, Switch, Topology
from tests import strategies
from tests.formats.programs import expected, quick, run


def layout_of(algorithm, program, padded):
    rank_of = np.full(algorithm.topology.num_devices, -1, np.int64)
    rank_of[program.npus] = np.arange(len(program.npus))
    conditions = program.collective.conditions(algorithm.topology)
    return program.collective.layout(conditions, rank_of, len(program.npus), padded)


def check(algorithm, seed=0, **options):
    program = lower(algorithm, **options)
    layout = layout_of(algorithm, program, options.get("padded") or program.padding > 0)
    for in_place in {None: (False, True)}.get(
        options.get("in_place", False), (options.get("in_place", False),)
    ):
        inputs, outputs = run(program, in_place, seed, layout.shift)
        for rank, offset, value in expected(algorithm, program, layout, inputs):
            assert outputs[rank][offset] == value, (rank, offset)
    return program


@st.composite
def tiny_problems(draw):
    """A network and one collective of few bytes."""
    topology = draw(strategies.networks())
    collective = draw(strategies.collectives(topology.num_npus).filter(lambda c: int(c.size) <= 64))
    return topology, collective


@settings(deadline=None, max_examples=60)
@given(tiny_problems(), st.integers(0, 9))
def test_any_collective_anywhere(problem, seed):
    algorithm = quick(*problem)
    check(algorithm, seed, all_ranks=True)


@settings(deadline=None, max_examples=60)
@given(tiny_problems(), st.integers(0, 9))
def test_any_size_as_it_is_or_padded(problem, seed):
    """Chunks differ by a byte and some are empty; padded they are equal, or too many are asked for."""
    topology, collective = problem
    if collective.has_one_size:
        collective = replace(collective, size=pccl.units.Bytes(int(collective.size) % 23 + 1))
        collective = strategies.cut_as_it_can_be(collective, topology)
    algorithm = quick(topology, collective)
    exact = check(algorithm, seed, all_ranks=True, padded=False)
    assert exact.padding == 0
    try:
        padded = check(algorithm, seed, all_ranks=True)
    except pccl.PcclError as error:
        assert "some of which would be empty" in str(error)  # noqa: PT017
        return
    if collective.has_one_size:
        assert len({*padded.messages.bytes.tolist()}) <= 1
        assert 0 <= padded.padding < collective.pieces * topology.num_npus


@settings(deadline=None, max_examples=30)
@given(strategies.networks(), st.sampled_from([pccl.AllGather, pccl.ReduceScatter, pccl.AllReduce, pccl.AllToAll]),
       st.integers(1, 3), st.integers(0, 9), st.sampled_from([None, False]))  # fmt: skip
def test_in_place_and_both(topology, kind, chunks, seed, padded):
    size = pccl.units.Bytes(topology.num_npus * chunks + seed)
    algorithm = quick(topology, kind(size, chunks=chunks))
    check(algorithm, seed, in_place=True, padded=padded)
    if kind is not pccl.AllToAll:
        check(algorithm, seed, in_place=None, padded=padded)


@settings(deadline=None, max_examples=30)
@given(strategies.networks(), st.data())
def test_unequal_shares_in_place_if_pairs_exchange_equally_much(topology, data):
    n = topology.num_npus
    shares = st.integers(0, 5)
    matrix = np.array([[data.draw(shares) for _ in range(n)] for _ in range(n)])
    symmetric = pccl.AllToAllV((matrix + matrix.T).tolist(), chunks=2)
    symmetric = strategies.cut_as_it_can_be(symmetric, topology)
    check(quick(topology, symmetric), in_place=True, padded=data.draw(st.booleans()))
    if not np.array_equal(matrix, matrix.T):
        algorithm = quick(topology, pccl.AllToAllV(matrix.tolist(), chunks=1))
        with pytest.raises(pccl.PcclError, match="no form in place"):
            lower(algorithm, in_place=True)


def test_a_switch_that_sends_to_many_is_a_message_to_each():
    program = check(
        quick(pccl.topology.switch(4, multicast=True), pccl.Broadcast("4B", root=1, chunks=1))
    )
    m = program.messages
    assert sorted(zip(m.src.tolist(), m.dst.tolist(), strict=True)) == [(1, 0), (1, 2), (1, 3)]
    assert set(m.read_buffer.tolist()) == {INPUT}
    assert set(m.write_buffer.tolist()) == {OUTPUT}


def test_a_switch_that_adds_is_a_message_from_each():
    algorithm = quick(pccl.topology.switch(4, reduce=True), pccl.Reduce("4B", root=1, chunks=1))
    m = check(algorithm).messages
    assert sorted(zip(m.src.tolist(), m.dst.tolist(), strict=True)) == [(0, 1), (2, 1), (3, 1)]
    assert m.reduce.all()
    assert sorted(m.add_buffer.tolist()) == [
        INPUT,
        OUTPUT,
        OUTPUT,
    ]  # first to the input, then to what is there


@pytest.mark.parametrize("multicast", [False, True])
@pytest.mark.parametrize("reduce", [False, True])
@pytest.mark.parametrize("scheme", ["ring", "nccl-ring", "double-tree"])
@pytest.mark.parametrize("kind", [pccl.AllReduce, pccl.Reduce])
def test_sums_that_pass_a_switch_again_and_again(multicast, reduce, scheme, kind):
    """Whatever the switch can do, the sums that schemes send through it come out right."""
    topology = pccl.topology.switch(3, multicast=multicast, reduce=reduce)
    check(pccl.baseline(scheme, topology, kind("48B", chunks=1)))


def test_a_sum_that_a_switch_gives_back_to_its_contributors():
    """All send to the switch, which adds and sends the sum to all: one of them adds instead, and sends to the rest."""
    topology = pccl.topology.switch(
        3, latency="0ns", bandwidth="1GB/s", multicast=True, reduce=True
    )
    up = [int(np.flatnonzero((topology.src == i) & (topology.dst == 3))[0]) for i in range(3)]
    down = [int(np.flatnonzero((topology.src == 3) & (topology.dst == i))[0]) for i in range(3)]
    pattern = pccl.Custom([pccl.Condition([0, 1, 2], [0, 1, 2], "1kB", reduces=True)])
    algorithm = pccl.Algorithm.build(
        topology, [pattern], [0] * 6, up + down, [0] * 3 + [10**6] * 3, [True] * 3 + [False] * 3
    )
    pccl.verify(algorithm)
    m = lower(algorithm).messages
    rows = zip(m.src.tolist(), m.dst.tolist(), m.reduce.tolist(), strict=True)
    assert sorted(rows) == [(0, 1, False), (0, 2, False), (1, 0, True), (2, 0, True)]
    with pytest.raises(pccl.PcclError, match="no form in place"):
        lower(algorithm, in_place=True)


@pytest.mark.parametrize("machine", ["switch:8", "leaf-spine:2x4x2", "h100"])
def test_sums_made_by_switches_are_shared_out(machine):
    """Ranks send no more than reduce-scatter and all-gather would, and all the same."""
    algorithm = pccl.synthesize(
        pccl.topology.parse_topology(machine), pccl.AllReduce("64B", chunks=1), effort="fast"
    )
    assert np.isin(
        algorithm.transfers.dst[algorithm.transfers.reduce], algorithm.topology.switches
    ).any()
    m = check(algorithm).messages
    assert np.bincount(m.src, m.bytes).tolist() == [2 * 7 * 8] * 8


def test_relays_have_slots_in_scratch():
    line = Topology.from_links(3, [Link(0, 1, "1GB/s", "0ns"), Link(1, 2, "1GB/s", "0ns")])
    program = check(quick(line, pccl.Custom([pccl.Condition(0, 2, "2B"), pccl.Condition(0, 2, "3B")])),
                    all_ranks=True)  # fmt: skip
    m = program.messages
    assert program.scratch_bytes.tolist() == [0, 5, 0]
    assert m.write_buffer[m.dst == 1].tolist() == [SCRATCH, SCRATCH]
    assert sorted(m.write_offset[m.dst == 1].tolist()) == [0, 2]


def test_relays_outside_the_group_are_named():
    algorithm = quick(pccl.topology.mesh(4, 4), pccl.AllGather("5B", group=[0, 3, 5, 10, 15]))
    with pytest.raises(
        pccl.PcclError,
        match=r"relays through NPU 1, NPU 2.* outside the group of 5 NPUs.*all_ranks",
    ):
        lower(algorithm)
    assert lower(algorithm, all_ranks=True).members.tolist() == [0, 3, 5, 10, 15]


def test_a_group_inside_is_numbered_by_its_order():
    algorithm = quick(pccl.topology.ring(6), pccl.AllGather("3B", group=[4, 2, 3]))
    program = check(algorithm)
    assert program.npus.tolist() == [4, 2, 3]
    assert set(program.messages.src.tolist()) <= {0, 1, 2}


def test_one_of_several_collectives():
    ring = pccl.topology.ring(4)
    algorithm = quick(ring, pccl.AllGather("4B"), pccl.AllReduce("8B"))
    for which in (0, 1):
        assert check(algorithm, collective=which).collective is algorithm.collectives[which]
    with pytest.raises(pccl.PcclError, match="runs 2 at once; say which"):
        lower(algorithm)
    with pytest.raises(pccl.PcclError, match="no collective 2"):
        lower(algorithm, collective=2)


def test_an_all_to_all_has_no_program_for_both_places():
    with pytest.raises(pccl.PcclError, match="both in place and out of place"):
        lower(quick(pccl.topology.ring(4), pccl.AllToAll("4B")), in_place=None)


def test_routes_are_numbered():
    links = [Link(0, 1, "1GB/s", "0ns"), Link(0, 1, "1GB/s", "0ns"), Link(1, 0, "1GB/s", "0ns"),
             Link(0, 2, "1GB/s", "0ns"), Link(2, 1, "1GB/s", "0ns"), Link(1, 2, "1GB/s", "0ns"),
             Link(2, 0, "1GB/s", "0ns")]  # fmt: skip
    topology = Topology.from_links(2, links, [Switch()])
    algorithm = pccl.Algorithm.build(
        topology, [pccl.AllGather("6B", chunks=3)], [0, 1, 2, 2, 3, 4, 5], [0, 1, 3, 4, 2, 2, 2],
        [0, 0, 0, 1000, 0, 1000, 2000],
    )  # fmt: skip
    pccl.verify(algorithm)
    m = check(algorithm).messages
    assert m.route[m.src == 0].tolist() == [0, 1, 2]
    assert m.route[m.src == 1].tolist() == [0, 0, 0]


def test_alone_a_rank_copies():
    for kind in (pccl.AllGather, pccl.AllReduce, pccl.ReduceScatter, pccl.AllToAll):
        program = check(quick(pccl.topology.ring(3), kind("2B", group=[1], chunks=1)))
        assert len(program.messages) == 0
        assert len(program.copies) == 1


@pytest.mark.parametrize("name", ["msccl", "mscclpp"])
def test_exports_say_what_they_pad(name, tmp_path):
    ring = pccl.topology.ring(5)
    for collective in (
        pccl.AllReduce("1001B"),
        pccl.AllToAll("1001B", chunks=2),
        pccl.AllGather("1001B"),
    ):
        algorithm = quick(ring, collective)
        facts = pccl.export(algorithm, tmp_path / "out", format=name)
        enlarged = algorithm.collectives[0].with_equal_chunks(5).size
        assert facts["padded"] == f"from 1.001kB to {enlarged}, so that all chunks are equal"
    assert "padded" not in pccl.export(
        quick(ring, pccl.AllGather("1kB")), tmp_path / "out", format=name
    )
