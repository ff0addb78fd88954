"""Baselines: what people have today, so that everyone can ask "faster than what I have?".

registry     which there are, :func:`baseline`, which runs one, and our own synthesis for each group alone
workload     what they start from: a collective, its group, and routes between the members
sends        logical sends laid over links, and timed by contention
textbook     direct sends, Bruck's rounds, halving and doubling, and double binary trees
rings        round the group, in its own order or along the best tour
dimensions   one dimension of the network after another
multitree    trees grown together
"""

from pccl.analysis.baselines.registry import Baseline, baseline, baselines, find_baseline
from pccl.analysis.baselines.workload import UnsupportedError

__all__ = ["Baseline", "UnsupportedError", "baseline", "baselines", "find_baseline"]
