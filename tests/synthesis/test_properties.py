"""What holds for whatever is synthesized: it is correct, it is the same every time, and nothing in it can be spared."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pccl
from pccl import (
    Algorithm,
    AllGather,
    AllReduce,
    AllToAll,
    AllToAllV,
    Broadcast,
    Collective,
    Condition,
    Custom,
    Gather,
    InfeasibleError,
    Link,
    PcclError,
    Reduce,
    ReduceScatter,
    Scatter,
    SendRecv,
    Topology,
    VerificationError,
    synthesize,
    verify,
)
from pccl.algorithm.timing import move_up
from pccl.topology import parse_topology
from pccl.topology.parts import NPU
from tests.algorithm.reference import is_correct
from tests.strategies import cut_as_it_can_be, problems, synthesized

Problem = tuple[Topology, list[Collective]]
ORDERS, ROUTES = ("farthest-first", "rounds", "random"), ("minimal", "any")
WAYS = [
    {"effort": "fast"},
    {"effort": "fast", "method": "earliest-arrival"},
    {"effort": "fast", "method": "price-guided"},
    {"effort": "fast", "method": "flooding"},
    {"effort": "balanced"},
]
COLUMNS = ("chunk", "link", "start", "reduce")
often = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
sometimes = settings(often, max_examples=60)


@often
@given(problems(flags=True), st.sampled_from(WAYS))
def test_everything_synthesized_is_correct(problem: Problem, way: dict[str, str]) -> None:
    """Whatever switches can do and however few chunks they hold, however links are held."""
    algorithm = synthesized(problem, **way)
    verify(algorithm)
    assert is_correct(algorithm)
    topology, collectives = problem
    assert algorithm.duration >= pccl.lower_bound(topology, *collectives).value


@sometimes
@given(
    problems(),
    st.sampled_from([None, *ORDERS]),
    st.sampled_from([None, *ROUTES]),
    st.integers(0, 3),
)
def test_every_strategy_is_correct_and_repeatable(
    problem: Problem, order: str | None, routes: str | None, seed: int
) -> None:
    one, two = (synthesized(problem, order=order, routes=routes, seed=seed) for _ in range(2))
    verify(one)
    assert one == two


# --- nothing can be spared -------------------------------------------------------------------------------------------


def rows_of(algorithm: Algorithm) -> list[list[int]]:
    return [
        list(row)
        for row in zip(*(getattr(algorithm.transfers, c).tolist() for c in COLUMNS), strict=True)
    ]


def rebuilt(algorithm: Algorithm, rows: list[list[int]]) -> Algorithm:
    return Algorithm.build(
        algorithm.topology, algorithm.collectives, *([row[i] for row in rows] for i in range(4))
    )


def is_refused(algorithm: Algorithm, rows: list[list[int]]) -> bool:
    try:
        verify(rebuilt(algorithm, rows))
    except VerificationError:
        return True
    return False


def some_of(data: st.DataObject, rows: list[list[int]]) -> list[int]:
    """Numbers of a few rows, any of them."""
    numbers = st.integers(0, len(rows) - 1)
    return data.draw(st.lists(numbers, min_size=1, max_size=8, unique=True)) if rows else []


def has_outside_root(algorithm: Algorithm, chunk: int) -> bool:
    """Whether a sum may be collected where nothing is added to it: then others have it before, and need no copy."""
    conditions = algorithm.conditions
    adds_nothing = set(conditions.destinations(chunk).tolist()) - set(
        conditions.sources(chunk).tolist()
    )
    return bool(conditions.reduces[chunk]) and bool(adds_nothing)


@sometimes
@given(problems(), st.data())
def test_no_transfer_can_be_dropped(problem: Problem, data: st.DataObject) -> None:
    algorithm = synthesized(problem)
    rows = rows_of(algorithm)
    for i in some_of(data, rows):
        if rows[i][3] or not has_outside_root(algorithm, rows[i][0]):
            assert is_refused(algorithm, rows[:i] + rows[i + 1 :])


@sometimes
@given(problems(limits=False), st.data())
def test_no_transfer_can_be_moved_earlier(problem: Problem, data: st.DataObject) -> None:
    """Transfers start as early as they can, so any amount earlier is too early.

    Not so with limits of switches: there, a chunk may wait for a place that is planned to be free before another is.
    """
    algorithm = synthesized(problem)
    rows = rows_of(algorithm)
    moments = sorted(
        {0, *algorithm.transfers.start.tolist(), *algorithm.transfers.arrival.tolist()}
    )
    for i in some_of(data, rows):
        chunk, link, start, reduce = rows[i]
        if start > 0 and not has_outside_root(algorithm, chunk):
            earlier = st.sampled_from(
                [moment for moment in moments if moment < start]
            ) | st.integers(0, start - 1)
            for moment in (start - 1, data.draw(earlier)):
                assert is_refused(
                    algorithm, rows[:i] + rows[i + 1 :] + [[chunk, link, moment, reduce]]
                )


@sometimes
@given(problems())
def test_nothing_moves_up_in_the_order_it_has(problem: Problem) -> None:
    transfers = synthesized(problem).transfers
    assert move_up(transfers) is transfers


@sometimes
@given(problems(), st.data())
def test_no_transfer_can_be_repeated_at_once(problem: Problem, data: st.DataObject) -> None:
    algorithm = synthesized(problem)
    rows = rows_of(algorithm)
    for i in some_of(data, rows):
        with pytest.raises(VerificationError, match="the link is held until"):
            verify(rebuilt(algorithm, [*rows, rows[i]]))


@sometimes
@given(problems(), st.data())
def test_no_transfer_can_be_rerouted(problem: Problem, data: st.DataObject) -> None:
    """What a destination gets cannot go elsewhere, and what a contributor sends cannot come from elsewhere.

    All else may be harmless: a copy from another holder, a partial sum to another collector, a relay left out.
    """
    topology, algorithm = problem[0], synthesized(problem)
    rows = rows_of(algorithm)
    for i in some_of(data, rows):
        chunk, link, start, reduce = rows[i]
        end = topology.src if reduce else topology.dst
        bound = (
            algorithm.conditions.sources(chunk)
            if reduce
            else algorithm.conditions.destinations(chunk)
        )
        elsewhere = np.flatnonzero(end != end[link]).tolist()
        if elsewhere and end[link] in bound and (reduce or not has_outside_root(algorithm, chunk)):
            other = data.draw(st.sampled_from(elsewhere))
            assert is_refused(algorithm, [*rows[:i], *rows[i + 1 :], [chunk, other, start, reduce]])


@sometimes
@given(problems(), st.data())
def test_no_plain_chunk_can_be_added(problem: Problem, data: st.DataObject) -> None:
    algorithm = synthesized(problem)
    rows = rows_of(algorithm)
    for i in some_of(data, rows):
        chunk, link, start, _ = rows[i]
        if not algorithm.conditions.reduces[chunk]:
            with pytest.raises(VerificationError, match="it reduces, but its chunk is not a sum"):
                verify(rebuilt(algorithm, [*rows[:i], *rows[i + 1 :], [chunk, link, start, True]]))


@sometimes
@given(problems())
def test_no_contribution_is_counted_twice(problem: Problem) -> None:
    algorithm = synthesized(problem)
    rows = rows_of(algorithm)
    # What ends in a switch counts nowhere, and a switch has nothing left of what it has sent on.
    kind = algorithm.topology.kind
    counts = (kind[algorithm.transfers.src] == NPU) & (kind[algorithm.transfers.dst] == NPU)
    for (chunk, link, _, reduce), counted in zip(rows, counts, strict=True):
        if reduce and counted:
            again = rebuilt(algorithm, [*rows, [chunk, link, int(algorithm.duration), reduce]])
            with pytest.raises(
                VerificationError, match=r"would count the contribution of .* twice"
            ):
                verify(again)


# --- the ends of the range -------------------------------------------------------------------------------------------

KINDS = [AllGather, ReduceScatter, AllReduce, AllToAll, Broadcast, Reduce, Scatter, Gather]
ALONE = Topology.from_links(1, [])


@pytest.mark.parametrize("kind", KINDS)
def test_alone_there_is_nothing_to_send(kind: type[Collective]) -> None:
    for topology, collective in (
        (ALONE, kind("4kB")),
        (pccl.topology.ring(3), kind("4kB", [1], chunks=2)),
    ):
        algorithm = synthesize(topology, collective)
        assert len(algorithm.transfers) == 0
        assert algorithm.duration == 0
        assert algorithm.summary()


def test_nothing_to_send_to_anyone() -> None:
    assert len(synthesize(pccl.topology.ring(2), AllToAllV([[5, 0], [0, 5]])).transfers) == 0
    assert len(synthesize(ALONE, Custom([Condition(0, 0, "1B")])).transfers) == 0
    assert len(synthesize(ALONE, Custom([Condition(0, 0, "1B", reduces=True)])).transfers) == 0


def test_nothing_beside_something() -> None:
    both = synthesize(
        pccl.topology.ring(3), AllToAll("1kB", [1]), Broadcast("1kB"), AllReduce("1kB", [2])
    )
    assert set(both.transfers.chunk.tolist()) == {0}


def test_a_limited_switch_without_anything_to_do() -> None:
    assert len(synthesize(pccl.topology.switch(2, buffer=1), AllReduce("1kB", [0])).transfers) == 0


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"buffer": 1},
        {"buffer": 2, "multicast": True},
        {"reduce": True},
        {"multicast": True, "reduce": True},
        {"buffer": 1, "multicast": True, "reduce": True},
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_through_a_limited_switch(
    kind: type[Collective], limits: dict[str, int]
) -> None:
    topology = pccl.topology.switch(4, **limits)
    verify(synthesize(topology, kind("4kB"), verify=False))
    verify(
        synthesize(
            topology,
            kind("8kB", [3, 1], chunks=2),
            kind("4kB", [0, 2]),
            AllReduce("4kB"),
            verify=False,
        )
    )


ONE_WAY = Topology.from_links(
    ["a", "b", "c"], [Link(0, 1, "1GB/s", "0ns"), Link(1, 2, "1GB/s", "0ns")], name="street"
)


@pytest.mark.parametrize(
    ("collectives", "message"),
    [
        ([SendRecv("1kB", (2, 0))], "chunk 0 cannot get from NPU 2 (c) to NPU 0 (a): no path of links joins them"),
        ([Broadcast("1kB"), Broadcast("1kB", root=1)], "chunk 1 cannot get from NPU 1 (b) to NPU 0 (a)"),
        ([Reduce("1kB", root=1)], "chunk 0 cannot get from NPU 2 (c) to NPU 1 (b)"),
        ([Reduce("1kB", root=2), AllReduce("1kB", (0, 1), chunks=1)], "cannot get from NPU 1 (b) to NPU 0 (a)"),
        ([AllGather("2kB", (0, 2))], "chunk 1 cannot get from NPU 2 (c) to NPU 0 (a)"),
    ],
)  # fmt: skip
def test_unreachable(collectives: list[Collective], message: str) -> None:
    with pytest.raises(InfeasibleError, match=re.escape(message)):
        synthesize(ONE_WAY, *collectives)


def test_one_way_streets_are_enough_for_some() -> None:
    verify(synthesize(ONE_WAY, Broadcast("1kB"), Reduce("1kB", root=2)))


def test_a_sum_is_collected_where_it_can_go_on_from() -> None:
    """Neither destination leads to the other, but both can be reached from NPU 1."""
    links = [Link(0, 1, "1GB/s", "1ns"), Link(1, 2, "1GB/s", "1ns"), Link(1, 3, "1GB/s", "1ns")]
    total = Custom([Condition([0, 1], [2, 3], "1kB", reduces=True)])
    verify(synthesize(Topology.from_links(4, links), total))


def test_no_links_at_all() -> None:
    with pytest.raises(InfeasibleError, match="chunk 0 cannot get from NPU 0 to NPU 1"):
        synthesize(Topology.from_links(2, []), Broadcast("1kB"))


def test_unknown_settings() -> None:
    ring = pccl.topology.ring(2)
    with pytest.raises(
        PcclError, match=r"there is no order 'alphabetical'; there are .*farthest-first"
    ):
        synthesize(ring, Broadcast("1kB"), order="alphabetical")
    with pytest.raises(PcclError, match="there is no routes 'scenic'; there are minimal, any"):
        synthesize(ring, Broadcast("1kB"), routes="scenic")


def test_many_sizes_at_once() -> None:
    """More sizes than have distances of their own, on links of different speed."""
    sizes = (2 ** np.arange(24)).tolist()
    links = [Link(i, j, f"{1 + i}GB/s", f"{j}us") for i in range(4) for j in range(4) if i != j]
    verify(
        synthesize(
            Topology.from_links(4, links),
            *(AllToAll(f"{4 * size}B") for size in sizes),
            verify=False,
        )
    )


@pytest.mark.parametrize(
    ("network", "collective"),
    [
        ("switch:4,buffer=2", AllGather("1000003B")),
        ("switch:4,buffer=4", AllReduce("12345B", chunks=1)),
        ("switch2d:2x2,buffer=2", AllGather("12345B")),
        ("leaf-spine:2x2x2,buffer=2", AllGather("12345B")),
    ],
)
@pytest.mark.parametrize("effort", ["fast", "balanced"])
def test_chunks_that_differ_by_an_element_in_switches_with_limits(
    network: str, collective: Collective, effort: str
) -> None:
    """Smaller chunks come a little earlier than planned, but leave no earlier than they have come."""
    verify(synthesize(parse_topology(network), collective, effort=effort))


@sometimes
@given(
    st.sampled_from(["switch:3", "switch:5", "switch2d:2x2", "leaf-spine:2x2x2"]),
    st.integers(2, 6),
    st.sampled_from([AllGather, ReduceScatter, AllReduce, AllToAll]),
    st.integers(7, 10**6),
    st.sampled_from([None, 1, 2]),
)
def test_any_size_in_switches_with_limits(
    network: str, buffer: int, kind: type[Collective], size: int, chunks: int | None
) -> None:
    collective = kind(pccl.units.Bytes(size), chunks=chunks)
    topology = parse_topology(f"{network},buffer={buffer}")
    collective = cut_as_it_can_be(collective, topology)
    verify(synthesize(topology, collective, effort="fast"))


@pytest.mark.parametrize("seed", [-1, "x", 1.5, True])
def test_a_seed_is_a_whole_number(seed: object) -> None:
    with pytest.raises(pccl.PcclError, match="seed must be a whole number"):
        synthesize(pccl.topology.ring(3), AllGather("3kB"), seed=seed)  # type: ignore[arg-type]


def test_a_topology_is_not_a_text() -> None:
    with pytest.raises(pccl.PcclError, match="parse_topology"):
        synthesize("ring:3", AllGather("3kB"))  # type: ignore[arg-type]


def test_what_takes_weeks_is_refused_before_times_overflow() -> None:
    with pytest.raises(InfeasibleError, match=r"a chunk of 1TiB takes 1\.1e\+12 s over link"):
        synthesize(pccl.topology.ring(4, bandwidth="1B/s"), AllGather(pccl.units.Bytes(2**42)))
    with pytest.raises(InfeasibleError, match="too long to schedule"):
        synthesize(pccl.topology.ring(8, latency=pccl.units.Picoseconds(2**60)), AllGather("8B"))
    with pytest.raises(InfeasibleError, match="longer than two weeks"):
        synthesize(pccl.topology.ring(64, bandwidth="1kB/s"), AllToAll("64MB", chunks=10))


def test_time_in_steps_helps_where_latency_would_leave_gaps() -> None:
    """Half a step of latency: exact times leave gaps of half a step; whole steps do not, and then all moves up."""
    mesh = pccl.topology.mesh(6, 6, bandwidth="1GB/s", latency="500ns")
    algorithm = synthesize(mesh, AllToAll("36kB"), effort="fast")
    assert algorithm.provenance.method.endswith("in steps")
    assert algorithm.duration < 62_000_000  # the cut needs 54 steps of 1 us; exact times take 62 us


def test_progress_counts_up_and_says_what_is_going_on() -> None:
    seen: list[tuple[int, int, str]] = []
    synthesize(
        pccl.topology.mesh(4, 4),
        AllToAll("16kB", chunks=1),
        progress=lambda *what: seen.append(what),
    )
    assert seen[-1] == (240, 240, "verifying")
    assert all(done <= total for done, total, _ in seen)
