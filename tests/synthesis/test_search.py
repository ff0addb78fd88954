"""The search: what it promises, when it stops, what it says, and that it always finds the same."""

from __future__ import annotations

import threading
from dataclasses import replace
from importlib import import_module

import networkx
import pytest

import pccl
from pccl.network import calendar
from pccl.settings import Settings
from pccl.synthesis import clock, search
from pccl.synthesis.budget import ALL_SEARCHES, Enough, effort_of
from pccl.synthesis.improve import Improvement, retime
from pccl.synthesis.methods import METHODS, EarliestArrival, PriceGuided
from pccl.synthesis.problem import Problem
from pccl.synthesis.search import Search
from pccl.topology import parse_topology
from tests.synthesis.posing import pose

STEP = 1_000_000  # a chunk of 1 kB over a link of 1 GB/s
EVEN = {"bandwidth": "1GB/s", "latency": "0ns"}
MESH = pccl.topology.mesh(8, 8, **EVEN)
MESH_WITH_LATENCY = pccl.topology.mesh(8, 8, bandwidth="1GB/s", latency="123ns")


def rows(kind, numbers, chunks):
    return [kind(f"{8 * chunks}kB", range(8 * row, 8 * row + 8), chunks) for row in numbers]


def steps(topology, *collectives, **settings):
    return pccl.synthesize(topology, *collectives, **settings).duration / STEP


# --- what we promise (all of it: python -m benchmarks.quality) -------------------------------------------------------


@pytest.mark.parametrize(
    ("topology", "chunks", "most"),
    [
        (MESH, 1, 32),
        (pccl.topology.mesh(16, 16, **EVEN), 1, 128),
        (pccl.topology.torus(4, 4, **EVEN), 8, 30),
        (pccl.topology.ring(16, **EVEN), 4, 30),
        (pccl.topology.ring(16, unidirectional=True, **EVEN), 4, 60),
        (pccl.topology.hypercube(6, **EVEN), 1, 11),
        (pccl.topology.hypercube(6, **EVEN), 4, 43),
        (pccl.topology.fully_connected(16, **EVEN), 4, 4),
    ],
    ids=lambda value: value.name if isinstance(value, pccl.Topology) else str(value),
)
def test_all_gather(topology, chunks, most):
    n = topology.num_npus
    assert steps(topology, pccl.AllGather(f"{n * chunks}kB", chunks=chunks)) <= most
    assert steps(topology, pccl.ReduceScatter(f"{n * chunks}kB", chunks=chunks)) <= most, (
        "the mirror image"
    )


@pytest.mark.parametrize(
    ("kind", "numbers", "chunks", "most"),
    [
        (pccl.AllGather, [4], 32, 76),
        (pccl.AllGather, [2, 6], 8, 20),
        (pccl.AllGather, [1, 3, 5, 7], 8, 30),
        (pccl.AllGather, range(8), 8, 57),
        (pccl.AllToAll, [4], 16, 47),
        (pccl.AllToAll, [2, 6], 16, 68),
        (pccl.AllToAll, range(8), 4, 64),
    ],
)
def test_rows_of_the_mesh(kind, numbers, chunks, most):
    assert steps(MESH, *rows(kind, numbers, chunks)) <= most


@pytest.mark.parametrize("machine", ["dgx1", "a100:2", "ndv2:2"])
def test_machines_come_near_the_bound(machine):
    topology = pccl.topology.parse_topology(machine)
    n = topology.num_npus
    for kind, chunks in ((pccl.AllToAll, 16), (pccl.AllGather, 64), (pccl.ReduceScatter, 64)):
        collective = kind(pccl.units.Bytes(10**9 // (64 * n) * 64 * n), chunks=chunks)
        bound = pccl.lower_bound(topology, collective).value
        assert pccl.synthesize(topology, collective).duration <= 1.03 * bound


def test_prices_that_prove_the_bound_are_a_good_start():
    """Where no cut is narrow, they say which links will be scarce; with equal prices one learns that too late."""
    graph = networkx.random_regular_graph(4, 48, seed=1).to_directed()
    networkx.set_edge_attributes(graph, EVEN["bandwidth"], "bandwidth")
    networkx.set_edge_attributes(graph, EVEN["latency"], "latency")
    topology = pccl.topology.from_networkx(graph)
    problem = pose(topology, pccl.AllToAll("48kB"))
    assert problem.bound.kind == "prices"
    assert all(method.dual for method in PriceGuided.variants(problem))
    knobs = ((3.0, 1.0), (6.0, 0.3), (12.0, 0.1), (20.0, 0.0))
    taken = {
        dual: sum(
            PriceGuided(steepness=steepness, urgency=urgency, dual=dual).find(problem).duration
            for steepness, urgency in knobs
        )
        for dual in (False, True)
    }
    assert taken[True] < taken[False]


def test_all_reduce_is_planned_as_one_problem():
    """Links of the 8x8 mesh carry 144 chunks each, and it takes little longer than that."""
    assert steps(MESH, pccl.AllReduce("256kB", chunks=4)) <= 155


def test_an_all_reduce_is_no_slower_than_its_phases():
    """And faster where latency dominates: the sum is collected midway, not at one of the ends."""
    size = "64KiB"
    phases = sum(steps(MESH, kind(size, chunks=1)) for kind in (pccl.ReduceScatter, pccl.AllGather))
    assert steps(MESH, pccl.AllReduce(size, chunks=1)) <= 1.01 * phases
    far = pccl.topology.mesh(5, 5, bandwidth="1GB/s", latency="1us")
    found = pccl.synthesize(far, pccl.AllReduce("25B", chunks=1))
    assert "sums collected midway" in found.provenance.method
    assert found.duration < 9_000_000, (
        "to the middle and back again are eight links, to a corner and back sixteen"
    )


# --- efforts, gaps, limits -------------------------------------------------------------------------------------------


def test_fast_is_one_pass():
    entries = []
    pccl.synthesize(MESH, *rows(pccl.AllToAll, [4], 16), effort="fast", log=entries.append)
    assert len(entries) == 1


def test_more_effort_is_never_worse():
    task = rows(pccl.AllToAll, [4], 4)
    fast, balanced, thorough = (
        steps(MESH, *task, effort=effort) for effort in ("fast", "balanced", "thorough")
    )
    assert thorough <= balanced <= fast


@pytest.mark.parametrize("method", ["earliest-arrival", "price-guided"])
def test_work_does_not_depend_on_how_long_arrays_are(method, monkeypatch):
    """Else the room that calendars start with would decide how much is tried, and so what is found."""
    exchange = pccl.AllToAll("64kB", range(8), 8)
    found = set()
    for room in (2, 1000):
        monkeypatch.setattr(calendar, "FIRST_ROOM", room)
        found.add(METHODS[method]().find(pose(MESH_WITH_LATENCY, exchange)).work)
    assert len(found) == 1


def test_the_log_of_a_solver():
    """Every line is better than the one before, and the last is what is returned."""
    entries = []
    found = pccl.synthesize(MESH, *rows(pccl.AllToAll, [4], 16), log=entries.append)
    durations = [int(entry.best) for entry in entries]
    assert durations == sorted(durations, reverse=True)
    assert len(set(durations)) == len(durations) > 1
    assert durations[-1] == found.duration
    assert all(0 <= entry.gap == entry.best / entry.bound - 1 for entry in entries)
    assert entries[-1].method in found.provenance.method


def test_a_gap_that_is_good_enough():
    task = rows(pccl.AllToAll, [4], 16)
    entries = []
    loose = pccl.synthesize(MESH, *task, gap=0.5, log=entries.append)
    assert len(entries) == 1
    assert loose.duration >= pccl.synthesize(MESH, *task).duration


def test_a_time_limit(monkeypatch):
    """When the time is over, the first pass is completed, and nothing else is begun."""
    seconds = iter(range(10**6))
    monkeypatch.setattr(clock.time, "perf_counter", lambda: next(seconds))
    entries = []
    exchange = rows(pccl.AllToAll, [4], 32)
    found = pccl.synthesize(MESH, *exchange, effort="thorough", time_limit=2, log=entries.append)
    assert len(entries) == 1
    assert found.provenance.cut_short
    assert "cut short" in found.summary()
    pccl.verify(found)


def test_a_search_that_no_limit_ends_does_not_say_so():
    found = pccl.synthesize(MESH, *rows(pccl.AllToAll, [4], 8), time_limit=1000)
    assert not found.provenance.cut_short
    assert "cut short" not in found.summary()
    assert found == pccl.synthesize(MESH, *rows(pccl.AllToAll, [4], 8))


def test_all_searches_of_a_call_have_one_budget(monkeypatch):
    """Each collective is looked for alone, then confined, then all of them in the way of nobody: all of that counts."""
    clocks = []

    def noted(settings, npus):
        clocks.append(clock_of(settings, npus))
        return clocks[-1]

    module = import_module("pccl.synthesis.synthesize")  # the name is that of a function as well
    clock_of = module.clock_of
    monkeypatch.setattr(module, "clock_of", noted)
    boxes = parse_topology("h100:2")
    pccl.synthesize(boxes, pccl.SendRecv("197530848B", (0, 2)), pccl.AllReduce("1048592B"))
    # What is begun may take a little more than is left.
    allowed = ALL_SEARCHES * effort_of(Settings()).work
    assert -0.3 * allowed < clocks[0].work < 0.5 * allowed


def test_a_plan_has_the_bound_it_has_without_a_limit(monkeypatch):
    """The search is over after its first pass; the bound gets time of its own."""
    monkeypatch.setattr(clock, "LEAST_FOR_BOUND", 60.0)
    task = rows(pccl.AllReduce, [2, 4], 8)
    cut = pccl.synthesize(MESH, *task, time_limit=1e-9)
    assert cut.bound.value == pccl.lower_bound(MESH, *task).value
    assert not cut.bound.cut_short
    given = pccl.AllReduce("64kB", range(8), 4)
    cut = pccl.synthesize(MESH, given, time_limit=1e-9)
    assert cut.bound.value == pccl.lower_bound(MESH, given).value


def test_nothing_long_is_begun_once_time_is_up(monkeypatch):
    """Ways to time a solution, and the best bound, take seconds each on a large network."""

    def begun(*_):
        raise AssertionError("this takes too long")

    monkeypatch.setattr(retime, "timed_by", begun)
    monkeypatch.setattr(retime, "justified", begun)
    monkeypatch.setattr(Problem, "bound", property(begun))
    found = pccl.synthesize(
        MESH, pccl.AllReduce("64kB", range(8), 4), effort="thorough", time_limit=1e-9
    )
    pccl.verify(found)


def test_what_is_not_polished_yet_survives_ctrl_c(monkeypatch):
    """On large networks the polish of the first solution takes longer than to find it."""

    def retimed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "retimed", retimed)
    entries = []
    found = pccl.synthesize(MESH, *rows(pccl.AllToAll, [4], 8), log=entries.append)
    pccl.verify(found)
    assert [entry.interrupted for entry in entries] == [False, True]


def test_what_was_found_so_far_survives_ctrl_c(monkeypatch):
    """After the first solution, the second attempt is interrupted."""
    calls = []

    def find(*arguments):
        calls.append(arguments)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return original(*arguments)

    original = EarliestArrival.find
    monkeypatch.setattr(EarliestArrival, "find", find)
    found = pccl.synthesize(MESH, *rows(pccl.AllToAll, [4], 8))
    assert len(calls) >= 2
    pccl.verify(found)


def test_ctrl_c_in_one_of_two_attempts_counts():
    """The other is stopped by it, which is no reason to go on."""
    searching = Search.of(
        MESH, [pccl.AllGather("64kB", chunks=1)], Settings(), lambda *_: None, None
    )
    searching.run()

    def stopped_by(reason):
        def attempt():
            raise reason

        return attempt

    for attempts in ([KeyboardInterrupt, Enough], [Enough, KeyboardInterrupt]):
        _, stop = searching._run([stopped_by(reason) for reason in attempts])
        assert isinstance(stop, KeyboardInterrupt)


def test_ctrl_c_before_anything_was_found(monkeypatch):
    def find(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(EarliestArrival, "find", find)
    with pytest.raises(KeyboardInterrupt):
        pccl.synthesize(MESH, *rows(pccl.AllToAll, [4], 8))


def test_the_same_every_time():
    """Threads or not, whatever else the machine does meanwhile."""
    task = rows(pccl.AllToAll, [4], 8)
    found, others = [], []
    busy = threading.Thread(
        target=lambda: others.append(pccl.synthesize(MESH, *rows(pccl.AllGather, [2], 8)))
    )
    found.append(pccl.synthesize(MESH, *task))
    busy.start()
    found.append(pccl.synthesize(MESH, *task))
    busy.join()
    assert found[0] == found[1]
    assert found[0].provenance.method == found[1].provenance.method
    assert pccl.synthesize(MESH, *task, seed=1) != found[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"effort": "heroic"}, "there is no effort 'heroic'; there are fast, balanced, thorough"),
        ({"gap": -0.1}, "the gap must be a share from 0 on"),
        ({"gap": "5%"}, "the gap must be a share from 0 on"),
        ({"time_limit": 0}, "the time limit must be a positive number of seconds"),
        (
            {"method": "magic"},
            "there is no method 'magic'; there are mirrored, joint, price-guided, earliest-arrival, flooding",
        ),
        ({"method": "flooding", "order": "rounds"}, "flooding has no order"),
        ({"verify": "no"}, "the setting verify must be True or False, not 'no'"),
        ({"settings": 1}, "settings must be a pccl.Settings, such as .*, not 1"),
        ({"settings": {}}, "settings must be a pccl.Settings, such as .*, not {}"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(pccl.PcclError, match=message):
        pccl.synthesize(MESH, pccl.AllGather("64kB"), **settings)


def test_flooding_refuses_what_would_take_too_long():
    with pytest.raises(pccl.PcclError, match="flooding would spread too many chunks"):
        pccl.synthesize(
            pccl.topology.switch(1024), pccl.AllGather("1GiB", chunks=4), method="flooding"
        )


@pytest.mark.parametrize("method", ["earliest-arrival", "price-guided", "flooding"])
def test_a_method_of_your_choice(method):
    found = pccl.synthesize(MESH, *rows(pccl.AllGather, [4], 2), method=method)
    assert found.provenance.method.startswith(f"balanced: {method.replace('-a', ' a')}")
    pccl.verify(found)


# --- how many chunks -------------------------------------------------------------------------------------------------


def test_small_data_are_not_cut():
    """Where latency is all, further chunks gain nothing."""
    far = pccl.topology.mesh(4, 4, bandwidth="50GB/s", latency="10us")
    assert pccl.synthesize(far, pccl.AllGather("1KiB")).collectives[0].chunks == 1


def test_large_data_are_cut_so_that_transfers_overlap():
    """Down a line of five, a broadcast of ten pieces takes 13 tenths of the time of one link, not four times that."""
    line = pccl.topology.line(5, **EVEN)
    whole = pccl.synthesize(line, pccl.Broadcast("1MB", chunks=1))
    found = pccl.synthesize(line, pccl.Broadcast("1MB"))
    assert found.collectives[0].chunks > 16
    assert found.duration < 0.3 * whole.duration
    assert pccl.synthesize(line, pccl.Broadcast("1MB"), effort="fast") == whole


@pytest.mark.parametrize(
    ("network", "collective", "most"),
    [
        ("a100:1", pccl.AllGather("1MiB"), 8),  # 16 take 0.7 % less
        ("h100:1", pccl.AllToAll("64MiB"), 8),  # 16 take 0.9 % less
        ("torus:4x4", pccl.AllGather("1MiB"), 8),  # once re-routed, as quick as 16
    ],
)
def test_fewer_chunks_that_take_hardly_longer_are_preferred(network, collective, most):
    """Also where more of them come so close to the bound that nothing needs improving."""
    topology = parse_topology(network)
    found = pccl.synthesize(topology, collective)
    assert found.collectives[0].chunks <= most
    finer = pccl.synthesize(topology, replace(collective, chunks=16))
    assert found.duration * 0.98 <= finer.duration


@pytest.mark.parametrize(("network", "most"), [("ring:8", 1), ("mesh:3x3", 2)])
def test_fewer_chunks_are_searched_for_where_that_is_easy(network, most):
    """As they are first found they take longer; a search of their own finds what takes no longer."""
    topology = parse_topology(network)
    found = pccl.synthesize(topology, pccl.AllToAll("1MiB"))
    assert found.collectives[0].pieces <= most
    more = pccl.synthesize(topology, pccl.AllToAll("1MiB", chunks=8))
    assert found.duration <= more.duration / search.WORTHWHILE


def test_chunks_are_equal_where_a_number_near_divides_the_data():
    """A share of 7 * 9 bytes is cut into 7, 9 or 21 rather than 8 or 16."""
    line = pccl.topology.line(4, **EVEN)
    found = pccl.synthesize(line, pccl.Broadcast("63B"))
    assert found.collectives[0].chunks in (7, 9, 21, 63)
    assert len(found.conditions.sizes[0]) == 1


def test_chunks_that_differ_by_an_element_fit_together_as_if_equal():
    """A prime number of bytes: no better and no worse than the next number that divides."""
    mesh = pccl.topology.mesh(4, 4, **EVEN)
    odd = pccl.synthesize(mesh, pccl.AllGather("1000003B", chunks=4))
    even = pccl.synthesize(mesh, pccl.AllGather("1000064B", chunks=4))
    assert even.duration * 0.999 <= odd.duration <= even.duration


def test_chunks_that_are_given_stay():
    given, free = pccl.Broadcast("1MB", chunks=2), pccl.Broadcast("1MB", root=3)
    found = pccl.synthesize(pccl.topology.line(4, **EVEN), given, free)
    assert found.collectives[0] == given
    # More help the other one, which need not wait until that is done.
    assert found.collectives[1].chunks > 2
    assert pccl.each_collective(found)[1].finish < 0.6 * found.duration


def test_a_search_goes_on_from_what_another_has_found():
    collective = pccl.AllToAll("16kB", chunks=1)
    mesh = pccl.topology.mesh(4, 4, **EVEN)
    problem = pose(mesh, collective)
    opening = PriceGuided.usual(problem).find(problem)
    begun = search.Search.of(mesh, [collective], pccl.Settings(), lambda *_: None, None)
    found = begun.run(opening)
    assert found.problem is opening.problem
    assert found.duration < opening.duration


def test_an_improvement_is_called_because_the_registry_names_it(monkeypatch):
    """What mends any schedule is tried on the best; the seeds of all attempts differ."""
    aims = []

    class Nothing(Improvement):
        mends = True

        def improved(self, schedule, aim):
            aims.append(aim)
            return schedule

    class Refused(Nothing):
        def applies(self, problem):
            return False

        def improved(self, schedule, aim):
            raise AssertionError

    monkeypatch.setattr(search, "IMPROVEMENTS", (Refused(), Nothing()))
    found = pccl.synthesize(MESH, pccl.AllToAll("64kB", range(8), 4), seed=3)
    pccl.verify(found)
    assert len(aims) >= search.WORKERS
    assert sorted(aim.seed for aim in aims) == list(range(4, 4 + len(aims)))


@pytest.mark.parametrize("chunks", [None, 2])
def test_the_bound_never_falls(chunks):
    """What is proven for one number of chunks is not shown as if it held for others; the algorithm carries it."""
    entries = []
    topology = pccl.topology.parse_topology("dragonfly:3x2x2")
    collective = pccl.AllGather("1200kB", chunks=chunks)
    algorithm = pccl.synthesize(topology, collective, log=entries.append, time_limit=3)
    bounds = [int(entry.bound) for entry in entries]
    assert bounds == sorted(bounds)
    assert bounds[-1] <= algorithm.bound.value <= algorithm.duration
