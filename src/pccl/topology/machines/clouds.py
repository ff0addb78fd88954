"""What clouds rent out: p4d, p5, p5e and Trainium2 of Amazon, NDv4 and NDv5 of Azure."""

from __future__ import annotations

from itertools import product

from pccl.topology.machines.building import Builder, Pairs, Speed, machine
from pccl.topology.machines.nvidia import A100_NVSWITCH, ABLE, H200_NVSWITCH, HDR, NDR
from pccl.topology.parts import Switch

# The network of Amazon (EFA) is one switch here: it sprays packets over all its paths. That its NICs take as long as
# those of InfiniBand is our assumption.
_EFA = "efa"
# 400 Gb/s for eight NPUs (AWS Compute Blog), in four cards, each below a PCIe 3.0 switch with two NPUs (aws-ofi-nccl,
# p4d-24xl-topo.xml). NCCL counts 1.0 us for a step over PCIe, half of it on either side of a switch; that is taken off
# the 1.3us of a NIC.
_P4D_NIC = Speed("12.5GB/s", "800ns", "6.7ns")
_P4D_PCIE = Speed("16GB/s", "500ns")
# Trainium2: 1,024 GB/s a chip inside an instance, to four neighbours, and 256 GB/s between the instances of an
# UltraServer, to two (AWS Neuron, Trn2 architecture). That half of it is for each direction, and the latency, are our
# assumptions.
_NEURONLINK = Speed("128GB/s", "500ns")
_BETWEEN = Speed("64GB/s", "500ns")
# 3.2 Tb/s for sixteen chips (the same page).
_TRN2_NIC = Speed("25GB/s", "1.35us", "4.7ns")


def _torus(*shape: int) -> tuple[Pairs, Pairs]:
    """The pairs of a torus, in its last two dimensions, and in those before them."""
    places = list(product(*map(range, shape)))
    inside: list[tuple[int, int]] = []
    between: list[tuple[int, int]] = []
    for number, place in enumerate(places):
        for axis in range(len(shape)):
            near = list(place)
            near[axis] = (near[axis] + 1) % shape[axis]
            pair = (number, places.index(tuple(near)))
            (inside if axis >= len(shape) - 2 else between).append(pair)
    return tuple(inside), tuple(between)


@machine("p4d", 8, flags=(), nvlink=A100_NVSWITCH, nic=_P4D_NIC, pcie=_P4D_PCIE)
def aws_p4d(build: Builder) -> None:
    """AWS p4d.24xlarge: eight A100 on an NVSwitch; four NICs of 12.5GB/s a box, each shared by two NPUs over PCIe.

    A NIC is modelled as a switch, a plain one, and the network as another.

    Examples
    --------
    >>> aws_p4d(2)
    Topology('p4d:2': 16 NPUs, 11 switches, 80 links, 12.5GB/s to 300GB/s, 300ns to 800ns)
    """
    build.join_to_nvswitches()
    build.join_shared_nics(Switch(_EFA))


@machine("p5", 8, flags=("nvls",), nvlink=H200_NVSWITCH, nic=NDR)
def aws_p5(build: Builder) -> None:
    """AWS p5.48xlarge: eight H100 on an NVSwitch, 450GB/s a link; four NICs of 100 Gb/s an NPU, as one of 50GB/s.

    Examples
    --------
    >>> aws_p5(2)
    Topology('p5:2': 16 NPUs, 3 switches, 64 links, 50GB/s to 450GB/s, 936.25ns to 1us)
    """
    build.join_to_nvswitches()
    build.join_rails(1, _EFA)


@machine("p5e", 8, flags=("nvls",), nvlink=H200_NVSWITCH, nic=NDR)
def aws_p5e(build: Builder) -> None:
    """AWS p5e.48xlarge: as p5.48xlarge, with H200.

    Examples
    --------
    >>> aws_p5e().num_npus
    8
    """
    build.join_to_nvswitches()
    build.join_rails(1, _EFA)


@machine("ndv4", 8, nvlink=A100_NVSWITCH, nic=HDR)
def azure_ndv4(build: Builder) -> None:
    """Azure ND A100 v4: eight A100 on an NVSwitch, and a NIC of 25GB/s each to one InfiniBand network.

    Examples
    --------
    >>> azure_ndv4(2)
    Topology('ndv4:2': 16 NPUs, 3 switches, 64 links, 25GB/s to 300GB/s, 300ns to 1.35us)
    """
    build.join_to_nvswitches()
    build.join_rails(1, "infiniband")


@machine("ndv5", 8, flags=ABLE, nvlink=H200_NVSWITCH, nic=NDR)
def azure_ndv5(build: Builder) -> None:
    """Azure ND H100 v5: eight H100 on an NVSwitch, 450GB/s a link, and a NIC of 50GB/s each to one InfiniBand network.

    Examples
    --------
    >>> azure_ndv5(2)
    Topology('ndv5:2': 16 NPUs, 3 switches, 64 links, 50GB/s to 450GB/s, 936.25ns to 1us)
    """
    build.join_to_nvswitches()
    build.join_rails(1, "infiniband")


@machine("trn2", 16, flags=(), neuronlink=_NEURONLINK, nic=_TRN2_NIC)
def aws_trn2(build: Builder) -> None:
    """AWS trn2.48xlarge: sixteen Trainium2 in a 4x4 torus, 128GB/s a link; between boxes 25GB/s an NPU.

    Examples
    --------
    >>> aws_trn2()
    Topology('trn2': 16 NPUs, 64 links, 128GB/s, 500ns)
    """
    inside, _ = _torus(4, 4)
    build.join_in_boxes({1: inside}, build["neuronlink"])
    build.join_rails(1, _EFA)


@machine("trn2u", 64, flags=(), neuronlink=_NEURONLINK, ring=_BETWEEN, nic=_TRN2_NIC)
def aws_trn2_ultraserver(build: Builder) -> None:
    """Trn2 UltraServer: four such boxes, the same places of which are joined in rings of 64GB/s a link.

    Examples
    --------
    >>> aws_trn2_ultraserver()
    Topology('trn2u': 64 NPUs, 384 links, 64GB/s to 128GB/s, 500ns)
    """
    inside, between = _torus(4, 4, 4)
    build.join_in_boxes({1: inside}, build["neuronlink"])
    build.join_in_boxes({1: between}, build["ring"])
    build.join_rails(1, _EFA)
