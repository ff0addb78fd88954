"""Schemes: how collectives are run by textbooks and libraries, as algorithms on the real links.

Others run them as they are (:mod:`pccl.analysis.baselines`); synthesis takes one where it finds nothing better.

registry     which there are, and how one is run
workload     what they start from: a collective, its group, and routes between the members
sends        logical sends laid over links, and timed by contention
textbook     direct sends, Bruck's rounds, halving and doubling, and double binary trees
rings        round the group, in its own order or along the best tour
dimensions   one dimension of the network after another
merging      messages that merge the sums of blocks of NPUs
exchanges    partial sums exchanged, for small All-Reduces
multitree    trees grown together
channels     boxes and NICs, and rings through all of them
nccl         rings, trees and sums in switches as NCCL builds them
nccl_graph   rings and trees as a graph file of NCCL has them
"""

from pccl.schemes.registry import SCHEMES, Scheme
from pccl.schemes.workload import UnsupportedError

__all__ = ["SCHEMES", "Scheme", "UnsupportedError"]
