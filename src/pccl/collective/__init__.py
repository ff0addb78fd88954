"""What runs: the collectives, their process groups, and the conditions they come down to.

groups        ranges of ranks and device meshes
conditions    the columnar table of chunks
layout        where chunks lie in buffers, and what ranks are promised
base          what all collectives share
collectives   All-Gather, Reduce-Scatter, All-Reduce, Broadcast, …
exchanges     All-to-All, with equal shares or not
custom        a collective given condition by condition
kinds         the names of all kinds, and where the classes are; the place to add one
registry      the classes by name, collectives from plain data, and the conditions of several
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pccl._lazy import lazy_names

if TYPE_CHECKING:
    from pccl.collective.base import Collective
    from pccl.collective.collectives import (
        AllGather,
        AllReduce,
        Broadcast,
        Gather,
        Reduce,
        ReduceScatter,
        Scatter,
        SendRecv,
    )
    from pccl.collective.conditions import Conditions
    from pccl.collective.custom import Condition, Custom
    from pccl.collective.exchanges import AllToAll, AllToAllV
    from pccl.collective.groups import DeviceMesh, device_mesh, format_group, parse_group
    from pccl.collective.layout import BufferLayout, Promise
    from pccl.collective.registry import COLLECTIVES, collective_from_dict, compile_conditions

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

# The command line names the kinds in its help, and must not wait for NumPy, which everything else needs.
__getattr__ = lazy_names(
    __name__,
    __all__,
    ("groups", "conditions", "layout", "base", "collectives", "exchanges", "custom", "registry"),
)
