"""Baselines: what people have today, so that everyone can ask "faster than what I have?".

registry     which there are, and :func:`baseline`, which runs one
workload     what they start from: a collective, its group, and routes between the members (routes)
sends        logical sends laid over links, and timed by contention
walks        direct sends, and Bruck's rounds
rings        round the group, in its own order or along the best tour
trees        halving and doubling, and double binary trees
dimensions   one dimension of the network after another
multitree    trees grown together
confined     our own synthesis, for each group alone
"""

from pccl.analysis.baselines.registry import Baseline, baseline, baselines, find_baseline
from pccl.analysis.baselines.workload import UnsupportedError

__all__ = ["Baseline", "UnsupportedError", "baseline", "baselines", "find_baseline"]
