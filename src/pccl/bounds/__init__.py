"""Lower bounds with certificates: how long any algorithm must take, and a few numbers that prove it again.

registry   the kinds of bounds; the best bound of all kinds; the check of a certificate
case       what all of them ask: which chunks leave a set, how fast links are, what goes from where to where
latency    the unloaded time of a chunk from one device to another
cut        what must leave a set of devices, over the rate at which its links carry it away; the search for such sets
prices     whatever links cost, chunks pay for their cheapest ways, and links earn no more than they carry; the
           search for prices that make the cheapest ways dear
"""

from pccl.algorithm.bound import Bound
from pccl.bounds.registry import KINDS, bound_of, lower_bound
from pccl.bounds.registry import check as check

# Without `check`, since what is listed here may be found as `pccl.name`, and that one checks files.
__all__ = ["KINDS", "Bound", "bound_of", "lower_bound"]
