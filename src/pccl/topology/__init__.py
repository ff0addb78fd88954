"""Where it runs: the network and the ways to describe one.

core         Topology, its links and switches, and the verbs on it
generators   lines, rings, switches, their products, trees and dragonflies
"""

from __future__ import annotations

from pccl.topology.core import Link, Switch, Topology
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

__all__ = [
    "Link",
    "Switch",
    "Topology",
    "dragonfly",
    "fat_tree",
    "fully_connected",
    "grid",
    "hypercube",
    "leaf_spine",
    "line",
    "mesh",
    "product",
    "ring",
    "switch",
    "switch_2d",
    "torus",
]
