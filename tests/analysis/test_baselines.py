"""Baselines: what people have today, correct on the real links, and never better than the bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import pccl
from tests.strategies import problems


@pytest.mark.parametrize(("width", "nanoseconds"), [(3, 177_779), (4, 393_120)])
def test_direct_is_what_astra_sim_simulates(width, nanoseconds):
    mesh = pccl.topology.mesh(width, width, bandwidth="50GiB/s", latency="500ns")
    direct = pccl.baseline("direct", mesh, pccl.AllToAll(size=f"{width * width}MiB"))
    assert direct.duration == pytest.approx(nanoseconds * 1000, rel=2e-4)
    pccl.verify(direct)


def test_direct_goes_along_rows_first_and_the_short_way_round():
    mesh = pccl.topology.mesh(3, 3)
    path = pccl.baseline("direct", mesh, pccl.SendRecv(size="1MiB", group=[0, 8])).transfers
    assert path.dst.tolist() == [1, 2, 5, 8]
    torus = pccl.topology.torus(2, 5)
    path = pccl.baseline("direct", torus, pccl.SendRecv(size="1MiB", group=[0, 9])).transfers
    assert path.dst.tolist() == [4, 9]


def test_direct_takes_the_shortest_way_elsewhere():
    """On a DGX-1 by the faster links, to a neighbour of a neighbour."""
    machine = pccl.topology.dgx1()
    t = pccl.baseline("direct", machine, pccl.AllToAll(size="8MiB")).transfers
    assert np.bincount(t.chunk).max() == 2


@settings(max_examples=60, deadline=None)
@given(problems(limits=False))
def test_baselines_are_correct_and_keep_to_the_bound(problem):
    topology, collectives = problem
    bound = pccl.lower_bound(topology, *collectives)
    for entry in pccl.baselines():
        try:
            algorithm = pccl.baseline(entry.name, topology, *collectives)
        except pccl.PcclError:  # not supported, or a group that cannot do without others
            continue
        pccl.verify(algorithm)
        assert bound.value <= algorithm.duration


def test_confined_groups_use_their_own_links_only():
    mesh = pccl.topology.mesh(4, 4)
    confined = pccl.baseline("confined", mesh, pccl.AllGather(size="4MiB", group=range(4)))
    assert set(confined.transfers.dst.tolist()) <= {0, 1, 2, 3}
    assert confined.duration >= pccl.synthesize(mesh, pccl.AllGather(size="4MiB", group=range(4))).duration


def test_what_a_baseline_cannot_do():
    ring = pccl.topology.ring(4)
    with pytest.raises(pccl.PcclError, match="does not support all-reduce"):
        pccl.baseline("direct", ring, pccl.AllReduce(size="4MiB"))
    with pytest.raises(pccl.PcclError, match="there are direct, confined"):
        pccl.baseline("magic", ring, pccl.AllReduce(size="4MiB"))
    with pytest.raises(pccl.InfeasibleError, match="cannot get from NPU 0 to NPU 2"):
        pccl.baseline("confined", ring, pccl.AllGather(size="2MiB", group=[0, 2]))
    with pytest.raises(pccl.PcclError, match="ignores the limits of switches"):
        pccl.baseline("direct", pccl.topology.switch(4, buffer=1), pccl.AllToAll(size="4MiB"))
    cut_off = pccl.topology.ring(4).without(links=[(0, 1), (3, 0), (1, 0), (0, 3)])
    with pytest.raises(pccl.InfeasibleError, match="chunk 0 cannot get from NPU 0 to NPU 1"):
        pccl.baseline("direct", cut_off, pccl.AllToAll(size="4MiB"))
