"""How good it is: what happens when an algorithm runs.

kernels     compiled loops
simulator   simulate(): an algorithm run from its dependencies alone
"""

from __future__ import annotations

from pccl.analysis.simulator import Simulation, simulate

__all__ = ["Simulation", "simulate"]
