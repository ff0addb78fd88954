"""How good it is: what happens when an algorithm runs, what others do, and what no algorithm can beat.

baselines   what people have today
each        each_collective(): collectives that run at the same time, one by one
comparison  compare(): ours beside baselines and the bound; bandwidths as nccl-tests defines them
simulator   simulate(): an algorithm run from its dependencies alone
sizes       time_at(): a plan with data of another size
sweep       sweep(): the comparison at many sizes
"""

from pccl.analysis.baselines import Baseline, baseline, baselines, nccl_graph_baselines
from pccl.analysis.comparison import Comparison, ComparisonRow, bandwidths, compare
from pccl.analysis.each import CollectiveRow, each_collective
from pccl.analysis.simulator import SimulatedTransfers, Simulation, simulate
from pccl.analysis.sizes import time_at
from pccl.analysis.sweep import of_size, size_range, sweep

__all__ = [
    "Baseline",
    "CollectiveRow",
    "Comparison",
    "ComparisonRow",
    "SimulatedTransfers",
    "Simulation",
    "bandwidths",
    "baseline",
    "baselines",
    "compare",
    "each_collective",
    "nccl_graph_baselines",
    "of_size",
    "simulate",
    "size_range",
    "sweep",
    "time_at",
]
