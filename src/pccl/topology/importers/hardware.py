"""What dumps of machines leave out: how fast the links of a GPU are, by model, and who says so.

Dumps count NVLinks and lanes of PCIe but rarely give a speed. Bandwidths here are those of data sheets, for one
direction; NCCL's own tables are what it expects to reach, 10 to 20 % less.
"""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass, replace
from difflib import get_close_matches

from pccl.errors import TopologyError

GB = 10**9
NS = 1_000
# PCIe with 16 lanes, by generation: 8, 16, 32 and 64 GT/s (PCI-SIG). Of 130 bits 128 are data; from the sixth
# generation on, of the 256 bytes of a flit 242.
PCIE_3 = 15_754 * 10**6
PCIE_4 = 31_508 * 10**6
PCIE_5 = 63_015 * 10**6
PCIE_6 = 121_000 * 10**6
# NICs of InfiniBand by generation: 100, 200, 400 and 800 Gb/s.
EDR = 12_500_000_000
HDR = 25 * GB
NDR = 50 * GB
XDR = 100 * GB
# NCCL counts 1.0 us for a step over PCIe and 0.6 us for one over NVLink (ring with LL, src/graph/tuning.cc); where
# there is a switch, half of it falls on either side.
PCIE_LATENCY = 500 * NS
NVLINK_LATENCY = 600 * NS
# RCCL counts 0.8 us for a step over xGMI.
XGMI_LATENCY = 800 * NS
# From port to port of an InfiniBand switch (data sheet of Mellanox Quantum: 130 ns).
HOP_LATENCY = 130 * NS
# Between the sockets of a host, as NCCL counts them (src/graph/topo.h), by vendor and model of the CPU.
SMP = 16 * GB
_SMP_INTEL = {79: 6 * GB, 85: 10 * GB, 143: 22 * GB, 207: 40 * GB}


@dataclass(frozen=True)
class Gpu:
    """A model of GPU.

    Attributes
    ----------
    name, title
        How users and data sheets call it.
    links, link
        How many NVLinks or xGMI links it has, and bytes per second of one of them in one direction.
    joined
        Where those links lead in a box that does not say: to an NVSwitch (``switch``), to every other GPU (``mesh``),
        as in DGX-1 (``cube``), or nowhere (``pcie``).
    per_box
        GPUs in the usual box.
    pcie, nic
        Bytes per second of its slot, and of the NIC that usually comes with it.
    latency
        Of one link, or of the way to the switch, in picoseconds.
    source
        Where the figures come from.
    """

    name: str
    title: str
    _: KW_ONLY
    links: int
    link: int
    joined: str
    per_box: int = 8
    pcie: int
    nic: int
    latency: int
    source: str

    @property
    def total(self) -> int:
        """Bytes per second of all its links."""
        return self.links * self.link


# Data sheets count both directions of NVLink and xGMI: 900 GB/s are 450 GB/s each way.
_P100 = Gpu(
    "p100",
    "Tesla P100 SXM2",
    links=4,
    link=20 * GB,
    joined="cube",
    pcie=PCIE_3,
    nic=EDR,
    latency=700 * NS,
    source="NVIDIA P100 data sheet: 4 NVLinks, 160 GB/s in both directions",
)
_V100 = replace(
    _P100,
    name="v100",
    title="Tesla V100 SXM2",
    links=6,
    link=25 * GB,
    source="NVIDIA V100 data sheet: 6 NVLinks, 300 GB/s in both directions",
)
_A100 = Gpu(
    "a100",
    "A100 SXM4",
    links=12,
    link=25 * GB,
    joined="switch",
    pcie=PCIE_4,
    nic=HDR,
    latency=300 * NS,
    source="NVIDIA A100 data sheet: 12 NVLinks, 600 GB/s in both directions",
)
_A100_PCIE = replace(
    _A100,
    name="a100-pcie",
    title="A100 PCIe",
    joined="pcie",
    per_box=4,
    latency=NVLINK_LATENCY,
    source="NVIDIA A100 data sheet: bridges of 12 NVLinks, 600 GB/s in both directions, between two",
)
_A40 = replace(
    _A100_PCIE,
    name="a40",
    title="A40, A6000 or RTX 3090",
    links=4,
    link=14_062_500_000,
    per_box=8,
    source="NVIDIA A40 data sheet: bridge of 112.5 GB/s in both directions",
)
_L40S = replace(
    _A40,
    name="l40s",
    title="L4, L40 or L40S",
    links=0,
    link=0,
    source="NVIDIA L40S data sheet: PCIe 4.0, no NVLink",
)
_A10G = replace(
    _L40S,
    name="a10g",
    title="A10 or A10G",
    nic=EDR,
    source="NVIDIA A10 data sheet: PCIe 4.0, no NVLink",
)
_RTX_PRO_6000 = replace(
    _L40S,
    name="rtx-pro-6000",
    title="RTX PRO 6000 Blackwell",
    pcie=PCIE_5,
    nic=NDR,
    source="NVIDIA RTX PRO 6000 data sheet: PCIe 5.0, no NVLink",
)
_H100 = Gpu(
    "h100",
    "H100 SXM5",
    links=18,
    link=25 * GB,
    joined="switch",
    pcie=PCIE_5,
    nic=NDR,
    latency=936_250,  # as ASTRA-sim's network of HGX H100 has it
    source="NVIDIA H100 data sheet: 18 NVLinks, 900 GB/s in both directions",
)
_H200 = replace(
    _H100,
    name="h200",
    title="H200 SXM5",
    source="NVIDIA H200 data sheet: 900 GB/s in both directions",
)
_H800 = replace(
    _H100,
    name="h800",
    title="H800 SXM5",
    links=8,
    source="H800: 8 NVLinks, 400 GB/s in both directions",
)
_H100_PCIE = replace(
    _H100,
    name="h100-pcie",
    title="H100 PCIe or NVL",
    links=12,
    joined="pcie",
    latency=NVLINK_LATENCY,
    source="NVIDIA H100 data sheet: bridges of 600 GB/s in both directions between two",
)
_GH200 = replace(
    _H100,
    name="gh200",
    title="GH200",
    per_box=1,
    source="NVIDIA GH200 data sheet: 900 GB/s in both directions",
)
_B200 = replace(
    _H100,
    name="b200",
    title="B200 SXM",
    link=50 * GB,
    source="NVIDIA DGX B200 data sheet: 1.8 TB/s in both directions a GPU",
)
_B300 = replace(
    _B200,
    name="b300",
    title="B300 SXM",
    pcie=PCIE_6,
    nic=XDR,
    source="NVIDIA DGX B300 data sheet: 1.8 TB/s in both directions a GPU, ConnectX-8 of 800 Gb/s",
)
_GB200 = replace(
    _B200,
    name="gb200",
    title="GB200",
    per_box=4,
    source="NVIDIA GB200 NVL72 data sheet: 1.8 TB/s in both directions a GPU",
)
_GB300 = replace(
    _B300,
    name="gb300",
    title="GB300",
    per_box=4,
    source="NVIDIA GB300 NVL72 data sheet: 1.8 TB/s in both directions a GPU, ConnectX-8 of 800 Gb/s",
)
_MI60 = Gpu(
    "mi60",
    "MI50 or MI60",
    links=2,
    link=46 * GB,
    joined="mesh",
    per_box=4,
    pcie=PCIE_4,
    nic=HDR,
    latency=XGMI_LATENCY,
    source="AMD MI50 data sheet: 2 links of 92 GB/s in both directions",
)
_MI100 = replace(
    _MI60,
    name="mi100",
    title="MI100",
    links=3,
    source="AMD MI100 data sheet: 3 links of 92 GB/s in both directions",
)
_MI210 = replace(
    _MI100,
    name="mi210",
    title="MI210",
    link=50 * GB,
    source="AMD MI210 data sheet: 3 links of 100 GB/s in both directions",
)
_MI250 = replace(
    _MI210,
    name="mi250",
    title="MI250 or MI250X, a die",
    links=8,
    per_box=8,
    source="AMD MI250X data sheet: links of 100 GB/s in both directions",
)
_MI300X = replace(
    _MI250,
    name="mi300x",
    title="MI300X or MI325X",
    links=7,
    link=64 * GB,
    pcie=PCIE_5,
    nic=NDR,
    source="AMD MI300X data sheet: 7 links of 128 GB/s in both directions",
)
_MI355X = replace(
    _MI300X,
    name="mi355x",
    title="MI350X or MI355X",
    link=76_800_000_000,
    source="AMD MI355X data sheet: 7 links of 153.6 GB/s in both directions",
)
_TABLE = (
    *(_P100, _V100, _A100, _A100_PCIE, _A40, _A10G, _L40S, _H100, _H200, _H800, _H100_PCIE, _GH200),
    *(_B200, _B300, _GB200, _GB300, _RTX_PRO_6000, _MI60, _MI100, _MI210, _MI250, _MI300X, _MI355X),
)
GPUS = {gpu.name: gpu for gpu in _TABLE}
# Other names of the same things.
_ALIASES = {
    "h20": "h200", "gb200-nvl72": "gb200", "gb300-nvl72": "gb300", "mi250x": "mi250", "mi325x": "mi300x",
    "mi350x": "mi355x", "mi50": "mi60", "a10": "a10g", "a6000": "a40", "rtx3090": "a40", "l4": "l40s", "l40": "l40s",
}  # fmt: skip
# PCI devices of NVIDIA (the list of PCI IDs at pci-ids.ucw.cz).
_BY_DEVICE = {
    "0x15f9": "p100", "0x1db1": "v100", "0x1db5": "v100", "0x1db8": "v100", "0x20b0": "a100", "0x20b2": "a100",
    "0x20b5": "a100-pcie", "0x20f1": "a100-pcie", "0x2235": "a40", "0x2230": "a40", "0x2204": "a40",
    "0x2236": "a10g", "0x2237": "a10g", "0x27b8": "l40s", "0x26b5": "l40s", "0x26b9": "l40s", "0x2324": "h800",
    "0x2329": "h200", "0x2330": "h100", "0x2331": "h100-pcie", "0x2321": "h100-pcie", "0x2335": "h200",
    "0x2342": "gh200", "0x2901": "b200", "0x2941": "gb200", "0x3182": "b300", "0x31c2": "gb300",
    "0x2bb1": "rtx-pro-6000", "0x2bb5": "rtx-pro-6000",
}  # fmt: skip
# As nvidia-smi writes them.
_BY_NAME = {
    "p100": "P100-SXM", "v100": "V100-SXM", "a100": "A100-SXM", "a100-pcie": "A100(?: 80GB)? ?-?PCI[Ee]",
    "a40": "(?:A40|RTX A6000|RTX 3090)\\b", "a10g": "A10G?\\b", "l40s": "L40?S?\\b", "h100": "H100 80GB HBM3",
    "h200": "H20\\b|H200(?! NVL)", "h800": "H800", "h100-pcie": "H100 (?:PCIe|NVL)|H200 NVL",
    "gh200": "GH200", "b200": "B200", "b300": "B300", "gb200": "GB200", "gb300": "GB300",
    "rtx-pro-6000": "RTX PRO 6000",
}  # fmt: skip
# By compute capability, where the device is not given.
_BY_CAPABILITY = {
    "60": "p100", "70": "v100", "80": "a100", "86": "a40", "89": "l40s", "90": "h100", "100": "b200", "103": "b300",
    "120": "rtx-pro-6000",
}  # fmt: skip
# By the name of the architecture in ROCm; 910 is how RCCL writes 90a.
_BY_ARCHITECTURE = {
    "906": "mi60", "908": "mi100", "910": "mi250", "90a": "mi250", "940": "mi300x", "941": "mi300x", "942": "mi300x",
    "950": "mi355x",
}  # fmt: skip
# NICs by vendor and device: the cards of p4d and p5 have 100 Gb/s each (EC2 user guide, EFA).
_NICS = {("0x1d0f", "0xefa0"): EDR, ("0x1d0f", "0xefa1"): EDR}


def gpu(name: str) -> Gpu:
    """The model of that name.

    Examples
    --------
    >>> gpu("H100").total
    450000000000
    """
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    key = _ALIASES.get(key, key)
    if key not in GPUS:
        near = " or ".join(map(repr, get_close_matches(key, GPUS, n=2)))
        hint = f"did you mean {near}?" if near else f"known are {', '.join(GPUS)}"
        raise TopologyError(f"there is no GPU {name!r}; {hint}")
    return GPUS[key]


def gpu_named_in(text: str) -> Gpu | None:
    """The model that a text names as nvidia-smi does, such as ``NVIDIA H100 80GB HBM3``; None if it names several.

    Examples
    --------
    >>> gpu_named_in("|   0  NVIDIA A100-SXM4-80GB   On  |").name
    'a100'
    """
    found = {
        name for name, pattern in _BY_NAME.items() if re.search(rf"(?<![A-Za-z0-9]){pattern}", text)
    }
    return GPUS[found.pop()] if len(found) == 1 else None


def gpu_of(device: str, capability: str, architecture: str) -> Gpu | None:
    """The model by what a dump says of it: its PCI device, its compute capability, or its architecture in ROCm."""
    plain = architecture.lower().removeprefix("gfx").split(":")[0]
    name = _BY_ARCHITECTURE.get(plain)
    # ROCm writes the number of compute units where CUDA writes the capability.
    if not architecture:
        name = _BY_DEVICE.get(device.lower()) or _BY_CAPABILITY.get(capability)
    return GPUS[name] if name else None


def nic_of(vendor: str, device: str) -> int | None:
    """Bytes per second of a NIC by its PCI device, if we know it."""
    return _NICS.get((vendor.lower(), device.lower()))


def nic_wire(bandwidth: int) -> tuple[int, int]:
    """Latency and gap of a NIC of that speed, as for the machines that have a name."""
    if bandwidth <= EDR:
        return 1_300 * NS, 6_700
    return (1_350 * NS if bandwidth <= HDR else 1_000 * NS), 4_700


def smp_of(vendor: str, model: str) -> int:
    """Bytes per second between the sockets of a host."""
    if vendor == "GenuineIntel" and model.isdecimal():
        return _SMP_INTEL.get(int(model), SMP)
    return SMP
