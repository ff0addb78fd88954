"""Random input for everyone's tests: networks, process groups, collectives, and algorithms on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

import pccl
from pccl.topology import Link, Switch, Topology
from pccl.units import Bytes, BytesPerSecond, Picoseconds

# --- networks --------------------------------------------------------------------------------------------------------

bandwidths = st.integers(1, 9 * 10**14).map(BytesPerSecond)
latencies = st.integers(0, 2**62 - 1).map(Picoseconds)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)

# Values of real machines, and some that divide nothing; few enough for ties to be common.
usual_bandwidths = st.sampled_from(["1GB/s", "3GB/s", "25GB/s", "50GiB/s", "999999937B/s"])
usual_latencies = st.sampled_from(["0ns", "0ns", "1ps", "500ns", "3us"])


@st.composite
def topologies(draw: st.DrawFn, *, absent: bool = False, shaped: bool = True) -> Topology:
    """Any network at all: also with isolated and absent devices, odd names, and quantities up to their limits."""
    shape = draw(st.sampled_from([(), (1, 1), (2, 2), (2, 1, 3)])) if shaped else ()
    npus = 1
    for size in shape:
        npus *= size
    npus = npus if shape else draw(st.integers(1, 6))
    count = npus + draw(st.integers(0, 3))
    labels = draw(st.lists(names, min_size=count, max_size=count, unique=True))
    can = st.tuples(st.none() | st.integers(1, 9), st.booleans(), st.booleans())
    switches = [Switch(label, *draw(can)) for label in labels[npus:]]
    ends = draw(st.lists(_pairs(count), max_size=12)) if count > 1 else []
    links = [
        Link(a, b, draw(bandwidths), draw(latencies), draw(st.booleans()), draw(latencies))
        for a, b in ends
    ]
    named = draw(st.booleans()) and not any(label.startswith("npu") for label in labels)
    topology = Topology.from_links(
        labels[:npus] if named else npus, links, switches, name=draw(names), shape=shape
    )
    if absent:
        gone = draw(st.sets(st.integers(0, count - 1), max_size=2))
        if set(topology.npus.tolist()) - gone:
            return topology.without(devices=gone)
    return topology


@st.composite
def networks(
    draw: st.DrawFn, *, limits: bool = True, flags: bool = False, least: int = 2, most: int = 7
) -> Topology:
    """Networks in which everything can be reached: a directed ring through all devices, and more links, some parallel.

    With ``limits``, switches may have finite buffers, and may be unable to multiply or to add. With ``flags``, they may
    be unable to without limits too, and links may have gaps.
    """
    npus, hubs = draw(st.integers(least, most)), draw(st.integers(0, 3))
    buffers = st.none() | st.integers(1, 3) if limits else st.none()
    can = st.booleans() if limits or flags else st.just(True)
    switches = [Switch("", draw(buffers), draw(can), draw(can)) for _ in range(hubs)]
    ring = draw(st.permutations(range(npus + hubs)))
    pairs = list(zip(ring, ring[1:] + ring[:1], strict=True)) + draw(
        st.lists(_pairs(npus + hubs), max_size=8)
    )
    exclusive = st.booleans() if draw(st.booleans()) else st.just(False)
    gaps = usual_latencies if flags and draw(st.booleans()) else st.just("0ns")
    links = [
        Link(a, b, draw(usual_bandwidths), draw(usual_latencies), draw(exclusive), draw(gaps))
        for a, b in pairs
    ]
    return Topology.from_links(npus, links, switches)


def _pairs(count: int) -> st.SearchStrategy[tuple[int, int]]:
    """Two different devices; drawn so that nothing has to be filtered out."""
    return st.tuples(st.integers(0, count - 1), st.integers(1, count - 1)).map(
        lambda p: (p[0], (p[0] + p[1]) % count)
    )


# --- collectives -----------------------------------------------------------------------------------------------------


def groups(npus: int, least: int = 1) -> st.SearchStrategy[tuple[int, ...]]:
    """Any of the NPUs, in any order."""
    return st.lists(st.integers(0, npus - 1), min_size=least, max_size=npus, unique=True).map(tuple)


@st.composite
def collectives(draw: st.DrawFn, npus: int, *, any_size: bool = False) -> pccl.Collective:
    """A collective of any kind among some or all of this many NPUs, of a size that divides or of any."""
    kind = draw(st.sampled_from(sorted(pccl.collective.COLLECTIVES)))
    make: Any = pccl.collective.COLLECTIVES[kind]
    if kind == "custom":
        return make(draw(st.lists(condition_rows(npus), min_size=1, max_size=3)))
    group = draw(groups(npus, least=2 if kind == "send-recv" else 1))
    if draw(st.booleans()) and npus > 1:
        group = tuple(range(npus))
    chunks = draw(st.integers(1, 3))
    given = {
        "group": None if group == tuple(range(npus)) and draw(st.booleans()) else group,
        "chunks": chunks,
    }
    if kind == "all-to-all-v":
        shares = st.sampled_from([0, chunks, 1000 * chunks, 4099 * chunks])
        if any_size:
            shares = st.integers(0, 9)
        row = st.lists(shares, min_size=len(group), max_size=len(group))
        matrix = draw(st.lists(row, min_size=len(group), max_size=len(group)))
        given["chunks"] = min(chunks, max(1, *map(max, matrix)))
        return make(matrix, **given)
    if kind in ("broadcast", "reduce", "scatter", "gather"):
        given["root"] = draw(st.none() | st.sampled_from(group))
    if kind == "send-recv":
        given["cyclic"] = draw(st.booleans())
    if kind == "all-reduce":
        given["whole"] = draw(st.booleans())
    share = draw(st.sampled_from([1, 1000, 4099, 2**20]))
    if any_size:
        dtype = draw(st.sampled_from(["uint8", "float32"]))
        element = 4 if dtype == "float32" else 1
        one = make(Bytes(draw(st.integers(1, 40)) * element), dtype=dtype, **given)
        return cut_as_it_can_be(one, Topology.from_links(npus, []))
    return make(Bytes(share * len(group) * chunks), **given)


def cut_as_it_can_be(collective: pccl.Collective, topology: Topology) -> pccl.Collective:
    """With fewer pieces where the largest share has not as many elements; smaller shares may have fewer still."""
    if collective.chunks is None:
        return collective
    most = collective.most_pieces(topology) or collective.chunks
    return replace(collective, chunks=min(collective.chunks, most))


@st.composite
def condition_rows(draw: st.DrawFn, npus: int) -> pccl.Condition:
    """One condition of a custom collective: a chunk for some, or a sum of some for some."""
    size = draw(st.sampled_from(["1B", "1kB", "1MiB"]))
    if draw(st.booleans()):
        return pccl.Condition(draw(groups(npus)), draw(groups(npus)), size, reduces=True)
    return pccl.Condition(draw(st.integers(0, npus - 1)), draw(groups(npus)), size)


@st.composite
def problems(
    draw: st.DrawFn, *, limits: bool = True, flags: bool = False, most: int = 3
) -> tuple[Topology, list[pccl.Collective]]:
    """A network and one or a few collectives that run on it at the same time."""
    topology = draw(networks(limits=limits, flags=flags))
    return topology, draw(st.lists(collectives(topology.num_npus), min_size=1, max_size=most))


def synthesized(problem: tuple[Topology, list[pccl.Collective]], **settings: Any) -> pccl.Algorithm:
    """The answer to a random problem; not verified, as it is for the tests to judge it."""
    topology, collectives = problem
    return pccl.synthesize(topology, *collectives, verify=False, **{"effort": "fast", **settings})
