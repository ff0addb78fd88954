"""The inside of a box: a tree of PCIe switches below CPUs, with GPUs and NICs as its leaves.

Of the tree only that is kept which carries something: where NVLink or xGMI joins all GPUs, PCIe is for the way to the
NICs; otherwise all GPUs talk over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pccl.topology.importers.hardware import PCIE_LATENCY
from pccl.topology.importers.model import Box, Nic, Part, Wire

CPU = "cpu"
BRIDGE = "bridge"
GPU = "gpu"
NIC = "nic"


@dataclass
class Spot:
    """A place in the tree: a CPU, a PCIe switch, a GPU or a NIC, and the bandwidth upwards from it."""

    kind: str
    name: str
    bandwidth: int
    children: list[Spot] = field(default_factory=list)

    def leaves(self, kind: str) -> Iterator[Spot]:
        """Everything of a kind at or below this place."""
        if self.kind == kind:
            yield self
        for child in self.children:
            yield from child.leaves(kind)

    def has(self, kind: str) -> bool:
        """Whether there is any of a kind at or below this place."""
        return next(self.leaves(kind), None) is not None


def add_tree(box: Box, cpus: list[Spot], smp: int, part: Part) -> None:
    """Add to a box what its PCIe tree carries; NICs that are near no GPU are left out, and noted."""
    joined = _joined(box.npus, box.wires)
    if joined:
        roots = [own for cpu in cpus for own in _ways_to_nics(cpu)]
    else:
        roots = [cpu for cpu in cpus if cpu.has(GPU)]
        part.assume(
            "GPUs that no NVLink or xGMI joins talk over PCIe, at the speed of the data sheet"
        )
        if len(roots) > 1:
            part.assume(f"{smp / 1e9:g}GB/s between CPUs, as NCCL counts it (src/graph/topo.h)")
    places = [_place(box, _slim(root), joined) for root in roots]
    if not joined:
        for i, a in enumerate(places):
            for b in places[:i]:
                box.wires.append(Wire(b, a, smp))
    near = {nic.name for nic in box.nics}
    far = [nic.name for cpu in cpus for nic in cpu.leaves(NIC) if nic.name not in near]
    if far:
        part.found.append(f"{', '.join(far)} left out: near no GPU, so for storage or management")


def _joined(npus: list[str], wires: Iterable[Wire]) -> bool:
    """Whether the wires so far join all NPUs."""
    near: dict[str, list[str]] = {}
    for wire in wires:
        near.setdefault(wire.a, []).append(wire.b)
        near.setdefault(wire.b, []).append(wire.a)
    reached = {npus[0]}
    todo = [npus[0]]
    while todo:
        new = set(near.get(todo.pop(), ())) - reached
        reached |= new
        todo += new
    return reached.issuperset(npus)


def _ways_to_nics(cpu: Spot) -> list[Spot]:
    """The least parts of the tree in which NICs meet GPUs."""
    own = []
    rest = Spot(cpu.kind, cpu.name, cpu.bandwidth)
    for child in cpu.children:
        # A switch that has both needs nothing above it.
        if child.has(GPU) and child.has(NIC):
            own += _ways_to_nics(child) if child.children else [child]
        else:
            rest.children.append(child)
    if rest.has(GPU) and rest.has(NIC):
        # NICs further down have GPUs of their own, but those here may be used by all.
        own.append(rest)
    return own


def _slim(spot: Spot) -> Spot:
    """Without branches that lead to nothing, and without switches that only pass on to one place."""
    children = [_slim(child) for child in spot.children if child.has(GPU) or child.has(NIC)]
    if spot.kind == BRIDGE and len(children) == 1:
        only = children[0]
        only.bandwidth = min(only.bandwidth, spot.bandwidth)
        return only
    return Spot(spot.kind, spot.name, spot.bandwidth, children)


def _place(box: Box, root: Spot, joined: bool) -> str:
    """Add a tree to the box, and return the name of its root."""
    gpus = list(root.leaves(GPU))
    nics = list(root.leaves(NIC))
    # A switch between one GPU and one NIC is not worth a device: the NIC hangs on the GPU.
    if joined and len(gpus) == 1 and len(nics) == 1:
        box.nics.append(_nic(nics[0], gpus[0].name, gpus[0].bandwidth))
        return gpus[0].name
    return _place_all(box, root)


def _place_all(box: Box, spot: Spot) -> str:
    if spot.kind == GPU:
        return spot.name
    box.switches.append(spot.name)
    for child in spot.children:
        if child.kind == NIC:
            box.nics.append(_nic(child, spot.name, child.bandwidth))
            continue
        # All the time that PCIe takes is counted at its ends.
        latency = PCIE_LATENCY if child.kind == GPU else 0
        box.wires.append(Wire(_place_all(box, child), spot.name, child.bandwidth, latency))
    return spot.name


def _nic(spot: Spot, at: str, slot: int) -> Nic:
    return Nic(spot.name, at, min(spot.bandwidth, slot))
