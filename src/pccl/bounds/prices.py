"""Prices: whatever links cost, chunks pay for their cheapest ways, and links earn no more than they carry.

The certificate is a price per byte for every link. Time is what chunks must pay at least, over what all links together
can earn at most while they carry something without a pause.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from pccl._arrays import Indices, Ints
from pccl.algorithm.bound import Certificate
from pccl.bounds.case import Case
from pccl.bounds.price_search import good_prices
from pccl.bounds.traffic import Share, rates, several_ends, single_ends
from pccl.collective import Conditions
from pccl.network import NEVER, price_table
from pccl.topology import Topology

__all__ = ["QUICK", "explain", "find", "prove"]

QUICK = False


def find(case: Case) -> Iterator[tuple[Certificate, bool]]:
    """Yield prices that may be good; the links that leave the narrowest cut are a start."""
    for price in good_prices(case.topology, case.conditions, case.cuts[0]):
        yield {"prices": tuple(price.tolist())}, False


def prove(
    topology: Topology,
    conditions: Conditions,
    certificate: Certificate,
    whole_chunks: bool,  # noqa: ARG001 - holds however data are cut
) -> int:
    """Picoseconds in which links can earn, at these prices per byte, what the chunks must pay at least."""
    given = certificate["prices"]
    # The dearest way of all must still fit an int64.
    if len(given) != topology.num_links or min(given, default=0) < 0 or sum(given) >= NEVER:
        return 0
    price = np.array(given, np.int64)
    speeds, kind = rates(topology, conditions)
    earned = Fraction(0)
    for number, speed in enumerate(speeds):
        earned += int(price[kind == number].sum()) * speed
    if not earned:
        return 0
    return math.ceil(_least_cost(topology, conditions, price) / earned)


def explain(certificate: Certificate) -> str:
    """How many links have a price."""
    links = np.count_nonzero(certificate["prices"])
    return f"what chunks cost at least where {links} links have a price"


def _least_cost(topology: Topology, conditions: Conditions, price: Ints) -> int:
    distance = price_table(topology, price)
    single = single_ends(topology, conditions)
    total = 0
    if np.any(single):
        # Python's integers, as bytes times prices need not fit 64 bits.
        total = int((single.astype(object) * np.where(single > 0, distance, 0)).sum())
    enter = _cheapest(price, topology.dst, topology.num_devices)
    leave = _cheapest(price, topology.src, topology.num_devices)
    # Shares of an All-Reduce have the same ends, and there are many of them.
    known: dict[tuple[bytes, bytes, bool], int] = {}
    for share in several_ends(conditions):
        ends = share.sources.tobytes(), share.destinations.tobytes(), share.reduces
        if ends not in known:
            way = int(distance[np.ix_(share.sources, share.destinations)].max())
            known[ends] = max(way, _cost_at_ends(enter, leave, share))
        total += share.bytes * known[ends]
    return total


def _cost_at_ends(enter: Ints, leave: Ints, share: Share) -> int:
    """What a share pays for entering all its destinations and leaving all its contributors, each at least once.

    The first device to hold a sum with several destinations is none of those that wait for it, and need not send its
    own contribution. Until then every other contributor has sent, and after that every other destination receives: two
    transfers for each member but one.
    """
    enter = enter[share.destinations]
    if not share.reduces:
        return int(enter.sum())
    if len(share.destinations) == 1:
        others = share.sources != share.destinations[0]
        return int(leave[share.sources[others]].sum())
    leave = leave[share.sources]
    return int(enter.sum() - enter.max() + leave.sum() - leave.max())


def _cheapest(price: Ints, end: Indices, devices: int) -> Ints:
    """Per device: the price of the cheapest link that has this end there, or 0."""
    least = np.full(devices, NEVER)
    np.minimum.at(least, end, price)
    return np.where(least < NEVER, least, 0)
