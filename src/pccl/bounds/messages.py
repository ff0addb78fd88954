"""Messages: what goes from one device that keeps chunks to another, perhaps through switches that only pass it on.

However messages cross between the parts of a partition, there is a least number of them. Call a part complete once all
contributions have come to it. When the first part is, every other part with a contributor has sent one message or
more; and after that every other part with a destination receives one or more. That holds for trees as it does for
partial sums that are exchanged, as it never asks who adds what up where.

With prices, a part is what hangs together by messages that cost no more than some limit. What crosses between parts
costs more than that, and raising the limit from nothing on adds up what all messages of a chunk cost at least.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pccl._arrays import Bools, Column, Ints
from pccl.topology import Topology

# No way; two of them still fit an int64.
FAR = 2**61


@dataclass(frozen=True)
class Messages:
    """What the cheapest messages cost, where every link has a price.

    Attributes
    ----------
    price
        Per link, per byte.
    keeps
        Per device: whether chunks can be held there; all others pass each message on, once.
    cost
        [from, to]: of the cheapest message, among devices that keep chunks.
    via
        [from, to]: a device that it passes through, or -1.
    """

    topology: Topology
    price: Column
    keeps: Bools
    cost: Ints
    via: Ints

    @classmethod
    def at(cls, topology: Topology, price: Column, sums: bool) -> Messages:
        """Messages of chunks that are sums, or of others, at these prices of links."""
        # Partial sums can wait where they are added up, and whole ones where they are multiplied.
        keeps = topology.multicast | topology.reduce if sums else topology.multicast
        n = topology.num_devices
        cost = np.full((n, n), FAR, np.int64)
        np.minimum.at(cost, (topology.src, topology.dst), price)
        via = np.full((n, n), -1, np.int64)
        for device in np.flatnonzero(~keeps).tolist():
            through = cost[:, device][:, None] + cost[device][None, :]
            shorter = through < cost
            cost[shorter] = through[shorter]
            via[shorter] = device
        cost[~keeps] = FAR
        cost[:, ~keeps] = FAR
        np.fill_diagonal(cost, FAR)
        return cls(topology, price, keeps, cost, via)

    @cached_property
    def enter(self) -> Ints:
        """Per device: what the cheapest message to it costs, or 0."""
        return _or_nothing(self.cost.min(axis=0, initial=FAR))

    @cached_property
    def leave(self) -> Ints:
        """Per device: what the cheapest message from it costs, or 0."""
        return _or_nothing(self.cost.min(axis=1, initial=FAR))

    @cached_property
    def joints(self) -> list[tuple[int, int, int]]:
        """The messages that join parts, the cheapest first: what each costs, and its ends."""
        # A minimum spanning tree by Prim's algorithm; in which direction a message goes does not matter.
        either = np.minimum(self.cost, self.cost.T)
        devices = np.flatnonzero(self.keeps)
        nearest = np.full(len(either), FAR, np.int64)
        joined = np.full(len(either), -1, np.int64)
        outside = self.keeps.copy()
        found: list[tuple[int, int, int]] = []
        for _ in range(len(devices)):
            device = int(np.argmin(np.where(outside, nearest, FAR + 1)))
            outside[device] = False
            if nearest[device] < FAR:
                other = int(joined[device])
                forth = self.cost[other, device] <= self.cost[device, other]
                ends = (other, device) if forth else (device, other)
                found.append((int(nearest[device]), *ends))
            closer = either[device] < nearest
            nearest[closer] = either[device][closer]
            joined[closer] = device
        return sorted(found)

    def links(self, src: int, dst: int) -> list[int]:
        """The links of the cheapest message."""
        device = int(self.via[src, dst])
        if device < 0:
            return [self._link[src, dst]]
        return self.links(src, device) + self.links(device, dst)

    @cached_property
    def _link(self) -> dict[tuple[int, int], int]:
        """The cheapest link between two devices."""
        dearest_first = np.argsort(-self.price, kind="stable").tolist()
        ends = np.stack([self.topology.src, self.topology.dst], axis=1).tolist()
        return {(ends[link][0], ends[link][1]): link for link in dearest_first}

    def least_cost(self, sources: Column, destinations: Column) -> int:
        """What all messages of a chunk cost at least, from whoever contributes to it to whoever needs it."""
        cost = 0
        for price, count, _ in self.crossings(sources, destinations):
            cost += price * count
        return cost

    def crossings(
        self, sources: Column, destinations: Column
    ) -> list[tuple[int, int, tuple[int, int]]]:
        """Messages that a chunk needs at least: a price, how many of them cost that at least, and where."""
        part = list(range(len(self.keeps)))
        sends = np.zeros(len(part), np.bool_)
        sends[sources] = True
        needs = np.zeros(len(part), np.bool_)
        needs[destinations] = True
        senders = int(sends.sum())
        needers = int(needs.sum())
        both = bool(np.any(sends & needs))
        crossing = senders + needers - 1 - both
        found = []
        for price, src, dst in self.joints:
            if crossing == 0:
                break
            one = _top(part, src)
            other = _top(part, dst)
            part[other] = one
            senders -= bool(sends[one] and sends[other])
            needers -= bool(needs[one] and needs[other])
            sends[one] |= sends[other]
            needs[one] |= needs[other]
            both |= bool(sends[one] and needs[one])
            fewer = senders + needers - 1 - both
            if fewer < crossing:
                found.append((price, crossing - fewer, (src, dst)))
            crossing = fewer
        return found


def _top(part: list[int], device: int) -> int:
    """Who stands for the part of a device."""
    while part[device] != device:
        part[device] = part[part[device]]
        device = part[device]
    return device


def _or_nothing(least: Ints) -> Ints:
    return np.where(least < FAR, least, 0)
