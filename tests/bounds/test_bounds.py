"""Lower bounds: figures known in closed form, certificates that hold, and nobody who beats them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

import pccl
from pccl.bounds import bound_of, check, cut, latency, prices
from pccl.bounds.case import Case
from pccl.bounds.patience import Patience
from pccl.bounds.rising import by_program, by_rising
from pccl.collective import compile_conditions
from pccl.units import Picoseconds
from tests.strategies import problems, synthesized

STEP = 1_000_000  # a chunk of 1 kB over a link of 1 GB/s
MANY = 64  # chunks, so that the first chunk's way does not matter


def steps(topology, *collectives, chunks=1):
    """Steps for each of so many chunks, if they might be cut further; without the way of the first byte."""
    conditions = compile_conditions(topology, collectives)
    bound = bound_of(topology, conditions)
    check(bound, topology, conditions)
    return pytest.approx(bound.value / STEP / chunks, rel=1e-3)


def network(make, *shape):
    return make(*shape, bandwidth="1GB/s", latency="0ns")


def all_to_all(group, chunks=1):
    return pccl.AllToAll(f"{len(group) * chunks}kB", group, chunks)


def all_gather(group, chunks=1):
    return pccl.AllGather(f"{len(group) * chunks}kB", group, chunks)


@pytest.mark.parametrize(
    ("width", "all_to_all_steps", "all_gather_steps"),
    [(3, 6, 4), (4, 16, 7.5), (5, 30, 12), (6, 54, 17.5), (7, 84, 24), (8, 128, 31.5)],
)
def test_square_meshes(width, all_to_all_steps, all_gather_steps):
    mesh, everybody = network(pccl.topology.mesh, width, width), range(width * width)
    assert steps(mesh, all_to_all(everybody)) == all_to_all_steps
    assert steps(mesh, all_gather(everybody)) == all_gather_steps


def test_cubes_and_tori():
    everybody = range(64)
    assert steps(network(pccl.topology.mesh, 4, 4, 4), all_to_all(everybody)) == 64
    assert steps(network(pccl.topology.mesh, 4, 4, 4), all_gather(everybody)) == 21
    assert steps(network(pccl.topology.torus, 8, 8), all_to_all(everybody)) == 64
    assert steps(network(pccl.topology.torus, 4, 4, 4), all_gather(everybody)) == 10.5


def test_latency_takes_time_from_exclusive_links():
    """A step is then latency and transmission together, and cuts count in steps."""
    mesh = pccl.topology.mesh(8, 8, bandwidth="1GB/s", latency="1us", exclusive=True)
    assert steps(mesh, all_to_all(range(64))) == 128 * 2


def test_groups_share_the_network():
    mesh, rows = network(pccl.topology.mesh, 4, 4), pccl.device_mesh(row=4, column=4)["column"]
    quadrants = [[a, a + 1, a + 4, a + 5] for a in (0, 2, 8, 10)]
    assert steps(mesh, all_to_all(rows[0], MANY), chunks=MANY) == 1.5
    assert steps(mesh, *[all_to_all(row, MANY) for row in rows], chunks=MANY) == 4
    assert steps(mesh, *[all_to_all(group, MANY) for group in quadrants], chunks=MANY) == 2
    assert steps(mesh, all_gather(rows[0], MANY), chunks=MANY) == 1.5
    assert steps(mesh, all_gather([5, 6, 9, 10], MANY), chunks=MANY) == 0.75
    mesh, rows = network(pccl.topology.mesh, 8, 8), pccl.device_mesh(row=8, column=8)["column"]
    assert steps(mesh, *[all_gather(row) for row in rows]) == 7


@pytest.mark.parametrize(
    ("machine", "all_to_all_us", "all_gather_us"),
    [
        ("dgx1", 106.67, 46.67),
        ("a100:2", 320, 46.15),
        ("mi250:2", 1000, 90.36),
        ("dgx2:2", 2560, 248),
        ("ndv2:2", 5120, 640),
    ],
)
def test_real_machines_with_much_to_do(machine, all_to_all_us, all_gather_us):
    """1 MB a pair, or an NPU, in the limit of large sizes, where latencies and gaps hardly count."""
    topology = pccl.topology.parse_topology(machine)
    n = topology.num_npus
    for collective, expected in (
        (pccl.AllToAll(f"{1000 * n}MB", chunks=1000), all_to_all_us),
        (pccl.AllGather(f"{1000 * n}MB", chunks=1000), all_gather_us),
    ):
        assert pccl.lower_bound(topology, collective).value / 1e9 == pytest.approx(
            expected, rel=4e-4
        )


@pytest.fixture
def two_sides():
    """Three NPUs, each joined to three others: two thirds of a chunk's ways are longer than one hop, none is narrow."""
    pairs = [(a, b) for a in range(3) for b in range(3, 6)]
    link = {"bandwidth": "1GB/s", "latency": "0ns"}
    return pccl.Topology.from_links(
        6, [pccl.topology.Link(*ends, **link) for a, b in pairs for ends in ((a, b), (b, a))]
    )


def test_prices_count_how_far_chunks_go(two_sides):
    """From each NPU three chunks go one hop and two go two, over 18 links; the best cut shows 2 steps."""
    bound = pccl.lower_bound(two_sides, pccl.AllToAll(f"{6 * MANY}kB"))
    assert bound.kind == "prices"
    assert bound.value / STEP / MANY == pytest.approx(6 * (3 * 1 + 2 * 2) / 18, rel=1e-4)


def test_rising_prices_get_where_the_program_gets(two_sides):
    case = Case(two_sides, compile_conditions(two_sides, [all_to_all(range(6), MANY)]))
    demand, rate = np.ones((6, 6)) - np.eye(6), np.full(18, 1e-3)
    crossing = np.arange(18) < 4.0  # a start that leads astray
    for found in (
        by_program(two_sides, demand, rate, Patience()),
        by_rising(two_sides, demand, rate, crossing, Patience()),
    ):
        price = np.rint(found / found.max() * 1e6).astype(np.int64)
        proven = prices.prove(case, {"prices": tuple(price)}, False)
        assert proven / STEP / MANY == pytest.approx(7 / 3, rel=0.02)


def test_every_member_of_an_all_reduce_sends_and_receives():
    """Two transfers a chunk for each member but one, against all links: 2 * 63 * 64 over 224."""
    mesh = network(pccl.topology.mesh, 8, 8)
    assert steps(mesh, pccl.AllReduce("64kB")) == 36
    ring = network(pccl.topology.ring, 8)
    assert steps(ring, pccl.AllReduce("8kB")) == 7
    assert steps(network(pccl.topology.line, 3), pccl.AllReduce("3kB")) == 3, (
        "each direction of the cut beside an end"
    )


@pytest.mark.parametrize("kind", [pccl.AllGather, pccl.ReduceScatter])
def test_whole_chunks_prove_more(kind):
    """A corner of the mesh takes 15 chunks over two links: 7.5 steps, which whole chunks do not use."""
    mesh = network(pccl.topology.mesh, 4, 4)
    conditions = compile_conditions(mesh, [kind("16kB")])
    assert bound_of(mesh, conditions).value == 7.5 * STEP
    bound = bound_of(mesh, conditions, whole_chunks=True)
    assert bound.value == 8 * STEP
    check(bound, mesh, conditions)


def test_whole_chunks_take_time_to_get_to_the_cut():
    """Ten chunks over the middle of a line of four, which is one step from their source and one from their goal."""
    line = network(pccl.topology.line, 4)
    conditions = compile_conditions(line, [pccl.SendRecv("10kB", group=[0, 3], chunks=10)])
    assert bound_of(line, conditions).value == 10 * STEP + 2 * 1000  # and the way of a byte
    assert bound_of(line, conditions, whole_chunks=True).value == 12 * STEP


def test_who_may_cut_data_freely_is_not_bound_by_the_way_of_a_chunk():
    """A byte takes little time from end to end; then the first link is what takes time."""
    line, way = network(pccl.topology.line, 3), pccl.SendRecv("1kB", group=[0, 2])
    bound = pccl.lower_bound(line, way)
    assert (bound.kind, bound.value) == ("cut", STEP + 1000)
    assert pccl.synthesize(line, way).duration < 1.1 * STEP
    slow = pccl.topology.line(3, bandwidth="1GB/s", latency="1us")
    bound = pccl.lower_bound(slow, way)
    assert (bound.kind, bound.value) == ("cut", 3 * STEP + 1000)
    check(bound, slow, compile_conditions(slow, [way]))


@settings(max_examples=150, deadline=None)
@given(problems())
def test_nobody_beats_the_bound(problem):
    topology, collectives = problem
    conditions = compile_conditions(topology, collectives)
    duration = synthesized(problem).duration
    for whole_chunks in (False, True):
        bound = bound_of(topology, conditions, whole_chunks=whole_chunks)
        check(bound, topology, conditions)
        assert bound.value <= duration


@pytest.mark.parametrize(
    "collective",
    [pccl.AllToAll("9kB"), pccl.SendRecv("1kB", group=[0, 8], chunks=1), pccl.AllReduce("9kB")],
)
def test_a_certificate_proves_no_more_than_it_does(collective):
    topology = network(pccl.topology.mesh, 3, 3)
    conditions = compile_conditions(topology, [collective])
    for whole_chunks in (False, True):
        bound = bound_of(topology, conditions, whole_chunks=whole_chunks)
        check(bound, topology, conditions)
        with pytest.raises(pccl.VerificationError, match="but its certificate proves"):
            check(replace(bound, value=Picoseconds(bound.value + 1)), topology, conditions)


def test_prices_must_be_prices(two_sides):
    collective = all_to_all(range(6), MANY)
    bound, conditions = (
        pccl.lower_bound(two_sides, collective),
        compile_conditions(two_sides, [collective]),
    )
    for wrong in ((), bound.prices[1:], (-1, *bound.prices[1:]), (2**62, *bound.prices[1:])):
        with pytest.raises(pccl.VerificationError, match="proves 0"):
            check(replace(bound, certificate={"prices": wrong}), two_sides, conditions)


def slow_latency(topology, conditions):
    """The longest of all ways between ends, by relaxing every link again and again."""
    best = 0
    for chunk in range(len(conditions)):
        size = int(conditions.bytes[chunk])
        for source in conditions.sources(chunk).tolist():
            time = {source: 0}
            for _ in range(topology.num_devices):
                for link in range(topology.num_links):
                    src, dst = int(topology.src[link]), int(topology.dst[link])
                    if src in time:
                        transmission = -(-size * 10**12 // int(topology.bandwidth[link]))
                        arrival = time[src] + int(topology.latency[link]) + transmission
                        time[dst] = min(time.get(dst, arrival), arrival)
            best = max([best, *(time[d] for d in conditions.destinations(chunk).tolist())])
    return best


@settings(max_examples=60, deadline=None)
@given(problems())
def test_the_longest_way_is_found(problem):
    topology, collectives = problem
    conditions = compile_conditions(topology, collectives)
    every = np.zeros(len(conditions), np.bool_)
    ((certificate, whole),) = latency.find(Case(topology, conditions, True, every))
    assert latency.prove(Case(topology, conditions), certificate, whole) == slow_latency(
        topology, conditions
    )


@settings(max_examples=60, deadline=None)
@given(problems())
def test_a_certificate_holds_however_data_are_cut(problem):
    """What was proven before the number of chunks was chosen is still proven for the algorithm that was found."""
    topology, collectives = problem
    bound = pccl.lower_bound(topology, *collectives)
    algorithm = synthesized(problem)
    assert int(bound.value) <= algorithm.duration
    check(bound, topology, algorithm.conditions)


@pytest.mark.parametrize(
    "bound",
    [
        pccl.Bound("guess", Picoseconds(1)),
        pccl.Bound("cut", Picoseconds(1)),
        pccl.Bound("cut", Picoseconds(1), {"devices": (0, 99)}),
        pccl.Bound("cut", Picoseconds(1), {"devices": ()}),
        pccl.Bound("cut", Picoseconds(1), {"devices": (2**70,)}),
        pccl.Bound("latency", Picoseconds(1)),
        pccl.Bound("latency", Picoseconds(1), {"devices": (0, 0)}),
        pccl.Bound("latency", Picoseconds(1), {"devices": (0, 99)}),
        pccl.Bound("latency", Picoseconds(1), {"devices": (0, 1, 2)}),
        pccl.Bound("prices", Picoseconds(1), {"prices": (2**70,) * 8}),
        pccl.Bound("prices", Picoseconds(1), {"prices": (2**61,) * 8}),
        pccl.Bound("prices", Picoseconds(1), {"prices": (0,) * 8}),
    ],
)
def test_certificates_from_anywhere_are_refused(bound):
    ring = network(pccl.topology.ring, 4)
    with pytest.raises(pccl.VerificationError, match="bound"):
        check(bound, ring, compile_conditions(ring, [pccl.AllGather("4kB")]))


def test_bounds_say_why():
    line = network(pccl.topology.line, 3)
    way = pccl.SendRecv("1kB", group=[0, 2], chunks=1)
    assert str(pccl.lower_bound(line, way)) == "2us, the way of chunk 0 from 0 to 2"
    assert (
        str(pccl.lower_bound(line, pccl.AllToAll("6kB", chunks=2)))
        == "4us, NPU 0 must send 4kB over 1 link of 1GB/s"
    )


def test_rounding_up_does_not_make_a_bound_too_high():
    """On exclusive links, the largest chunk is carried at the best rate only if its time is not rounded up."""
    there, back = (pccl.Link(a, b, "3000GB/s", "1ns", exclusive=True) for a, b in ((0, 1), (1, 0)))
    topology = pccl.Topology.from_links(2, [there, back])
    chunks = pccl.Custom([pccl.Condition(0, 1, "300001B"), *[pccl.Condition(0, 1, "300000B")] * 9])
    assert pccl.lower_bound(topology, chunks).value <= pccl.synthesize(topology, chunks).duration


def test_links_of_no_use_earn_nothing():
    """A pair of outsiders must not weaken what is proven for a ring of four."""
    ring = [
        pccl.Link(a, b, "1GB/s", "0ns")
        for i in range(4)
        for a, b in ((i, (i + 1) % 4), ((i + 1) % 4, i))
    ]
    pair = [pccl.Link(4, 5, "1GB/s", "0ns"), pccl.Link(5, 4, "1GB/s", "0ns")]
    topology = pccl.Topology.from_links(6, ring + pair)
    assert steps(topology, pccl.AllReduce("4kB", group=range(4))) == 3
    conditions = compile_conditions(topology, [pccl.Broadcast("1kB", group=[0, 1], chunks=1)])
    for inside in (
        [0],
        [0, 4],
    ):  # the link from 4 to 5 leaves the set as well, but nothing gets there
        assert cut.prove(Case(topology, conditions), {"devices": tuple(inside)}, True) == STEP


@pytest.mark.parametrize(
    ("machine", "microseconds"),
    [
        ("switch:8", 32_596),
        ("a100:2", 5_769.2),
        ("dgx2:2", 14_761.9),
        ("mi250:2", 5_647.6),
        ("h100:4", 4_040.7),
        ("ndv2:2", 80_000),
        ("ndv2:4", 120_000),
        ("h100:4,nvls=yes,sharp=yes", 2_500),
        ("mesh:3x3", 2 / 3 * 18_626.45),
        ("mesh:8x8", 9 / 16 * 18_626.45),
        ("torus:4x4x4", 21 / 64 * 18_626.45),
    ],
)
def test_all_reduce_of_much(machine, microseconds):
    """Between any parts two messages a byte for all but one of them; through plain switches each takes two links."""
    topology = pccl.topology.parse_topology(machine)
    bound = pccl.lower_bound(topology, pccl.AllReduce("1GB"))
    assert bound.value / 1e6 == pytest.approx(microseconds, rel=3e-3)
    check(bound, topology, compile_conditions(topology, [pccl.AllReduce("1GB")]))


def test_a_destination_waits_for_what_comes_over_the_rails_of_others():
    """750 kB from other boxes: over its own rail from 2 us on, or over seven others that add 1.87 us."""
    machine = pccl.topology.parse_topology("h100:4,nic_gap=0ns")
    bound = pccl.lower_bound(machine, pccl.AllGather("1MB"))
    rail, others = 2_000_020, 3_872_525  # picoseconds, with the time that a byte takes on each link
    assert 50 * (bound.value - rail) + 350 * (bound.value - others) == pytest.approx(
        750_000_000, rel=1e-5
    )
    assert str(bound) == (
        "5.513466us, NPUs 24-31 must receive 750kB for NPU 24 over 8 links of 50GB/s, "
        "the first byte of which arrives after 2.00002us"
    )


def test_a_switch_takes_two_latencies_before_its_links_are_busy():
    bound = pccl.lower_bound(pccl.topology.switch(8), pccl.AllGather("64KiB"))
    transmission = 7 / 8 * 65536 / (50 * 2**30) * 1e6
    assert bound.value / 1e6 == pytest.approx(1 + transmission, rel=1e-4)


def test_nothing_to_send_is_said():
    bound = pccl.lower_bound(network(pccl.topology.ring, 4), pccl.AllGather("4kB", group=[1]))
    assert str(bound) == "0ps, as nothing has to be sent"


def test_far_pairs_use_a_link_at_the_beginning_or_at_the_end():
    """To another rail, data change rails before they leave the box or after: for both, there is a little time."""
    machine = pccl.topology.parse_topology("h100:4")
    bound = pccl.lower_bound(machine, pccl.AllToAll("64KiB"))
    assert bound.kind == "cover"
    to_other_rails = 8 * 21 * 2048
    each_time = to_other_rails / (8 * 50e9) / 2 * 1e6
    assert bound.value / 1e6 == pytest.approx(3.8725 + each_time, rel=1e-4)
    check(bound, machine, compile_conditions(machine, [pccl.AllToAll("64KiB")]))


def test_sums_are_added_up_inside_boxes_before_they_leave():
    """Whoever does not wait for its box sends so much more that it takes longer: inside, between, and inside again."""
    machine = pccl.topology.parse_topology("h100:4")
    bound = pccl.lower_bound(machine, pccl.AllReduce("64KiB"))
    assert bound.kind == "cover"
    assert 2 * 1.872 + 2 < bound.value / 1e6 < 6
    # With little data, it is not worth while to wait.
    assert pccl.lower_bound(machine, pccl.AllReduce("1KiB")).value / 1e6 < 4


@pytest.mark.parametrize(
    "certificate",
    [
        {"parts": (0, 1), "distance": (0,)},
        {"parts": (0, 1, 0, 1), "distance": ()},
        {"parts": (0, 1, 0, 1)},
    ],
)
def test_what_is_no_cover_proves_nothing(certificate):
    ring = pccl.topology.ring(4)
    collective = pccl.AllReduce("4MiB")
    bound = pccl.Bound("cover", Picoseconds(1), certificate)
    with pytest.raises(pccl.VerificationError, match="no valid certificate"):
        check(bound, ring, compile_conditions(ring, [collective]))


@pytest.mark.parametrize("kind", [pccl.Reduce, pccl.AllReduce, pccl.ReduceScatter, pccl.AllToAll])
@pytest.mark.parametrize("quick", [True, False])
def test_one_that_is_alone_takes_no_time(kind, quick):
    """What is left of a damaged network may be a single NPU without a link."""
    alone = pccl.topology.ring(2).without(devices=[1])
    assert pccl.lower_bound(alone, kind("64KiB"), quick=quick).value == 0
    assert pccl.synthesize(alone, kind("64KiB")).duration == 0
