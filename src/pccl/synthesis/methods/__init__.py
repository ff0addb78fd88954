"""Methods: ways to find a schedule. To add one, write a class beside these and name it here.

base        what a method is, and how two phases are placed
choice      which methods to try
placement   jobs onto the time-expanded network, one after another
earliest    each chunk as early as it can be: the paper's method
guided      each chunk over links that carry little
flooding    all chunks at once
direct      each chunk by a fixed route
joint       sums collected and spread by trees that are planned together
mirrored    sums spread as they were collected, backwards
"""

from __future__ import annotations

from pccl.synthesis.methods.base import Method, Orders, cost_of
from pccl.synthesis.methods.direct import Direct
from pccl.synthesis.methods.earliest import EarliestArrival
from pccl.synthesis.methods.flooding import Flooding
from pccl.synthesis.methods.guided import PriceGuided
from pccl.synthesis.methods.joint import Joint
from pccl.synthesis.methods.mirrored import Mirrored

__all__ = [
    "METHODS",
    "Direct",
    "EarliestArrival",
    "Flooding",
    "Joint",
    "Method",
    "Mirrored",
    "Orders",
    "PriceGuided",
    "cost_of",
]

# Variants are tried in this order, where openings were not good enough.
METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (Mirrored, Joint, PriceGuided, EarliestArrival, Flooding, Direct)
}
