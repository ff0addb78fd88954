"""Draw the pictures of the guide and the gallery again: ``python docs/images/make.py``."""

from __future__ import annotations

from pathlib import Path

import pccl

FOLDER = Path(__file__).parent
TOPOLOGIES = {
    "ring": "ring:8",
    "torus": "torus:4x4",
    "torus3d": "torus:3x4x4",
    "hypercube": "hypercube:4",
    "dgx1": "dgx1",
    "ndv2": "ndv2:2",
    "a100": "a100:2",
    "h100": "h100:4",
    "mi250": "mi250:2",
    "leaf-spine": "leaf-spine:4x4x2",
    "fat-tree": "fat-tree:4",
    "dragonfly": "dragonfly:5x4x2",
}


def main() -> None:
    """Draw all of them."""
    for name, text in TOPOLOGIES.items():
        pccl.plot(pccl.topology.parse_topology(text), "topology", FOLDER / f"topology-{name}.svg")
    row = pccl.synthesize(mesh(8, 8), pccl.AllToAll("8MiB", group=range(24, 32), chunks=2))
    pccl.plot(row, "heatmap", FOLDER / "heatmap-row.svg")
    pccl.plot(
        row, "utilization", FOLDER / "utilization-row.svg", against=["direct", "confined", "bruck"]
    )
    machine = pccl.synthesize(pccl.topology.ndv2(2), pccl.AllGather("16MiB", chunks=1))
    pccl.plot(machine, "heatmap", FOLDER / "heatmap-ndv2.svg")
    groups = pccl.device_mesh(dp=4, tp=4)
    gathers = [pccl.AllGather("4MiB", group=group, chunks=1) for group in groups["tp"]]
    reduces = [pccl.AllReduce("4MiB", group=group, chunks=1) for group in groups["dp"]]
    both = pccl.synthesize(mesh(4, 4), *gathers, *reduces)
    pccl.plot(both, "topology", FOLDER / "topology-groups.svg")
    pccl.plot(both, "timeline", FOLDER / "timeline-groups.svg", links=48)
    long = pccl.baseline("direct", mesh(5, 5), pccl.AllToAll("25MiB", chunks=8))
    pccl.plot(long, "timeline", FOLDER / "timeline-shares.svg", links=30)
    boxes = pccl.synthesize(pccl.topology.dgx_a100(2), pccl.AllGather("1MiB"), effort="fast")
    pccl.plot(boxes, "sizes", FOLDER / "sizes-a100.svg")
    ring = pccl.topology.ring(4, unidirectional=True, exclusive=True)
    gather = pccl.synthesize(ring, pccl.AllGather("4MiB", chunks=1))
    pccl.plot(gather, "ten", FOLDER / "ten-ring.svg")
    small = pccl.topology.mesh(2, 3, exclusive=True)
    few = pccl.synthesize(small, pccl.AllToAll("4MiB", group=(0, 1, 2, 5), chunks=1))
    pccl.plot(few, "ten", FOLDER / "ten-mesh.svg")


def mesh(*shape: int) -> pccl.Topology:
    """The mesh of the papers: 50 GiB/s and 500 ns a link."""
    return pccl.topology.mesh(*shape, bandwidth="50GiB/s", latency="500ns")


if __name__ == "__main__":
    main()
