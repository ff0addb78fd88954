"""The result: transfers in columns, a file to keep them in, and the verifier that trusts nobody.

apart     when partial sums that are exchanged may come in
bound     what a lower bound says: an algorithm knows the one that was proven with it
core      Algorithm, its transfers and its provenance
holding   for how long links are held, interval by interval
queues    starting them first come, first served, or the oldest first
stays     how long chunks stay in switches with finite buffers
storage   the .pccl file
timing    starting transfers anew, as early as the planned order lets them
verify    every rule of the network and every promise of the collectives, checked from scratch
"""

from __future__ import annotations

from pccl.algorithm.bound import Bound
from pccl.algorithm.core import Algorithm, Provenance, Transfers
from pccl.algorithm.storage import load, save
from pccl.algorithm.verify import verify

__all__ = ["Algorithm", "Bound", "Provenance", "Transfers", "load", "save", "verify"]
