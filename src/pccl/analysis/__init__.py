"""How good it is: what happens when an algorithm runs, and what no algorithm can beat.

baselines   what people have today
bounds      lower bounds with certificates
kernels     compiled loops
metrics     bandwidths as nccl-tests defines them
simulator   simulate(): an algorithm run from its dependencies alone
"""

from __future__ import annotations

from pccl.analysis.baselines import Baseline, baseline, baselines
from pccl.analysis.bounds import Bound, lower_bound
from pccl.analysis.metrics import bandwidths
from pccl.analysis.simulator import Simulation, simulate

__all__ = ["Baseline", "Bound", "Simulation", "bandwidths", "baseline", "baselines", "lower_bound", "simulate"]
