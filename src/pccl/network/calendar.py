"""What is taken of the time-expanded network so far: calendars of links, levels of finite buffers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Column
from pccl.network.calendar_kernels import Lanes, Stores
from pccl.network.graph_kernels import NEVER, Network
from pccl.topology import Topology

# Rows of 12, 28, 60, 124, … intervals take an odd number of cache lines, so that their beginnings, which are asked for
# most, do not all compete for the same few places of the cache.
FIRST_ROOM = 12
LONGEST_IN_BITS = 64  # steps that a transfer may travel


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
        stepwise = (
            not net.limited
            and bool(np.all(net.hold == 1))
            and net.travel.max(initial=0) <= LONGEST_IN_BITS
        )
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
        self.stores = self.stores._replace(
            moment=_doubled(self.stores.moment), level=_doubled(self.stores.level)
        )

    def reversed(self, end: int, topology: Topology, unit: int) -> Ten:
        """The same seen backwards from `end` on the transposed topology, where latency comes before transmission."""
        lanes = self.lanes
        # On the transposed network a transfer starts when it used to arrive; a link that is not
        # exclusive was free by then, for as long as its latency.
        shift = end - (topology.latency - topology.overhead) // unit
        busy = np.empty_like(lanes.busy)
        head = lanes.head.copy()
        for lane, count in enumerate(head[:, 0]):
            busy[lane, :count] = shift[lane] - lanes.busy[lane, :count][::-1, ::-1]
            head[lane, 1:3] = busy[lane, 0]
            head[lane, 3] = busy[lane, 1, 0] if count > 1 else NEVER
        moment = self.stores.moment.copy()
        level = self.stores.level.copy()
        for store, steps in enumerate(self.stores.count):
            moment[store, :steps] = end - self.stores.moment[store, :steps][::-1]
            # The level from one moment to the next belongs to the later one when time runs
            # backwards.
            level[store, : max(steps - 1, 0)] = self.stores.level[store, : max(steps - 1, 0)][::-1]
        return Ten(
            lanes._replace(head=head, busy=busy),
            Stores(self.stores.capacity, self.stores.count.copy(), moment, level),
        )


def _doubled(array: Column, extra: int = 4) -> Column:
    wider = np.zeros((array.shape[0], 2 * array.shape[1] + extra, *array.shape[2:]), array.dtype)
    wider[:, : array.shape[1]] = array
    return wider
