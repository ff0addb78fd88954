"""How a topology becomes a network in a box: wires between devices, addresses, rates and routes. Nothing is made here.

A device is a network namespace. Links between two devices are one wire, which has an address at either end. Besides,
every device has one address of its own, its home, to which all others have a route; what is sent there is passed on by
the devices on the way, as by routers.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address

import numpy as np

from pccl._arrays import Ints
from pccl.errors import PcclError
from pccl.schemes.workload import dimension_order, shortest
from pccl.topology import Topology
from pccl.topology.parts import ABSENT
from pccl.units import BytesPerSecond, parse

# Namespaces, wires and routes are cheap, but a typing error should not ask for a million of them.
MOST_DEVICES = 128
MOST_WIRES = 1_024
# Faster than this in all, and the kernel that plays the network takes longer than the network would.
FASTEST = 4 * 10**9
# What a packet holds besides the bytes that somebody sends: Ethernet, IP, and TCP with a timestamp.
ETHERNET_HEADER = 14
TCP_HEADERS = 20 + 20 + 12
# Large packets keep the kernel's work small; a chunk of some KiB still is several of them.
PACKET = 4_000
_HOMES = int(IPv4Address("10.1.0.0"))
_WIRES = int(IPv4Address("10.2.0.0"))
_TC_RATE = re.compile(r"\s*([0-9.]+)\s*([kmgt]?)bit\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Wire:
    """What joins two devices: all links between the two, in both directions.

    Attributes
    ----------
    devices
        Both ends.
    links
        The links from the first to the second, and those from the second to the first. Several that are parallel share
        the wire, which is as fast as all of them.
    """

    devices: tuple[int, int]
    links: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Wiring:
    """A topology whose links are as fast as the box can play them, its wires, and the routes to every device.

    Attributes
    ----------
    topology
        What is built: bandwidths are scaled, and latencies are left to the kernel, which has no knob for them.
    scale
        By what bandwidths were multiplied.
    """

    topology: Topology
    scale: float

    @classmethod
    def of(
        cls, topology: Topology, *, rate: str | None = None, scale: float | None = None
    ) -> Wiring:
        """Wire a topology.

        Parameters
        ----------
        topology
            Any; absent devices are left out.
        rate
            How fast its fastest link is to be: ``"40mbit"``, ``"5MB/s"``. The others keep their share of it.
        scale
            Or by what all bandwidths are multiplied.

        Examples
        --------
        >>> import pccl
        >>> wiring = Wiring.of(pccl.topology.mesh(2, 2, bandwidth="50GB/s"), rate="40mbit")
        >>> len(wiring.wires), wiring.topology.bandwidth[0].item(), wiring.home(3)
        (4, 5000000, '10.1.0.4')
        """
        present = int(np.sum(topology.kind != ABSENT))
        if present > MOST_DEVICES:
            raise PcclError(
                f"{topology.name} has {present} devices; a box holds up to {MOST_DEVICES}"
            )
        if rate is not None and scale is not None:
            raise PcclError("give a rate or a scale, not both")
        if not topology.num_links:
            raise PcclError(f"{topology.name} has no links")
        factor = 1.0 if scale is None else scale
        if rate is not None:
            factor = int(parse_rate(rate)) / int(topology.bandwidth.max())
        if not (math.isfinite(factor) and factor > 0):
            raise PcclError(f"the scale must be a number above 0, not {scale!r}")
        scaled = np.maximum(np.rint(topology.bandwidth * factor), 1)
        # While they are floats, which may be larger than any whole number of ours.
        total = float(scaled.sum())
        if total > FASTEST:
            raise PcclError(
                f"the links of {topology.name} carry {total / 1e9:.3g}GB/s in all, more than the "
                f"{BytesPerSecond(FASTEST)} that a box can play; give a rate for the fastest of them (rate='40mbit', "
                "--rate 40mbit)"
            )
        slow = scaled.astype(np.int64)
        none = np.zeros(topology.num_links, np.int64)
        made = topology.derived(
            name=topology.name,
            bandwidth=slow,
            latency=none,
            gap=none,
            exclusive=none.astype(np.bool_),
        )
        wiring = cls(made, factor)
        if len(wiring.wires) > MOST_WIRES:
            raise PcclError(
                f"{topology.name} has {len(wiring.wires)} wires; a box holds up to {MOST_WIRES}"
            )
        return wiring

    @cached_property
    def devices(self) -> list[int]:
        """The devices that are there."""
        return np.flatnonzero(self.topology.kind != ABSENT).tolist()

    @cached_property
    def wires(self) -> list[Wire]:
        """All wires, one for every two devices that links join."""
        found: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        ends = zip(self.topology.src.tolist(), self.topology.dst.tolist(), strict=True)
        for link, (src, dst) in enumerate(ends):
            there, back = found.setdefault((min(src, dst), max(src, dst)), ([], []))
            (there if src < dst else back).append(link)
        return [Wire(ends, (tuple(there), tuple(back))) for ends, (there, back) in found.items()]

    @cached_property
    def wire_of(self) -> dict[int, tuple[int, int]]:
        """By link: its wire, and at which end of it the link begins."""
        return {
            link: (number, end)
            for number, wire in enumerate(self.wires)
            for end, links in enumerate(wire.links)
            for link in links
        }

    @cached_property
    def _wire_between(self) -> dict[tuple[int, int], tuple[int, int]]:
        """By two devices: the wire between them, and at which end of it the second is."""
        found = {}
        for number, wire in enumerate(self.wires):
            found[wire.devices] = (number, 1)
            found[wire.devices[::-1]] = (number, 0)
        return found

    def near_address(self, device: int, other: int) -> str:
        """Where a device finds another: over the wire between the two if there is one, otherwise at home."""
        if (device, other) in self._wire_between:
            return self.end_address(*self._wire_between[device, other])
        return self.home(other)

    def home(self, device: int) -> str:
        """The address of a device that everybody has a route to."""
        return str(IPv4Address(_HOMES + device + 1))

    def end_address(self, wire: int, end: int) -> str:
        """The address of one end of a wire."""
        return str(IPv4Address(_WIRES + 2 * wire + end))

    @cached_property
    def towards(self) -> Ints:
        """By NPU (in their order) and device: the link over which the device sends what is for that NPU, or -1.

        These are the routes of the baselines, so that what is measured is what they are modelled as.
        """
        npus = self.topology.npus
        routes = dimension_order(self.topology, npus)
        # Which size is taken matters only where bandwidths differ; routers do not know sizes either.
        return shortest(self.topology, 2**16, npus)[0] if routes is None else routes

    def wire_rate(self, wire: int, end: int) -> int:
        """Bits per second of the packets that carry as many bytes from one end as the links from there are to carry."""
        bandwidth = int(self.topology.bandwidth[list(self.wires[wire].links[end])].sum())
        return round(8 * bandwidth * (PACKET + ETHERNET_HEADER) / (PACKET - TCP_HEADERS))


def parse_rate(text: str) -> BytesPerSecond:
    """Read a bandwidth, also as ``tc`` writes it.

    Examples
    --------
    >>> parse_rate("40mbit"), parse_rate("5MB/s")
    (BytesPerSecond(5000000), BytesPerSecond(5000000))
    """
    match = _TC_RATE.fullmatch(text)
    if match:
        text = f"{match[1]}{match[2].upper()}bps"
    found = parse(BytesPerSecond, text, "rate")
    if not found:
        raise PcclError("the rate must be above 0")
    return found
