"""PCCL: collective communication algorithms made to measure.

Names are loaded on first use, so that ``pccl --help`` does not wait for NumPy and Numba::

    errors · units ──► topology ──► collective ──► algorithm ──► synthesis ──► cli
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pccl._version import __version__
from pccl.errors import (
    CollectiveError,
    FormatError,
    InfeasibleError,
    InternalError,
    PcclError,
    TopologyError,
    UnitError,
    VerificationError,
)

if TYPE_CHECKING:
    from pccl import algorithm, collective, synthesis, topology, units
    from pccl.algorithm import Algorithm, Provenance, Transfers, load, verify
    from pccl.collective import (
        AllGather,
        AllReduce,
        AllToAll,
        AllToAllV,
        Broadcast,
        Collective,
        Condition,
        Conditions,
        Custom,
        DeviceMesh,
        Gather,
        Reduce,
        ReduceScatter,
        Scatter,
        SendRecv,
        device_mesh,
    )
    from pccl.synthesis import synthesize
    from pccl.topology import Link, Switch, Topology

_HOMES = {
    "algorithm": ("Algorithm", "Provenance", "Transfers", "load", "verify"),
    "collective": (
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
        "device_mesh",
    ),
    "synthesis": ("synthesize",),
    "topology": ("Link", "Switch", "Topology"),
    "units": (),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Algorithm",
    "AllGather",
    "AllReduce",
    "AllToAll",
    "AllToAllV",
    "Broadcast",
    "Collective",
    "CollectiveError",
    "Condition",
    "Conditions",
    "Custom",
    "DeviceMesh",
    "FormatError",
    "Gather",
    "InfeasibleError",
    "InternalError",
    "Link",
    "PcclError",
    "Provenance",
    "Reduce",
    "ReduceScatter",
    "Scatter",
    "SendRecv",
    "Switch",
    "Topology",
    "TopologyError",
    "Transfers",
    "UnitError",
    "VerificationError",
    "__version__",
    "algorithm",
    "collective",
    "device_mesh",
    "load",
    "synthesis",
    "synthesize",
    "topology",
    "units",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return import_module(f"pccl.{name}")
    if name in _HOME:
        value = getattr(import_module(f"pccl.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'pccl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
