"""Collectives in which one member, the root, has or gets everything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Ints
from pccl.collective.base import Collective
from pccl.collective.conditions import Conditions
from pccl.collective.layout import BufferLayout, Ranks, Shares, kept, side_by_side
from pccl.errors import CollectiveError
from pccl.units import whole

__all__ = ["Broadcast", "Gather", "Reduce", "Scatter"]


@dataclass(frozen=True)
class _Rooted(Collective):
    """A collective with one NPU that is special; the first of the group unless said otherwise."""

    root: int | None = None
    rooted = True

    def _check_shared(self) -> None:
        if self.root is not None:
            root = whole(self.root)
            if root is None:
                raise CollectiveError(
                    f"{self.kind}: the root must be the number of an NPU, not {self.root!r}"
                )
            self._set("root", root)
        super()._check_shared()

    def _check_group(self, group: tuple[int, ...]) -> None:
        super()._check_group(group)
        if self.root is not None and self.root not in group:
            raise CollectiveError(f"{self.kind}: root {self.root} is not in the group")

    def root_of(self, group: Ints) -> int:
        """The root when these are the members of the group."""
        root = int(group[0]) if self.root is None else int(self.root)
        if root not in group:
            raise CollectiveError(f"{self.kind}: root {root} is not in the group")
        return root

    def _root_rank(self, ranks: Ranks) -> int:
        return int(ranks.members[0] if self.root is None else ranks.of_device[self.root])


class Broadcast(_Rooted):
    """Every NPU ends with the buffer of the root."""

    kind = "broadcast"
    nccl_name = "broadcast"
    _is_one_share = True
    spreads = True

    def _conditions(self, group: Ints) -> Conditions:
        root = self.root_of(group)
        _, piece, size = self._cut(self._shares(len(group)))
        sources = np.full((len(size), 1), root)
        destinations = np.tile(group[group != root], (len(size), 1))
        return Conditions.of(size, piece, sources, destinations)

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        own = kept([self._root_rank(ranks)], int(self.size))
        return side_by_side(conditions, ranks.count, np.zeros(ranks.count, np.int64), own)


class Reduce(_Rooted):
    """The root ends with the sum of all NPUs' buffers."""

    kind = "reduce"
    nccl_name = "reduce"
    _is_one_share = True
    collects = True

    def _conditions(self, group: Ints) -> Conditions:
        _, piece, size = self._cut(self._shares(len(group)))
        sources = np.tile(group, (len(size), 1))
        destinations = np.full((len(size), 1), self.root_of(group))
        return Conditions.of(size, piece, sources, destinations, reduces=True)

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        return side_by_side(conditions, ranks.count, shift=np.zeros(ranks.count, np.int64))


class Scatter(_Rooted):
    """The root sends every NPU a share of its own; size is the buffer of the root."""

    kind = "scatter"
    nccl_name = "scatter"

    def _conditions(self, group: Ints) -> Conditions:
        root = self.root_of(group)
        share, piece, size = self._cut(self._shares(len(group)))
        sent = group[share] != root
        destinations = group[share[sent], None]
        return Conditions.of(
            size[sent], piece[sent], np.full_like(destinations, root), destinations
        )

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        shares = Shares(self._shares(len(ranks.group)), ranks)
        within = conditions.within_share
        place = shares.first[ranks.of_device[conditions.destination_ids]] + within
        root = self._root_rank(ranks)
        own = kept([root], shares.size[root], shares.first[root], 0)
        return BufferLayout(place, within, shares.whole, shares.size, None, own)


class Gather(_Rooted):
    """The root collects a share from every NPU; size is the buffer of the root."""

    kind = "gather"
    nccl_name = "gather"

    def _conditions(self, group: Ints) -> Conditions:
        root = self.root_of(group)
        share, piece, size = self._cut(self._shares(len(group)))
        sent = group[share] != root
        sources = group[share[sent], None]
        return Conditions.of(size[sent], piece[sent], sources, np.full_like(sources, root))

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        shares = Shares(self._shares(len(ranks.group)), ranks)
        within = conditions.within_share
        place = shares.first[ranks.of_device[conditions.source_ids]] + within
        root = self._root_rank(ranks)
        own = kept([root], shares.size[root], 0, shares.first[root])
        return BufferLayout(within, place, shares.size, shares.whole, None, own)
