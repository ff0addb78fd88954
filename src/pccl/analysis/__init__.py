"""How good it is: what happens when an algorithm runs, what others do, and what no algorithm can beat.

baselines   what people have today
kernels     compiled loops
metrics     bandwidths as nccl-tests defines them
queues      first come, first served
simulator   simulate(): an algorithm run from its dependencies alone
"""

from __future__ import annotations

from pccl.analysis.baselines import Baseline, baseline, baselines
from pccl.analysis.metrics import bandwidths
from pccl.analysis.simulator import Simulation, Timeline, simulate
from pccl.synthesis.bounds import Bound, lower_bound

__all__ = [
    "Baseline",
    "Bound",
    "Simulation",
    "Timeline",
    "bandwidths",
    "baseline",
    "baselines",
    "lower_bound",
    "simulate",
]
