"""How good it is: what happens when an algorithm runs, what others do, and what no algorithm can beat.

baselines   what people have today
comparison  compare(): ours beside baselines and the bound
metrics     bandwidths as nccl-tests defines them
queues      first come, first served
simulator   simulate(): an algorithm run from its dependencies alone
"""

from __future__ import annotations

from pccl.analysis.baselines import Baseline, baseline, baselines
from pccl.analysis.comparison import Comparison, ComparisonRow, compare
from pccl.analysis.metrics import bandwidths
from pccl.analysis.simulator import SimulatedTransfers, Simulation, simulate

__all__ = [
    "Baseline",
    "Comparison",
    "ComparisonRow",
    "SimulatedTransfers",
    "Simulation",
    "bandwidths",
    "baseline",
    "baselines",
    "compare",
    "simulate",
]
