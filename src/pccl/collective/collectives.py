"""Collectives in which all members do the same: gathering, adding up, sending to the next.

All collectives are small immutable descriptions of what a process group wants. Sizes count the buffer of one NPU as
nccl-tests does: the whole gathered or scattered array for All-Gather, Reduce-Scatter and All-to-All (its own share
included). ``chunks`` cuts every share into pieces that travel separately. Without a ``group`` a collective spans all
NPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Ints
from pccl.collective.base import Collective, yes_or_no
from pccl.collective.conditions import Conditions
from pccl.collective.layout import BufferLayout, Ranks, Shares, kept, side_by_side
from pccl.errors import CollectiveError

__all__ = ["AllGather", "AllReduce", "ReduceScatter", "SendRecv"]


class AllGather(Collective):
    """Every NPU ends with the shares of all.

    Examples
    --------
    >>> AllGather(size="8MiB", group=range(4), chunks=2)
    AllGather(size=Bytes(8388608), group=(0, 1, 2, 3), chunks=2, dtype='uint8')
    """

    kind = "all-gather"
    nccl_name = "allgather"
    spreads = True

    def _conditions(self, group: Ints) -> Conditions:
        share, piece, size = self._cut(self._shares(len(group)))
        return Conditions.of(size, piece, group[share, None], _others(group)[share])

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        member = ranks.members
        shares = Shares(self._shares(len(ranks.group)), ranks)
        within = conditions.within_share
        place = shares.first[ranks.of_device[conditions.source_ids]] + within
        own = kept(member, shares.size[member], 0, shares.first[member])
        return BufferLayout(within, place, shares.size, shares.whole, shares.first, own)


class ReduceScatter(Collective):
    """Every NPU ends with the sum of all NPUs' values for its own share."""

    kind = "reduce-scatter"
    nccl_name = "reducescatter"
    collects = True

    def _conditions(self, group: Ints) -> Conditions:
        share, piece, size = self._cut(self._shares(len(group)))
        members = np.broadcast_to(group, (len(size), len(group)))
        return Conditions.of(size, piece, members, group[share, None], reduces=True)

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        shares = Shares(self._shares(len(ranks.group)), ranks)
        within = conditions.within_share
        place = shares.first[ranks.of_device[conditions.destination_ids]] + within
        return BufferLayout(place, within, shares.whole, shares.size, -shares.first, kept())


class AllReduce(Collective):
    """Every NPU ends with the sum of all NPUs' values for the whole buffer."""

    kind = "all-reduce"
    nccl_name = "allreduce"
    collects = True
    spreads = True

    def bus_factor(self, members: int) -> float:
        """Twice that of its halves, a Reduce-Scatter and an All-Gather."""
        return 2 * super().bus_factor(members)

    def _conditions(self, group: Ints) -> Conditions:
        _, piece, size = self._cut(self._shares(len(group)))
        members = np.broadcast_to(group, (len(size), len(group)))
        return Conditions.of(size, piece, members, members, reduces=True)

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        return side_by_side(conditions, ranks.count, shift=np.zeros(ranks.count, np.int64))


@dataclass(frozen=True)
class SendRecv(Collective):
    """Every member of the group sends its buffer to the next: a plain send for two, pipeline stages for more.

    Parameters
    ----------
    size, group, chunks
        As for all collectives.
    cyclic
        Whether the last member sends to the first, as in the test of that name in nccl-tests.
    """

    cyclic: bool = False
    kind = "send-recv"
    nccl_name = "sendrecv"
    _is_one_share = True

    def _check_shared(self) -> None:
        super()._check_shared()
        self._set("cyclic", yes_or_no(self.cyclic, f"{self.kind}: cyclic"))

    def _conditions(self, group: Ints) -> Conditions:
        if len(group) < 2:
            raise CollectiveError(
                f"{self.kind} needs a sender and a receiver; the group has one member"
            )
        ahead = np.roll(group, -1) if self.cyclic else group[1:]
        sender, piece, size = self._cut(np.repeat(self._shares(len(group)), len(ahead)))
        return Conditions.of(size, piece, group[sender, None], ahead[sender, None])

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        within = conditions.within_share
        whole = np.full(ranks.count, int(self.size))
        return BufferLayout(within, within, whole, whole, shift=None, own=kept())


def _others(group: Ints) -> Ints:
    """Row i: the group without its i-th member."""
    n = len(group)
    columns = np.arange(n - 1)[None, :]
    return group[columns + (columns >= np.arange(n)[:, None])]
