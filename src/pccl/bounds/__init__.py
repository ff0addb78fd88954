"""Lower bounds with certificates: how long any algorithm must take, and a few numbers that prove it again.

registry   the kinds of bounds; the best bound of all kinds; the check of a certificate
case       what all of them ask: which chunks leave a set, how fast links are, what goes from where to where
patience   how long a search may take
windows    from when until when links can carry what helps, and how much that is
latency    the unloaded time of a chunk from one device to another
cut        what must leave a set of devices, over the rate at which its links carry it away
sets       the search for such sets
cover      which pairs of NPUs a message serves, if there is little time
prices     whatever links cost, chunks pay for their cheapest ways, and links earn no more than they carry
rising     the search for prices that make the cheapest ways dear
messages   how many messages a chunk needs between the parts of any partition, and what they cost
trees      what no algorithm beats that collects and spreads along trees
"""

from pccl.algorithm.bound import Bound
from pccl.bounds.registry import KINDS, bound_of, lower_bound
from pccl.bounds.registry import check as check
from pccl.bounds.trees import tree_optimum

# Without `check`, since what is listed here may be found as `pccl.name`, and that one checks files.
__all__ = ["KINDS", "Bound", "bound_of", "lower_bound", "tree_optimum"]
