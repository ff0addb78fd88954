"""The worked examples of the paper."""

from __future__ import annotations

import numpy as np
import pytest

import pccl


def test_figure_process_groups_on_a_3x3_mesh():
    """All-to-Allv among NPUs 0-2, NPU 0 sending twice as much, beside an All-Gather among 6-8: the middle row helps."""
    mesh = pccl.topology.mesh(3, 3, bandwidth="50GiB/s", latency="500ns")
    mib = 2**20
    uneven = pccl.AllToAllV(
        [[0, 2 * mib, 2 * mib], [mib, 0, mib], [mib, mib, 0]], group=[0, 1, 2], chunks=2
    )
    gather = pccl.AllGather(size="6MiB", group=[6, 7, 8], chunks=2)
    algorithm = pccl.synthesize(mesh, uneven, gather)
    pccl.verify(algorithm)
    used = set(algorithm.transfers.src.tolist()) | set(algorithm.transfers.dst.tolist())
    assert used & {3, 4, 5}
    confined = [pccl.synthesize(mesh.restrict(c.group), c).duration for c in (uneven, gather)]
    assert algorithm.duration < max(confined)


def test_figure_two_process_groups_reducing_and_gathering():
    """NPUs {0, 1, 2} run a Reduce-Scatter while {3, 4, 5} run an All-Gather."""
    ring = pccl.topology.ring(6)
    algorithm = pccl.synthesize(
        ring,
        pccl.ReduceScatter(size="3MiB", group=[0, 1, 2]),
        pccl.AllGather(size="3MiB", group=[3, 4, 5]),
    )
    pccl.verify(algorithm)
    of_collective = algorithm.conditions.collective[algorithm.transfers.chunk]
    assert set(of_collective[algorithm.transfers.reduce].tolist()) == {0}
    assert set(of_collective[~algorithm.transfers.reduce].tolist()) == {1}


def test_figure_condition_bfs_search():
    """Chunk 2 goes to NPUs 1 and 3 of a five-NPU network; NPU 5, in no group, relays it, and NPU 4 gets nothing."""
    # The figure numbers NPUs from 1, and so do we here: NPU 0 has no links.
    wires = [(2, 4), (2, 3), (3, 5), (5, 1), (1, 2), (4, 3)]
    links = [pccl.Link(a, b, "1GB/s", "0ns") for a, b in wires]
    topology = pccl.Topology.from_links(6, links)
    algorithm = pccl.synthesize(topology, pccl.Custom([pccl.Condition(2, [1, 2, 3], "1kB")]))
    path = list(
        zip(algorithm.transfers.src.tolist(), algorithm.transfers.dst.tolist(), strict=True)
    )
    assert path == [(2, 3), (3, 5), (5, 1)]


def test_figure_topology_aware_all_gather_on_a_unidirectional_ring():
    """The Ring algorithm is optimal on a ring: n - 1 steps, every link busy all the time."""
    ring = pccl.topology.ring(4, unidirectional=True, bandwidth="1GB/s", latency="0ns")
    algorithm = pccl.synthesize(ring, pccl.AllGather(size="4kB", chunks=1))
    assert algorithm.duration == 3_000_000
    assert np.bincount(algorithm.transfers.link).tolist() == [3, 3, 3, 3]


def test_figure_reduce_is_a_broadcast_reversed():
    ring = pccl.topology.line(4, bandwidth="1GB/s", latency="100ns")
    broadcast = pccl.synthesize(ring, pccl.Broadcast(size="1kB", root=1, chunks=1))
    reduce = pccl.synthesize(ring, pccl.Reduce(size="1kB", root=1, chunks=1))
    pairs = sorted(
        zip(broadcast.transfers.src.tolist(), broadcast.transfers.dst.tolist(), strict=True)
    )
    reversed_pairs = sorted(
        zip(reduce.transfers.dst.tolist(), reduce.transfers.src.tolist(), strict=True)
    )
    assert pairs == reversed_pairs
    assert broadcast.duration == reduce.duration
    assert reduce.transfers.reduce.all()


def test_alpha_beta_model():
    """A chunk of 1 MiB takes latency plus size over bandwidth, on each of two different links."""
    links = [pccl.Link(0, 1, "50GiB/s", "500ns"), pccl.Link(1, 2, "100GiB/s", "1us")]
    algorithm = pccl.synthesize(
        pccl.Topology.from_links(3, links), pccl.SendRecv("1MiB", [0, 2], chunks=1)
    )
    assert algorithm.transfers.arrival.tolist() == [
        500_000 + 19_531_250,
        20_031_250 + 1_000_000 + 9_765_625,
    ]


@pytest.mark.parametrize("collective", [pccl.AllToAll, pccl.AllGather, pccl.AllReduce])
def test_two_dimensional_switch_fast_inside_and_slow_between(collective):
    """8 NPUs a node, 4 nodes."""
    network = pccl.topology.switch_2d(
        8, 4, bandwidth=("400GB/s", "50GB/s"), latency=("500ns", "1us")
    )
    algorithm = pccl.synthesize(network, collective(size="32MiB"))
    pccl.verify(algorithm)
    hierarchical = pccl.baseline("hierarchical", network, *algorithm.collectives)
    assert algorithm.bound.value <= algorithm.duration < hierarchical.duration


def test_all_reduce_has_no_barrier_between_its_phases():
    """Some chunk is already being gathered while another is still being reduced."""
    mesh = pccl.topology.mesh(4, 4)
    t = pccl.synthesize(mesh, pccl.AllReduce(size="16MiB", chunks=4)).transfers
    assert t.start[~t.reduce].min() < t.arrival[t.reduce].max()
