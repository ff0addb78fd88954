"""What dumps of machines leave out: how fast the links of a GPU are, by model, and who says so.

Dumps count NVLinks and lanes of PCIe but rarely give a speed. Bandwidths here are those of data sheets, for one
direction; NCCL's own tables are what it expects to reach, 10 to 20 % less.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
# From a GPU to its NVSwitch: half of that on A100; on H100 and later as ASTRA-sim's network of HGX H100 has it.
_TO_NVSWITCH = 300 * NS
_TO_NVSWITCH_3 = 936_250
# One NVLink of a V100 (TE-CCL).
_V100_LATENCY = 700 * NS
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
    links: int
    link: int
    joined: str
    per_box: int
    pcie: int
    nic: int
    latency: int
    source: str

    @property
    def total(self) -> int:
        """Bytes per second of all its links."""
        return self.links * self.link


# Data sheets count both directions of NVLink and xGMI: 900 GB/s are 450 GB/s each way.
# fmt: off
_MODELS = (
    #    name            title                 links  bytes a second  joined box  slot    NIC  latency
    Gpu("p100",         "Tesla P100 SXM2",         4,        20 * GB, "cube",   8, PCIE_3, EDR, _V100_LATENCY,
        "NVIDIA P100 data sheet: 4 NVLinks, 160 GB/s in both directions"),
    Gpu("v100",         "Tesla V100 SXM2",         6,        25 * GB, "cube",   8, PCIE_3, EDR, _V100_LATENCY,
        "NVIDIA V100 data sheet: 6 NVLinks, 300 GB/s in both directions"),
    Gpu("a100",         "A100 SXM4",              12,        25 * GB, "switch", 8, PCIE_4, HDR, _TO_NVSWITCH,
        "NVIDIA A100 data sheet: 12 NVLinks, 600 GB/s in both directions"),
    Gpu("a100-pcie",    "A100 PCIe",              12,        25 * GB, "pcie",   4, PCIE_4, HDR, NVLINK_LATENCY,
        "NVIDIA A100 data sheet: bridges of 12 NVLinks, 600 GB/s in both directions, between two"),
    Gpu("a40",          "A40, A6000 or RTX 3090",  4, 14_062_500_000, "pcie",   8, PCIE_4, HDR, NVLINK_LATENCY,
        "NVIDIA A40 data sheet: bridge of 112.5 GB/s in both directions"),
    Gpu("a10g",         "A10 or A10G",             0,              0, "pcie",   8, PCIE_4, EDR, NVLINK_LATENCY,
        "NVIDIA A10 data sheet: PCIe 4.0, no NVLink"),
    Gpu("l40s",         "L4, L40 or L40S",         0,              0, "pcie",   8, PCIE_4, HDR, NVLINK_LATENCY,
        "NVIDIA L40S data sheet: PCIe 4.0, no NVLink"),
    Gpu("h100",         "H100 SXM5",              18,        25 * GB, "switch", 8, PCIE_5, NDR, _TO_NVSWITCH_3,
        "NVIDIA H100 data sheet: 18 NVLinks, 900 GB/s in both directions"),
    Gpu("h200",         "H200 SXM5",              18,        25 * GB, "switch", 8, PCIE_5, NDR, _TO_NVSWITCH_3,
        "NVIDIA, Hopper architecture: 900 GB/s in both directions"),
    Gpu("h800",         "H800 SXM5",               8,        25 * GB, "switch", 8, PCIE_5, NDR, _TO_NVSWITCH_3,
        "Insights into DeepSeek-V3 (arXiv 2505.09343): 400 GB/s in both directions"),
    Gpu("h100-pcie",    "H100 PCIe or NVL",       12,        25 * GB, "pcie",   8, PCIE_5, NDR, NVLINK_LATENCY,
        "NVIDIA H100 data sheet: bridges of 600 GB/s in both directions between two"),
    Gpu("gh200",        "GH200",                  18,        25 * GB, "switch", 1, PCIE_5, NDR, _TO_NVSWITCH_3,
        "NVIDIA GH200 data sheet: 900 GB/s in both directions"),
    Gpu("b200",         "B200 SXM",               18,        50 * GB, "switch", 8, PCIE_5, NDR, _TO_NVSWITCH_3,
        "DGX B200 user guide: 14.4 TB/s in both directions for eight"),
    Gpu("b300",         "B300 SXM",               18,        50 * GB, "switch", 8, PCIE_6, XDR, _TO_NVSWITCH_3,
        "DGX B300 user guide: 1.8 TB/s in both directions a GPU, ConnectX-8 of 800 Gb/s"),
    Gpu("gb200",        "GB200",                  18,        50 * GB, "switch", 4, PCIE_5, NDR, _TO_NVSWITCH_3,
        "DGX GB200 user guide: 1.8 TB/s in both directions a GPU"),
    Gpu("gb300",        "GB300",                  18,        50 * GB, "switch", 4, PCIE_6, XDR, _TO_NVSWITCH_3,
        "Azure ND GB300 v6 series: 1.8 TB/s in both directions a GPU, 800 Gb/s InfiniBand"),
    Gpu("rtx-pro-6000", "RTX PRO 6000 Blackwell",  0,              0, "pcie",   8, PCIE_5, NDR, NVLINK_LATENCY,
        "NVIDIA RTX PRO 6000 data sheet: PCIe 5.0, no NVLink"),
    Gpu("mi60",         "MI50 or MI60",            2,        46 * GB, "mesh",   4, PCIE_4, HDR, XGMI_LATENCY,
        "AMD MI50 data sheet: 2 links of 92 GB/s in both directions"),
    Gpu("mi100",        "MI100",                   3,        46 * GB, "mesh",   4, PCIE_4, HDR, XGMI_LATENCY,
        "ROCm documentation, MI100: 3 links of 23 GT/s, 46 GB/s each way"),
    Gpu("mi210",        "MI210",                   3,        50 * GB, "mesh",   4, PCIE_4, HDR, XGMI_LATENCY,
        "AMD MI210 data sheet: 3 links of 100 GB/s in both directions"),
    Gpu("mi250",        "MI250 or MI250X, a die",  8,        50 * GB, "mesh",   8, PCIE_4, HDR, XGMI_LATENCY,
        "ROCm documentation, MI250: links of 25 GT/s, 50 GB/s each way"),
    Gpu("mi300x",       "MI300X or MI325X",        7,        64 * GB, "mesh",   8, PCIE_5, NDR, XGMI_LATENCY,
        "Azure ND MI300X v5 series: 7 links of 128 GB/s in both directions"),
    Gpu("mi355x",       "MI350X or MI355X",        7, 76_800_000_000, "mesh",   8, PCIE_5, NDR, XGMI_LATENCY,
        "AMD MI355X data sheet: 7 links of 153.6 GB/s in both directions"),
)
# fmt: on
GPUS = {gpu.name: gpu for gpu in _MODELS}
# Other names of the same things.
_ALIASES = {
    "a40": ("a6000", "rtx3090"),
    "a10g": ("a10",),
    "l40s": ("l4", "l40"),
    "h200": ("h20",),
    "gb200": ("gb200-nvl72",),
    "gb300": ("gb300-nvl72",),
    "mi60": ("mi50",),
    "mi250": ("mi250x",),
    "mi300x": ("mi325x",),
    "mi355x": ("mi350x",),
}
# PCI devices of NVIDIA (the list of PCI IDs at pci-ids.ucw.cz).
_DEVICES = {
    "p100": ("0x15f9",),
    "v100": ("0x1db1", "0x1db5", "0x1db8"),
    "a100": ("0x20b0", "0x20b2"),
    "a100-pcie": ("0x20b5", "0x20f1"),
    "a40": ("0x2235", "0x2230", "0x2204"),
    "a10g": ("0x2236", "0x2237"),
    "l40s": ("0x27b8", "0x26b5", "0x26b9"),
    "h100": ("0x2330",),
    "h200": ("0x2329", "0x2335"),
    "h800": ("0x2324",),
    "h100-pcie": ("0x2331", "0x2321"),
    "gh200": ("0x2342",),
    "b200": ("0x2901",),
    "b300": ("0x3182",),
    "gb200": ("0x2941",),
    "gb300": ("0x31c2",),
    "rtx-pro-6000": ("0x2bb1", "0x2bb5"),
}
# As nvidia-smi writes them.
_PATTERNS = {
    "p100": "P100-SXM",
    "v100": "V100-SXM",
    "a100": "A100-SXM",
    "a100-pcie": "A100(?: 80GB)? ?-?PCI[Ee]",
    "a40": r"(?:A40|RTX A6000|RTX 3090)\b",
    "a10g": r"A10G?\b",
    "l40s": r"L40?S?\b",
    "h100": "H100 80GB HBM3",
    "h200": r"H20\b|H200(?! NVL)",
    "h800": "H800",
    "h100-pcie": "H100 (?:PCIe|NVL)|H200 NVL",
    "gh200": "GH200",
    "b200": "B200",
    "b300": "B300",
    "gb200": "GB200",
    "gb300": "GB300",
    "rtx-pro-6000": "RTX PRO 6000",
}
# Compute capabilities, where the device is not given.
_CAPABILITIES = {
    "p100": ("60",),
    "v100": ("70",),
    "a100": ("80",),
    "a40": ("86",),
    "l40s": ("89",),
    "h100": ("90",),
    "b200": ("100",),
    "b300": ("103",),
    "rtx-pro-6000": ("120",),
}
# The names of architectures in ROCm; 910 is how RCCL writes 90a.
_ARCHITECTURES = {
    "mi60": ("906",),
    "mi100": ("908",),
    "mi250": ("910", "90a"),
    "mi300x": ("940", "941", "942"),
    "mi355x": ("950",),
}


def _turned(table: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """From what a model is known by to its name."""
    return {sign: name for name, signs in table.items() for sign in signs}


_BY_ALIAS = _turned(_ALIASES)
_BY_DEVICE = _turned(_DEVICES)
_BY_CAPABILITY = _turned(_CAPABILITIES)
_BY_ARCHITECTURE = _turned(_ARCHITECTURES)
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
    key = _BY_ALIAS.get(key, key)
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
        name
        for name, pattern in _PATTERNS.items()
        if re.search(rf"(?<![A-Za-z0-9]){pattern}", text)
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
