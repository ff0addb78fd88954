"""Partial sums exchanged: the longest way is paid for once, and every sum counts every contribution once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.algorithm.apart import kept_apart
from pccl.algorithm.timing import find_inputs, times_of
from pccl.schemes import UnsupportedError
from pccl.schemes.workload import Workload
from pccl.targets import TARGETS
from pccl.topology import parse_topology
from tests.strategies import networks

EXCHANGES = ("one-shot", "recursive-doubling", "exchange", "scattered-exchange")
LINK = {"latency": "1us", "bandwidth": "1TB/s"}  # small data take a microsecond a link
SMALL = pccl.AllReduce("1KiB", chunks=1)


def links(name, topology, collective=SMALL):
    """How many links long the way is that it pays for, after a check that it is correct."""
    algorithm = pccl.baseline(name, topology, collective)
    pccl.verify(algorithm)
    return round(algorithm.duration / 1e6, 1)


@pytest.mark.parametrize(
    ("name", "topology", "length"),
    [
        ("one-shot", pccl.topology.switch(8, **LINK), 2),
        ("one-shot", pccl.topology.fully_connected(5, **LINK), 1),
        ("two-shot", pccl.topology.switch(8, **LINK), 4),
        ("recursive-doubling", pccl.topology.switch(8, **LINK), 6),
        ("recursive-doubling", pccl.topology.hypercube(4, **LINK), 4),
        ("recursive-doubling", pccl.topology.ring(4, **LINK), 2),
        ("recursive-doubling", pccl.topology.torus(4, 4, **LINK), 4),
        ("recursive-doubling", pccl.topology.line(8, **LINK), 7),
        ("recursive-doubling", pccl.topology.mesh(4, 4, **LINK), 6),
        # Halves of a ring, then both of their ends, then from the ends inwards.
        ("recursive-doubling", pccl.topology.ring(8, **LINK), 5),
        ("recursive-doubling", pccl.topology.ring(5, **LINK), 3),
        # The middle gets both ends at once.
        ("exchange", pccl.topology.line(3, **LINK), 2),
        ("exchange", pccl.topology.switch(8, **LINK), 2),
        ("exchange", pccl.topology.torus(4, 4, **LINK), 4),
    ],
    ids=str,
)
def test_how_far_small_data_go(name, topology, length):
    assert links(name, topology) == pytest.approx(length, rel=0.03)


@pytest.mark.parametrize("machine", ["dgx1", "switch:8", "hypercube:4", "h100:4"])
def test_small_sums_take_little_more_than_the_longest_way(machine):
    topology = parse_topology(machine)
    topology = replace(topology, gap=np.zeros_like(topology.gap))
    longest_way = Workload.of(topology, SMALL).times.max()
    assert pccl.synthesize(topology, SMALL).duration <= 1.2 * longest_way


def test_sums_of_parts_go_while_blocks_are_put_together():
    """Dies of mi250 add up in pairs over xGMI; meanwhile their NICs carry what single dies have."""
    machine = parse_topology("mi250:2")
    found = pccl.baseline("exchange", machine, pccl.AllReduce("1KiB").in_one())
    pccl.verify(found)
    over_xgmi = 800 + 5.12  # nanoseconds
    over_nics = 2 * (1350 + 64)
    message = 64 + 4.7
    # Every pair gets a message from each of 15 others, one after another...
    one_after_another = over_xgmi + over_nics + 14 * message
    # ... or, of five of them, from both dies before.
    assert found.duration == pytest.approx(1000 * (one_after_another - 5 * message), rel=0.03)


def test_boxes_exchange_inside_then_with_each_other():
    """Everyone sends once to the seven others of its box, then once to those at its place in other boxes."""
    machine = parse_topology("a100:2")
    algorithm = pccl.baseline("exchange", machine, SMALL)
    t = algorithm.transfers
    sent = np.bincount(t.src[(t.src < 16) & (t.chunk == 0)], minlength=16)
    assert sent.tolist() == [8] * 16


@pytest.mark.parametrize(
    ("machine", "ways"),
    [
        # Twice through a switch inside, once between boxes, twice inside.
        ("a100:2", 2 * 2 * 0.3 + 2.7),
        # One NPU of a box sends to the other box, and another one receives.
        ("dgx2:2", 2 * 2 * 0.35 + 2.6),
    ],
)
def test_shares_are_added_up_inside_boxes_and_exchanged_between_them(machine, ways):
    algorithm = pccl.baseline("scattered-exchange", parse_topology(machine), SMALL)
    pccl.verify(algorithm)
    assert algorithm.duration / 1e6 == pytest.approx(ways, rel=0.03)


def test_the_smallest_sums_are_not_even_cut_into_shares():
    """Every message holds a NIC for some time; one for each of 32 shares would cost more than all its bytes."""
    machine = parse_topology("h100:4")
    algorithm = pccl.synthesize(machine, pccl.AllReduce("1KiB"))
    pccl.verify(algorithm)
    assert algorithm.collectives[0].whole
    assert len(algorithm.conditions) == 1
    shares = pccl.baseline("exchange", machine, SMALL)
    assert algorithm.duration < 0.95 * shares.duration
    for target in ("mscclpp", "msccl", "chakra"):
        assert TARGETS[target].time_of(algorithm) <= 1.02 * algorithm.duration


def test_medium_sums_between_boxes_are_scattered():
    """All of it over every NIC would take longer than the second way inside boxes."""
    machine = parse_topology("a100:2")
    algorithm = pccl.synthesize(machine, pccl.AllReduce("64KiB"))
    two_phases = pccl.baseline("two-shot", machine, pccl.AllReduce("64KiB"))
    everything = pccl.baseline("exchange", machine, pccl.AllReduce("64KiB"))
    assert algorithm.duration < 0.7 * min(two_phases.duration, everything.duration)


@pytest.mark.parametrize("name", EXCHANGES[:3])
def test_slow_senders_hold_up_what_comes_in(name):
    """Seven messages of 20 ns take longer than 10 ns there: the first must not come in before the last has left."""
    near = pccl.topology.switch(8, latency="10ns")
    pccl.verify(pccl.baseline(name, near, SMALL))


@settings(max_examples=30, deadline=None)
@given(networks(limits=False), st.data())
def test_every_exchange_is_correct(topology, data):
    members = data.draw(
        st.lists(st.sampled_from(topology.npus.tolist()), min_size=2, unique=True), "group"
    )
    size = data.draw(st.sampled_from(["64B", "1KiB", "1MiB"]), "size")
    collective = pccl.AllReduce(size, group=tuple(members), chunks=1)
    for name in EXCHANGES:
        try:
            algorithm = pccl.baseline(name, topology, collective)
        except (UnsupportedError, pccl.InfeasibleError):
            continue
        pccl.verify(algorithm)
        for discipline in ("planned", "fifo"):
            pccl.verify(pccl.simulate(algorithm, discipline).to_algorithm())


@pytest.mark.parametrize("name", EXCHANGES[:3])
def test_sums_that_are_added_to_a_copy_come_after_it(name):
    """NPU 1 is not next to NPU 2, so NPU 0 sends it their sum; what NPU 4 sends is added to that."""
    damaged = pccl.topology.fully_connected(5, **LINK).without(links=["2:1"])
    try:
        algorithm = pccl.baseline(name, damaged, pccl.AllReduce("1KiB", chunks=1))
    except UnsupportedError:
        assert name == "one-shot"
        return
    pccl.verify(algorithm)
    pccl.verify(pccl.simulate(algorithm, "fifo").to_algorithm())


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(
        ["fully-connected:6", "torus:3x3", "mesh:3x3", "hypercube:3", "torus:4x4", "dgx1"]
    ),
    st.data(),
)
def test_exchanges_on_damaged_networks_are_correct(name, data):
    """Some links are broken and others slow, so that ways differ from what the places of NPUs suggest."""
    topology = parse_topology(name)
    ends = zip(topology.src.tolist(), topology.dst.tolist(), strict=True)
    pairs = st.sampled_from(sorted({f"{a}:{b}" for a, b in ends if a < b}))
    broken = data.draw(st.lists(pairs, max_size=3, unique=True), "broken")
    slow = data.draw(st.lists(pairs, max_size=3, unique=True), "slow")
    damaged = topology.edited(
        {f"{pair}.latency": "5us" for pair in slow if pair not in broken}
    ).without(links=broken)
    for scheme in EXCHANGES:
        try:
            algorithm = pccl.baseline(scheme, damaged, SMALL)
        except (UnsupportedError, pccl.InfeasibleError):
            continue
        pccl.verify(algorithm)
        pccl.verify(pccl.simulate(algorithm, "fifo").to_algorithm())


def test_a_simulation_does_not_add_too_early():
    """Of a ring of five, NPUs that have little to do wait for the others."""
    ring = pccl.topology.ring(5, **LINK)
    algorithm = pccl.baseline("exchange", ring, pccl.AllReduce("5MB", chunks=1))
    t = algorithm.transfers
    times = times_of(t, ring, t.transmission)
    inputs = find_inputs(t, ring)
    assert np.array_equal(kept_apart(t, inputs, times, t.start, t.arrival), t.start)
    simulation = pccl.simulate(algorithm)
    assert simulation.finish == algorithm.duration
    slow = pccl.simulate(algorithm, slowdown={0: 3.0})
    assert slow.finish > algorithm.duration


@pytest.mark.parametrize("machine", ["ring:4", "dgx1", "switch:8", "h100:2", "ring:5", "mesh:3x3"])
@pytest.mark.parametrize("target", ["mscclpp", "msccl", "chakra"])
def test_runtimes_take_exchanges(target, machine):
    """Their files are run by interpreters that know what every place in memory holds."""
    algorithm = pccl.baseline("exchange", parse_topology(machine), pccl.AllReduce("64KiB"))
    assert TARGETS[target].time_of(algorithm) <= 1.02 * algorithm.duration


@pytest.mark.parametrize(
    ("name", "topology", "reason"),
    [
        ("one-shot", pccl.topology.ring(4), "needs a way from every NPU of the group"),
        (
            "exchange",
            pccl.topology.switch(4, multicast=True, reduce=True),
            "no switch that multiplies or adds",
        ),
        ("one-shot", pccl.topology.switch(64), "would take more than 150,000 transfers"),
        ("exchange", pccl.topology.mesh(17, 16), "at most 256 NPUs"),
    ],
    ids=str,
)
def test_what_cannot_be_exchanged_says_why(name, topology, reason):
    with pytest.raises(UnsupportedError, match=reason):
        pccl.baseline(name, topology, SMALL)
