"""The kernel against the paper's algorithm, written down plainly, on small homogeneous networks."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.synthesis import orders

from . import twin

STEP = 1_000_000  # picoseconds: a chunk of 1 kB over a link of 1 GB/s

TOPOLOGIES = {
    "mesh": lambda **kw: pccl.topology.mesh(3, 4, **kw),
    "torus": lambda **kw: pccl.topology.torus(3, 3, **kw),
    "ring": lambda **kw: pccl.topology.ring(6, unidirectional=True, **kw),
    "hypercube": lambda **kw: pccl.topology.hypercube(3, **kw),
    # In the paper, switches multiply.
    "switch": lambda **kw: pccl.topology.switch(5, multicast=True, **kw),
    "dragonfly": lambda **kw: pccl.topology.dragonfly(3, 2, 1, multicast=True, **kw),
}

PAPER = {"effort": "fast", "method": "earliest-arrival", "order": "farthest-first"}


@pytest.fixture
def in_number_order(monkeypatch):
    """Chunks of equal distance in the order of their numbers, as the twin has them."""
    monkeypatch.setitem(
        orders.ORDERS,
        "farthest-first",
        lambda jobs, rng: np.argsort(-jobs.distance, kind="stable"),
    )


def conditions_of(algorithm):
    c = algorithm.conditions
    return [(int(c.sources(i)[0]), set(c.destinations(i).tolist())) for i in range(len(c))]


def steps_of(algorithm):
    t = algorithm.transfers
    return sorted(zip(t.chunk.tolist(), (t.start // STEP).tolist(), t.link.tolist(), strict=True))


@pytest.mark.parametrize("name", TOPOLOGIES)
@pytest.mark.parametrize("kind", [pccl.AllGather, pccl.Broadcast])
@pytest.mark.usefixtures("in_number_order")
def test_multicast_takes_the_very_same_links(name, kind):
    topology = TOPOLOGIES[name](bandwidth="1GB/s", latency="0ns")
    size = topology.num_npus if kind is pccl.AllGather else 2
    collective = kind(size=f"{size}kB", chunks=1 if kind is pccl.AllGather else 2)
    algorithm = pccl.synthesize(topology, collective, **PAPER, routes="any")
    assert steps_of(algorithm) == sorted(twin.synthesize(topology, conditions_of(algorithm)))


@pytest.mark.usefixtures("in_number_order")
def test_exclusive_links_are_the_paper_s_own_model():
    topology = pccl.topology.mesh(3, 3, bandwidth="1GB/s", latency="500ns", exclusive=True)
    algorithm = pccl.synthesize(topology, pccl.AllGather(size="9kB"), **PAPER)
    steps = sorted(twin.synthesize(topology, conditions_of(algorithm)))
    t = algorithm.transfers
    assert (
        sorted(zip(t.chunk.tolist(), (t.start // 1_500_000).tolist(), t.link.tolist(), strict=True))
        == steps
    )


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(TOPOLOGIES)),
    seed=st.integers(0, 5),
    data=st.data(),
)
def test_every_chunk_arrives_as_early_as_the_twin_would_bring_it(name, seed, data):
    """Ties among routes may fall differently; the arrival, given what is taken already, may not."""
    topology = TOPOLOGIES[name](bandwidth="1GB/s", latency="0ns")
    group = data.draw(st.permutations(topology.npus.tolist()))[
        : data.draw(st.integers(2, topology.num_npus))
    ]
    chunks = data.draw(st.integers(1, 2))
    collective = pccl.AllToAll(size=f"{len(group) * chunks}kB", group=group, chunks=chunks)
    algorithm = pccl.synthesize(topology, collective, **PAPER, routes="any", seed=seed)

    ten, empty = twin.Ten(topology), twin.Ten(topology)
    placed = {}
    for chunk, time, link in steps_of(algorithm):
        placed.setdefault(chunk, []).append((time, link))
    wanted = conditions_of(algorithm)
    far = [twin.distance(empty, source, next(iter(targets))) for source, targets in wanted]
    jobs = SimpleNamespace(distance=np.array(far))
    permutation = orders.ORDERS["farthest-first"](jobs, np.random.default_rng(seed))
    for chunk in permutation.tolist():
        obvious = twin.bfs(ten, *wanted[chunk])
        assert max(placed[chunk])[0] == max(obvious)[0]
        ten.taken |= set(placed[chunk])
