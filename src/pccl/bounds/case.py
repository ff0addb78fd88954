"""What a bound is asked for: conditions on a network, and what all kinds of bounds want to know about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from pccl._arrays import (
    Bools,
    Column,
    Floats,
    Indices,
    Ints,
    offsets_by_owner,
    offsets_of,
    take_rows,
)
from pccl.algorithm.bound import Certificate
from pccl.bounds.patience import Patience
from pccl.bounds.windows import PICOSECONDS, Windows
from pccl.collective import Conditions
from pccl.network import NEVER, times_from_nearest
from pccl.topology import Topology

if TYPE_CHECKING:
    from pccl.bounds.sets import Demand


# Who contributes and who needs it, as bytes, so that they can be looked up; and whether it is a sum.
Members: TypeAlias = tuple[bytes, bytes, bool]


class Share(NamedTuple):
    """Pieces that belong together: they have the same ends."""

    bytes: int
    sources: Indices
    destinations: Indices
    reduces: bool

    @property
    def members(self) -> Members:
        """What decides how many messages it needs: with one end on a side, who takes part, and not who is that end."""
        if self.reduces and len(self.destinations) > 1:
            return np.sort(self.sources).tobytes(), np.sort(self.destinations).tobytes(), True
        everybody = np.union1d(self.sources, self.destinations)
        return everybody.tobytes(), b"", self.reduces


@dataclass(frozen=True)
class Case:
    """Conditions on a network, and how their data may be cut.

    Attributes
    ----------
    whole_chunks
        Whether bounds are wanted that hold for chunks as they are cut now.
    cut_freely
        Per chunk: whether it might be cut further; None if none might.
    quick
        Whether an answer is wanted that takes no time to speak of.
    patience
        How long the search may take.
    """

    topology: Topology
    conditions: Conditions
    whole_chunks: bool = False
    cut_freely: Bools | None = None
    quick: bool = False
    patience: Patience = field(default_factory=Patience)

    @cached_property
    def cuts(self) -> list[Bools]:
        """The narrowest sets of devices, the narrowest of all first."""
        from pccl.bounds.sets import best_cuts  # which itself asks about the case

        return best_cuts(self)

    @cached_property
    def demand(self) -> Demand:
        """What must go from where to where, summed up."""
        from pccl.bounds.sets import Demand

        return Demand(self)

    @cached_property
    def largest(self) -> int:
        """Bytes of the largest chunk that has to get anywhere."""
        return int(self.conditions.bytes[self.conditions.num_destinations > 0].max(initial=1))

    @cached_property
    def link_rates(self) -> Floats:
        """Per link: the bytes per picosecond that it carries at most, of the largest chunks; rounded.

        What a link is held for besides the transmission costs least with the largest chunks.
        """
        transmission = self.largest / self.topology.bandwidth * PICOSECONDS
        rates: Floats = self.largest / (transmission + self.topology.overhead)
        return rates

    def only(self, certificate: Certificate) -> Case:
        """The case of those sources and destinations alone that a certificate names, if it names any.

        Whatever serves all of them serves these.
        """
        named = [certificate.get(side) for side in ("sources", "destinations")]
        if named == [None, None]:
            return self
        c = self.conditions
        sides: list[tuple[Ints, Indices]] = []
        for devices, offsets, ids in (
            (named[0], c.source_offsets, c.source_ids),
            (named[1], c.destination_offsets, c.destination_ids),
        ):
            counts = np.zeros(self.topology.num_devices, np.bool_)
            counts[slice(None) if devices is None else list(devices)] = True
            # What has no source left, of those that count, has nowhere to go.
            row = np.repeat(np.arange(len(c)), np.diff(offsets))
            kept = counts[ids]
            if sides:
                kept &= np.diff(sides[0][0])[row] > 0
            sides.append((offsets_by_owner(row[kept], len(c)), ids[kept]))
        (source_offsets, source_ids), (destination_offsets, destination_ids) = sides
        conditions = replace(
            c,
            source_offsets=source_offsets,
            source_ids=source_ids,
            destination_offsets=destination_offsets,
            destination_ids=destination_ids,
        )
        return replace(self, conditions=conditions)

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

    def windows(self, size: int, sources: Column, targets: Column) -> Windows:
        """From when until when each link can carry a chunk of a size from one of some devices to one of others."""
        topology = self.topology
        before = times_from_nearest(topology, size, np.unique(sources))[topology.src]
        after = times_from_nearest(topology.transpose(), size, np.unique(targets))[topology.dst]
        useful = (before < NEVER) & (after < NEVER)
        return Windows(topology, before, after, useful, self.largest)

    @cached_property
    def ways_of_a_byte(self) -> Windows:
        """When each link can carry the first byte of anything that has somewhere to go."""
        c = self.conditions
        rows = np.flatnonzero(c.num_destinations > 0)
        sources = take_rows(c.source_offsets, c.source_ids, rows)[1]
        return self.windows(1, sources, c.destination_ids)

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
