"""Each of several collectives: what it takes by itself is what is proven for it alone."""

from __future__ import annotations

import pccl
from pccl.topology import parse_topology

BOXES = parse_topology("h100:2")


def pairs_and_rows() -> list[pccl.Collective]:
    """More collectives that differ than one would like to wait for."""
    small = [pccl.SendRecv("64KiB", (npu, npu + 8)) for npu in range(8)]
    exchanges = [pccl.AllToAll("64KiB", (npu, npu + 1, npu + 2)) for npu in range(13)]
    return [*small, *exchanges, pccl.AllReduce("1MiB", range(8))]


def test_bounds_are_those_of_each_alone():
    plan = pccl.synthesize(BOXES, *pairs_and_rows(), effort="fast")
    rows = pccl.each_collective(plan, time_limit=1000.0)
    for row in rows:
        assert row.bound == pccl.lower_bound(BOXES, row.collective.uncut()).value
        assert not row.bound_cut_short


def test_what_is_cut_short_says_so():
    plan = pccl.synthesize(BOXES, *pairs_and_rows(), effort="fast")
    rows = pccl.each_collective(plan, time_limit=0.0)
    assert rows[-1].bound_cut_short
    assert 0 < rows[-1].bound <= pccl.lower_bound(BOXES, pccl.AllReduce("1MiB", range(8))).value
