"""Where it runs: the network and the ways to describe one.

::

    parts         links and switches as users write them down, and the columns that they become
    core          Topology, and the verbs on it
    paths         the diameter, and direct links in the place of switches
    generators    lines, rings, switches, their products, trees and dragonflies
    machines      DGX, HGX, MI250 and TPU machines by name
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
from pccl.topology.language import ZooEntry, named_in, parse_topology, zoo
from pccl.topology.machines import (
    dgx1,
    dgx2,
    dgx_a100,
    hgx_h100,
    mi250,
    ndv2,
    tpu_v4,
    tpu_v5e,
    tpu_v5p,
)
from pccl.topology.parts import Link, Switch

if TYPE_CHECKING:
    from pccl.topology.files import save_topology, topology_from_dict, topology_to_dict
    from pccl.topology.importers import load

__all__ = [
    "Link",
    "Switch",
    "Topology",
    "ZooEntry",
    "dgx1",
    "dgx2",
    "dgx_a100",
    "dragonfly",
    "fat_tree",
    "from_networkx",
    "fully_connected",
    "grid",
    "hgx_h100",
    "hypercube",
    "leaf_spine",
    "line",
    "load",
    "mesh",
    "mi250",
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
    "tpu_v4",
    "tpu_v5e",
    "tpu_v5p",
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
