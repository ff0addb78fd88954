"""Lower bounds: figures known in closed form, certificates that hold, and nobody who beats them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

import pccl
from pccl.collective import compile_conditions
from tests.strategies import problems, synthesized

STEP = 1_000_000  # a chunk of 1 kB over a link of 1 GB/s
MANY = 64  # chunks, so that the first chunk's way does not matter


def steps(topology, *collectives, chunks=1):
    bound = pccl.lower_bound(topology, *collectives)
    bound.check(topology, compile_conditions(topology, collectives))
    return bound.value / STEP / chunks


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
    """1 MB a pair, or an NPU, in the limit of large sizes."""
    topology = pccl.topology.parse_topology(machine)
    n = topology.num_npus
    for collective, expected in (
        (pccl.AllToAll(f"{1000 * n}MB", chunks=1000), all_to_all_us),
        (pccl.AllGather(f"{1000 * n}MB", chunks=1000), all_gather_us),
    ):
        assert pccl.lower_bound(topology, collective).value / 1e9 == pytest.approx(expected, rel=1e-4)


@settings(max_examples=150, deadline=None)
@given(problems())
def test_nobody_beats_the_bound(problem):
    topology, collectives = problem
    bound = pccl.lower_bound(topology, *collectives)
    bound.check(topology, compile_conditions(topology, collectives))
    assert bound.value <= synthesized(problem).duration


def test_a_certificate_proves_no_more_than_it_does():
    topology = network(pccl.topology.mesh, 3, 3)
    for collective in (pccl.AllToAll("9kB"), pccl.SendRecv("1kB", group=[0, 8])):
        bound = pccl.lower_bound(topology, collective)
        conditions = compile_conditions(topology, [collective])
        bound.check(topology, conditions)
        with pytest.raises(pccl.VerificationError, match="but its certificate proves"):
            replace(bound, value=pccl.units.Picoseconds(bound.value + 1)).check(topology, conditions)


def test_bounds_say_why():
    line = network(pccl.topology.line, 3)
    assert str(pccl.lower_bound(line, pccl.SendRecv("1kB", group=[0, 2]))) == "2us, the way of chunk 0 from 0 to 2"
    assert str(pccl.lower_bound(line, pccl.AllToAll("6kB", chunks=2))) == "4us, what must leave devices 0"
