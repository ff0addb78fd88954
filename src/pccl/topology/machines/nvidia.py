"""Boxes and racks of NVIDIA: V100, A100, H100, H200, B200, GB200, GB300 and DGX Spark."""

from __future__ import annotations

from dataclasses import replace

from pccl.topology.machines.building import Builder, Pairs, Speed, machine
from pccl.units import Picoseconds

# The hybrid cube mesh of eight V100 by NVLinks a pair (TE-CCL, dgx1.py).
CUBE_MESH: dict[int, Pairs] = {
    2: ((0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7)),
    1: ((0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6)),
}

# V100 machines: the tables of TE-CCL (dgx1.py, ndv2.py, dgx2.py), as measured by TACCL.
_V100_NVLINK = Speed("25GB/s", "700ns")
_DGX2_NVSWITCH = Speed("125GB/s", "350ns")
# ConnectX-4: 150 million messages a second (announcement of Mellanox, 2014). ConnectX-5 of NDv2 and DGX-2 is no slower.
_EDR = Speed("12.5GB/s", "1.3us", "6.7ns")
# PCIe 3.0 with 16 lanes; its latency is within that of the NIC.
_PCIE = Speed("16GB/s", "0ns")

# DGX A100: the bandwidths of ForestColl. NCCL counts 0.6 us for a step over NVLink and 2.7 us for one over the network
# (ring with LL, src/graph/tuning.cc); half of either falls on each side of a switch.
A100_NVSWITCH = Speed("300GB/s", "300ns")
# ConnectX-6: 215 million messages a second (its user manual).
HDR = Speed("25GB/s", "1.35us", "4.7ns")

# HGX H100: NVSwitch as in ASTRA-sim's network of that name, NICs of 400 Gb/s (DGX BasePOD). The 1us is our assumption,
# and so is that ConnectX-7 and ConnectX-8 take no longer for a message than a ConnectX-6.
_H100_NVSWITCH = Speed("400GiB/s", "936.25ns")
NDR = Speed("50GB/s", "1us", "4.7ns")
# GB300: 800 Gb/s (Azure ND GB300 v6 series).
_XDR = Speed("100GB/s", "1us", "4.7ns")
# In both directions 900 GB/s (H100 and H200: NVIDIA, Hopper architecture) and 1.8 TB/s (user guides of DGX B200 and
# DGX GB200; Azure ND GB300 v6 series). That they are as quick as an NVSwitch of H100 is our assumption.
H200_NVSWITCH = Speed("450GB/s", "936.25ns")
_B200_NVSWITCH = Speed("900GB/s", "936.25ns")
# NVSwitches from the third generation on multiply and add.
ABLE = ("nvls", "sharp")


@machine("dgx1", 8, nvlink=_V100_NVLINK, nic=_EDR, pcie=_PCIE)
def dgx1(build: Builder) -> None:
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
    build.join_in_boxes(CUBE_MESH, build["nvlink"])
    build.join_shared_nics(build.network_switch("infiniband"))


@machine("ndv2", 8, nvlink=_V100_NVLINK, nic=_EDR)
def ndv2(build: Builder) -> None:
    """Azure NDv2: DGX-1 like boxes, each with one InfiniBand NIC of 12.5GB/s and 1.3us: NPU 0 sends, NPU 1 receives.

    Two boxes are joined directly, more through one InfiniBand switch with 1.3us on either side of it.

    Examples
    --------
    >>> ndv2(2)
    Topology('ndv2:2': 16 NPUs, 66 links, 12.5GB/s to 50GB/s, 700ns to 1.3us)
    >>> ndv2(4)
    Topology('ndv2:4': 32 NPUs, 1 switch, 136 links, 12.5GB/s to 50GB/s, 700ns to 1.3us)
    """
    build.join_in_boxes(CUBE_MESH, build["nvlink"])
    middle = build.network_switch("infiniband")
    for first in build.npus_with_network[::8]:
        # From the NPU that sends to the one that receives, in the other box.
        if build.boxes == 2:
            build.link(first, (first + 8) % 16 + 1, build["nic"])
        else:
            build.link(first, middle, build["nic"])
            build.link(middle, first + 1, build["nic"])


@machine("dgx2", 16, nvlink=_DGX2_NVSWITCH, nic=_EDR)
def dgx2(build: Builder) -> None:
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
    build.join_to_nvswitches()
    network = build["nic"]
    direct = replace(network, latency=Picoseconds(2 * network.latency))
    for odd in build.npus_with_network[1::2]:
        # From the odd NPU of a NIC to the even one of the same NIC in the other box.
        if build.boxes == 2:
            build.link(odd, (odd - 1 + 16) % 32, direct)
        else:
            rail = build.network_switch(f"infiniband{odd % 16 // 2}")
            build.link(odd, rail, network)
            build.link(rail, odd - 1, network)


@machine("a100", 8, nvlink=A100_NVSWITCH, nic=HDR)
def dgx_a100(build: Builder) -> None:
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
    build.join_to_nvswitches()
    build.join_rails(2, "infiniband")


@machine("h100", 8, flags=ABLE, nvlink=_H100_NVSWITCH, nic=NDR)
def hgx_h100(build: Builder) -> None:
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
    build.join_to_nvswitches()
    build.join_rails(8)


@machine("h200", 8, flags=ABLE, nvlink=H200_NVSWITCH, nic=NDR)
def hgx_h200(build: Builder) -> None:
    """HGX H200: eight NPUs on an NVSwitch, 450GB/s a link; otherwise as HGX H100.

    Examples
    --------
    >>> hgx_h200(2)
    Topology('h200:2': 16 NPUs, 10 switches, 64 links, 50GB/s to 450GB/s, 936.25ns to 1us)
    """
    build.join_to_nvswitches()
    build.join_rails(8)


@machine("b200", 8, flags=ABLE, nvlink=_B200_NVSWITCH, nic=NDR)
def hgx_b200(build: Builder) -> None:
    """HGX B200: eight NPUs on an NVSwitch, 900GB/s a link; between boxes eight rails of 50GB/s.

    Examples
    --------
    >>> hgx_b200()
    Topology('b200': 8 NPUs, 1 switch, 16 links, 900GB/s, 936.25ns)
    """
    build.join_to_nvswitches()
    build.join_rails(8)


@machine("gb200", 72, flags=ABLE, nvlink=_B200_NVSWITCH, nic=NDR)
def gb200_nvl72(build: Builder) -> None:
    """GB200 NVL72: racks of 72 NPUs on an NVSwitch, 900GB/s a link; between racks 50GB/s an NPU, four rails.

    A box is a rack here: eighteen trays of four NPUs. NPU ``i`` of every tray is on rail ``i``.

    Examples
    --------
    >>> gb200_nvl72()
    Topology('gb200': 72 NPUs, 1 switch, 144 links, 900GB/s, 936.25ns)
    >>> gb200_nvl72(2)
    Topology('gb200:2': 144 NPUs, 6 switches, 576 links, 50GB/s to 900GB/s, 936.25ns to 1us)
    """
    build.join_to_nvswitches()
    build.join_rails(4)


@machine("gb300", 72, flags=ABLE, nvlink=_B200_NVSWITCH, nic=_XDR)
def gb300_nvl72(build: Builder) -> None:
    """GB300 NVL72: as GB200 NVL72, with NICs of 100GB/s (ConnectX-8, 800 Gb/s).

    Examples
    --------
    >>> gb300_nvl72(2)
    Topology('gb300:2': 144 NPUs, 6 switches, 576 links, 100GB/s to 900GB/s, 936.25ns to 1us)
    """
    build.join_to_nvswitches()
    build.join_rails(4)


# Two ports of 200 Gb/s (NVIDIA's playbook for several DGX Spark). The latency is our assumption: that of two NICs of
# H100, without a switch.
@machine("spark", 1, flags=(), nic=Speed("25GB/s", "2us", "4.7ns"))
def dgx_spark(build: Builder) -> None:
    """DGX Spark: a ring of boxes with one NPU each, cable by cable, 25GB/s; two of them are joined by one cable.

    Both ports of a box share two PCIe 5.0 links of four lanes, which carry about 25GB/s together (ServeTheHome):
    ``nic="12.5GB/s"`` is what each gets when both are busy.

    Examples
    --------
    >>> dgx_spark(3)
    Topology('spark:3': 3 NPUs, 6 links, 25GB/s, 2us)
    """
    build.shape = ()
    for npu in build.npus_with_network:
        # Of two, the way round is the way back.
        if npu + 1 < build.boxes or build.boxes > 2:
            build.join(npu, (npu + 1) % build.boxes, build["nic"])
