"""Baselines: what people have today, correct on the real links, and never better than the bound."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.schemes import multitree, rings
from pccl.schemes.workload import UnsupportedError, Workload
from tests.algorithm.reference import is_correct
from tests.strategies import collectives, cut_as_it_can_be, groups, networks

SHARED = ("all-gather", "reduce-scatter", "all-reduce")
FREE = {"latency": "0ns", "bandwidth": "1GB/s"}  # a kB takes a microsecond
MICROSECOND = 1_000_000


def steps(name, topology, *collectives):
    """How many microseconds it takes, after a check that it is correct."""
    algorithm = pccl.baseline(name, topology, *collectives)
    pccl.verify(algorithm)
    return algorithm.duration / MICROSECOND


# --- all of them -----------------------------------------------------------------------------------------------------


# What switches can do besides passing messages on: nothing, multiply, add, both.
ABILITIES = [
    {"multicast": multicast, "reduce": reduce}
    for multicast in (False, True)
    for reduce in (False, True)
]


@st.composite
def switched(draw):
    """A network whose switches each can do something else."""
    topology = draw(networks(limits=False))
    able = [draw(st.sampled_from(ABILITIES)) for _ in topology.switches]
    columns = {name: getattr(topology, name).copy() for name in ("multicast", "reduce")}
    for switch, flags in zip(topology.switches.tolist(), able, strict=True):
        for name, flag in flags.items():
            columns[name][switch] = flag
    return replace(topology, **columns)


def check_all(topology, collectives):
    bound, ran = pccl.lower_bound(topology, *collectives), set()
    for entry in pccl.baselines():
        try:
            algorithm = pccl.baseline(entry.name, topology, *collectives)
        except UnsupportedError:
            continue
        except pccl.InfeasibleError:
            assert entry.name == "confined"  # a group that cannot do without others
            continue
        pccl.verify(algorithm)
        assert topology.plain or is_correct(algorithm)
        assert bound.value <= algorithm.duration
        ran.add(entry.name)
    return ran


@settings(max_examples=40, deadline=None)
@given(switched().flatmap(lambda t: st.tuples(st.just(t), any_collectives(t.num_npus))))
def test_baselines_are_correct_and_keep_to_the_bound(problem):
    check_all(*problem)


def any_collectives(npus):
    return st.lists(collectives(npus), min_size=1, max_size=3)


@st.composite
def one_kind(draw, topology, kinds):
    """One or two groups that run the same kind of collective."""
    make = pccl.collective.COLLECTIVES[draw(st.sampled_from(kinds))]
    members = draw(st.lists(groups(topology.num_npus), min_size=1, max_size=2))
    chunks = draw(st.integers(1, 3))
    return [make(f"{1000 * chunks * len(group)}B", group=group, chunks=chunks) for group in members]


@settings(max_examples=60, deadline=None)
@given(
    switched().flatmap(
        lambda t: st.tuples(st.just(t), one_kind(t, (*SHARED, "broadcast", "reduce")))
    )
)
def test_sums_and_copies_get_through_any_network(problem):
    topology, collectives = problem
    kind = collectives[0].kind
    expected = {"ring", "best-ring", "nccl-ring"}
    if kind in SHARED:
        expected.add("multitree")
    if kind not in ("all-gather", "reduce-scatter"):
        expected.add("double-tree")
    if kind in SHARED and all(len(c.group) in (1, 2, 4) for c in collectives):
        expected.add("halving-doubling")
    assert expected <= check_all(topology, collectives)


FACTORS = st.sampled_from(
    [
        *(
            pccl.topology.line(2),
            pccl.topology.line(3),
            pccl.topology.ring(3),
            pccl.topology.ring(4),
        ),
        *(
            pccl.topology.switch(2),
            pccl.topology.switch(3, bandwidth="3GB/s"),
            pccl.topology.fully_connected(3),
        ),
    ]
)


@settings(max_examples=30, deadline=None)
@given(
    FACTORS,
    FACTORS,
    st.sampled_from(ABILITIES),
    st.sampled_from([*SHARED, "all-to-all"]),
    st.integers(1, 2),
)
def test_dimension_by_dimension_on_any_product(first, second, flags, kind, chunks):
    topology = pccl.topology.product(first, second)
    able = {name: np.where(topology.kind, flag, True) for name, flag in flags.items()}
    topology = replace(topology, **able)
    n = topology.num_npus
    collective = pccl.collective.COLLECTIVES[kind](f"{n * chunks}kB", chunks=chunks)
    algorithm = pccl.baseline("hierarchical", topology, collective)
    pccl.verify(algorithm)
    assert topology.plain or is_correct(algorithm)
    assert pccl.lower_bound(topology, collective).value <= algorithm.duration


@settings(max_examples=30, deadline=None)
@given(
    switched(),
    st.sampled_from([*SHARED, "broadcast", "reduce", "all-to-all"]),
    st.integers(1, 5000),
    st.integers(1, 4),
)
def test_any_size_will_do(topology, kind, size, chunks):
    """Shares and their pieces may differ by a byte, and some may be empty."""
    collective = pccl.collective.COLLECTIVES[kind](f"{size}B", chunks=chunks)
    collective = cut_as_it_can_be(collective, topology)
    ran = check_all(topology, [collective])
    assert ran & {"ring", "bruck"}


def test_baselines_are_the_same_every_time():
    machine = pccl.topology.dgx1()
    for name in ("best-ring", "double-tree", "multitree"):
        assert pccl.baseline(name, machine, pccl.AllReduce("8MiB")) == pccl.baseline(
            name, machine, pccl.AllReduce("8MiB")
        )


def test_groups_contend():
    line = pccl.topology.line(4, **FREE)
    pair = [pccl.AllGather("2kB", group=[0, 1]), pccl.AllGather("2kB", group=[0, 3])]
    assert [steps("ring", line, collective) for collective in pair] == [1, 3]
    assert steps("ring", line, *pair) == 4


# --- direct and confined ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "nanoseconds"), [(3, 177_779), (4, 393_120)])
def test_direct_is_what_astra_sim_simulates(width, nanoseconds):
    mesh = pccl.topology.mesh(width, width, bandwidth="50GiB/s", latency="500ns")
    direct = pccl.baseline("direct-ascending", mesh, pccl.AllToAll(size=f"{width * width}MiB"))
    assert direct.duration == pytest.approx(nanoseconds * 1000, rel=2e-4)
    pccl.verify(direct)


def test_direct_begins_with_the_next_in_the_group():
    """Six ports of a switch are all busy all the time; in ascending order all would send to NPU 0 first."""
    switch = pccl.topology.switch(6, **FREE)
    exchange = pccl.AllToAll("6kB")
    first = pccl.baseline("direct", switch, exchange).transfers
    sent = first.start == 0
    assert sorted(first.conditions.destination_ids[first.chunk[sent]]) == list(range(6))
    # Into the switch and out of it, one after another.
    assert steps("direct", switch, exchange) == 5 + 1
    assert steps("direct-ascending", switch, exchange) == 10


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


def test_direct_spreads_over_all_nics():
    """From even NPUs to odd ones of the other box it takes a relay, which is another one for each destination."""
    machine = pccl.topology.dgx_a100(2)
    algorithm = pccl.baseline("direct", machine, pccl.AllToAll(size="16MiB"))
    pccl.verify(algorithm)
    nics = machine.bandwidth == machine.bandwidth.min()
    busy = algorithm.transfers.link_busy[nics]
    assert busy.min() == busy.max()


def test_confined_groups_use_their_own_links_only():
    mesh = pccl.topology.mesh(4, 4)
    confined = pccl.baseline("confined", mesh, pccl.AllGather(size="4MiB", group=range(4)))
    assert set(confined.transfers.dst.tolist()) <= {0, 1, 2, 3}
    assert (
        confined.duration
        >= pccl.synthesize(mesh, pccl.AllGather(size="4MiB", group=range(4))).duration
    )


def test_a_group_of_all_is_confined_by_nothing():
    """On a damaged torus, where ways differ, the same search with as many chunks has the same result."""
    torus = pccl.topology.torus(4, 4).without(links=["0:1", "5:6"])
    gather = pccl.AllGather(size="16MiB", group=range(16), chunks=2)
    confined = pccl.baseline("confined", torus, gather)
    assert confined.duration <= pccl.synthesize(torus, gather).duration


# --- rings -----------------------------------------------------------------------------------------------------------


def test_the_best_ring_is_what_astra_sim_simulates():
    mesh = pccl.topology.mesh(4, 4, bandwidth="50GiB/s", latency="500ns")
    gather = pccl.baseline("best-ring", mesh, pccl.AllGather(size="16MiB"))
    assert gather.duration == pytest.approx(300_465_000, rel=2e-4)


def test_a_ring_takes_a_step_for_each_other_member():
    ring = pccl.topology.ring(6, **FREE)
    assert steps("ring", ring, pccl.AllGather("6kB")) == 5
    assert steps("ring", ring, pccl.ReduceScatter("6kB")) == 5
    assert steps("ring", ring, pccl.AllReduce("6kB")) == 10
    assert steps("ring", ring, pccl.Broadcast("3kB", chunks=3, root=2)) == 5 + 2
    assert steps("ring", ring, pccl.Reduce("3kB", chunks=3, root=2)) == 5 + 2


def test_a_ring_stays_a_ring_through_a_switch():
    """A share waits for its turn, although the switch has seen it before."""
    switch = pccl.topology.switch(4, latency="1us", bandwidth="1TB/s")
    assert steps("ring", switch, pccl.AllGather("4B")) == pytest.approx(2 * 3, rel=1e-3)
    assert steps("ring", switch, pccl.AllReduce("4B")) == pytest.approx(2 * 6, rel=1e-3)


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter"])
def test_a_ring_goes_all_the_way_where_members_are_not_neighbours(kind):
    """Round 0, 2, 1, 3 on a line a share takes 2, 1, 2 and 3 hops, less the last one of its tour."""
    line = pccl.topology.line(4)
    collective = pccl.collective.COLLECTIVES[kind]("4MiB", group=[0, 2, 1, 3])
    algorithm = pccl.baseline("ring", line, collective)
    pccl.verify(algorithm)
    assert sorted(np.bincount(algorithm.transfers.chunk).tolist()) == [5, 6, 6, 7]


@pytest.mark.parametrize(
    ("topology", "hops"),
    [
        (pccl.topology.mesh(4, 4), 16), (pccl.topology.mesh(3, 3), 10), (pccl.topology.mesh(3, 4, 3), 36),
        (pccl.topology.torus(5, 5), 25), (pccl.topology.hypercube(4), 16), (pccl.topology.dgx1(), 8),
    ],
    ids=lambda value: getattr(value, "name", value),
)  # fmt: skip
def test_the_best_ring_is_a_hamiltonian_cycle_where_there_is_one(topology, hops):
    gather = pccl.baseline("best-ring", topology, pccl.AllGather(f"{topology.num_npus}MiB"))
    used, count = np.unique(gather.transfers.link, return_counts=True)
    assert count.sum() == hops * (topology.num_npus - 1)
    assert len(used) == hops  # none of them is shared


def test_the_best_ring_prefers_fast_links():
    """Two boxes are left and entered once each, whatever the order of the group."""
    machine = pccl.topology.dgx_a100(2)
    mixed = [i // 2 + 8 * (i % 2) for i in range(16)]
    gather = pccl.baseline("best-ring", machine, pccl.AllGather("16MiB", group=mixed))
    slow = machine.bandwidth[gather.transfers.link] == 25 * 10**9
    assert np.count_nonzero(slow) == 2 * 2 * 15
    assert (
        gather.duration
        < pccl.baseline("ring", machine, pccl.AllGather("16MiB", group=mixed)).duration
    )


@settings(max_examples=40, deadline=None)
@given(networks(limits=False), st.randoms(use_true_random=False))
def test_a_tour_only_gets_better(topology, random):
    cost = Workload.of(topology, pccl.AllGather(f"{topology.num_npus}kB")).times
    tour = np.array(random.sample(range(topology.num_npus), topology.num_npus))
    if len(tour) > 3:
        better = rings.improved(cost, tour.copy())
        assert sorted(better.tolist()) == list(range(len(tour)))
        assert cost[better, np.roll(better, -1)].sum() <= cost[tour, np.roll(tour, -1)].sum()


# --- halving and doubling, double trees ------------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_doubling_on_a_hypercube(dimensions):
    """Half of all shares cross the last dimension; for small ones there is a latency for each dimension."""
    n = 2**dimensions
    large = pccl.topology.hypercube(dimensions, **FREE)
    assert steps("halving-doubling", large, pccl.AllGather(f"{n}kB")) == n // 2
    small = pccl.topology.hypercube(dimensions, latency="1us", bandwidth="1TB/s")
    for collective, expected in ((pccl.AllGather, 1), (pccl.ReduceScatter, 1), (pccl.AllReduce, 2)):
        time = steps("halving-doubling", small, collective(f"{n}B"))
        assert time == pytest.approx(expected * dimensions, rel=1e-3)


def test_every_share_is_doubled_along_a_binomial_tree():
    cube = pccl.topology.hypercube(3)
    t = pccl.baseline("halving-doubling", cube, pccl.AllGather("8MiB")).transfers
    first = t.chunk == 0
    assert sorted(zip(t.src[first].tolist(), t.dst[first].tolist(), strict=True)) == [
        (0, 1), (0, 2), (0, 4), (1, 3), (1, 5), (2, 6), (3, 7),
    ]  # fmt: skip


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 8, 13, 16])
def test_inner_nodes_of_one_tree_are_leaves_of_the_other(n):
    t = pccl.baseline(
        "double-tree", pccl.topology.fully_connected(n), pccl.Broadcast("2MiB", chunks=2)
    ).transfers
    inner = []
    for chunk in range(2):
        src, children = np.unique(t.src[t.chunk == chunk], return_counts=True)
        assert children.max() <= 2
        assert sorted(t.dst[t.chunk == chunk].tolist()) == list(range(1, n))
        inner.append(set(src.tolist()) - {0})
    assert not inner[0] & inner[1]


def test_trees_are_logarithmic():
    far = pccl.topology.fully_connected(32, latency="1us", bandwidth="1TB/s")
    assert steps("double-tree", far, pccl.Broadcast("2B", chunks=2, root=7)) == pytest.approx(
        5, rel=1e-3
    )
    assert steps("double-tree", far, pccl.AllReduce("32B")) == pytest.approx(10, rel=1e-3)


def test_sums_that_meet_are_added_up():
    """On a line 3 sends to 1 by way of 2, which sends to 0 by way of 1: they can only go on together."""
    line = pccl.topology.line(4)
    algorithm = pccl.baseline("halving-doubling", line, pccl.ReduceScatter("4MiB"))
    pccl.verify(algorithm)
    t = algorithm.transfers
    assert all(
        len(set(t.src[t.chunk == chunk])) == 3 == np.count_nonzero(t.chunk == chunk)
        for chunk in range(4)
    )


@pytest.mark.parametrize(("flags", "messages"), [({}, 3 + 3), ({"reduce": True}, 3 + 1)])
def test_switches_that_cannot_add_pass_sums_on_one_by_one(flags, messages):
    """Three NPUs send to the fourth, each a message of its own, unless the switch makes one of them."""
    topology = pccl.topology.switch(4, multicast=True, **flags)
    algorithm = pccl.baseline("halving-doubling", topology, pccl.ReduceScatter("4MiB"))
    pccl.verify(algorithm)
    assert np.bincount(algorithm.transfers.chunk).tolist() == [messages] * 4
    assert np.all(algorithm.transfers.reduce)


# --- All-to-All ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 6, 8])
def test_bruck_takes_a_hop_for_each_bit_of_the_distance(n):
    t = pccl.baseline("bruck", pccl.topology.fully_connected(n), pccl.AllToAll(f"{n}MiB")).transfers
    c = t.conditions
    far = (c.destination_ids - c.source_ids) % n
    assert np.bincount(t.chunk).tolist() == [int(distance).bit_count() for distance in far]
    assert {(b - a) % n for a, b in zip(t.src.tolist(), t.dst.tolist(), strict=True)} == {
        2**k for k in range((n - 1).bit_length())
    }


def test_bruck_moves_unequal_shares_too():
    matrix = [[0, "1kB", "2kB"], ["3kB", 0, 0], ["1kB", "1kB", 0]]
    pccl.verify(
        pccl.baseline("bruck", pccl.topology.ring(4), pccl.AllToAllV(matrix, group=[3, 0, 2]))
    )


def test_all_to_all_turns_once_for_each_dimension():
    nodes = pccl.topology.switch_2d(4, 2)
    t = pccl.baseline("hierarchical", nodes, pccl.AllToAll("8MiB")).transfers
    chunk = int(
        np.flatnonzero((t.conditions.source_ids == 1) & (t.conditions.destination_ids == 6))[0]
    )
    assert [device for device in t.dst[t.chunk == chunk].tolist() if device < 8] == [2, 6]


# --- dimensions and many trees ---------------------------------------------------------------------------------------


def test_dimensions_go_one_after_another():
    """A torus of 3x4: a share goes round its column, then round all rows; three of them go round each row, 3 hops."""
    torus = pccl.topology.torus(3, 4, **FREE)
    t = pccl.baseline("hierarchical", torus, pccl.AllGather("12kB")).transfers
    first = t.chunk == 0
    assert sorted(zip(t.src[first].tolist(), t.dst[first].tolist(), strict=True)) == [
        (0, 1), (0, 4), (1, 2), (2, 3), (4, 5), (4, 8), (5, 6), (6, 7), (8, 9), (9, 10), (10, 11),
    ]  # fmt: skip
    assert steps("hierarchical", torus, pccl.AllGather("12kB")) == 3 * 3


def test_slow_dimensions_carry_each_share_once():
    """Between four nodes a share crosses three times, wherever it comes from; sums do too."""
    nodes = pccl.topology.switch_2d(4, 4)
    for kind in ("all-gather", "reduce-scatter"):
        t = pccl.baseline(
            "hierarchical", nodes, pccl.collective.COLLECTIVES[kind]("16MiB")
        ).transfers
        slow = nodes.bandwidth[t.link] == nodes.bandwidth.min()
        assert np.bincount(t.chunk[slow]).tolist() == [2 * 3] * 16
        assert np.bincount(t.chunk[~slow]).tolist() == [2 * 3 * 4] * 16


def test_lines_are_used_both_ways():
    line = pccl.topology.mesh(1, 5, **FREE)
    assert steps("hierarchical", line, pccl.AllGather("5kB")) == 4


def test_groups_may_be_grids_within_the_network():
    mesh = pccl.topology.mesh(4, 4)
    corners = [0, 3, 12, 15]
    pccl.verify(pccl.baseline("hierarchical", mesh, pccl.AllReduce("4MiB", group=corners)))
    with pytest.raises(
        pccl.PcclError, match=r"needs groups that are grids .* has 3 NPUs where a grid has 2 x 2"
    ):
        pccl.baseline("hierarchical", mesh, pccl.AllReduce("3MiB", group=[0, 1, 4]))


def test_many_trees_share_a_ring_evenly():
    ring = pccl.topology.ring(7, **FREE)
    assert steps("multitree", ring, pccl.AllGather("7kB")) == 3
    assert steps("multitree", ring, pccl.ReduceScatter("7kB")) == 3


@settings(max_examples=40, deadline=None)
@given(networks(limits=False), st.booleans())
def test_trees_that_grow_together_never_share_a_link_at_a_time(topology, inward):
    own = Workload.of(topology, pccl.AllGather(f"{topology.num_npus}kB"))
    begin, end, paths = multitree._neighbours(own)
    trees = multitree._grown(own, *((end, begin) if inward else (begin, end)), paths)
    held = multitree._steps(own, paths)
    times = {}
    for edge, until in zip(trees.path.ravel().tolist(), trees.step.ravel().tolist(), strict=True):
        for link in (
            paths.link[paths.first[edge] : paths.first[edge + 1]].tolist() if edge >= 0 else ()
        ):
            times.setdefault(link, []).append((until - held[edge], until))
    for spans in times.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert np.all((trees.parent >= 0) == ~np.eye(topology.num_npus, dtype=bool))


# --- what they cannot do ---------------------------------------------------------------------------------------------


def test_what_a_baseline_cannot_do():
    ring = pccl.topology.ring(4)
    with pytest.raises(pccl.PcclError, match="does not support all-reduce"):
        pccl.baseline("direct", ring, pccl.AllReduce(size="4MiB"))
    with pytest.raises(
        pccl.PcclError, match="there are nccl-ring, nccl-tree, nvls, direct, direct-ascending"
    ):
        pccl.baseline("magic", ring, pccl.AllReduce(size="4MiB"))
    with pytest.raises(pccl.InfeasibleError, match="cannot get from NPU 0 to NPU 2"):
        pccl.baseline("confined", ring, pccl.AllGather(size="2MiB", group=[0, 2]))
    with pytest.raises(
        pccl.PcclError, match="needs a power of two NPUs per group; all-gather has 3"
    ):
        pccl.baseline("halving-doubling", ring, pccl.AllGather(size="3MiB", group=[0, 1, 2]))
    with pytest.raises(pccl.PcclError, match="'hierarchical' needs a network with dimensions"):
        pccl.baseline("hierarchical", ring, pccl.AllGather(size="4MiB"))
    with pytest.raises(pccl.CollectiveError, match="nothing to do"):
        pccl.baseline("ring", ring)
    with pytest.raises(pccl.CollectiveError, match="no NPU 7"):
        pccl.baseline("ring", ring, pccl.AllGather(size="2MiB", group=[0, 7]))


@pytest.mark.parametrize("name", [entry.name for entry in pccl.baselines()])
def test_limits_of_switches_are_refused(name):
    kind = "all-to-all" if name in ("direct", "direct-ascending", "bruck") else "all-reduce"
    limited = pccl.topology.product(pccl.topology.switch(4, buffer=1), pccl.topology.line(2))
    with pytest.raises(pccl.PcclError, match="ignores the limits of switches"):
        pccl.baseline(name, limited, pccl.collective.COLLECTIVES[kind]("8MiB"))


@pytest.mark.parametrize(
    "name",
    ["ring", "best-ring", "halving-doubling", "double-tree", "multitree", "nccl-ring", "nccl-tree"],
)
def test_what_cannot_be_reached_is_named(name):
    cut_off = pccl.topology.ring(4).without(links=[(0, 1), (3, 0), (1, 0), (0, 3)])
    with pytest.raises(pccl.InfeasibleError, match=r"no path of links joins"):
        pccl.baseline(name, cut_off, pccl.AllReduce(size="4MiB"))
    with pytest.raises(pccl.InfeasibleError, match="chunk 0 cannot get from NPU 0 to NPU 1"):
        pccl.baseline("direct", cut_off, pccl.AllToAll(size="4MiB"))


def test_collectives_of_several_kinds_go_each_by_its_own_way():
    """A tensor-parallel All-Reduce beside an All-to-All of experts, which no scheme does both."""
    box = pccl.topology.parse_topology("a100:1")
    reduce = pccl.AllReduce("4MiB", group=range(4))
    exchange = pccl.AllToAll("4MiB", group=range(4, 8))
    both = pccl.baseline("nccl-each", box, reduce, exchange)
    pccl.verify(both)
    ring = pccl.baseline("nccl-ring", box, reduce)
    direct = pccl.baseline("direct", box, replace(exchange, chunks=1))
    # They share no link.
    ends = [row.finish for row in pccl.each_collective(both)]
    assert ends == [ring.duration, direct.duration]
    comparison = pccl.compare(pccl.synthesize(box, reduce, exchange))
    assert comparison.today.name == "nccl-each"
    assert comparison.ours.duration <= comparison.today.duration


def test_baselines_say_what_they_support():
    for entry in pccl.baselines():
        assert entry.description
        assert entry.kinds <= set(pccl.collective.COLLECTIVES)
    needs = {entry.name: entry.needs for entry in pccl.baselines()}
    assert needs["ring"] == ""
    assert "dimensions" in needs["hierarchical"]


def test_sums_that_are_exchanged_amid_others_arrive_in_a_right_order():
    """The second exchanges sums: alone it has the links for itself, beside others one came in too early."""
    cube = pccl.topology.parse_topology("hypercube:5@12.5GB/s,500ns").edited({"npu13.gap": "200ns"})
    sizes = ("66856379B", "119B", "32B")
    beside = [pccl.AllReduce(size, chunks=1, whole=size == "119B") for size in sizes]
    (confined,) = (one for one in pccl.baselines() if one.name == "confined")
    pccl.verify(confined.run(cube, beside))
