"""How good it is: what happens when an algorithm runs, what others do, and what no algorithm can beat.

baselines   what people have today
comparison  compare(): ours beside baselines and the bound; bandwidths as nccl-tests defines them
queues      first come, first served, or the oldest first
simulator   simulate(): an algorithm run from its dependencies alone
sweep       sweep(): the comparison at many sizes
"""

from pccl.analysis.baselines import Baseline, baseline, baselines
from pccl.analysis.comparison import Comparison, ComparisonRow, bandwidths, compare
from pccl.analysis.simulator import SimulatedTransfers, Simulation, simulate
from pccl.analysis.sweep import of_size, size_range, sweep

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
    "of_size",
    "simulate",
    "size_range",
    "sweep",
]
