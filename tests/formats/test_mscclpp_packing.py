"""Streams share threadblocks where there are too few for one each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pccl.formats.mscclpp.packing import (
    RECEIVER,
    SENDER,
    Block,
    Full,
    Stream,
    fill,
    room_of,
    share,
    spread,
)
from pccl.formats.mscclpp.plan import MAX_CHANNELS


def streams(*costs: int, receiving: int = 3, port: bool = False) -> list[Stream]:
    return [Stream(0, 1, port, [cost, receiving]) for cost in costs]


def loads(blocks: list[Block] | None) -> list[int]:
    return sorted(block.load for block in blocks or ())


def test_a_threadblock_has_room_for_60_operations_beside_the_handshakes() -> None:
    """Each eight channels take one operation to signal and one to wait, and those of ports one more at the end."""
    assert [room_of(1, 0), room_of(8, 0), room_of(9, 0), room_of(0, 1)] == [60, 60, 58, 59]


def test_a_threadblock_is_filled_as_well_as_can_be() -> None:
    """With the longest that still fits, 28 and 26 would be together, and one of the others alone."""
    assert loads(fill(SENDER, streams(28, 26, 17, 17, 16, 16))) == [60, 60]


def test_short_streams_are_spread_evenly_because_channels_are_few() -> None:
    """Longest first, those of six operations would be together, and those of three then lack channels."""
    mixed = [*streams(*[9] * 6, receiving=6), *streams(*[9] * 26, receiving=3)]
    assert loads(fill(RECEIVER, mixed)) == [9, 48, 57]
    assert loads(spread(RECEIVER, mixed, 2)) == [57, 57]


def test_each_side_gets_what_it_needs() -> None:
    """In proportion to the work, one threadblock would be left for receiving, which lacks channels there."""
    found = share(0, streams(*[20] * 6), streams(*[9] * 48, receiving=1), 5)
    assert not isinstance(found, Full)
    assert [block.role for block in found] == [SENDER] * 2 + [RECEIVER] * 3


def test_who_has_too_few_threadblocks_is_told_how_many_it_needs() -> None:
    found = share(0, streams(*[31] * 4), streams(*[9] * 4), 4)
    assert isinstance(found, Full)
    assert found.needed == 5
    assert "rank 0 sends" in found.reason


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 12), st.booleans()), max_size=60),
    st.sampled_from([SENDER, RECEIVER]),
)
def test_nothing_is_lost_and_nothing_overflows(
    rows: list[tuple[int, int, bool]], role: int
) -> None:
    every = [Stream(99, peer, port, [cost - port] * 2) for cost, peer, port in rows if cost > port]
    blocks = fill(role, every)
    packed = [stream for block in blocks for stream in block.streams]
    assert {*map(id, packed)} == {*map(id, every)}
    assert len(packed) == len(every)
    for block in blocks:
        ports = sum(stream.port for stream in block.streams)
        assert block.load <= room_of(len(block.streams) - ports, ports)
        assert len(block.streams) <= MAX_CHANNELS
        assert role == RECEIVER or len({stream.dst for stream in block.streams}) <= 8
