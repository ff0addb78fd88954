"""What a bound is asked for: conditions on a network, and what all kinds of bounds want to know about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pccl._arrays import Bools, Column, Floats, Indices, Ints, offsets_of
from pccl.collective import Conditions
from pccl.network import NEVER, times_from_nearest
from pccl.topology import Topology


class Share(NamedTuple):
    """Pieces that belong together: they have the same ends."""

    bytes: int
    sources: Indices
    destinations: Indices
    reduces: bool


@dataclass(frozen=True)
class Case:
    """Conditions on a network, and how their data may be cut.

    Attributes
    ----------
    whole_chunks
        Whether bounds are wanted that hold for chunks as they are cut now.
    cut_freely
        Per chunk: whether it might be cut further; None if none might.
    """

    topology: Topology
    conditions: Conditions
    whole_chunks: bool = False
    cut_freely: Bools | None = None

    @cached_property
    def cuts(self) -> list[Bools]:
        """The narrowest sets of devices, the narrowest of all first."""
        from pccl.bounds.cut import best_cuts  # which itself asks about the case

        return best_cuts(self)

    @cached_property
    def _rates(self) -> tuple[list[Fraction], Ints]:
        """Bytes per picosecond that links of each kind carry at most, and the kind of each link.

        What a link is held for besides the transmission costs least with the largest chunks, if times were not rounded
        up.
        """
        # Nobody waits for the end of the last gap, but for the last latency; so no more than that counts for all.
        overhead = np.minimum(self.topology.overhead, self.topology.latency)
        features = np.stack([self.topology.bandwidth, overhead])
        kinds, kind = np.unique(features, axis=1, return_inverse=True)
        largest = int(self.conditions.bytes.max(initial=1))
        speeds = []
        for bandwidth, overhead in kinds.T.tolist():
            # Not rounded up to picoseconds, as real transmissions are: a bound may take links for
            # too fast, never for too slow.
            transmission = Fraction(largest * 10**12, bandwidth)
            # Every chunk pays the held latency once, so the largest gets the most bytes through for
            # it.
            speeds.append(largest / (transmission + overhead))
        return speeds, kind.reshape(-1)

    @property
    def link_rates(self) -> Floats:
        """Per link: the bytes per picosecond that it carries at most, rounded."""
        speeds, kind = self._rates
        return np.array(speeds, np.float64)[kind]

    def earnings(self, price: Column) -> Fraction:
        """What all links together earn at most in a picosecond, at these prices per byte; exactly."""
        speeds, kind = self._rates
        earned = Fraction(0)
        for number, speed in enumerate(speeds):
            earned += int(price[kind == number].sum()) * speed
        return earned

    def going(self, sources: Bools, destinations: Bools) -> Bools:
        """Per chunk: whether it must get from one of some devices to one of others."""
        # Of a sum, a contributor on one side and a destination on the other are enough: whatever is
        # added up where, some partial sum must get across.
        c = self.conditions
        found = np.ones(len(c), np.bool_)
        for matches, offsets in (
            (sources[c.source_ids], c.source_offsets),
            (destinations[c.destination_ids], c.destination_offsets),
        ):
            counts = offsets_of(matches)
            # A row has a match if the running count of matches rises along it; this holds for empty
            # rows too.
            found &= counts[offsets[1:]] > counts[offsets[:-1]]
        return found

    def ways(self, size: int, sources: Indices, targets: Indices) -> tuple[Ints, Ints, Bools]:
        """Per link: how long a chunk takes to get there, and from there to a target; and whether it can do both."""
        topology = self.topology
        before = times_from_nearest(topology, size, np.unique(sources))[topology.src]
        after = times_from_nearest(topology.transpose(), size, np.unique(targets))[topology.dst]
        return before, after, (before < NEVER) & (after < NEVER)

    @cached_property
    def single_ends(self) -> Ints:
        """Bytes from device to device of all that has one source and one destination."""
        c = self.conditions
        n = self.topology.num_devices
        alone = self._has_single_ends
        source = c.source_ids[c.source_offsets[:-1][alone]].astype(np.int64)
        target = c.destination_ids[c.destination_offsets[:-1][alone]]
        table = np.zeros(n * n, np.int64)
        np.add.at(table, source * n + target, c.bytes[alone])
        return table.reshape(n, n)

    def several_ends(self) -> Iterator[Share]:
        """Yield all that has several destinations or contributors, share by share."""
        c = self.conditions
        # All pieces of a share have the same ends, so its first piece stands for all of its bytes.
        first_piece = c.piece == 0
        size = np.zeros(np.count_nonzero(first_piece), np.int64)
        np.add.at(size, c.share, c.bytes)
        wanted = c.num_destinations > 0
        for row in np.flatnonzero(first_piece & wanted & ~self._has_single_ends).tolist():
            yield Share(
                int(size[c.share[row]]), c.sources(row), c.destinations(row), bool(c.reduces[row])
            )

    @property
    def _has_single_ends(self) -> Bools:
        single: Bools = self.conditions.num_destinations == 1
        return single & ~self.conditions.reduces
