"""The simulator: it trusts no planned start, and agrees with ASTRA-sim where that was run."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl import Link, Switch, Topology
from tests.strategies import problems, synthesized


def direct_all_to_all(width: int) -> pccl.Algorithm:
    """Every message takes the links along its row, then along its column; all are issued at time zero.

    Starts only put transfers in order here: hop after hop, message after message.
    """
    mesh = pccl.topology.mesh(width, width, bandwidth="50GiB/s", latency="500ns")
    link = {
        pair: i for i, pair in enumerate(zip(mesh.src.tolist(), mesh.dst.tolist(), strict=True))
    }
    rows, chunk = [], 0
    for source in range(width * width):
        for destination in range(width * width):
            if source == destination:
                continue
            at, hop = source, 0
            while at != destination:
                along_row = np.sign(destination % width - at % width)
                ahead = (
                    int(at + along_row)
                    if along_row
                    else int(at + width * np.sign(destination // width - at // width))
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
    link = {
        pair: i for i, pair in enumerate(zip(mesh.src.tolist(), mesh.dst.tolist(), strict=True))
    }
    rows = [
        (chunk, link[cycle[(place + hop) % 16], cycle[(place + hop + 1) % 16]], hop * 10**9)
        for place, chunk in enumerate(cycle)
        for hop in range(15)
    ]
    plan = pccl.Algorithm.build(
        mesh, [pccl.AllGather(size="16MiB")], *map(list, zip(*rows, strict=True))
    )
    assert pccl.simulate(plan, "fifo").finish == pytest.approx(300_465_000, rel=2e-4)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_a_plan_on_its_own_topology_takes_its_own_duration(problem):
    algorithm = synthesized(problem)
    simulation = pccl.simulate(algorithm)
    assert simulation.finish == algorithm.duration
    assert simulation.to_algorithm() == algorithm


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(1, 10**9))
def test_a_plan_that_begins_late_runs_at_once(problem, delay):
    algorithm = synthesized(problem)
    t = algorithm.transfers
    late = dataclasses.replace(algorithm, transfers=t.timed(t.start + delay))
    assert pccl.simulate(late).to_algorithm() == algorithm


def unless_blocked(
    algorithm: pccl.Algorithm, discipline: str, **world: Any
) -> pccl.Simulation | None:
    """Full buffers may block each other, first come, first served; nothing else may."""
    try:
        return pccl.simulate(algorithm, discipline, **world)
    except pccl.InfeasibleError as error:
        if "the chunks block each other in switch" not in str(error) or not np.any(
            algorithm.topology.buffer
        ):
            raise
        return None


@settings(max_examples=100, deadline=None)
@given(problems())
def test_first_come_first_served_keeps_all_rules_too(problem):
    if simulation := unless_blocked(synthesized(problem), "fifo"):
        pccl.verify(simulation.to_algorithm())


@settings(max_examples=60, deadline=None)
@given(
    problems(),
    st.floats(0.01, 0.9),
    st.integers(0, 9),
    st.sampled_from(["planned", "fifo"]),
    st.data(),
)
def test_a_slower_world_is_reproducible_and_never_helps_a_plan(
    problem, jitter, seed, discipline, data
):
    """What takes less time than it was simulated with keeps all rules as well, so the verifier may judge it."""
    algorithm = synthesized(problem)
    factors = st.lists(
        st.sampled_from([1.0, 1.5, 7.0]), min_size=(links := problem[0].num_links), max_size=links
    )
    world = {"jitter": jitter, "seed": seed, "slowdown": data.draw(factors)}
    once, again = (unless_blocked(algorithm, discipline, **world) for _ in range(2))
    assert (once is None) == (again is None)
    if once and again:
        assert np.array_equal(once.start, again.start)
        pccl.verify(once.to_algorithm())
        if discipline == "planned":
            assert once.finish >= algorithm.duration
            assert np.all(once.start >= algorithm.transfers.start)


# --- switches with limits --------------------------------------------------------------------------------------------


def chunks_through(
    ends: list[tuple[int, int]],
    switches: list[Switch],
    conditions: list[pccl.Condition],
    npus: int,
    rows: list[tuple[int, int, float]],
    latency: dict[int, str] | None = None,
) -> pccl.Algorithm:
    """A plan on links of 1 us a chunk: rows are chunk, link and microsecond."""
    links = [Link(a, b, "1GB/s", (latency or {}).get(i, "0ns")) for i, (a, b) in enumerate(ends)]
    topology = Topology.from_links(npus, links, switches)
    chunk, link, start = zip(*rows, strict=True)
    starts = [round(moment * 1e6) for moment in start]
    return pccl.Algorithm.build(topology, [pccl.Custom(conditions)], chunk, link, starts)


def one_switch(buffer: int | None = None, multicast: bool = True) -> pccl.Algorithm:
    """NPUs 0 and 1 send a chunk each through a switch, the first to NPUs 2 and 3, the other to NPU 3."""
    ends = [(0, 4), (1, 4), (4, 2), (4, 3)]
    conditions = [pccl.Condition(0, [2, 3], "1kB"), pccl.Condition(1, 3, "1kB")]
    rows = [(0, 0, 0), (0, 2, 1), (0, 3, 1), (1, 1, 1), (1, 3, 2)]
    return chunks_through(ends, [Switch("", buffer, multicast)], conditions, 4, rows)


@pytest.mark.parametrize(
    ("buffer", "planned", "fifo"),
    [
        (None, [0, 1, 1, 0, 2], [0, 1, 1, 0, 2]),
        (2, [0, 1, 1, 0, 2], [0, 1, 1, 0, 2]),
        (1, [0, 1, 1, 2, 3], [0, 1, 1, 2, 3]),
    ],
)
def test_limits_by_hand(buffer, planned, fifo):
    """The plan is made for no limits; only its order counts."""
    algorithm, world = one_switch(), one_switch(buffer).topology
    for discipline, expected in (("planned", planned), ("fifo", fifo)):
        simulation = pccl.simulate(algorithm, discipline, topology=world)
        assert (simulation.start // 10**6).tolist() == expected
        real = pccl.Algorithm.build(
            world,
            algorithm.collectives,
            algorithm.transfers.chunk,
            algorithm.transfers.link,
            simulation.start,
        )
        pccl.verify(real)


def test_a_plan_that_multiplies_does_not_run_where_switches_cannot():
    world = one_switch(multicast=False).topology
    with pytest.raises(pccl.TopologyError, match=r"switch 4 .* cannot multiply, which the plan"):
        pccl.simulate(one_switch(), topology=world)


def test_first_come_first_served_full_switches_block_each_other():
    """Two switches with room for one chunk each have one for the other; a plan lets one of them wait."""
    ends = [(0, 2), (1, 3), (2, 3), (3, 2), (2, 0), (3, 1)]
    conditions = [pccl.Condition(0, 1, "1kB"), pccl.Condition(1, 0, "1kB")]
    rows = [(0, 0, 0), (0, 2, 1), (0, 5, 2), (1, 1, 3), (1, 3, 4), (1, 4, 5)]
    plan = chunks_through(ends, [Switch("", 1), Switch("", 1)], conditions, 2, rows)
    assert pccl.simulate(plan).finish == 6_000_000
    with pytest.raises(
        pccl.InfeasibleError,
        match=r"the chunks block each other in switch 2 .* planned order instead",
    ):
        pccl.simulate(plan, "fifo")


def swap() -> pccl.Algorithm:
    """A chunk sets out for a switch long before there is room, which depends on what its sender does next.

    Switch 5 passes chunk 0 on to switch 6 over a long link, and only then has room for a second message of it, to
    switch 7. When that has sent it on, chunk 1 may go there from switch 6, which so has room when chunk 0 arrives at
    last.
    """
    ends = [(0, 5), (5, 6), (5, 7), (1, 6), (6, 7), (7, 2), (7, 3), (6, 4)]
    switches = [Switch("", 1), Switch("", 1), Switch("", 1)]
    conditions = [pccl.Condition(0, [3, 4], "1kB"), pccl.Condition(1, 2, "1kB")]
    rows = [
        (0, 0, 0),
        (0, 1, 1),
        (0, 0, 2),
        (0, 2, 3),
        (0, 6, 4),
        (1, 3, 0),
        (1, 4, 5),
        (1, 5, 6),
        (0, 7, 102),
    ]
    return chunks_through(ends, switches, conditions, 5, rows, {1: "100us"})


def test_waiting_in_a_circle_need_not_block():
    plan = swap()
    pccl.verify(plan)
    assert pccl.simulate(plan).to_algorithm() == plan
    late = pccl.simulate(plan, slowdown={6: 50.0})
    assert late.finish == plan.duration
    pccl.verify(pccl.simulate(plan, "fifo").to_algorithm())


def test_in_a_slower_world_it_may_block():
    with pytest.raises(
        pccl.InfeasibleError, match=r"planned order, the chunks block each other in switch [567] "
    ):
        pccl.simulate(swap(), slowdown={6: 100.0})


def test_a_chunk_that_comes_again_while_it_is_there_is_refused():
    ends = [(0, 3), (1, 3), (3, 2), (0, 1)]
    plan = chunks_through(ends, [Switch("", 2, True)], [pccl.Condition(0, [1, 2], "1kB")], 3,
                          [(0, 3, 0), (0, 0, 0), (0, 1, 1), (0, 2, 2)])  # fmt: skip
    pccl.verify(plan)
    for discipline in ("planned", "fifo"):
        with pytest.raises(
            pccl.InfeasibleError, match=r"chunk 0 comes to switch 3 .* again while it is there"
        ):
            pccl.simulate(plan, discipline)


def test_a_chunk_may_come_back():
    """It leaves switch 3 for NPU 1 and comes through once more on its way to NPU 2: two stays, in turn with another."""
    ends = [(0, 3), (3, 1), (1, 3), (3, 2)]
    conditions = [pccl.Condition(0, [1, 2], "1kB"), pccl.Condition(0, 2, "1kB")]
    rows = [(0, 0, 0), (0, 1, 1), (0, 2, 4), (0, 3, 5), (1, 0, 2), (1, 3, 3)]
    plan = chunks_through(ends, [Switch("", 1)], conditions, 3, rows)
    pccl.verify(plan)
    assert pccl.simulate(plan).to_algorithm() == plan
    first_come = pccl.simulate(plan, "fifo")
    pccl.verify(first_come.to_algorithm())
    assert first_come.finish == plan.duration


def test_what_the_sender_does_not_have_is_refused():
    line = pccl.topology.line(3, bandwidth="1GB/s", latency="0ns")
    hasty = pccl.Algorithm.build(line, [pccl.Broadcast(size="1kB")], [0, 0], [0, 2], [0, 0])
    with pytest.raises(
        pccl.VerificationError, match="transfer 1: NPU 1 is not planned to have chunk 0 at 0"
    ):
        pccl.simulate(hasty)


# --- what is asked for -----------------------------------------------------------------------------------------------


def test_starts_are_not_trusted():
    """A plan with idle time in it runs without."""
    ring = pccl.topology.ring(3, unidirectional=True, bandwidth="1GB/s", latency="0ns")
    lazy = pccl.Algorithm.build(
        ring,
        [pccl.AllGather(size="3kB")],
        [0, 1, 2, 0, 1, 2],
        [0, 1, 2, 1, 2, 0],
        [9 * 10**6] * 3 + [99 * 10**6] * 3,
    )
    assert pccl.simulate(lazy).finish == 2_000_000


def test_a_slow_link_shows():
    line = pccl.topology.line(3, bandwidth="1GB/s", latency="0ns")
    algorithm = pccl.synthesize(line, pccl.SendRecv(size="1kB", group=[0, 2]), effort="fast")
    slow = pccl.simulate(algorithm, slowdown={int(algorithm.transfers.link[1]): 3.0})
    assert slow.finish == 4_000_000
    assert slow.chunk_finish.tolist() == [4_000_000]
    assert slow.link_busy[algorithm.transfers.link].tolist() == [1_000_000, 3_000_000]
    assert slow.utilization_over_time(4) == pytest.approx([0.25] * 4)
    second = int(algorithm.transfers.link[1])
    assert slow.utilization_over_time(4, link=second) == pytest.approx([0, 1, 1, 1])
    assert slow.chunk_timeline(0).link.tolist() == algorithm.transfers.link.tolist()
    assert [column.tolist() for column in slow.link_timeline(second)] == [
        [1], [0], [second], [1_000_000], [4_000_000], [4_000_000]
    ]  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(problems())
def test_timelines_hold_everything_once_and_in_order(problem):
    simulation = pccl.simulate(synthesized(problem))
    t = simulation.algorithm.transfers
    for ask, count in (
        (simulation.chunk_timeline, len(t.conditions)),
        (simulation.link_timeline, problem[0].num_links),
    ):
        timelines = [ask(i) for i in range(count)]
        assert sorted(row for timeline in timelines for row in timeline.transfer) == list(
            range(len(t))
        )
        assert all(np.all(np.diff(timeline.start) >= 0) for timeline in timelines)
    assert all(np.all(timeline.start[1:] >= timeline.free[:-1]) for timeline in timelines)
    per_link = [
        simulation.utilization_over_time(7, link=i).mean() for i in range(problem[0].num_links)
    ]
    assert per_link == pytest.approx(simulation.utilization.tolist())


def test_another_network_with_the_same_links():
    made_for, real = (pccl.topology.mesh(3, 3, bandwidth=rate) for rate in ("50GB/s", "25GB/s"))
    algorithm = pccl.synthesize(made_for, pccl.AllGather(size="9MiB"), effort="fast")
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
        ({"slowdown": {0.5: 2.0}}, "has no link 0.5"),
        ({"slowdown": {0: "slow"}}, "must be numbers"),
        ({"slowdown": {0: 9e8}, "jitter": 9e5}, "would take weeks"),
        ({"jitter": -0.1}, "jitter must be a share"),
        ({"jitter": float("nan")}, "jitter must be a share"),
        ({"jitter": 0.1, "seed": -1}, "seed must be a whole number"),
    ],
)
def test_wrong_questions(options, message):
    algorithm = pccl.synthesize(pccl.topology.line(4), pccl.AllGather(size="4MiB"), effort="fast")
    with pytest.raises(pccl.PcclError, match=message):
        pccl.simulate(algorithm, **options)


def test_wrong_questions_to_a_simulation():
    simulation = pccl.simulate(
        pccl.synthesize(pccl.topology.line(4), pccl.AllGather(size="4MiB"), effort="fast")
    )
    for ask, message in (
        (lambda: simulation.chunk_timeline(4), "the algorithm has no chunk 4; it has 4"),
        (lambda: simulation.link_timeline(-1), "line:4 has no link -1; it has 6"),
        (lambda: simulation.utilization_over_time(0), "whole number from 1 on"),
        (lambda: simulation.utilization_over_time(link=6), "has no link 6"),
    ):
        with pytest.raises(pccl.PcclError, match=message):
            ask()


def test_what_it_needs_of_switches_is_said():
    able = pccl.topology.switch(3, multicast=True)
    plan = pccl.synthesize(able, pccl.Broadcast("1MiB", chunks=1))
    assert "needs switches that multiply)" in repr(pccl.simulate(plan))
    plain = pccl.synthesize(pccl.topology.ring(3), pccl.Broadcast("1MiB", chunks=1))
    assert "needs" not in repr(pccl.simulate(plain))
