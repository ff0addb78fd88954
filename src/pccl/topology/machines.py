"""Real machines by name, from one box to many.

The figures are those of the link tables that published work on collectives uses (TE-CCL for DGX-1, NDv2 and DGX-2,
ForestColl for DGX A100 and MI250, ASTRA-sim for HGX H100, vendors' data sheets for TPUs); where we had to assume
one, the docstring says so. Several boxes have the shape ``(boxes, NPUs per box)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pccl.errors import TopologyError
from pccl.topology.core import Link, Switch, Topology
from pccl.topology.generators import affordable, grid
from pccl.units import Bandwidth, Time, whole

Pairs: TypeAlias = tuple[tuple[int, int], ...]

# The hybrid cube mesh of eight V100: two NVLinks, taken as one of twice the bandwidth, or one NVLink.
_CUBE_MESH: dict[str, Pairs] = {
    "50GB/s": ((0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7)),
    "25GB/s": ((0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6)),
}
# The sixteen dies of eight MI250: four xGMI links inside a package, one or two between packages.
_MI250: dict[str, Pairs] = {
    "200GB/s": tuple((die, die + 1) for die in range(0, 16, 2)),
    "100GB/s": ((0, 4), (3, 7), (8, 12), (11, 15)),
    "50GB/s": (
        *((0, 8), (1, 5), (1, 9), (1, 10), (2, 6), (2, 9), (2, 10), (3, 11)),
        *((4, 6), (5, 6), (5, 7), (9, 13), (10, 14), (12, 14), (13, 14), (13, 15)),
    ),
}


def dgx1(boxes: int = 1) -> Topology:
    """DGX-1 with V100: a hybrid cube mesh of eight NPUs, NVLinks of 25GB/s and 700ns.

    Several boxes are our assumption: four InfiniBand NICs a box, 12.5GB/s and 1.3us each to one InfiniBand switch; a
    NIC is shared by two neighbouring NPUs, over PCIe at 16GB/s, and is modelled as a switch.

    Examples
    --------
    >>> dgx1()
    Topology('dgx1': 8 NPUs, 32 links, 25GB/s to 50GB/s, 700ns)
    >>> dgx1(2)
    Topology('dgx1:2': 16 NPUs, 9 switches, 112 links, 12.5GB/s to 50GB/s, 0ps to 1.3us)
    """
    machine = _Machine("dgx1", boxes, 8)
    machine.join_in_boxes(_CUBE_MESH, "700ns")
    for npu in machine.npus_with_network:
        nic = f"nic{npu // 2}"
        machine.join(npu, nic, "16GB/s", "0ns")
        # Two NPUs share a NIC, which is joined to the network once.
        if npu % 2:
            machine.join(nic, "infiniband", "12.5GB/s", "1.3us")
    return machine.topology()


def ndv2(boxes: int = 1) -> Topology:
    """Azure NDv2: DGX-1 like boxes, each with one InfiniBand NIC of 12.5GB/s and 1.3us: NPU 0 sends, NPU 1 receives.

    Two boxes are joined directly, more through one InfiniBand switch with 1.3us on either side of it.

    Examples
    --------
    >>> ndv2(2)
    Topology('ndv2:2': 16 NPUs, 66 links, 12.5GB/s to 50GB/s, 700ns to 1.3us)
    >>> ndv2(4)
    Topology('ndv2:4': 32 NPUs, 1 switch, 136 links, 12.5GB/s to 50GB/s, 700ns to 1.3us)
    """
    machine = _Machine("ndv2", boxes, 8)
    machine.join_in_boxes(_CUBE_MESH, "700ns")
    for first in machine.npus_with_network[::8]:
        # From the NPU that sends to the one that receives, in the other box.
        if boxes == 2:
            machine.link(first, (first + 8) % 16 + 1, "12.5GB/s", "1.3us")
        else:
            machine.link(first, "infiniband", "12.5GB/s", "1.3us")
            machine.link("infiniband", first + 1, "12.5GB/s", "1.3us")
    return machine.topology()


def dgx2(boxes: int = 1) -> Topology:
    """DGX-2: sixteen V100 on an NVSwitch, 125GB/s and 350ns a link; eight NICs of 12.5GB/s and 2.6us a box.

    A NIC belongs to two NPUs: the odd one sends, the even one receives. Two boxes are joined NIC to NIC. For more we
    assume one switch for each place in a box, with half of the latency on either side of it.

    Examples
    --------
    >>> dgx2(2)
    Topology('dgx2:2': 32 NPUs, 2 switches, 80 links, 12.5GB/s to 125GB/s, 350ns to 2.6us)
    >>> dgx2(4)
    Topology('dgx2:4': 64 NPUs, 12 switches, 192 links, 12.5GB/s to 125GB/s, 350ns to 1.3us)
    """
    machine = _Machine("dgx2", boxes, 16)
    machine.join_to_nvswitches("125GB/s", "350ns")
    for odd in machine.npus_with_network[1::2]:
        # From the odd NPU of a NIC to the even one of the same NIC in the other box.
        if boxes == 2:
            machine.link(odd, (odd - 1 + 16) % 32, "12.5GB/s", "2.6us")
        else:
            rail = f"infiniband{odd % 16 // 2}"
            machine.link(odd, rail, "12.5GB/s", "1.3us")
            machine.link(rail, odd - 1, "12.5GB/s", "1.3us")
    return machine.topology()


def dgx_a100(boxes: int = 1) -> Topology:
    """DGX A100: eight NPUs on an NVSwitch at 300GB/s; between boxes 25GB/s an NPU, latencies not counted.

    There are two InfiniBand switches, one for the even and one for the odd NPUs of all boxes.

    Examples
    --------
    >>> dgx_a100(2)
    Topology('a100:2': 16 NPUs, 4 switches, 64 links, 25GB/s to 300GB/s, 0ps)
    """
    machine = _Machine("a100", boxes, 8)
    machine.join_to_nvswitches("300GB/s", "0ns")
    for npu in machine.npus_with_network:
        machine.join(npu, f"infiniband{npu % 2}", "25GB/s", "0ns")
    return machine.topology()


def hgx_h100(boxes: int = 1) -> Topology:
    """HGX H100: eight NPUs on an NVSwitch, 400GiB/s and 936.25ns a link; between boxes eight rails of 50GB/s.

    NPU ``i`` of every box is on rail ``i``. The 1us of each link to a rail switch is our assumption.

    Examples
    --------
    >>> hgx_h100(4)
    Topology('h100:4': 32 NPUs, 12 switches, 128 links, 50GB/s to 400GiB/s, 936.25ns to 1us)
    """
    machine = _Machine("h100", boxes, 8)
    machine.join_to_nvswitches("400GiB/s", "936.25ns")
    for npu in machine.npus_with_network:
        machine.join(npu, f"rail{npu % 8}", "50GB/s", "1us")
    return machine.topology()


def mi250(boxes: int = 1) -> Topology:
    """Eight MI250, two dies each: sixteen NPUs, xGMI links of 50GB/s, one to four a pair; latencies not counted.

    Between boxes every NPU has 16GB/s to one InfiniBand switch.

    Examples
    --------
    >>> mi250()
    Topology('mi250': 16 NPUs, 56 links, 50GB/s to 200GB/s, 0ps)
    >>> mi250(2)
    Topology('mi250:2': 32 NPUs, 1 switch, 176 links, 16GB/s to 200GB/s, 0ps)
    """
    machine = _Machine("mi250", boxes, 16)
    machine.join_in_boxes(_MI250, "0ns")
    for npu in machine.npus_with_network:
        machine.join(npu, "infiniband", "16GB/s", "0ns")
    return machine.topology()


def tpu_v4(*shape: int) -> Topology:
    """TPU v4: a 3D torus, 50GB/s a link in each direction.

    We assume 500ns a link, and that every dimension wraps round, also those shorter than four.

    Examples
    --------
    >>> tpu_v4(4, 4, 4)
    Topology('tpu-v4:4x4x4': 64 NPUs, 384 links, 50GB/s, 500ns)
    """
    return _tpu("tpu-v4", shape, 3, "50GB/s")


def tpu_v5e(rows: int, columns: int) -> Topology:
    """TPU v5e: a 2D torus, 50GB/s a link in each direction.

    We assume 500ns a link, and that both dimensions wrap round, also in slices smaller than a whole pod.

    Examples
    --------
    >>> tpu_v5e(16, 16)
    Topology('tpu-v5e:16x16': 256 NPUs, 1024 links, 50GB/s, 500ns)
    """
    return _tpu("tpu-v5e", (rows, columns), 2, "50GB/s")


def tpu_v5p(*shape: int) -> Topology:
    """TPU v5p: a 3D torus, 100GB/s a link in each direction.

    We assume 500ns a link, and that every dimension wraps round, also those shorter than four.

    Examples
    --------
    >>> tpu_v5p(4, 4, 8)
    Topology('tpu-v5p:4x4x8': 128 NPUs, 768 links, 100GB/s, 500ns)
    """
    return _tpu("tpu-v5p", shape, 3, "100GB/s")


def _tpu(name: str, shape: tuple[int, ...], dimensions: int, bandwidth: Bandwidth) -> Topology:
    if len(shape) != dimensions:
        raise TopologyError(f"a {name} has {dimensions} dimensions, not {len(shape)}")
    name = f"{name}:{'x'.join(map(str, shape))}"
    return grid(*shape, wrap=True, bandwidth=bandwidth, latency="500ns", name=name)


class _Machine:
    """Boxes of NPUs that are being joined; switches are named, and numbered in the order in which they appear."""

    def __init__(self, name: str, boxes: int, npus_per_box: int) -> None:
        if whole(boxes) is None or boxes < 1:
            raise TopologyError(f"{name} needs a positive number of boxes, not {boxes!r}")
        affordable(boxes * npus_per_box, name)
        self.name = name
        self.boxes = boxes
        self.npus_per_box = npus_per_box
        self.npus = range(boxes * npus_per_box)
        # One box needs no network.
        self.npus_with_network = self.npus if boxes > 1 else range(0)
        self.switches: dict[str, int] = {}
        self.links: list[Link] = []

    def link(self, src: int | str, dst: int | str, bandwidth: Bandwidth, latency: Time) -> None:
        """Add a link; ends are numbers of NPUs and names of switches."""
        self.links.append(Link(self._number(src), self._number(dst), bandwidth, latency))

    def join(self, a: int | str, b: int | str, bandwidth: Bandwidth, latency: Time) -> None:
        """Add a link in each direction."""
        self.link(a, b, bandwidth, latency)
        self.link(b, a, bandwidth, latency)

    def join_in_boxes(self, pairs_by_bandwidth: Mapping[str, Pairs], latency: Time) -> None:
        """Join the same pairs of NPUs in every box."""
        for first in self.npus[:: self.npus_per_box]:
            for bandwidth, pairs in pairs_by_bandwidth.items():
                for a, b in pairs:
                    self.join(first + a, first + b, bandwidth, latency)

    def join_to_nvswitches(self, bandwidth: Bandwidth, latency: Time) -> None:
        """Join every NPU to the switch of its box."""
        for npu in self.npus:
            self.join(npu, f"nvswitch{npu // self.npus_per_box}", bandwidth, latency)

    def topology(self) -> Topology:
        """Return what has been joined."""
        several = self.boxes > 1
        return Topology.from_links(
            len(self.npus),
            self.links,
            map(Switch, self.switches),
            name=f"{self.name}:{self.boxes}" if several else self.name,
            shape=(self.boxes, self.npus_per_box) if several else (),
        )

    def _number(self, end: int | str) -> int:
        if isinstance(end, str):
            return self.switches.setdefault(end, len(self.npus) + len(self.switches))
        return end
