"""Random networks: directed, heterogeneous, with parallel links, switches, isolated and absent devices."""

from __future__ import annotations

from hypothesis import strategies as st

from pccl.topology import Link, Switch, Topology
from pccl.units import BytesPerSecond, Picoseconds

bandwidths = st.integers(1, 9 * 10**14).map(BytesPerSecond)
latencies = st.integers(0, 2**62 - 1).map(Picoseconds)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


@st.composite
def topologies(draw: st.DrawFn, *, absent: bool = False, shaped: bool = True) -> Topology:
    shape = draw(st.sampled_from([(), (1, 1), (2, 2), (2, 1, 3)])) if shaped else ()
    npus = 1
    for size in shape:
        npus *= size
    npus = npus if shape else draw(st.integers(1, 6))
    count = npus + draw(st.integers(0, 3))
    labels = draw(st.lists(names, min_size=count, max_size=count, unique=True))
    limits = st.tuples(st.none() | st.integers(1, 9), st.booleans())
    switches = [Switch(label, *draw(limits)) for label in labels[npus:]]
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda pair: pair[0] != pair[1])
    ends = draw(st.lists(pairs, max_size=12)) if count > 1 else []
    links = [Link(a, b, draw(bandwidths), draw(latencies), draw(st.booleans())) for a, b in ends]
    named = draw(st.booleans()) and not any(label.startswith("npu") for label in labels)
    topology = Topology.from_links(labels[:npus] if named else npus, links, switches, name=draw(names), shape=shape)
    if absent:
        gone = draw(st.sets(st.integers(0, count - 1), max_size=2))
        if set(topology.npus.tolist()) - gone:
            return topology.without(devices=gone)
    return topology
