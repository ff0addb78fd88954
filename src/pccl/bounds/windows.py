"""Windows: from when until when links can carry what helps.

What helps has come from a source and goes on to a destination. So a transfer that helps starts no earlier than a chunk
can be where its link begins, and arrives so early that the chunk can still get to where it is needed. What that takes
of any duration is lost to the link; the rest of it is open.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Bools, Column, Floats, Ints
from pccl.topology import Topology
from pccl.topology.core import transmission_time
from pccl.units import BytesPerSecond, counted

PICOSECONDS = 10**12  # of a second, as bandwidths are per second


@dataclass(frozen=True)
class Windows:
    """Per link: what it loses of any duration, and whether it is of use at all.

    Attributes
    ----------
    before
        How long a chunk takes, at least, to get to the link.
    after
        How long it takes, at least, from the end of the link to a destination.
    useful
        Whether it can do both.
    largest
        Bytes of the largest chunk: who carries more has more messages to carry.
    """

    topology: Topology
    before: Ints
    after: Ints
    useful: Bools
    largest: int

    @property
    def lost(self) -> Ints:
        """Picoseconds of any duration in which the link carries nothing that helps."""
        return self.before + self.topology.latency + self.after

    def time_to_earn(self, amount: int, price: Column) -> int:
        """The least duration in which links can earn an amount, at these prices per byte; exactly."""
        kinds = self._kinds(price)
        if not kinds or amount <= 0:
            return 0
        low = 0
        high = 1 + max(lost for _, _, lost, _ in kinds)
        while self._earned(high, kinds) < amount:
            low = high
            high *= 2
        # What is earned never falls as time goes on.
        while low + 1 < high:
            middle = (low + high) // 2
            if self._earned(middle, kinds) < amount:
                low = middle
            else:
                high = middle
        return high

    def _kinds(self, price: Column) -> list[tuple[int, int, int, int]]:
        """Bandwidth, overhead and loss of the links that earn something, and the prices of all that are alike."""
        earns = np.flatnonzero(self.useful & (price > 0))
        topology = self.topology
        features = np.stack([topology.bandwidth, topology.overhead, self.lost])[:, earns]
        kinds, kind = np.unique(features, axis=1, return_inverse=True)
        worth = np.zeros(kinds.shape[1], np.int64)
        np.add.at(worth, kind.reshape(-1), price[earns].astype(np.int64))
        return [
            (bandwidth, overhead, lost, weight)
            for (bandwidth, overhead, lost), weight in zip(
                kinds.T.tolist(), worth.tolist(), strict=True
            )
        ]

    def _earned(self, duration: int, kinds: list[tuple[int, int, int, int]]) -> int:
        total = 0
        for bandwidth, overhead, lost, weight in kinds:
            if duration > lost:
                total += weight * self._carried(duration - lost, bandwidth, overhead)
        return total

    def _carried(self, time: int, bandwidth: int, overhead: int) -> int:
        """Bytes that a link carries at most while it is open.

        Not rounded up to picoseconds, as real transmissions are: a bound may take links for too fast, never for too
        slow.
        """
        carried = bandwidth * time // PICOSECONDS
        if not overhead:
            return carried
        # n messages hold the link n - 1 times for longer than they take; nobody waits for the last hold to end. And n
        # is no less than the bytes over those of the largest chunk.
        largest = self.largest
        held = largest * PICOSECONDS + overhead * bandwidth
        return min(carried, (time + overhead) * bandwidth * largest // held)

    def time_for_chunks(self, chunks: int, size: int, crosses: Bools) -> int:
        """The least duration in which some links can carry that many chunks of a size, each as a whole."""
        out = np.flatnonzero(crosses & self.useful)
        if not len(out):
            return 0
        transmission = transmission_time(size, self.topology.bandwidth[out])
        hold = transmission + self.topology.overhead[out]
        # The k-th chunk of a link is where it must be at `fixed + k * hold`.
        fixed = self.lost[out] + transmission - hold
        low = 0
        high = int(fixed.max()) + chunks * int(hold.max())
        while low < high:
            middle = (low + high) // 2
            carried = np.maximum((middle - fixed) // hold, 0)
            if int(carried.sum()) >= chunks:
                high = middle
            else:
                low = middle + 1
        return low


def time_to_fill(amount: Floats, rate: Floats, lost: Floats) -> Floats:
    """When links have carried an amount, roughly; one column for each amount, one row for each link.

    Only to choose by: what is claimed is proven in whole numbers.
    """
    order = np.argsort(lost, axis=0)
    loss = np.take_along_axis(lost, order, axis=0)
    speed = rate[order]
    # With the first k links open; links that open later than all is carried would only make it look longer.
    times = (amount + np.cumsum(speed * loss, axis=0)) / np.cumsum(speed, axis=0)
    return np.asarray(times.min(axis=0, initial=np.inf))


def links_text(topology: Topology, out: Ints) -> str:
    """How many links of which bandwidth."""
    bandwidth, count = np.unique(topology.bandwidth[out], return_counts=True)
    texts = [
        f"{counted(n, 'link')} of {BytesPerSecond(b)}"
        for b, n in zip(bandwidth.tolist(), count.tolist(), strict=True)
    ]
    if len(texts) > 2:
        return (
            f"{len(out)} links of {BytesPerSecond(bandwidth[0])} to {BytesPerSecond(bandwidth[-1])}"
        )
    return " and ".join(texts)
