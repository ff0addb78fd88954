"""How good it is: what happens when an algorithm runs, and what no algorithm can beat.

baselines   what people have today
bounds      lower bounds with certificates
kernels     compiled loops
simulator   simulate(): an algorithm run from its dependencies alone
"""

from __future__ import annotations

from pccl.analysis.baselines import Baseline, baseline, baselines
from pccl.analysis.bounds import Bound, lower_bound
from pccl.analysis.simulator import Simulation, simulate

__all__ = ["Baseline", "Bound", "Simulation", "baseline", "baselines", "lower_bound", "simulate"]
