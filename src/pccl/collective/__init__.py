"""What runs: the collectives, their process groups, and the conditions they come down to.

groups        ranges of ranks and device meshes
conditions    the columnar table of chunks
collectives   All-Gather, All-to-All, … and their translation into conditions
"""

from __future__ import annotations

from pccl.collective.collectives import (
    COLLECTIVES,
    AllGather,
    AllReduce,
    AllToAll,
    AllToAllV,
    Broadcast,
    Collective,
    Condition,
    Custom,
    Gather,
    Reduce,
    ReduceScatter,
    Scatter,
    SendRecv,
    collective_from_dict,
    compile_conditions,
)
from pccl.collective.conditions import Conditions
from pccl.collective.groups import DeviceMesh, device_mesh, format_group, parse_group

__all__ = [
    "COLLECTIVES",
    "AllGather",
    "AllReduce",
    "AllToAll",
    "AllToAllV",
    "Broadcast",
    "Collective",
    "Condition",
    "Conditions",
    "Custom",
    "DeviceMesh",
    "Gather",
    "Reduce",
    "ReduceScatter",
    "Scatter",
    "SendRecv",
    "collective_from_dict",
    "compile_conditions",
    "device_mesh",
    "format_group",
    "parse_group",
]
