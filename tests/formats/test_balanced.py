"""Plans as users get them, with the default effort: written for both runtimes, and run."""

from __future__ import annotations

from pathlib import Path

import pytest

import pccl
from pccl.topology import parse_topology
from pccl.units import Bytes

GROUP = (0, 3, 5, 10, 15)
MACHINES = ("ring:4", "mesh:3x3", "mesh:4x4", "dgx1", "switch:8", "switch2d:4x2", "h100")
KINDS = (pccl.AllGather, pccl.ReduceScatter, pccl.AllReduce, pccl.AllToAll)


def export_and_check(algorithm: pccl.Algorithm, folder: Path) -> None:
    """Write every file that there can be, in place and out of place, and run it again as users would."""
    both = algorithm.collectives[0].kind != "all-to-all"
    for name in ("a.xml", "a.plan.json"):
        for in_place in (None,) if both and name == "a.xml" else (False, True):
            pccl.export(algorithm, folder / name, in_place=in_place, all_ranks=True)
            assert not pccl.check(folder / name).problems, (name, in_place)


@pytest.mark.parametrize("chunks", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("machine", MACHINES)
def test_default_effort(
    machine: str, kind: type[pccl.AllGather], chunks: int, tmp_path: Path
) -> None:
    topology, group = parse_topology(machine), GROUP if machine == "mesh:4x4" else None
    size = Bytes(len(group or topology.npus) * chunks * 2**14)
    algorithm = pccl.synthesize(topology, kind(size, group=group, chunks=chunks))
    if group:
        assert not {*algorithm.transfers.src.tolist()} <= {*group}  # it relays
    export_and_check(algorithm, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("machine", ["ring:4", "switch:8", "h100"])
def test_default_chunks(machine: str, kind: type[pccl.AllGather], tmp_path: Path) -> None:
    export_and_check(pccl.synthesize(parse_topology(machine), kind("8MiB")), tmp_path)


def test_sixteen_gpus_on_a_switch_that_adds(tmp_path: Path) -> None:
    export_and_check(
        pccl.synthesize(parse_topology("switch:16"), pccl.AllReduce("16MiB", chunks=2)), tmp_path
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("machine", "size"), [("mesh:3x2", "1000B"), ("ring:3", "64MiB")])
def test_sizes_that_do_not_divide(
    kind: type[pccl.AllGather], machine: str, size: str, tmp_path: Path
) -> None:
    """Files count in equal chunks: those of the plan that are smaller by an element have the same room."""
    algorithm = pccl.synthesize(parse_topology(machine), kind(size, chunks=2))
    assert len({*algorithm.conditions.bytes.tolist()}) == 2
    export_and_check(algorithm, tmp_path)
    for name in ("a.xml", "a.plan.json"):
        padded = pccl.export(algorithm, tmp_path / name)["padded"]
        assert padded.endswith(", so that all chunks are equal")
