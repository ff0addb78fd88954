"""Plans for runtimes: within their limits, and the best as messages between NPUs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import pccl
from pccl.formats.lowering import lowered_time
from pccl.schemes import SCHEMES
from pccl.settings import Settings
from pccl.synthesis import fitting
from pccl.synthesis.clock import Clock
from pccl.synthesis.fitting import Fitting
from pccl.synthesis.known import Known
from pccl.synthesis.search import Search
from pccl.targets import TARGETS, Target
from pccl.topology import Link, Switch, Topology, parse_topology

MULTIPLIES = "switch:4,bandwidth=1GB/s,latency=0ns,multicast=yes,reduce=yes"


def take_few(algorithm: pccl.Algorithm, quick: bool = False) -> pccl.units.Picoseconds:
    """A runtime that takes no more than two chunks to a share."""
    if algorithm.collectives[0].pieces > 2:
        raise pccl.PcclError("more than two chunks")
    return lowered_time(algorithm)


def take_five(algorithm: pccl.Algorithm, quick: bool = False) -> pccl.units.Picoseconds:
    """A runtime that takes no more than five chunks to a share."""
    if algorithm.collectives[0].pieces > 5:
        raise pccl.PcclError("more than five chunks")
    return lowered_time(algorithm)


def take_slowly(algorithm: pccl.Algorithm, quick: bool = False) -> pccl.units.Picoseconds:
    """A runtime in which every chunk takes twice as long as the one before it."""
    return pccl.units.Picoseconds(int(algorithm.duration) * 2 ** algorithm.collectives[0].pieces)


def take_nothing(algorithm: pccl.Algorithm, quick: bool = False) -> pccl.units.Picoseconds:
    """A runtime that has no room for anything."""
    raise pccl.PcclError(f"no room for {len(algorithm.transfers)} transfers")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch):
    def register(function) -> None:
        monkeypatch.setitem(TARGETS, "chakra", Target("chakra", f"{__name__}:{function.__name__}"))

    return register


def test_without_limits_the_best_is_taken() -> None:
    ring = parse_topology("ring:4")
    best = pccl.synthesize(ring, pccl.Broadcast("16MiB"))
    assert best.collectives[0].pieces > 2
    assert pccl.synthesize(ring, pccl.Broadcast("16MiB"), target="chakra") == best


def test_fewer_chunks_where_a_runtime_takes_no_more(runtime) -> None:
    runtime(take_few)
    found = pccl.synthesize(parse_topology("ring:4"), pccl.Broadcast("16MiB"), target="chakra")
    assert found.collectives[0].pieces == 2
    assert found.provenance.method.startswith("balanced for chakra: ")


def test_the_time_in_the_runtime_counts(runtime) -> None:
    runtime(take_slowly)
    found = pccl.synthesize(parse_topology("ring:4"), pccl.Broadcast("16MiB"), target="chakra")
    assert found.collectives[0].pieces == 1


def test_no_plan_fits(runtime) -> None:
    runtime(take_nothing)
    with pytest.raises(pccl.InfeasibleError, match=r"that chakra can take: no room for \d+ trans"):
        pccl.synthesize(parse_topology("ring:4"), pccl.Broadcast("16MiB"), target="chakra")


def test_switches_do_what_the_runtime_lets_them_do() -> None:
    hub = parse_topology(MULTIPLIES)
    whole = pccl.synthesize(hub, pccl.AllReduce("4kB", chunks=1))
    assert whole.needs == ("multicast", "reduce")
    for name in ("msccl", "mscclpp", "chakra"):
        found = pccl.synthesize(hub, pccl.AllReduce("4kB", chunks=1), target=name)
        assert found.needs == ()
        assert lowered_time(found) <= found.duration
        assert found.duration < lowered_time(whole)


def test_all_runtimes_take_what_gains_nothing_from_switches() -> None:
    """All-Gather does not: what arrives takes as long."""
    best = pccl.synthesize(parse_topology(MULTIPLIES), pccl.AllGather("4MiB"))
    for target in TARGETS.values():
        assert target.time_of(best) <= 1.1 * best.duration


@pytest.mark.parametrize(("tolerated", "suits"), [(100.0, True), (1.05, False)])
def test_what_suits_all_may_take_a_little_longer(tolerated, suits, monkeypatch) -> None:
    few = replace(TARGETS["msccl"], fit=f"{__name__}:take_few")
    monkeypatch.setitem(TARGETS, "msccl", few)
    monkeypatch.setattr(fitting, "EASY", 0)
    monkeypatch.setattr(fitting, "TOLERATED", tolerated)
    # A pipeline that many know is faster by far, and takes many chunks.
    monkeypatch.setattr(fitting, "MUCH_FASTER", 100.0)
    found = pccl.synthesize(parse_topology("ring:4"), pccl.Broadcast("4MiB"))
    assert (found.collectives[0].pieces == 2) == suits


def searches(topology: pccl.Topology, collective: pccl.Collective) -> fitting.Fitting:
    return fitting.Fitting(topology, [collective], Settings(), lambda *_: None, None, Clock(), None)


def fill_by_fives(algorithm: pccl.Algorithm) -> float:
    """How full the runtime is that takes no more than five chunks to a share."""
    return algorithm.collectives[0].pieces / 5


def test_as_many_chunks_as_there_is_room_for(monkeypatch) -> None:
    """The best has more than five, so that with as many as there is room for another is looked for."""
    five = Target("msccl", f"{__name__}:take_five", fill=f"{__name__}:fill_by_fives")
    monkeypatch.setitem(TARGETS, "msccl", five)
    monkeypatch.setattr(fitting, "EASY", 0)
    monkeypatch.setattr(fitting, "TOLERATED", 2.0)
    monkeypatch.setattr(fitting, "FULL", 1.0)
    monkeypatch.setattr(fitting, "JOINED", 1.0)
    tried = searches(parse_topology("ring:4"), pccl.Broadcast("16MiB"))
    search = tried._search(tried.topology, tried.collectives)
    best = search.run().algorithm()
    assert best.collectives[0].pieces > 5
    found = tried._suited(search, fitting.Plan(best, "best", None), [five])
    assert found.algorithm.collectives[0].pieces in (4, 5)
    assert found.algorithm.duration <= 2.0 * best.duration


def test_no_search_for_what_its_bound_excludes() -> None:
    tried = searches(parse_topology("ring:4"), pccl.Broadcast("16MiB"))
    search = tried._search(tried.topology, tried.collectives)
    best = search.run()
    assert tried._near(search, 1, 1.01 * best.duration) is None
    near = tried._near(search, 4, 2.0 * best.duration)
    assert near is not None
    assert near.problem.collectives[0].pieces == 4


def test_a_scheme_with_fewer_chunks_where_a_runtime_takes_no_more() -> None:
    torus = parse_topology("torus:4x4")
    few = [replace(TARGETS["msccl"], fit=f"{__name__}:take_few")]
    scheme = next(one for one in SCHEMES if one.name == "recursive-doubling")
    known = Known(scheme, scheme.run(torus, [pccl.AllReduce("64KiB", chunks=8)]))
    ours = scheme.run(torus, [pccl.AllReduce("64KiB", chunks=1)])
    found = searches(torus, pccl.AllReduce("64KiB"))._suitable(known, ours, few)
    assert found is not None
    assert found.collectives[0].pieces == 2
    assert known.algorithm.duration < found.duration < ours.duration


def test_a_search_without_a_question_does_not_ask() -> None:
    """Formats are not even imported."""
    program = (
        "import sys, pccl\n"
        "mesh = pccl.topology.mesh(4, 4)\n"
        "pccl.synthesize(mesh, pccl.AllToAll('1MiB'), effort='fast')\n"
        "pccl.synthesize(mesh, pccl.AllGather('1MiB'))\n"
        "assert 'pccl.formats' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_no_runtime_can_take_is_planned_all_the_same() -> None:
    """One byte for two NPUs, by way of a switch that adds: files have no place for shares that are empty."""
    links = [Link(src, dst, "1GB/s", "0ns") for src, dst in ((0, 1), (1, 2), (2, 0))]
    topology = Topology.from_links(2, links, switches=[Switch("adds", reduce=True)])
    pccl.verify(pccl.synthesize(topology, pccl.AllGather("1B", chunks=1)))


def test_an_unknown_target() -> None:
    with pytest.raises(pccl.PcclError, match="no target 'nccl'; there are mscclpp, msccl, chakra"):
        pccl.synthesize(parse_topology("ring:4"), pccl.AllGather("4kB"), target="nccl")


def test_more_chunks_of_ours_before_a_scheme() -> None:
    """What was given up for fewer chunks is taken where a scheme is faster than these, and it is as fast."""
    box = parse_topology("ndv2:2")
    found = pccl.synthesize(box, pccl.AllReduce("64MiB"))
    tree = pccl.baseline("nccl-tree", box, pccl.AllReduce("64MiB"))
    assert found.duration <= tree.duration
    assert found.collectives[0].pieces < tree.collectives[0].pieces
    assert found.provenance.method.partition(": ")[2] not in {scheme.name for scheme in SCHEMES}


def enough(*_: object, **__: object) -> None:
    """What Ctrl-C does."""
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("what", "name"), [(Search, "proven_bound"), (Fitting, "_suited"), (Fitting, "_or_known")]
)
def test_who_has_had_enough_gets_what_there_is(monkeypatch, what, name) -> None:
    """Whatever is going on, once there is a plan."""
    monkeypatch.setattr(what, name, enough)
    entries = []
    plan = pccl.synthesize(parse_topology("ring:4"), pccl.AllReduce("64KiB"), log=entries.append)
    pccl.verify(plan)
    assert [entry.interrupted for entry in entries[-2:]] == [False, True]
    assert entries[-1].best == plan.duration


def test_who_has_had_enough_of_a_search_for_a_runtime(monkeypatch) -> None:
    monkeypatch.setattr(Search, "proven_bound", enough)
    task = (parse_topology("ring:4"), pccl.AllGather("64KiB", chunks=1))
    pccl.verify(pccl.synthesize(*task, target="msccl"))
    # Nobody knows of a plan that there is room for.
    monkeypatch.setitem(TARGETS, "msccl", replace(TARGETS["msccl"], fit=f"{__name__}:enough"))
    with pytest.raises(KeyboardInterrupt):
        pccl.synthesize(*task, target="msccl")


def test_a_second_search_that_is_interrupted_ends_all(monkeypatch) -> None:
    tried = searches(parse_topology("ring:4"), pccl.Broadcast("16MiB"))
    search = tried._search(tried.topology, tried.collectives)
    best = search.run()
    monkeypatch.setattr(Search, "_be_good_neighbours", enough)
    with pytest.raises(KeyboardInterrupt):
        tried._near(search, 4, 2 * best.duration)
    assert tried.interrupted


@pytest.mark.parametrize("target", [None, "torch", "mscclpp"])
def test_a_time_limit_leaves_time_for_schemes(target):
    """No way of trees is as quick as an exchange of sums; the search knows, and leaves the rest to schemes."""
    boxes = pccl.topology.parse_topology("h100:2")
    plan = pccl.synthesize(boxes, pccl.AllReduce("1KiB"), target=target, time_limit=4)
    assert "exchange" in plan.provenance.method


def take_trees(algorithm: pccl.Algorithm, quick: bool = False) -> pccl.units.Picoseconds:
    """A runtime that takes no sums that are exchanged: along a tree, each NPU but one sends one sum of a chunk."""
    sums = np.bincount(algorithm.transfers.chunk[algorithm.transfers.reduce])
    if sums.max(initial=0) > 2 * (algorithm.topology.num_npus - 1):
        raise pccl.PcclError("sums are exchanged")
    return lowered_time(algorithm)


def test_where_no_exchange_is_taken_the_search_goes_on(monkeypatch) -> None:
    """It ends at once where an exchange will be quicker than all trees; but then that has to be taken."""
    trees = replace(TARGETS["torch"], fit=f"{__name__}:take_trees")
    monkeypatch.setitem(TARGETS, "torch", trees)
    task = (parse_topology("h100:2"), pccl.AllReduce("1KiB"))
    found = pccl.synthesize(*task, target="torch")
    monkeypatch.setattr(fitting, "beats_trees", lambda _: False)
    assert found.duration == pccl.synthesize(*task, target="torch").duration
    monkeypatch.undo()
    assert pccl.synthesize(*task, target="torch").duration < found.duration
