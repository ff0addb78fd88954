"""How machines are put together: boxes of NPUs, switches and kinds of links, each with figures that can be replaced."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeAlias

from pccl.errors import TopologyError
from pccl.topology.core import Topology
from pccl.topology.generators import NO_GAP, affordable
from pccl.topology.parts import Link, Switch, read_flag
from pccl.units import Bandwidth, BytesPerSecond, Picoseconds, Time, parse, whole

Pairs: TypeAlias = tuple[tuple[int, int], ...]
# Makes the topology of so many boxes, with figures and abilities by name.
Machine: TypeAlias = Callable[..., Topology]


@dataclass(frozen=True)
class Speed:
    """The usual figures of one kind of link, as they stand in a signature."""

    bandwidth: str
    latency: str
    gap: str = str(NO_GAP)


@dataclass(frozen=True)
class Wire:
    """How fast one kind of link is."""

    bandwidth: BytesPerSecond
    latency: Picoseconds
    gap: Picoseconds


def wire(name: str, bandwidth: Bandwidth, latency: Time, gap: Time) -> Wire:
    """Read the figures of one kind of link; errors call them as the caller does."""
    return Wire(
        parse(BytesPerSecond, bandwidth, name),
        parse(Picoseconds, latency, f"{name}_latency"),
        parse(Picoseconds, gap, f"{name}_gap"),
    )


def machine(
    name: str, npus_per_box: int, *, flags: Sequence[str] = ("sharp",), **speeds: Speed
) -> Callable[[Callable[[Builder], None]], Machine]:
    """Make a machine of a function that joins its parts.

    The machine takes the number of boxes, a flag for everything that switches can be asked to do, and for every kind of
    link its bandwidth, latency and gap: ``nic``, ``nic_latency`` and ``nic_gap``.
    """
    parameters = [parameter("boxes", 1, int, inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    parameters += [parameter(flag, False, bool) for flag in flags]
    for kind, speed in speeds.items():
        parameters.append(parameter(kind, speed.bandwidth, Bandwidth))
        parameters.append(parameter(f"{kind}_latency", speed.latency, Time))
        parameters.append(parameter(f"{kind}_gap", speed.gap, Time))
    signature = inspect.Signature(parameters, return_annotation=Topology)

    def decorate(join: Callable[[Builder], None]) -> Machine:
        @wraps(join)
        def build(*arguments: Any, **options: Any) -> Topology:
            given = signature.bind(*arguments, **options)
            given.apply_defaults()
            values = given.arguments
            wires = {
                kind: wire(kind, *(values[key] for key in (kind, f"{kind}_latency", f"{kind}_gap")))
                for kind in speeds
            }
            asked = {flag: values[flag] for flag in flags}
            builder = Builder(name, values["boxes"], npus_per_box, wires, asked)
            join(builder)
            return builder.topology()

        described(build, signature)
        return build

    return decorate


def described(build: Machine, signature: inspect.Signature) -> None:
    """Let a function that takes anything say what it takes."""
    parameters = signature.parameters.values()
    build.__signature__ = signature  # type: ignore[attr-defined]
    build.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": Topology}


def parameter(
    name: str, default: object, annotation: object, kind: Any = inspect.Parameter.KEYWORD_ONLY
) -> inspect.Parameter:
    """Return a parameter of a machine, which is given by its name unless its kind says otherwise."""
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def able(name: str, can: bool) -> Switch:
    """A switch that multiplies and adds, or does neither.

    SHARP does both, like NVLS: its switches add partial sums up a tree and send the result down to all, and its
    All-Gather sends without adding (release notes of SHARP 3.5.2).
    """
    return Switch(name, multicast=can, reduce=can)


class Builder:
    """Boxes of NPUs that are being joined; switches are numbered in the order in which they appear."""

    def __init__(
        self,
        name: str,
        boxes: int,
        npus_per_box: int,
        wires: Mapping[str, Wire],
        flags: Mapping[str, bool],
    ) -> None:
        if whole(boxes) is None or boxes < 1:
            raise TopologyError(f"{name} needs a positive number of boxes, not {boxes!r}")
        flags = {flag: read_flag(value, f"{name}: {flag}") for flag, value in flags.items()}
        affordable(boxes * npus_per_box, name)
        several = boxes > 1
        asked = "".join(f",{flag}=yes" for flag, value in flags.items() if value)
        self.name = (f"{name}:{boxes}" if several else name) + asked
        self.boxes = boxes
        self.npus_per_box = npus_per_box
        self.wires = wires
        self.npus = range(boxes * npus_per_box)
        self.shape = (boxes, npus_per_box) if several else ()
        # One box needs no network.
        self.npus_with_network = self.npus if several else range(0)
        self._flags = flags
        self._network: set[Switch] = set()
        self._switches: dict[Switch, int] = {}
        self._links: list[Link] = []

    def __getitem__(self, kind: str) -> Wire:
        """One kind of link."""
        return self.wires[kind]

    def network_switch(self, name: str) -> Switch:
        """A switch of InfiniBand, which can do something if ``sharp`` says so."""
        switch = able(name, self._flags.get("sharp", False))
        self._network.add(switch)
        return switch

    def link(self, src: int | Switch, dst: int | Switch, wire: Wire) -> None:
        """Add a link; ends are numbers of NPUs and switches."""
        ends = self._number(src), self._number(dst)
        self._links.append(Link(*ends, wire.bandwidth, wire.latency, gap=wire.gap))

    def join(self, a: int | Switch, b: int | Switch, wire: Wire) -> None:
        """Add a link in each direction."""
        self.link(a, b, wire)
        self.link(b, a, wire)

    def join_in_boxes(self, pairs_by_links: Mapping[int, Pairs], wire: Wire) -> None:
        """Join the same pairs of NPUs in every box; several wires to a pair are one link of their bandwidths' sum."""
        for first in self.npus[:: self.npus_per_box]:
            for links, pairs in pairs_by_links.items():
                bundle = replace(wire, bandwidth=BytesPerSecond(links * wire.bandwidth))
                for a, b in pairs:
                    self.join(first + a, first + b, bundle)

    def join_to_nvswitches(self) -> None:
        """Join every NPU to the switch of its box, which can do something if ``nvls`` says so."""
        can = self._flags.get("nvls", False)
        for npu in self.npus:
            self.join(npu, able(f"nvswitch{npu // self.npus_per_box}", can), self["nvlink"])

    def join_rails(self, rails: int, name: str = "rail") -> None:
        """Join NPU i of every box to the i-th switch of the network, counting anew after so many."""
        for npu in self.npus_with_network:
            rail = f"{name}{npu % self.npus_per_box % rails}" if rails > 1 else name
            self.join(npu, self.network_switch(rail), self["nic"])

    def join_shared_nics(self, network: Switch) -> None:
        """Join every two NPUs to a NIC over PCIe, and each NIC to the network, once."""
        for npu in self.npus_with_network:
            nic = Switch(f"nic{npu // 2}")
            self.join(npu, nic, self["pcie"])
            if npu % 2:
                self.join(nic, network, self["nic"])

    def topology(self) -> Topology:
        """Return what has been joined."""
        # A switch may have been made that nothing is joined to.
        if self._flags.get("sharp", False) and not self._network & self._switches.keys():
            name = self.name.partition(",")[0]
            what = "boxes joined NIC to NIC have" if self.boxes > 1 else "one box has"
            raise TopologyError(
                f"{name}: sharp is for InfiniBand switches, and {what} none; leave it out, or give more boxes"
            )
        return Topology.from_links(
            len(self.npus), self._links, self._switches, name=self.name, shape=self.shape
        )

    def _number(self, end: int | Switch) -> int:
        if isinstance(end, Switch):
            return self._switches.setdefault(end, len(self.npus) + len(self._switches))
        return end
