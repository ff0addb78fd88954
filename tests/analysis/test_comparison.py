"""The comparison: every number of a row is what the algorithm itself says, and nothing is left out in silence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pccl
from pccl.analysis import bandwidths
from pccl.analysis import comparison as module
from pccl.bounds import lower_bound


@pytest.fixture(scope="module")
def ours():
    mesh = pccl.topology.mesh(3, 3, bandwidth="50GiB/s", latency="500ns")
    return pccl.synthesize(mesh, pccl.AllGather("9MiB", chunks=2), effort="fast")


def test_rows_say_what_the_algorithms_say(ours):
    comparison = pccl.compare(ours, ["direct", "ring"])
    assert [row.name for row in comparison.rows] == ["pccl", "direct", "ring", "bound"]
    assert comparison.ours.duration == ours.duration
    assert comparison.ours.speedup == 1
    assert comparison.ours.links_busy == pytest.approx(ours.utilization.mean())
    for row in comparison.rows:
        rates = bandwidths(ours.collectives[0], 9, int(row.duration))
        assert (row.algorithm_bandwidth, row.bus_bandwidth) == rates
        assert row.speedup == row.duration / ours.duration
        assert row.of_bound == comparison.bound.value / row.duration
    assert comparison.gap == ours.duration / comparison.bound.value - 1


@pytest.mark.parametrize("exclusive", [False, True])
def test_links_are_as_busy_as_the_simulator_says(exclusive):
    """With exclusive links, which are held for the latency too, and without."""
    line = pccl.topology.line(4, bandwidth="1GB/s", latency="5us")
    line = replace(line, exclusive=np.full(line.num_links, exclusive))
    ours = pccl.synthesize(line, pccl.AllGather("4kB", chunks=1), effort="fast")
    busy = pccl.simulate(ours).utilization.mean()
    comparison = pccl.compare(ours, ["ring"])
    assert comparison.ours.links_busy == pytest.approx(busy)
    ring = pccl.simulate(pccl.baseline("ring", line, *ours.collectives))
    assert comparison.baselines[0].links_busy == pytest.approx(ring.utilization.mean())


def test_a_baseline_may_leave_its_data_uncut():
    """Cut into four, chunks wait for each other at the switch."""
    far = pccl.topology.switch(4, bandwidth="1TB/s", latency="1ms")
    algorithm = pccl.synthesize(far, pccl.AllToAll("4kB", chunks=4), effort="fast")
    times = [
        pccl.baseline("bruck", far, pccl.AllToAll("4kB", chunks=chunks)).duration
        for chunks in (1, 4)
    ]
    assert times[0] != times[1]
    assert pccl.compare(algorithm, ["bruck"]).baselines[0].duration == min(times)


def test_no_baseline_beats_the_bound_by_cutting_its_data_otherwise():
    """In one piece data must have come in before they go on; the ring cuts them into many."""
    line = pccl.topology.line(3, bandwidth="1GB/s", latency="0ns")
    algorithm = pccl.synthesize(line, pccl.Broadcast("4MB", chunks=1), effort="fast")
    comparison = pccl.compare(algorithm, ["nccl-ring", "bruck"])
    ring, bruck = comparison.baselines
    in_one_piece = lower_bound(line, pccl.Broadcast("4MB", chunks=1))
    assert ring.duration < in_one_piece.value
    assert comparison.bound == lower_bound(line, pccl.Broadcast("4MB"))
    assert ring.of_bound == comparison.bound.value / ring.duration
    assert ring.of_bound <= 1
    assert bruck.of_bound is None


def test_what_does_not_apply_says_why(ours):
    comparison = pccl.compare(ours, bound=False)
    assert comparison.bound is None
    assert comparison.bound_row is None
    assert comparison.gap is None
    assert comparison.ours.of_bound is None
    reasons = {row.name: row.reason for row in comparison.left_out}
    assert reasons == {
        "halving-doubling": "needs a power of two NPUs per group; all-gather has 9",
        "double-tree": "does not support all-gather",
        "bruck": "does not support all-gather",
        "one-shot": "does not support all-gather",
        "two-shot": "does not support all-gather",
        "recursive-doubling": "does not support all-gather",
        "exchange": "does not support all-gather",
        "scattered-exchange": "does not support all-gather",
        "nccl-tree": "does not support all-gather",
        "nvls": "needs a switch that multiplies and adds in every box, as in h100:4,nvls=yes; mesh:3x3 has none",
    }
    names = [row.name for row in comparison.baselines]
    left_out = {"nccl-each", "direct-ascending", "confined"}
    assert names == [one.name for one in pccl.baselines() if one.name not in left_out]
    assert comparison.best_baseline.duration == min(
        row.duration for row in comparison.baselines if row.duration is not None
    )


@pytest.mark.parametrize(
    ("collective", "today"),
    [
        (pccl.AllGather("4kB"), {"nccl-ring", "nvls"}),
        (pccl.AllReduce("4kB"), {"nccl-ring", "nccl-tree", "nvls"}),
        (pccl.Broadcast("4kB"), {"nccl-ring"}),
        (pccl.AllToAll("4kB"), {"direct"}),
        (pccl.Scatter("4kB"), {"direct"}),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_what_people_have_today_is_the_best_of_what_nccl_does(collective, today):
    able = pccl.topology.switch(4, multicast=True, reduce=True)
    comparison = pccl.compare(pccl.synthesize(able, collective, effort="fast"))
    candidates = [row for row in comparison.baselines if row.today]
    assert {row.name for row in candidates} == today
    assert comparison.today in candidates
    assert comparison.today.duration == min(row.duration for row in candidates)
    assert comparison.today.speedup == comparison.today.duration / comparison.ours.duration


def test_two_kinds_run_each_in_its_own_way(ours):
    both = pccl.synthesize(ours.topology, *ours.collectives, pccl.AllToAll("9kB"), effort="fast")
    comparison = pccl.compare(both)
    assert [row.name for row in comparison.baselines if row.today] == ["nccl-each"]
    assert comparison.today.name == "nccl-each"


def test_a_baseline_shaped_like_nccl_chooses_its_number_of_chunks():
    switch = pccl.topology.switch(4, bandwidth="1GB/s", latency="0ns")
    ours = pccl.synthesize(switch, pccl.AllGather("4MB", chunks=1), effort="fast")
    (row,) = pccl.compare(ours, ["nccl-ring"]).baselines
    uncut = pccl.baseline("nccl-ring", switch, pccl.AllGather("4MB", chunks=1))
    assert row.duration < uncut.duration * 0.6


def test_what_cannot_be_done_at_all_says_why():
    """The NPUs of the group are not neighbours, so that they cannot do without the others."""
    ring = pccl.topology.ring(4)
    algorithm = pccl.synthesize(ring, pccl.AllGather("2MiB", group=[0, 2]), effort="fast")
    (row,) = pccl.compare(algorithm, ["confined"]).left_out
    assert "cannot get from NPU 0 to NPU 2" in row.reason


def test_quick_leaves_out_what_takes_long_unless_it_is_named(ours, monkeypatch):
    monkeypatch.setattr(module, "QUICK_TRANSFERS", 10)
    quick = pccl.compare(ours, bound=False, quick=True)
    reasons = {row.name: row.reason for row in quick.left_out}
    assert reasons["direct"] == "beyond 10 transfers only on request"
    assert reasons["bruck"] == "does not support all-gather"
    assert not pccl.compare(ours, ["direct"], bound=False, quick=True).left_out


def test_what_cannot_be_cut_is_left_as_it_is():
    ring = pccl.topology.ring(4)
    custom = pccl.Custom([pccl.Condition(0, [1, 2], "1kB")])
    algorithm = pccl.synthesize(ring, custom, pccl.AllGather("8kB", chunks=2), effort="fast")
    (row,) = pccl.compare(algorithm, ["direct"]).baselines
    assert row.duration is not None


def test_unknown_names_are_refused(ours):
    with pytest.raises(pccl.PcclError, match="there is no baseline 'magic'; there are nccl-ring"):
        pccl.compare(ours, ["magic"])


def test_progress_is_told(ours):
    heard = []
    pccl.compare(ours, ["ring"], progress=lambda *what: heard.append(what))
    assert heard == [(0, 2, "bound"), (1, 2, "baseline ring")]


def test_where_nothing_takes_time_there_is_no_gap():
    alone = pccl.topology.ring(4)
    algorithm = pccl.Algorithm.build(alone, [pccl.AllGather("1kB", group=[0])], [], [], [])
    comparison = pccl.compare(algorithm, ["ring"])
    assert comparison.gap == 0
    assert [row.speedup for row in comparison.rows] == [1, 1, 1]


def test_rows_say_what_they_need_of_switches():
    able = pccl.topology.switch(4, multicast=True, reduce=True)
    ours = pccl.synthesize(able, pccl.AllReduce("1MiB", chunks=4), effort="fast")
    comparison = pccl.compare(ours, ["nvls"])
    (nvls,) = comparison.baselines
    assert comparison.ours.needs == nvls.needs == ("multicast", "reduce")
    assert comparison.bound_row.needs == ()


def test_what_a_runtime_has_no_use_of_is_not_what_the_network_lacks():
    able = pccl.topology.switch(4, multicast=True, reduce=True)
    task = pccl.AllReduce("1MiB", chunks=4)
    ours = pccl.synthesize(able, task, effort="fast", target="msccl")
    (nvls,) = pccl.compare(ours, ["nvls"], network=able, target="torch").baselines
    assert nvls.reason == (
        "needs switches that multiply messages (multicast) and add them up (reduce), and a runtime that has them do "
        "it, which the one asked for does not"
    )
    # It runs on neither.
    (bruck,) = pccl.compare(ours, ["bruck"], network=able, target="torch").baselines
    assert bruck.reason == "does not support all-reduce"


def test_baselines_may_do_all_that_the_network_can():
    """Ours does without, as that is quicker for small data; NCCL would still have its NVSwitches add and multiply."""
    able = pccl.topology.parse_topology("h100:2,nvls=yes")
    ours = pccl.synthesize(able, pccl.AllReduce("64KiB"))
    assert ours.needs == ()
    rows = {row.name: row for row in pccl.compare(ours, network=able).baselines}
    assert rows["nvls"].needs == ("multicast", "reduce")
    assert not rows["exchange"].reason
    assert min(int(row.duration) for row in rows.values() if not row.reason) >= ours.duration


def test_baselines_keep_to_groups_that_are_confined():
    dgx1 = pccl.topology.parse_topology("dgx1")
    ours = pccl.synthesize(dgx1, pccl.AllReduce("1MiB", (0, 1, 2, 5), confined=True))
    comparison = pccl.compare(ours)
    reasons = {row.name: row.reason for row in comparison.left_out}
    assert reasons["nccl-ring"] == "relays through NPUs outside a group that is confined"
    assert comparison.best_baseline.duration >= ours.duration
