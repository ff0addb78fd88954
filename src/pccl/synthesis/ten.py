"""The time-expanded network as the kernels see it: arcs, calendars of links, levels of finite buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pccl.errors import InfeasibleError
from pccl.synthesis.kernels import NEVER, Lanes, Network, Stores, distances
from pccl.topology import Topology
from pccl.topology.core import transmission_time
from pccl.units import Bytes

__all__ = ["LONGEST", "Ten", "network", "steps_help", "unloaded_times"]

Ints = NDArray[np.int64]
# Rows of 12, 28, 60, 124, … intervals take an odd number of cache lines, so that their beginnings, which are asked for
# most, do not all compete for the same few places of the cache.
FIRST_ROOM = 12
LONGEST_IN_BITS = 64  # steps that a transfer may travel
LONGEST = 2**60  # picoseconds, about two weeks: no schedule may take longer, so that sums of times fit an int64


def network(topology: Topology, sizes: Ints, steps: bool = False) -> Network:
    """The arcs of a topology, for chunks of these sizes (the size classes).

    With `steps`, a transfer takes a whole multiple of the greatest common divisor of all the times for which links are
    held, rounded up: then transfers fit together without gaps that are too short to be of use.
    """
    first, link = topology.out_links
    features = np.stack([topology.bandwidth, topology.latency, topology.exclusive])
    (bandwidth, latency, exclusive), kind = np.unique(features, axis=1, return_inverse=True)
    _check_times(topology, sizes)
    duration = transmission_time(sizes[:, None], bandwidth[None, :])
    travel, hold = duration + latency, duration + np.where(exclusive, latency, 0)
    finite = np.flatnonzero(topology.buffer)
    store = np.full(topology.num_devices, -1, np.int64)
    store[finite] = np.arange(len(finite))
    limited = topology.limited
    times = [hold] if steps else [hold, travel, duration] if limited else [hold, travel]
    unit = int(np.gcd.reduce(np.concatenate(times, axis=None))) or 1
    return Network(
        first=first,
        src=topology.src[link],
        dst=topology.dst[link],
        link=link.astype(np.int32),
        lane=link.astype(np.int32),
        kind=kind.reshape(-1)[link].astype(np.int32),
        hold=hold // unit,
        travel=-(-travel // unit),
        duration=duration // unit,
        store=store,
        one_way=~topology.multicast,
        limited=limited,
        unit=unit,
    )


def _check_times(topology: Topology, sizes: Ints) -> None:
    """Refuse what would take so long that even the shortest way across the network is no int64 of picoseconds."""
    if not topology.num_links or not len(sizes):
        return
    slowest = int(np.argmax(topology.latency + sizes.max() / topology.bandwidth * 1e12))
    seconds = float(sizes.max() / topology.bandwidth[slowest] + topology.latency[slowest] / 1e12)
    if seconds * 1e12 * topology.num_devices > LONGEST:
        raise InfeasibleError(
            f"a chunk of {Bytes(sizes.max())} takes {seconds:.3g} s over {topology.link_text(slowest)}, "
            f"too long to schedule on {topology.num_devices} devices; use smaller chunks or take the link out"
        )


def steps_help(exact: Network) -> bool:
    """Whether there is a step worth counting in: not too short beside the holds, and not what times come to anyway."""
    step = int(np.gcd.reduce(exact.hold, axis=None))
    return not exact.limited and 8 * step >= exact.hold.min(initial=0) and bool(np.any(exact.travel % max(step, 1)))


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
        slack = np.zeros(topology.num_links, np.int64)
        slack[net.lane] = net.hold.min(axis=0, initial=NEVER)[net.kind]
        # Where chunks travel for long, bits would mostly say that nothing happens.
        stepwise = not net.limited and bool(np.all(net.hold == 1)) and net.travel.max(initial=0) <= LONGEST_IN_BITS
        room = 1 if stepwise else FIRST_ROOM
        lanes = Lanes(
            head=np.zeros((topology.num_links, 4), np.int64),
            busy=np.empty((topology.num_links, room, 2), np.int64),
            slack=slack,
            steps=np.zeros((topology.num_links if stepwise else 0, 1), np.uint64),
            stepwise=bool(stepwise),
        )
        steps = np.zeros((len(capacity), FIRST_ROOM), np.int64)
        return cls(lanes, Stores(capacity, np.zeros(len(capacity), np.int64), steps, steps.copy()))

    def grow_lanes(self) -> None:
        """Double the room in the calendars."""
        if self.lanes.stepwise:
            self.lanes = self.lanes._replace(steps=_doubled(self.lanes.steps, 0))
        else:
            self.lanes = self.lanes._replace(busy=_doubled(self.lanes.busy))

    def grow_stores(self) -> None:
        """Double the room for levels."""
        self.stores = self.stores._replace(moment=_doubled(self.stores.moment), level=_doubled(self.stores.level))

    def reversed(self, end: int, topology: Topology, unit: int) -> Ten:
        """The same seen backwards from `end` on the transposed topology, where latency comes before transmission."""
        lanes, shift = self.lanes, end - np.where(topology.exclusive, 0, topology.latency // unit)
        busy = np.empty_like(lanes.busy)
        head = lanes.head.copy()
        for lane, count in enumerate(head[:, 0]):
            busy[lane, :count] = shift[lane] - lanes.busy[lane, :count][::-1, ::-1]
            head[lane, 1:3] = busy[lane, 0]
            head[lane, 3] = busy[lane, 1, 0] if count > 1 else NEVER
        moment, level = self.stores.moment.copy(), self.stores.level.copy()
        for store, steps in enumerate(self.stores.count):
            moment[store, :steps] = end - self.stores.moment[store, :steps][::-1]
            level[store, : max(steps - 1, 0)] = self.stores.level[store, : max(steps - 1, 0)][::-1]
        return Ten(
            lanes._replace(head=head, busy=busy),
            Stores(self.stores.capacity, self.stores.count.copy(), moment, level),
        )


def unloaded_times(net: Network, devices: Ints, size_classes: Ints) -> Ints:
    """Row i: time from device i to every device for a chunk of its size class when nothing is in the way."""
    table = np.empty((len(devices), len(net.first) - 1), np.int64)
    distances(net, devices, size_classes, np.empty((len(net.dst) + 2, 3), np.int64), table)
    return table


def _doubled(array: NDArray[Any], extra: int = 4) -> NDArray[Any]:
    wider = np.zeros((array.shape[0], 2 * array.shape[1] + extra, *array.shape[2:]), array.dtype)
    wider[:, : array.shape[1]] = array
    return wider
