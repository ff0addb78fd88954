"""The simulator: it trusts no planned start, and agrees with ASTRA-sim where that was run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from tests.strategies import problems, synthesized


def direct_all_to_all(width: int) -> pccl.Algorithm:
    """Every message takes the links along its row, then along its column; all are issued at time zero.

    Starts only put transfers in order here: hop after hop, message after message.
    """
    mesh = pccl.topology.mesh(width, width, bandwidth="50GiB/s", latency="500ns")
    link = {pair: i for i, pair in enumerate(zip(mesh.src.tolist(), mesh.dst.tolist(), strict=True))}
    rows, chunk = [], 0
    for source in range(width * width):
        for destination in range(width * width):
            if source == destination:
                continue
            at, hop = source, 0
            while at != destination:
                along_row = np.sign(destination % width - at % width)
                ahead = (
                    int(at + along_row) if along_row else int(at + width * np.sign(destination // width - at // width))
                )
                rows.append((chunk, link[at, ahead], hop * 10**9 + chunk))
                at, hop = ahead, hop + 1
            chunk += 1
    collective = pccl.AllToAll(size=f"{width * width}MiB")
    return pccl.Algorithm.build(mesh, [collective], *map(list, zip(*rows, strict=True)))


@pytest.mark.parametrize(("width", "nanoseconds"), [(3, 177_779), (4, 393_120)])
def test_astra_sim_agrees_on_direct_all_to_all(width, nanoseconds):
    """Its congestion-aware backend, 1 MiB messages; it cuts every delay to whole nanoseconds."""
    simulation = pccl.simulate(direct_all_to_all(width), "fifo")
    assert simulation.finish == pytest.approx(nanoseconds * 1000, rel=2e-4)
    pccl.verify(simulation.to_algorithm())


def test_astra_sim_agrees_on_a_ring_all_gather():
    """Along a Hamiltonian cycle of the 4x4 mesh, every NPU hands on what it got: 300,465 ns."""
    mesh = pccl.topology.mesh(4, 4, bandwidth="50GiB/s", latency="500ns")
    cycle = [0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4]
    link = {pair: i for i, pair in enumerate(zip(mesh.src.tolist(), mesh.dst.tolist(), strict=True))}
    rows = [
        (chunk, link[cycle[(place + hop) % 16], cycle[(place + hop + 1) % 16]], hop * 10**9)
        for place, chunk in enumerate(cycle)
        for hop in range(15)
    ]
    plan = pccl.Algorithm.build(mesh, [pccl.AllGather(size="16MiB")], *map(list, zip(*rows, strict=True)))
    assert pccl.simulate(plan, "fifo").finish == pytest.approx(300_465_000, rel=2e-4)


@settings(max_examples=60, deadline=None)
@given(problems(limits=False))
def test_a_plan_on_its_own_topology_takes_its_own_duration(problem):
    algorithm = synthesized(problem)
    simulation = pccl.simulate(algorithm)
    assert simulation.finish == algorithm.duration
    assert simulation.to_algorithm() == algorithm


@settings(max_examples=60, deadline=None)
@given(problems(limits=False))
def test_first_come_first_served_keeps_all_rules_too(problem):
    simulation = pccl.simulate(synthesized(problem), "fifo")
    pccl.verify(simulation.to_algorithm())


@settings(max_examples=30, deadline=None)
@given(problems(limits=False), st.floats(0.01, 0.5), st.integers(0, 9), st.sampled_from(["planned", "fifo"]))
def test_jitter_is_reproducible_and_never_helps_a_plan(problem, jitter, seed, discipline):
    algorithm = synthesized(problem)
    once, again = (pccl.simulate(algorithm, discipline, jitter=jitter, seed=seed) for _ in range(2))
    assert np.array_equal(once.start, again.start)
    if discipline == "planned":
        assert once.finish >= algorithm.duration


def test_starts_are_not_trusted():
    """A plan with idle time in it runs without."""
    ring = pccl.topology.ring(3, unidirectional=True, bandwidth="1GB/s", latency="0ns")
    lazy = pccl.Algorithm.build(
        ring, [pccl.AllGather(size="3kB")], [0, 1, 2, 0, 1, 2], [0, 1, 2, 1, 2, 0], [9 * 10**6] * 3 + [99 * 10**6] * 3
    )
    assert pccl.simulate(lazy).finish == 2_000_000


def test_a_slow_link_shows():
    line = pccl.topology.line(3, bandwidth="1GB/s", latency="0ns")
    algorithm = pccl.synthesize(line, pccl.SendRecv(size="1kB", group=[0, 2]))
    slow = pccl.simulate(algorithm, slowdown={int(algorithm.transfers.link[1]): 3.0})
    assert slow.finish == 4_000_000
    assert slow.chunk_finish.tolist() == [4_000_000]
    assert slow.link_busy[algorithm.transfers.link].tolist() == [1_000_000, 3_000_000]
    assert slow.utilization_over_time(4) == pytest.approx([0.25] * 4)


def test_another_network_with_the_same_links():
    made_for, real = (pccl.topology.mesh(3, 3, bandwidth=rate) for rate in ("50GB/s", "25GB/s"))
    algorithm = pccl.synthesize(made_for, pccl.AllGather(size="9MiB"))
    assert pccl.simulate(algorithm, topology=real).finish > algorithm.duration
    with pytest.raises(pccl.TopologyError, match="does not have the links of mesh:3x3"):
        pccl.simulate(algorithm, topology=pccl.topology.ring(9))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"discipline": "lifo"}, "there are planned, fifo"),
        ({"slowdown": {99: 2.0}}, "has no link 99"),
        ({"slowdown": {0: 0.0}}, "must be positive"),
        ({"slowdown": [1.0]}, "1 entries for 6 links"),
        ({"jitter": -0.1}, "jitter must be a share"),
    ],
)
def test_wrong_questions(options, message):
    algorithm = pccl.synthesize(pccl.topology.line(4), pccl.AllGather(size="4MiB"))
    with pytest.raises(pccl.PcclError, match=message):
        pccl.simulate(algorithm, **options)
