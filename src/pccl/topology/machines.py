"""Real machines by name, from one box to many; several boxes have the shape ``(boxes, NPUs per box)``.

Bandwidths are those of the link tables that published work on collectives uses; every figure stands in a signature, so
that it can be replaced, and its source beside it. The same thing has the same name on all machines:

======== ===============================================================================================
nvlink   NVLink inside a box: one link where NPUs are joined directly, all links of an NPU to an NVSwitch
xgmi     one xGMI link between two dies of MI250
ici      a link between two TPUs
pcie     from an NPU to a NIC that it shares
nic      from a NIC to the switch of the network, or back
======== ===============================================================================================

``nic`` is a bandwidth, ``nic_latency`` and ``nic_gap`` are times, and so for the others. Where no source gives a gap,
there is none. Switches are plain unless asked: ``nvls`` lets NVSwitches multiply and add, ``sharp`` those of
InfiniBand. A NIC never does either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from pccl.errors import TopologyError
from pccl.topology.core import Topology
from pccl.topology.generators import NO_GAP, affordable, grid
from pccl.topology.parts import Link, Switch
from pccl.units import Bandwidth, BytesPerSecond, Picoseconds, Time, parse, whole

Pairs: TypeAlias = tuple[tuple[int, int], ...]

# The hybrid cube mesh of eight V100 by NVLinks a pair (TE-CCL, dgx1.py).
CUBE_MESH: dict[int, Pairs] = {
    2: ((0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7)),
    1: ((0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6)),
}
# The sixteen dies of eight MI250 by xGMI links a pair, four of them inside a package (TE-CCL, amd.py; ForestColl).
_MI250: dict[int, Pairs] = {
    4: tuple((die, die + 1) for die in range(0, 16, 2)),
    2: ((0, 4), (3, 7), (8, 12), (11, 15)),
    1: (
        *((0, 8), (1, 5), (1, 9), (1, 10), (2, 6), (2, 9), (2, 10), (3, 11)),
        *((4, 6), (5, 6), (5, 7), (9, 13), (10, 14), (12, 14), (13, 14), (13, 15)),
    ),
}

# V100 machines: the tables of TE-CCL (dgx1.py, ndv2.py, dgx2.py), as measured by TACCL.
_V100_NVLINK = "25GB/s"
_V100_NVLINK_LATENCY = "700ns"
_DGX2_NVSWITCH = "125GB/s"
_DGX2_NVSWITCH_LATENCY = "350ns"
_EDR_NIC = "12.5GB/s"
_EDR_NIC_LATENCY = "1.3us"
# PCIe 3.0 with 16 lanes; its latency is within that of the NIC.
_PCIE = "16GB/s"
_PCIE_LATENCY = "0ns"
# ConnectX-4: 150 million messages a second (announcement of Mellanox, 2014). ConnectX-5 of NDv2 and DGX-2 is no slower.
_EDR_NIC_GAP = "6.7ns"

# DGX A100: the bandwidths of ForestColl.
_A100_NVSWITCH = "300GB/s"
_A100_NIC = "25GB/s"
# NCCL counts 0.6 us for a step over NVLink and 2.7 us for one over the network (ring with LL, src/graph/tuning.cc);
# half of either falls on each side of a switch.
_A100_NVSWITCH_LATENCY = "300ns"
_HDR_NIC_LATENCY = "1.35us"
# ConnectX-6: 215 million messages a second (its user manual).
_HDR_NIC_GAP = "4.7ns"

# HGX H100: NVSwitch as in ASTRA-sim's network of that name, NICs of 400 Gb/s. The 1us is our assumption, and so is that
# a ConnectX-7 takes no longer for a message than a ConnectX-6.
_H100_NVSWITCH = "400GiB/s"
_H100_NVSWITCH_LATENCY = "936.25ns"
_NDR_NIC = "50GB/s"
_NDR_NIC_LATENCY = "1us"
_NDR_NIC_GAP = _HDR_NIC_GAP

# MI250: the bandwidths of ForestColl. RCCL counts 0.8 us for a step over xGMI (ring with LL, src/graph/tuning.cc). That
# its network is as quick as that of a DGX A100 is our assumption.
_XGMI = "50GB/s"
_XGMI_LATENCY = "800ns"
_MI250_NIC = "16GB/s"

# TPUs: the bandwidths of Google's data sheets; the latency is our assumption.
_ICI_V4 = "50GB/s"
_ICI_V5E = "50GB/s"
_ICI_V5P = "100GB/s"
_ICI_LATENCY = "500ns"


def dgx1(
    boxes: int = 1,
    *,
    sharp: bool = False,
    nvlink: Bandwidth = _V100_NVLINK,
    nvlink_latency: Time = _V100_NVLINK_LATENCY,
    nvlink_gap: Time = NO_GAP,
    nic: Bandwidth = _EDR_NIC,
    nic_latency: Time = _EDR_NIC_LATENCY,
    nic_gap: Time = _EDR_NIC_GAP,
    pcie: Bandwidth = _PCIE,
    pcie_latency: Time = _PCIE_LATENCY,
    pcie_gap: Time = NO_GAP,
) -> Topology:
    """DGX-1 with V100: a hybrid cube mesh of eight NPUs, NVLinks of 25GB/s and 700ns, one or two a pair.

    Several boxes are our assumption: four InfiniBand NICs a box, 12.5GB/s and 1.3us each to one InfiniBand switch; a
    NIC is shared by two neighbouring NPUs, over PCIe at 16GB/s, and is modelled as a switch, a plain one.

    Examples
    --------
    >>> dgx1()
    Topology('dgx1': 8 NPUs, 32 links, 25GB/s to 50GB/s, 700ns)
    >>> dgx1(2)
    Topology('dgx1:2': 16 NPUs, 9 switches, 112 links, 12.5GB/s to 50GB/s, 0ps to 1.3us)
    """
    machine = _Machine("dgx1", boxes, 8, sharp=sharp)
    machine.join_in_boxes(CUBE_MESH, _wire("nvlink", nvlink, nvlink_latency, nvlink_gap))
    to_nic = _wire("pcie", pcie, pcie_latency, pcie_gap)
    network = _wire("nic", nic, nic_latency, nic_gap)
    for npu in machine.npus_with_network:
        adapter = Switch(f"nic{npu // 2}")
        machine.join(npu, adapter, to_nic)
        # Two NPUs share a NIC, which is joined to the network once.
        if npu % 2:
            machine.join(adapter, _able("infiniband", sharp), network)
    return machine.topology()


def ndv2(
    boxes: int = 1,
    *,
    sharp: bool = False,
    nvlink: Bandwidth = _V100_NVLINK,
    nvlink_latency: Time = _V100_NVLINK_LATENCY,
    nvlink_gap: Time = NO_GAP,
    nic: Bandwidth = _EDR_NIC,
    nic_latency: Time = _EDR_NIC_LATENCY,
    nic_gap: Time = _EDR_NIC_GAP,
) -> Topology:
    """Azure NDv2: DGX-1 like boxes, each with one InfiniBand NIC of 12.5GB/s and 1.3us: NPU 0 sends, NPU 1 receives.

    Two boxes are joined directly, more through one InfiniBand switch with 1.3us on either side of it.

    Examples
    --------
    >>> ndv2(2)
    Topology('ndv2:2': 16 NPUs, 66 links, 12.5GB/s to 50GB/s, 700ns to 1.3us)
    >>> ndv2(4)
    Topology('ndv2:4': 32 NPUs, 1 switch, 136 links, 12.5GB/s to 50GB/s, 700ns to 1.3us)
    """
    machine = _Machine("ndv2", boxes, 8, sharp=sharp)
    machine.join_in_boxes(CUBE_MESH, _wire("nvlink", nvlink, nvlink_latency, nvlink_gap))
    network = _wire("nic", nic, nic_latency, nic_gap)
    middle = _able("infiniband", sharp)
    for first in machine.npus_with_network[::8]:
        # From the NPU that sends to the one that receives, in the other box.
        if boxes == 2:
            machine.link(first, (first + 8) % 16 + 1, network)
        else:
            machine.link(first, middle, network)
            machine.link(middle, first + 1, network)
    return machine.topology()


def dgx2(
    boxes: int = 1,
    *,
    sharp: bool = False,
    nvlink: Bandwidth = _DGX2_NVSWITCH,
    nvlink_latency: Time = _DGX2_NVSWITCH_LATENCY,
    nvlink_gap: Time = NO_GAP,
    nic: Bandwidth = _EDR_NIC,
    nic_latency: Time = _EDR_NIC_LATENCY,
    nic_gap: Time = _EDR_NIC_GAP,
) -> Topology:
    """DGX-2: sixteen V100 on an NVSwitch, 125GB/s and 350ns a link; eight NICs of 12.5GB/s a box.

    A NIC belongs to two NPUs: the odd one sends, the even one receives. Two boxes are joined NIC to NIC, with twice the
    latency of a NIC. For more we assume one switch for each place in a box, with 1.3us on either side of it. NVSwitches
    of this generation neither multiply nor add.

    Examples
    --------
    >>> dgx2(2)
    Topology('dgx2:2': 32 NPUs, 2 switches, 80 links, 12.5GB/s to 125GB/s, 350ns to 2.6us)
    >>> dgx2(4)
    Topology('dgx2:4': 64 NPUs, 12 switches, 192 links, 12.5GB/s to 125GB/s, 350ns to 1.3us)
    """
    machine = _Machine("dgx2", boxes, 16, sharp=sharp)
    machine.join_to_nvswitches(_wire("nvlink", nvlink, nvlink_latency, nvlink_gap), able=False)
    network = _wire("nic", nic, nic_latency, nic_gap)
    direct = replace(network, latency=Picoseconds(2 * network.latency))
    for odd in machine.npus_with_network[1::2]:
        # From the odd NPU of a NIC to the even one of the same NIC in the other box.
        if boxes == 2:
            machine.link(odd, (odd - 1 + 16) % 32, direct)
        else:
            rail = _able(f"infiniband{odd % 16 // 2}", sharp)
            machine.link(odd, rail, network)
            machine.link(rail, odd - 1, network)
    return machine.topology()


def dgx_a100(
    boxes: int = 1,
    *,
    sharp: bool = False,
    nvlink: Bandwidth = _A100_NVSWITCH,
    nvlink_latency: Time = _A100_NVSWITCH_LATENCY,
    nvlink_gap: Time = NO_GAP,
    nic: Bandwidth = _A100_NIC,
    nic_latency: Time = _HDR_NIC_LATENCY,
    nic_gap: Time = _HDR_NIC_GAP,
) -> Topology:
    """DGX A100: eight NPUs on an NVSwitch, 300GB/s and 300ns a link; between boxes 25GB/s and 1.35us an NPU.

    There are two InfiniBand switches, one for the even and one for the odd NPUs of all boxes. NVSwitches of this
    generation neither multiply nor add.

    Examples
    --------
    >>> dgx_a100(2)
    Topology('a100:2': 16 NPUs, 4 switches, 64 links, 25GB/s to 300GB/s, 300ns to 1.35us)
    >>> dgx_a100(4, nic="50GB/s", nic_latency="2us")
    Topology('a100:4': 32 NPUs, 6 switches, 128 links, 50GB/s to 300GB/s, 300ns to 2us)
    """
    machine = _Machine("a100", boxes, 8, sharp=sharp)
    machine.join_to_nvswitches(_wire("nvlink", nvlink, nvlink_latency, nvlink_gap), able=False)
    network = _wire("nic", nic, nic_latency, nic_gap)
    for npu in machine.npus_with_network:
        machine.join(npu, _able(f"infiniband{npu % 2}", sharp), network)
    return machine.topology()


def hgx_h100(
    boxes: int = 1,
    *,
    nvls: bool = False,
    sharp: bool = False,
    nvlink: Bandwidth = _H100_NVSWITCH,
    nvlink_latency: Time = _H100_NVSWITCH_LATENCY,
    nvlink_gap: Time = NO_GAP,
    nic: Bandwidth = _NDR_NIC,
    nic_latency: Time = _NDR_NIC_LATENCY,
    nic_gap: Time = _NDR_NIC_GAP,
) -> Topology:
    """HGX H100: eight NPUs on an NVSwitch, 400GiB/s and 936.25ns a link; between boxes eight rails of 50GB/s.

    NPU ``i`` of every box is on rail ``i``. The 1us of each link to a rail switch is our assumption. NVSwitches of this
    generation can multiply and add, for a runtime that uses them: that is ``nvls``.

    Examples
    --------
    >>> hgx_h100(4)
    Topology('h100:4': 32 NPUs, 12 switches, 128 links, 50GB/s to 400GiB/s, 936.25ns to 1us)
    >>> hgx_h100(4, nvls=True).name
    'h100:4,nvls=yes'
    """
    machine = _Machine("h100", boxes, 8, nvls=nvls, sharp=sharp)
    machine.join_to_nvswitches(_wire("nvlink", nvlink, nvlink_latency, nvlink_gap), able=nvls)
    network = _wire("nic", nic, nic_latency, nic_gap)
    for npu in machine.npus_with_network:
        machine.join(npu, _able(f"rail{npu % 8}", sharp), network)
    return machine.topology()


def mi250(
    boxes: int = 1,
    *,
    sharp: bool = False,
    xgmi: Bandwidth = _XGMI,
    xgmi_latency: Time = _XGMI_LATENCY,
    xgmi_gap: Time = NO_GAP,
    nic: Bandwidth = _MI250_NIC,
    nic_latency: Time = _HDR_NIC_LATENCY,
    nic_gap: Time = _HDR_NIC_GAP,
) -> Topology:
    """Eight MI250, two dies each: sixteen NPUs, xGMI links of 50GB/s and 800ns, one to four a pair.

    Between boxes every NPU has 16GB/s and 1.35us to one InfiniBand switch.

    Examples
    --------
    >>> mi250()
    Topology('mi250': 16 NPUs, 56 links, 50GB/s to 200GB/s, 800ns)
    >>> mi250(2)
    Topology('mi250:2': 32 NPUs, 1 switch, 176 links, 16GB/s to 200GB/s, 800ns to 1.35us)
    """
    machine = _Machine("mi250", boxes, 16, sharp=sharp)
    machine.join_in_boxes(_MI250, _wire("xgmi", xgmi, xgmi_latency, xgmi_gap))
    network = _wire("nic", nic, nic_latency, nic_gap)
    for npu in machine.npus_with_network:
        machine.join(npu, _able("infiniband", sharp), network)
    return machine.topology()


def tpu_v4(
    *shape: int, ici: Bandwidth = _ICI_V4, ici_latency: Time = _ICI_LATENCY, ici_gap: Time = NO_GAP
) -> Topology:
    """TPU v4: a 3D torus, 50GB/s a link in each direction.

    We assume 500ns a link, and that every dimension wraps round, also those shorter than four.

    Examples
    --------
    >>> tpu_v4(4, 4, 4)
    Topology('tpu-v4:4x4x4': 64 NPUs, 384 links, 50GB/s, 500ns)
    """
    return _tpu("tpu-v4", shape, 3, _wire("ici", ici, ici_latency, ici_gap))


def tpu_v5e(
    rows: int,
    columns: int,
    *,
    ici: Bandwidth = _ICI_V5E,
    ici_latency: Time = _ICI_LATENCY,
    ici_gap: Time = NO_GAP,
) -> Topology:
    """TPU v5e: a 2D torus, 50GB/s a link in each direction.

    We assume 500ns a link, and that both dimensions wrap round, also in slices smaller than a whole pod.

    Examples
    --------
    >>> tpu_v5e(16, 16)
    Topology('tpu-v5e:16x16': 256 NPUs, 1024 links, 50GB/s, 500ns)
    """
    return _tpu("tpu-v5e", (rows, columns), 2, _wire("ici", ici, ici_latency, ici_gap))


def tpu_v5p(
    *shape: int, ici: Bandwidth = _ICI_V5P, ici_latency: Time = _ICI_LATENCY, ici_gap: Time = NO_GAP
) -> Topology:
    """TPU v5p: a 3D torus, 100GB/s a link in each direction.

    We assume 500ns a link, and that every dimension wraps round, also those shorter than four.

    Examples
    --------
    >>> tpu_v5p(4, 4, 8)
    Topology('tpu-v5p:4x4x8': 128 NPUs, 768 links, 100GB/s, 500ns)
    """
    return _tpu("tpu-v5p", shape, 3, _wire("ici", ici, ici_latency, ici_gap))


@dataclass(frozen=True)
class _Wire:
    """How fast one kind of link is."""

    bandwidth: BytesPerSecond
    latency: Picoseconds
    gap: Picoseconds


def _wire(name: str, bandwidth: Bandwidth, latency: Time, gap: Time) -> _Wire:
    """Read the figures of one kind of link; errors call them as the caller does."""
    return _Wire(
        parse(BytesPerSecond, bandwidth, name),
        parse(Picoseconds, latency, f"{name}_latency"),
        parse(Picoseconds, gap, f"{name}_gap"),
    )


def _able(name: str, able: bool) -> Switch:
    """A switch that multiplies and adds, or does neither.

    SHARP does both, like NVLS: its switches add partial sums up a tree and send the result down to all, and its
    All-Gather sends without adding (release notes of SHARP 3.5.2).
    """
    return Switch(name, multicast=able, reduce=able)


def _tpu(name: str, shape: tuple[int, ...], dimensions: int, wire: _Wire) -> Topology:
    if len(shape) != dimensions:
        raise TopologyError(f"a {name} has {dimensions} dimensions, not {len(shape)}")
    return grid(
        *shape,
        wrap=True,
        bandwidth=wire.bandwidth,
        latency=wire.latency,
        gap=wire.gap,
        name=f"{name}:{'x'.join(map(str, shape))}",
    )


class _Machine:
    """Boxes of NPUs that are being joined; switches are numbered in the order in which they appear."""

    def __init__(self, name: str, boxes: int, npus_per_box: int, **flags: bool) -> None:
        if whole(boxes) is None or boxes < 1:
            raise TopologyError(f"{name} needs a positive number of boxes, not {boxes!r}")
        for flag, value in flags.items():
            if not isinstance(value, bool):
                raise TopologyError(f"{name}: {flag} is True or False, not {value!r}")
        affordable(boxes * npus_per_box, name)
        several = boxes > 1
        asked = "".join(f",{flag}=yes" for flag, value in flags.items() if value)
        self.name = (f"{name}:{boxes}" if several else name) + asked
        self.npus_per_box = npus_per_box
        self.npus = range(boxes * npus_per_box)
        self.shape = (boxes, npus_per_box) if several else ()
        # One box needs no network.
        self.npus_with_network = self.npus if several else range(0)
        self.switches: dict[Switch, int] = {}
        self.links: list[Link] = []

    def link(self, src: int | Switch, dst: int | Switch, wire: _Wire) -> None:
        """Add a link; ends are numbers of NPUs and switches."""
        ends = self._number(src), self._number(dst)
        self.links.append(Link(*ends, wire.bandwidth, wire.latency, gap=wire.gap))

    def join(self, a: int | Switch, b: int | Switch, wire: _Wire) -> None:
        """Add a link in each direction."""
        self.link(a, b, wire)
        self.link(b, a, wire)

    def join_in_boxes(self, pairs_by_links: Mapping[int, Pairs], wire: _Wire) -> None:
        """Join the same pairs of NPUs in every box; several wires to a pair are one link of their bandwidths' sum."""
        for first in self.npus[:: self.npus_per_box]:
            for links, pairs in pairs_by_links.items():
                bundle = replace(wire, bandwidth=BytesPerSecond(links * wire.bandwidth))
                for a, b in pairs:
                    self.join(first + a, first + b, bundle)

    def join_to_nvswitches(self, wire: _Wire, *, able: bool) -> None:
        """Join every NPU to the switch of its box."""
        for npu in self.npus:
            self.join(npu, _able(f"nvswitch{npu // self.npus_per_box}", able), wire)

    def topology(self) -> Topology:
        """Return what has been joined."""
        return Topology.from_links(
            len(self.npus), self.links, self.switches, name=self.name, shape=self.shape
        )

    def _number(self, end: int | Switch) -> int:
        if isinstance(end, Switch):
            return self.switches.setdefault(end, len(self.npus) + len(self.switches))
        return end
