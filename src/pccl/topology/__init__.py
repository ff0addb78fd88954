"""Where it runs: the network and the ways to describe one.

::

    parts         links and switches as users write them down, and the columns that they become
    core          Topology, and the verbs on it
    paths         the diameter, and direct links in the place of switches
    generators    lines, rings, switches, their products, trees and dragonflies
    machines      boxes and racks of NVIDIA and AMD, instances of clouds and slices of TPUs by name
    edits         what has failed or changed, by number, name or wildcard
    names         every topology that has a name, and where the figures of machines come from
    language      all of the above in one line of text: torus:8x8x8@50GB/s,500ns
    documents     JSON and YAML, read into structs (with files, spec files and algorithms in JSON)
    files         YAML, JSON, edge lists and ASTRA-sim networks (loaded on first use, as it needs msgspec)
    importers     all files that can be read: those, and what NCCL, nvidia-smi, InfiniBand and others write
    interchange   to and from networkx
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pccl.topology.core import Topology
from pccl.topology.generators import (
    dragonfly,
    fat_tree,
    fully_connected,
    grid,
    hypercube,
    leaf_spine,
    line,
    mesh,
    product,
    ring,
    switch,
    switch_2d,
    torus,
)
from pccl.topology.interchange import from_networkx, to_networkx
from pccl.topology.language import named_in, parse_topology
from pccl.topology.machines.amd import mi250, mi300x, mi355x
from pccl.topology.machines.clouds import (
    aws_p4d,
    aws_p5,
    aws_p5e,
    aws_trn2,
    aws_trn2_ultraserver,
    azure_ndv4,
    azure_ndv5,
)
from pccl.topology.machines.google import tpu, tpu7x, tpu_v4, tpu_v5e, tpu_v5p, tpu_v6e
from pccl.topology.machines.nvidia import (
    dgx1,
    dgx2,
    dgx_a100,
    dgx_spark,
    gb200_nvl72,
    gb300_nvl72,
    hgx_b200,
    hgx_h100,
    hgx_h200,
    ndv2,
)
from pccl.topology.names import ZooEntry, zoo
from pccl.topology.parts import Link, Switch

if TYPE_CHECKING:
    from pccl.topology.files import save_topology, topology_from_dict, topology_to_dict
    from pccl.topology.importers import load

__all__ = [
    "Link",
    "Switch",
    "Topology",
    "ZooEntry",
    "aws_p4d",
    "aws_p5",
    "aws_p5e",
    "aws_trn2",
    "aws_trn2_ultraserver",
    "azure_ndv4",
    "azure_ndv5",
    "dgx1",
    "dgx2",
    "dgx_a100",
    "dgx_spark",
    "dragonfly",
    "fat_tree",
    "from_networkx",
    "fully_connected",
    "gb200_nvl72",
    "gb300_nvl72",
    "grid",
    "hgx_b200",
    "hgx_h100",
    "hgx_h200",
    "hypercube",
    "leaf_spine",
    "line",
    "load",
    "mesh",
    "mi250",
    "mi300x",
    "mi355x",
    "named_in",
    "ndv2",
    "parse_topology",
    "product",
    "ring",
    "save_topology",
    "switch",
    "switch_2d",
    "to_networkx",
    "topology_from_dict",
    "topology_to_dict",
    "torus",
    "tpu",
    "tpu7x",
    "tpu_v4",
    "tpu_v5e",
    "tpu_v5p",
    "tpu_v6e",
    "zoo",
]


def __getattr__(name: str) -> Any:
    # On first use: reading files needs msgspec and the parsers of many formats, which take a while to load.
    if name == "load":
        from pccl.topology.importers import load

        return load
    if name in __all__:  # what else is listed there has been imported above
        from pccl.topology import files

        return getattr(files, name)
    raise AttributeError(f"module 'pccl.topology' has no attribute {name!r}")
