"""No algorithm that verifies beats any bound, of any kind, however strange the algorithm and the network."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pccl
from pccl.bounds import KINDS, check
from pccl.bounds.case import Case
from pccl.topology import Link, Switch, Topology
from tests.bounds.gossip import gossip
from tests.strategies import collectives, problems, synthesized


def assert_no_bound_is_beaten(algorithm: pccl.Algorithm) -> None:
    pccl.verify(algorithm)
    # Nor what was proven before anybody knew into how many chunks the data would be cut.
    open_to_any = [
        one if one.kind == "custom" else replace(one, chunks=None) for one in algorithm.collectives
    ]
    bound = pccl.lower_bound(algorithm.topology, *open_to_any)
    assert bound.value <= algorithm.duration, bound
    check(bound, algorithm.topology, algorithm.conditions)
    for whole_chunks in (False, True):
        case = Case(algorithm.topology, algorithm.conditions, whole_chunks)
        for name, kind in KINDS.items():
            for certificate, whole in kind.find(case):
                proven = kind.prove(case, certificate, whole)
                assert proven <= algorithm.duration, (name, certificate, whole)


@st.composite
def small_networks(draw: st.DrawFn) -> Topology:
    """A few NPUs, joined directly, by switches that can do everything or nothing, or both; often all alike."""
    npus = draw(st.integers(2, 6))
    hubs = draw(st.integers(0, 2))
    can = [draw(st.booleans()) for _ in range(hubs)]
    switches = [Switch("", None, able, able) for able in can]
    bandwidth = st.sampled_from(["1GB/s", "3GB/s", "25GB/s"])
    latency = st.sampled_from(["0ns", "1ps", "500ns", "3us"])
    gap = st.sampled_from(["0ns", "0ns", "10ns", "1us"])
    if draw(st.booleans()):  # all alike
        bandwidth = st.just(draw(bandwidth))
        latency = st.just(draw(latency))
        gap = st.just(draw(gap))
    exclusive = st.booleans() if draw(st.booleans()) else st.just(False)
    devices = npus + hubs
    two_way = draw(st.booleans())
    pairs = draw(
        st.lists(
            st.tuples(st.integers(0, devices - 1), st.integers(0, devices - 1)).filter(
                lambda pair: pair[0] != pair[1]
            ),
            max_size=10,
        )
    )
    shape = draw(st.sampled_from(["ring", "full", "star", "random"]))
    if shape in ("ring", "random"):
        around = range(npus if shape == "ring" else devices)
        pairs += [(a, (a + 1) % len(around)) for a in around if len(around) > 1]
    if shape == "full":
        pairs += [(a, b) for a in range(npus) for b in range(a)]
    if shape == "star" and hubs:
        pairs += [(a, npus) for a in range(npus)]
        two_way = True
    if two_way or shape == "full":
        pairs += [(b, a) for a, b in pairs]
    links = [
        Link(a, b, draw(bandwidth), draw(latency), draw(exclusive), draw(gap)) for a, b in pairs
    ]
    return Topology.from_links(npus, links, switches)


@settings(max_examples=25, deadline=None)
@given(small_networks(), st.data())
def test_gossip_beats_no_bound(topology, data):
    some = data.draw(st.lists(collectives(topology.num_npus), min_size=1, max_size=2))
    algorithm = gossip(topology, some, data.draw(st.integers(0, 999)))
    assume(algorithm is not None)
    assert_no_bound_is_beaten(algorithm)


@settings(max_examples=25, deadline=None)
@given(small_networks(), st.data())
def test_gossip_of_an_all_reduce_beats_no_bound(topology, data):
    """Partial sums that are exchanged, met and copied in every order."""
    size = data.draw(st.sampled_from(["12B", "12kB", "1200kB"]))
    chunks = data.draw(st.integers(1, 3))
    collective = pccl.AllReduce(size, chunks=chunks)
    algorithm = gossip(topology, [collective], data.draw(st.integers(0, 999)))
    assume(algorithm is not None)
    assert_no_bound_is_beaten(algorithm)


@settings(max_examples=25, deadline=None)
@given(problems(flags=True))
def test_what_we_find_beats_no_bound(problem):
    assert_no_bound_is_beaten(synthesized(problem))
