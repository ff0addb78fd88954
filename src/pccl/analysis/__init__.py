"""How good it is: what happens when an algorithm runs, and what no algorithm can beat.

bounds      lower bounds with certificates
kernels     compiled loops
simulator   simulate(): an algorithm run from its dependencies alone
"""

from __future__ import annotations

from pccl.analysis.bounds import Bound, lower_bound
from pccl.analysis.simulator import Simulation, simulate

__all__ = ["Bound", "Simulation", "lower_bound", "simulate"]
