"""Every topology that has a name: how it is written, what builds it, and where the figures of machines come from."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

from pccl.topology import generators
from pccl.topology.core import Topology
from pccl.topology.machines import amd, clouds, google, nvidia

# What stands after the name of a machine, unless it says otherwise; it may be left out.
_BOXES = "[boxes]"
MOST_IN_A_BOX = 72
SLICE = "SLICE"
# What the parts with an @ stand for.
_EVERY_LINK = ("every link",)
EACH_DIMENSION = ("each dimension",)


@dataclass(frozen=True)
class ZooEntry:
    """One name of the language.

    Attributes
    ----------
    name, arguments
        What to write before and after the colon; arguments in brackets may be left out.
    description
        One line.
    example
        A text that :func:`parse_topology` reads.
    speeds
        What the ``@`` parts stand for, in order; none for machines, whose links have speeds of their own.
    build
        The function behind the name.
    source
        Where the figures of a machine come from.
    """

    name: str
    arguments: str
    description: str
    example: str
    speeds: tuple[str, ...]
    build: Callable[..., Topology] = field(repr=False)
    source: str = ""

    @property
    def usage(self) -> str:
        """The name with its arguments."""
        if self.arguments.startswith("["):
            return f"{self.name}[:{self.arguments[1:]}"
        return f"{self.name}:{self.arguments}"

    @property
    def options(self) -> tuple[str, ...]:
        """The options that may follow the arguments, as ``option=value``."""
        # What the topology is called follows from the text.
        parameters = inspect.signature(self.build).parameters.values()
        return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "name")


def zoo() -> list[ZooEntry]:
    """Return every topology that has a name.

    Examples
    --------
    >>> [entry.example for entry in zoo()][:3]
    ['line:4', 'ring:8,unidirectional', 'fully-connected:8']
    """
    return list(ZOO.values())


# Where figures come from that several machines share; docs/topologies.md has a row for every link of each, and the
# addresses of the documents.
_AS_H100 = "latency: as h100; gap: ConnectX-6"
_HOPPER = "NVLink: NVIDIA, Hopper architecture"
_EFA = "latency of EFA: our assumption; gap: ConnectX-6"
_TRN2 = "bandwidth: AWS Neuron, Trn2 architecture; latency: our assumption"
_AMD = "latency: RCCL's tuning, of NICs our assumption; gap: ConnectX-6"
_TPU = "bandwidth: Google Cloud; latency: How to Scale Your Model"


def _machine(
    name: str,
    example: str,
    description: str,
    build: Callable[..., Topology],
    source: str,
    arguments: str = _BOXES,
) -> ZooEntry:
    """A machine, whose links have speeds of their own."""
    return ZooEntry(name, arguments, description, example, (), build, source)


# fmt: off
_SHAPES = (
    ZooEntry("line", "N", "NPUs in a row", "line:4", _EVERY_LINK, generators.line),
    ZooEntry("ring", "N", "NPUs in a circle", "ring:8,unidirectional", _EVERY_LINK, generators.ring),
    ZooEntry("fully-connected", "N", "every pair of NPUs joined", "fully-connected:8",
             _EVERY_LINK, generators.fully_connected),
    ZooEntry("switch", "N", "NPUs around one switch", "switch:8,multicast=yes,reduce=yes",
             _EVERY_LINK, generators.switch),
    ZooEntry("mesh", "AxBx...", "a product of lines", "mesh:8x8", EACH_DIMENSION, generators.mesh),
    ZooEntry("torus", "AxBx...", "a product of rings", "torus:8x8x8@50GB/s,500ns",
             EACH_DIMENSION, generators.torus),
    ZooEntry("grid", "AxBx...", "a product of lines and rings", "grid:4x8,wrap=yes/no",
             EACH_DIMENSION, generators.grid),
    ZooEntry("hypercube", "D", "2**D NPUs, joined where one bit differs", "hypercube:6",
             _EVERY_LINK, generators.hypercube),
    ZooEntry("switch2d", "NPUSxNODES", "nodes around a switch, and rail switches between nodes",
             "switch2d:8x4@400GB/s,500ns@50GB/s,2us", ("inside a node", "between nodes"), generators.switch_2d),
    ZooEntry("leaf-spine", "LEAVESxNPUSxSPINES", "a two-level tree with NPUS on each leaf",
             "leaf-spine:4x8x2@50GB/s@200GB/s", ("NPU to leaf", "leaf to spine"), generators.leaf_spine),
    ZooEntry("fat-tree", "K", "the three-level tree of K-port switches, K**3/4 NPUs", "fat-tree:4",
             _EVERY_LINK, generators.fat_tree),
    ZooEntry("dragonfly", "GROUPSxROUTERSxNPUS", "fully connected groups of routers with NPUS on each router",
             "dragonfly:5x4x2", ("NPU to router", "inside a group", "between groups"), generators.dragonfly),
)
_MACHINES = (
    _machine("dgx1", "dgx1", "DGX-1: 8 V100 in a hybrid cube mesh of NVLinks", nvidia.dgx1,
             "TE-CCL; gap: ConnectX-4; several boxes: our assumption"),
    _machine("ndv2", "ndv2:2", "Azure NDv2: DGX-1 like boxes with one NIC", nvidia.ndv2,
             "TE-CCL; gap: ConnectX-4"),
    _machine("dgx2", "dgx2:2", "DGX-2: 16 V100 on an NVSwitch", nvidia.dgx2,
             "TE-CCL; gap: ConnectX-4; three boxes and more: our assumption"),
    _machine("a100", "a100:2,nic=50GB/s", "DGX A100: 8 NPUs on an NVSwitch", nvidia.dgx_a100,
             "bandwidth: ForestColl; latency: NCCL's tuning; gap: ConnectX-6"),
    _machine("h100", "h100:4,nvls=yes", "HGX H100: 8 NPUs on an NVSwitch, 8 rails", nvidia.hgx_h100,
             "NVSwitch: ASTRA-sim; latency of NICs: our assumption; gap: ConnectX-6"),
    _machine("h200", "h200:4", "HGX H200: 8 NPUs on an NVSwitch, 8 rails", nvidia.hgx_h200,
             f"{_HOPPER}; NICs: DGX BasePOD; {_AS_H100}"),
    _machine("b200", "b200:4", "HGX B200: 8 NPUs on an NVSwitch, 8 rails", nvidia.hgx_b200,
             f"bandwidth: DGX B200 user guide; {_AS_H100}"),
    _machine("gb200", "gb200:2", "GB200 NVL72: racks of 72 NPUs on an NVSwitch", nvidia.gb200_nvl72,
             f"bandwidth: DGX GB200 user guide; {_AS_H100}", "[racks]"),
    _machine("gb300", "gb300:2", "GB300 NVL72: racks of 72 NPUs on an NVSwitch", nvidia.gb300_nvl72,
             f"bandwidth: Azure ND GB300 v6 series; {_AS_H100}", "[racks]"),
    _machine("spark", "spark:3", "DGX Spark: a ring of boxes with one NPU each", nvidia.dgx_spark,
             "bandwidth: NVIDIA's playbook for several; latency: our assumption; gap: ConnectX-6"),
    _machine("p4d", "p4d:2", "AWS p4d.24xlarge: 8 A100 on an NVSwitch, 4 NICs", clouds.aws_p4d,
             f"NICs: AWS Compute Blog, aws-ofi-nccl; rest as a100; {_EFA}"),
    _machine("p5", "p5:2", "AWS p5.48xlarge: 8 H100 on an NVSwitch, 32 NICs", clouds.aws_p5,
             f"{_HOPPER}; NICs: EC2 user guide; {_EFA}"),
    _machine("p5e", "p5e:2", "AWS p5e.48xlarge: 8 H200 on an NVSwitch, 32 NICs", clouds.aws_p5e,
             f"{_HOPPER}; NICs: EC2 user guide; {_EFA}"),
    _machine("ndv4", "ndv4:2", "Azure ND A100 v4: 8 A100 on an NVSwitch, 8 NICs", clouds.azure_ndv4,
             "NICs: Azure ND A100 v4 series; rest as a100"),
    _machine("ndv5", "ndv5:2", "Azure ND H100 v5: 8 H100 on an NVSwitch, 8 NICs", clouds.azure_ndv5,
             f"{_HOPPER}; NICs: Azure ND H100 v5 series; {_AS_H100}"),
    _machine("trn2", "trn2:2", "AWS trn2.48xlarge: 16 Trainium2 in a 4x4 torus", clouds.aws_trn2, _TRN2),
    _machine("trn2u", "trn2u", "Trn2 UltraServer: 64 Trainium2 in a 4x4x4 torus", clouds.aws_trn2_ultraserver, _TRN2),
    _machine("mi250", "mi250:2", "8 MI250: 16 dies joined by xGMI", amd.mi250,
             "bandwidth: ForestColl; latency: RCCL's and NCCL's tuning; gap: ConnectX-6"),
    _machine("mi300x", "mi300x:2", "8 MI300X: every pair joined by xGMI, 8 rails", amd.mi300x,
             f"bandwidth: Azure ND MI300X v5 series; {_AMD}"),
    _machine("mi355x", "mi355x:2", "8 MI355X: every pair joined by xGMI, 8 rails", amd.mi355x,
             f"xGMI: AMD MI355X data sheet; NICs: ROCm documentation; {_AMD}"),
    _machine("tpu", "tpu:v5p-128", "a slice of TPUs by its name", google.tpu, _TPU, SLICE),
    _machine("tpu-v4", "tpu-v4:4x4x4", "TPU v4: a 3D torus", google.tpu_v4,
             "bandwidth: the paper on TPU v4; latency: How to Scale Your Model", "AxBxC"),
    _machine("tpu-v5e", "tpu-v5e:16x16", "TPU v5e: a 2D torus", google.tpu_v5e, _TPU, "AxB"),
    _machine("tpu-v5p", "tpu-v5p:4x4x8", "TPU v5p: a 3D torus", google.tpu_v5p, _TPU, "AxBxC"),
    _machine("tpu-v6e", "tpu-v6e:16x16", "TPU v6e (Trillium): a 2D torus", google.tpu_v6e, _TPU, "AxB"),
    _machine("tpu7x", "tpu7x:4x4x8", "TPU7x (Ironwood): a 3D torus", google.tpu7x, _TPU, "AxBxC"),
)
# fmt: on
ZOO = {entry.name: entry for entry in (*_SHAPES, *_MACHINES)}
