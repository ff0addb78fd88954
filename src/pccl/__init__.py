"""PCCL: collective communication algorithms made to measure.

Names are loaded on first use, so that ``pccl --help`` does not wait for NumPy and Numba::

    errors · units · settings ► topology ► collective ► algorithm ► network ► bounds
                              ► synthesis ► analysis ► doctor ► spec ► formats ► runtime ► torch · jax · mpi · lab
                              ► reporting ► tuning ► cli
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pccl._lazy import lazy_names
from pccl._version import __version__
from pccl.errors import (
    CollectiveError,
    FormatError,
    InfeasibleError,
    InternalError,
    PcclError,
    RunError,
    StoppedError,
    TopologyError,
    UnitError,
    VerificationError,
)

if TYPE_CHECKING:
    from pccl import (
        algorithm,
        analysis,
        bounds,
        collective,
        doctor,
        formats,
        reporting,
        runtime,
        spec,
        synthesis,
        topology,
        tuning,
        units,
    )
    from pccl.algorithm import Algorithm, Provenance, Transfers, load, verify
    from pccl.analysis import (
        Baseline,
        Comparison,
        ComparisonRow,
        Simulation,
        baseline,
        baselines,
        compare,
        each_collective,
        simulate,
    )
    from pccl.bounds import Bound, lower_bound
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
    from pccl.doctor import diagnose
    from pccl.formats import check, export
    from pccl.reporting import plot, report
    from pccl.settings import Settings
    from pccl.spec import Spec, load_spec
    from pccl.synthesis import synthesize
    from pccl.topology import Link, Switch, Topology
    from pccl.tuning import tune

_PACKAGES = (
    "units",
    "settings",
    "topology",
    "collective",
    "algorithm",
    "network",
    "bounds",
    "synthesis",
    "analysis",
    "doctor",
    "spec",
    "formats",
    "runtime",
    "reporting",
    "tuning",
)

__all__ = [
    "Algorithm",
    "AllGather",
    "AllReduce",
    "AllToAll",
    "AllToAllV",
    "Baseline",
    "Bound",
    "Broadcast",
    "Collective",
    "CollectiveError",
    "Comparison",
    "ComparisonRow",
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
    "RunError",
    "Scatter",
    "SendRecv",
    "Settings",
    "Simulation",
    "Spec",
    "StoppedError",
    "Switch",
    "Topology",
    "TopologyError",
    "Transfers",
    "UnitError",
    "VerificationError",
    "__version__",
    "algorithm",
    "analysis",
    "baseline",
    "baselines",
    "bounds",
    "check",
    "collective",
    "compare",
    "device_mesh",
    "diagnose",
    "doctor",
    "each_collective",
    "export",
    "formats",
    "load",
    "load_spec",
    "lower_bound",
    "plot",
    "report",
    "reporting",
    "runtime",
    "simulate",
    "spec",
    "synthesis",
    "synthesize",
    "topology",
    "tune",
    "tuning",
    "units",
    "verify",
]

# Of two packages that load something, it is algorithms that people load most.
__getattr__ = lazy_names(__name__, __all__, _PACKAGES, load="algorithm")


def __dir__() -> list[str]:
    return sorted(__all__)
