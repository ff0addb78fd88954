"""The time-expanded network as the kernels see it: arcs, calendars of links, levels of finite buffers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pccl.synthesis.kernels import NEVER, Lanes, Network, Stores, distances
from pccl.topology import Topology
from pccl.topology.core import transmission_time

__all__ = ["Ten", "network", "unloaded_times"]

Ints = NDArray[np.int64]
# Rows of 12, 28, 60, 124, … intervals take an odd number of cache lines, so that their beginnings, which are asked for
# most, do not all compete for the same few places of the cache.
FIRST_ROOM = 12


def network(topology: Topology, sizes: Ints) -> Network:
    """The arcs of a topology, for chunks of these sizes (the size classes)."""
    first, link = topology.out_links
    rates, rate_of = topology.rates
    finite = np.flatnonzero(topology.buffer)
    store = np.full(topology.num_devices, -1, np.int64)
    store[finite] = np.arange(len(finite))
    return Network(
        first=first,
        src=topology.src[link],
        dst=topology.dst[link],
        link=link.astype(np.int32),
        lane=link.astype(np.int32),
        latency=topology.latency[link],
        held=np.where(topology.exclusive, topology.latency, 0)[link],
        rate=rate_of[link].astype(np.int32),
        durations=transmission_time(sizes[:, None], rates[None, :]),
        store=store,
        one_way=~topology.multicast,
        limited=topology.limited,
    )


@dataclass
class Ten:
    """What is taken so far: the busy intervals of every lane and the levels of every finite buffer."""

    lanes: Lanes
    stores: Stores

    @classmethod
    def empty(cls, topology: Topology, net: Network) -> Ten:
        """A network where nothing has been placed."""
        capacity = topology.buffer[topology.buffer > 0].astype(np.int64)
        # A gap that is too short for the smallest chunk is no gap.
        slack = np.empty(topology.num_links, np.int64)
        slack[net.lane] = net.durations.min(axis=0, initial=NEVER)[net.rate] + net.held
        lanes = Lanes(
            np.zeros(topology.num_links, np.int64), np.empty((topology.num_links, FIRST_ROOM, 2), np.int64), slack
        )
        steps = np.zeros((len(capacity), FIRST_ROOM), np.int64)
        return cls(lanes, Stores(capacity, np.zeros(len(capacity), np.int64), steps, steps.copy()))

    def grow_lanes(self) -> None:
        """Double the room for intervals."""
        self.lanes = self.lanes._replace(busy=_doubled(self.lanes.busy))

    def grow_stores(self) -> None:
        """Double the room for levels."""
        self.stores = self.stores._replace(moment=_doubled(self.stores.moment), level=_doubled(self.stores.level))

    def reversed(self, end: int, topology: Topology) -> Ten:
        """The same seen backwards from `end` on the transposed topology, where latency comes before transmission."""
        lanes, shift = self.lanes, end - np.where(topology.exclusive, 0, topology.latency)
        busy = np.empty_like(lanes.busy)
        for lane, count in enumerate(lanes.count):
            busy[lane, :count] = shift[lane] - lanes.busy[lane, :count][::-1, ::-1]
        moment, level = self.stores.moment.copy(), self.stores.level.copy()
        for store, steps in enumerate(self.stores.count):
            moment[store, :steps] = end - self.stores.moment[store, :steps][::-1]
            level[store, : steps - 1] = self.stores.level[store, : max(steps - 1, 0)][::-1]
        return Ten(
            Lanes(lanes.count.copy(), busy, lanes.slack),
            Stores(self.stores.capacity, self.stores.count.copy(), moment, level),
        )


def unloaded_times(net: Network, devices: Ints, size_classes: Ints) -> Ints:
    """Row i: time from device i to every device for a chunk of its size class when nothing is in the way."""
    table = np.empty((len(devices), len(net.first) - 1), np.int64)
    distances(net, devices, size_classes, np.empty((len(net.dst) + 2, 4), np.int64), table)
    return table


def _doubled(array: Ints) -> Ints:
    wider = np.zeros((array.shape[0], 2 * array.shape[1] + 4, *array.shape[2:]), np.int64)
    wider[:, : array.shape[1]] = array
    return wider
