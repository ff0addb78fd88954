"""Lower bounds with certificates: how long any algorithm must take, and a few lines that prove it again.

bound    what a bound is, and the best one that the others find
proofs   what a certificate proves, without any search
cuts     the search for sets of devices that much must leave over little
prices   the search for prices of links that make the cheapest ways dear
"""

from __future__ import annotations

from pccl.bounds.bound import Bound, bound_of, lower_bound

__all__ = ["Bound", "bound_of", "lower_bound"]
