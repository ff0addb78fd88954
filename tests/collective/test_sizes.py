"""Any size works: shares and pieces differ by at most an element, nothing gets lost, and all that follows copes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.collective import Collective, collective_from_dict
from pccl.errors import CollectiveError
from pccl.units import Bytes
from tests import strategies

RING = pccl.topology.ring(5)


@given(strategies.collectives(5, any_size=True))
def test_chunks_differ_by_at_most_an_element_and_none_is_empty(collective: Collective) -> None:
    conditions = collective.conditions(RING)
    assert np.all(conditions.bytes > 0)
    if collective.has_one_size and len(conditions):
        listed = int(np.ptp(conditions.bytes))
        assert listed in (0, collective.element)
        assert not np.any(conditions.bytes % collective.element)
    in_share = np.bincount(conditions.share, minlength=1)
    assert np.all(in_share <= collective.pieces)


@given(st.sampled_from(["all-gather", "reduce-scatter", "all-reduce", "broadcast", "reduce"]),
       st.integers(1, 200), st.integers(1, 9), st.sampled_from(["int8", "bfloat16", "float64"]))  # fmt: skip
def test_chunks_make_up_the_buffer(kind: str, elements: int, chunks: int, dtype: str) -> None:
    make = pccl.collective.COLLECTIVES[kind]
    element = {"int8": 1, "bfloat16": 2, "float64": 8}[dtype]
    collective = make(Bytes(elements * element), chunks=chunks, dtype=dtype)
    conditions = collective.conditions(RING)
    assert conditions.bytes.sum() == elements * element
    shares = np.bincount(conditions.share, conditions.bytes)
    assert np.ptp(shares) in (0, element)
    for share in range(len(shares)):
        pieces = conditions.bytes[conditions.share == share]
        assert conditions.piece[conditions.share == share].tolist() == list(range(len(pieces)))
        assert np.ptp(pieces) in (0, element)


@given(st.integers(1, 60), st.integers(1, 3), st.integers(1, 6))
def test_in_an_all_to_all_everyone_sends_and_receives_as_much(
    size: int, chunks: int, n: int
) -> None:
    collective = pccl.AllToAll(Bytes(size), chunks=chunks)
    conditions = collective.conditions(pccl.topology.fully_connected(n))
    layout = collective.layout(conditions, np.arange(n), n)
    assert layout.input_bytes.tolist() == layout.output_bytes.tolist() == [size] * n
    between = np.zeros((n, n), np.int64)
    np.add.at(between, (conditions.source_ids, conditions.destination_ids), conditions.bytes)
    assert np.array_equal(between, between.T)


def test_as_nccl_takes_it() -> None:
    """36 do not divide a power of two."""
    mesh = pccl.topology.mesh(6, 6)
    sizes = pccl.AllReduce("64MiB").conditions(mesh).bytes
    assert sizes.tolist() == [1864136] * 4 + [1864135] * 32
    elements = pccl.AllReduce("64MiB", dtype="float32").conditions(mesh).bytes // 4
    assert elements.tolist() == [466034] * 28 + [466033] * 8


def test_unequal_shares_are_cut_as_equally_as_they_can_be() -> None:
    conditions = pccl.AllToAllV([[0, 7], [1, 0]], group=[0, 1], chunks=3).conditions(RING)
    assert conditions.bytes.tolist() == [3, 2, 2, 1]
    assert conditions.piece.tolist() == [0, 1, 2, 0]
    assert conditions.within_share.tolist() == [0, 3, 5, 0]


def test_elements() -> None:
    collective = pccl.AllGather("10B", dtype="float16")
    assert collective.element == 2
    assert collective.to_dict() == {"kind": "all-gather", "size": "10B", "dtype": "float16"}
    assert collective_from_dict(collective.to_dict()) == collective
    assert "dtype" not in pccl.AllGather("10B").to_dict()
    assert str(collective) == "all-gather of 10B float16 among all NPUs"
    assert pccl.AllGather("8B", dtype=np.dtype("float32")).dtype == "float32"  # type: ignore[arg-type]
    v = pccl.AllToAllV([[0, 4], [8, 0]], dtype="float32")
    assert collective_from_dict(v.to_dict()) == v


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pccl.AllGather("10B", dtype="float32"), "a size of 10B is not a whole number of elements of float32"),
        (lambda: pccl.AllToAllV([[0, 6], [4, 0]], dtype="int32"), "an entry of 6B is not a whole number of elements"),
        (lambda: pccl.AllGather("8B", dtype="float31"), "there is no dtype 'float31'; there are uint8, "),
    ],
)  # fmt: skip
def test_wrong_elements(make, message: str) -> None:
    with pytest.raises(CollectiveError, match=message):
        make()


def test_equal_chunks() -> None:
    collective = pccl.AllGather("1000B", chunks=3, dtype="float16")
    assert int(collective.with_equal_chunks(7).size) == 1008
    assert int(pccl.Broadcast("1000B", chunks=3).with_equal_chunks(7).size) == 1002
    uneven = pccl.AllToAllV([[0, 3], [2, 0]])
    assert uneven.with_equal_chunks(2) is uneven
    with pytest.raises(CollectiveError, match="6B is too little for 7 chunks of uint8 elements"):
        pccl.AllGather("6B").with_equal_chunks(7)
    with pytest.raises(CollectiveError, match=r"would be empty; take a larger size$"):
        pccl.AllGather("6B").with_equal_chunks(7)
    with pytest.raises(
        CollectiveError, match=r"would be empty; take fewer chunks or a larger size$"
    ):
        pccl.AllGather("12B", chunks=2).with_equal_chunks(7)


@given(strategies.collectives(5, any_size=True))
def test_padded_chunks_have_equal_room(collective: Collective) -> None:
    conditions = collective.conditions(RING)
    rank_of = np.arange(5)
    members = len(collective.ranks) or 5
    try:
        enlarged = collective.with_equal_chunks(members)
    except CollectiveError:
        return
    room = enlarged.conditions(RING).bytes
    assert len(room) == len(conditions)
    assert np.all(room >= conditions.bytes)
    promise = collective.promise(rank_of, 5, padded=True)
    promised = promise.chunk < len(conditions)
    assert np.array_equal(promise.bytes[promised], conditions.bytes[promise.chunk[promised]])
    if collective.has_one_size and len(conditions):
        assert np.ptp(room) == 0
        layout = collective.layout(conditions, rank_of, 5, padded=True)
        assert not np.any(layout.input_offset % room[0])
        assert not np.any(layout.output_offset % room[0])


@settings(deadline=None, max_examples=60)
@given(strategies.networks(), st.data())
def test_synthesis_and_its_bound(topology: pccl.Topology, data: st.DataObject) -> None:
    collective = data.draw(strategies.collectives(topology.num_npus, any_size=True))
    algorithm = pccl.synthesize(topology, collective, effort="fast", verify=True)
    assert algorithm.duration >= pccl.lower_bound(topology, collective).value


@pytest.mark.parametrize("name", [baseline.name for baseline in pccl.baselines()])
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_baselines(name: str, data: st.DataObject) -> None:
    topology = data.draw(st.sampled_from([RING, pccl.topology.mesh(2, 2), pccl.topology.switch(4)]))
    collective = data.draw(strategies.collectives(topology.num_npus, any_size=True))
    try:
        algorithm = pccl.baseline(name, topology, collective)
    except pccl.PcclError as error:
        assert f"the baseline {name!r}" in str(error) or "no path" in str(error)  # noqa: PT017
        return
    pccl.verify(algorithm)


def test_what_no_memory_holds_is_refused_before_any_of_it_is_taken():
    """Counted, not made: a row for each would take a hundred gigabytes."""
    gather = pccl.AllGather("4GiB", chunks=2**26)
    assert gather.deliveries(4) == 16 * 2**26
    with pytest.raises(
        CollectiveError, match=r"1,073,741,824 chunks to deliver, which take 100\.0 GiB"
    ):
        gather.conditions(pccl.topology.ring(4))
    # No more chunks than elements.
    assert pccl.AllGather("64B", chunks=2**26).deliveries(4) == 16 * 16


@pytest.mark.parametrize(
    ("collective", "message"),
    [
        (pccl.AllGather("1MiB", chunks=10**8), "100,000,000 chunks are more than a share of 128KiB can be cut into"),
        (pccl.AllGather("1MiB", chunks=32769, dtype="float32"), "which has 32,768 elements of float32"),
        (pccl.Broadcast("1kB", chunks=1001), "which has 1,000 elements of uint8; take fewer chunks or a larger size"),
        (pccl.AllToAllV([[0, 9], [3, 0]], group=[0, 1], chunks=10), "more than a share of 9B"),
    ],
)  # fmt: skip
def test_no_share_has_more_pieces_than_elements(collective, message: str) -> None:
    with pytest.raises(CollectiveError, match=message):
        pccl.synthesize(pccl.topology.ring(8), collective)


def test_as_many_pieces_as_elements_will_do() -> None:
    pccl.AllGather("1kB", chunks=125).check_pieces(pccl.topology.ring(8))
    pccl.AllGather("3B", chunks=1).check_pieces(pccl.topology.ring(8))
    pccl.AllToAllV([[0, 0], [0, 0]], group=[0, 1]).check_pieces(pccl.topology.ring(8))


def test_what_does_not_fit_into_memory_is_refused_before_it_is_taken(monkeypatch) -> None:
    monkeypatch.setattr("pccl.collective.base.free_memory", lambda: 2**20)
    with pytest.raises(
        CollectiveError, match=r"640,000 chunks .* take 61.0 MiB of memory, and 1.0 MiB is free"
    ):
        pccl.AllGather("1GiB", chunks=10_000).conditions(pccl.topology.ring(8))
