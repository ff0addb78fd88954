"""What runs: the collectives, their process groups, and the conditions they come down to.

groups        ranges of ranks and device meshes
conditions    the columnar table of chunks
layout        where chunks lie in buffers, and what ranks are promised
base          what all collectives share
collectives   All-Gather, Reduce-Scatter, All-Reduce, Broadcast, …; all kinds by name, and their conditions
exchanges     All-to-All, with equal shares or not
custom        a collective given condition by condition
"""

from pccl.collective.base import Collective
from pccl.collective.collectives import (
    COLLECTIVES,
    AllGather,
    AllReduce,
    Broadcast,
    Gather,
    Reduce,
    ReduceScatter,
    Scatter,
    SendRecv,
    collective_from_dict,
    compile_conditions,
)
from pccl.collective.conditions import Conditions
from pccl.collective.custom import Condition, Custom
from pccl.collective.exchanges import AllToAll, AllToAllV
from pccl.collective.groups import DeviceMesh, device_mesh, format_group, parse_group
from pccl.collective.layout import BufferLayout, Promise

__all__ = [
    "COLLECTIVES",
    "AllGather",
    "AllReduce",
    "AllToAll",
    "AllToAllV",
    "Broadcast",
    "BufferLayout",
    "Collective",
    "Condition",
    "Conditions",
    "Custom",
    "DeviceMesh",
    "Gather",
    "Promise",
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
