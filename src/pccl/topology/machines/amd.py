"""Boxes of AMD: MI250, MI300X and MI355X."""

from __future__ import annotations

from itertools import combinations

from pccl.topology.machines.building import Builder, Pairs, Speed, machine
from pccl.topology.machines.nvidia import HDR, NDR

# The sixteen dies of eight MI250 by xGMI links a pair, four of them inside a package (TE-CCL, amd.py; ForestColl).
_MI250: dict[int, Pairs] = {
    4: tuple((die, die + 1) for die in range(0, 16, 2)),
    2: ((0, 4), (3, 7), (8, 12), (11, 15)),
    1: (
        *((0, 8), (1, 5), (1, 9), (1, 10), (2, 6), (2, 9), (2, 10), (3, 11)),
        *((4, 6), (5, 6), (5, 7), (9, 13), (10, 14), (12, 14), (13, 14), (13, 15)),
    ),
}
_EVERY_PAIR: dict[int, Pairs] = {1: tuple(combinations(range(8), 2))}
# RCCL counts 0.8 us for a step over xGMI (ring with LL, src/graph/tuning.cc).
_XGMI_LATENCY = "800ns"
# That the network of MI250 is as quick as that of a DGX A100 is our assumption.
_MI250_NIC = Speed("16GB/s", HDR.latency, HDR.gap)


@machine("mi250", 16, xgmi=Speed("50GB/s", _XGMI_LATENCY), nic=_MI250_NIC)
def mi250(build: Builder) -> None:
    """Eight MI250, two dies each: sixteen NPUs, xGMI links of 50GB/s and 800ns, one to four a pair.

    Between boxes every NPU has 16GB/s and 1.35us to one InfiniBand switch.

    Examples
    --------
    >>> mi250()
    Topology('mi250': 16 NPUs, 56 links, 50GB/s to 200GB/s, 800ns)
    >>> mi250(2)
    Topology('mi250:2': 32 NPUs, 1 switch, 176 links, 16GB/s to 200GB/s, 800ns to 1.35us)
    """
    build.join_in_boxes(_MI250, build["xgmi"])
    build.join_rails(1, "infiniband")


# Seven links of 128 GB/s in both directions, and NICs of 400 Gb/s (Azure ND MI300X v5 series).
@machine("mi300x", 8, xgmi=Speed("64GB/s", _XGMI_LATENCY), nic=NDR)
def mi300x(build: Builder) -> None:
    """Eight MI300X, every pair joined by xGMI, 64GB/s a link; between boxes eight rails of 50GB/s.

    Examples
    --------
    >>> mi300x()
    Topology('mi300x': 8 NPUs, 56 links, 64GB/s, 800ns)
    """
    build.join_in_boxes(_EVERY_PAIR, build["xgmi"])
    build.join_rails(8)


# Seven links of 153.6 GB/s in both directions (AMD's data sheet); NICs of 400 Gb/s (ROCm documentation).
@machine("mi355x", 8, xgmi=Speed("76.8GB/s", _XGMI_LATENCY), nic=NDR)
def mi355x(build: Builder) -> None:
    """Eight MI355X, every pair joined by xGMI, 76.8GB/s a link; between boxes eight rails of 50GB/s.

    Examples
    --------
    >>> mi355x(2)
    Topology('mi355x:2': 16 NPUs, 8 switches, 144 links, 50GB/s to 76.8GB/s, 800ns to 1us)
    """
    build.join_in_boxes(_EVERY_PAIR, build["xgmi"])
    build.join_rails(8)
