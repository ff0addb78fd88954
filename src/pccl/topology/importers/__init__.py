"""Machines as other tools describe them, read into topologies.

::

    registry       the formats, one line each, recognised by what is in a file
    model          boxes, NICs and fabrics by name, while they are being read
    hardware       how fast GPUs and NICs are that dumps only name, with sources
    assembly       boxes and fabric joined into one topology
    pcie           the tree of PCIe switches in a box
    markup         XML, safe and with line numbers
    nccl_xml       topology files of NCCL and RCCL
    nccl_graph     graph files of NCCL: what it chose, not what the machine is
    nvidia_smi     nvidia-smi topo -m
    rocm_smi       rocm-smi --showtopo
    ibnetdiscover  InfiniBand fabrics
    slurm          topology.conf
    topograph      models of topograph, and topology.yaml of SLURM
    htsim          .topo files
    graphs         GraphML and GML, by way of networkx
    own            our own files and those of ASTRA-sim
"""

from __future__ import annotations

from pccl.topology.importers.nccl_graph import Graph, read_nccl_graph
from pccl.topology.importers.registry import IMPORTERS, Importer, Reading, load, read

__all__ = ["IMPORTERS", "Graph", "Importer", "Reading", "load", "read", "read_nccl_graph"]
