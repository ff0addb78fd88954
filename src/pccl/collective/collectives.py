"""Collectives of equal shares, in which everyone gathers, adds up or sends on, or one member is the root.

All collectives are small immutable descriptions of what a process group wants. Sizes count the buffer of one NPU as
nccl-tests does: the whole gathered or scattered array for All-Gather, Reduce-Scatter and All-to-All (its own share
included). ``chunks`` cuts every share into pieces that travel separately. Without a ``group`` a collective spans all
NPUs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from pccl._arrays import Indices, Ints
from pccl.collective.base import Collective, Moves, yes_or_no
from pccl.collective.conditions import Conditions
from pccl.collective.layout import BufferLayout, Ranks, kept
from pccl.errors import CollectiveError
from pccl.units import whole


class AllGather(Collective):
    """Every NPU ends with the shares of all.

    Examples
    --------
    >>> AllGather(size="8MiB", group=range(4), chunks=2)
    AllGather(size=Bytes(8388608), group=(0, 1, 2, 3), chunks=2, dtype='uint8')
    """

    kind = "all-gather"
    spreads = True

    def _moves(self, group: Ints) -> Moves:
        # Row i: the group without its i-th member.
        others = _everyone(group)[~np.eye(len(group), dtype=np.bool_)].reshape(len(group), -1)
        return self._shares(len(group)), group[:, None], others

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        return self._gathered(conditions, conditions.source_ids, ranks, ranks.members)


class ReduceScatter(Collective):
    """Every NPU ends with the sum of all NPUs' values for its own share."""

    kind = "reduce-scatter"
    collects = True

    def _moves(self, group: Ints) -> Moves:
        return self._shares(len(group)), _everyone(group), group[:, None]

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        # The mirror image of an All-Gather. Nobody keeps anything: even one's own share is a sum to
        # which others contribute. There is one destination a chunk, so their list is a column by
        # chunk.
        return self._gathered(conditions, conditions.destination_ids, ranks).reversed()


@dataclass(frozen=True)
class AllReduce(Collective):
    """Every NPU ends with the sum of all NPUs' values for the whole buffer.

    Parameters
    ----------
    size, group, chunks
        As for all collectives.
    whole
        Whether the buffer is one share, instead of one for every member: for data so small that messages count more
        than bytes.

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(4)
    >>> [len(AllReduce("1KiB", whole=whole).conditions(ring)) for whole in (False, True)]
    [4, 1]
    """

    whole: bool = field(default=False, kw_only=True, repr=False)
    kind = "all-reduce"
    collects = True
    spreads = True

    def bus_factor(self, members: int) -> float:
        """Twice that of its halves, a Reduce-Scatter and an All-Gather."""
        return 2 * super().bus_factor(members)

    def uncut(self) -> Self:
        """The same collective, of which nobody has said into what its data are cut."""
        return replace(super().uncut(), whole=False)

    def in_one(self) -> Self:
        """The same collective in one chunk."""
        return replace(super().in_one(), whole=True)

    def _check_shared(self) -> None:
        super()._check_shared()
        self._set("whole", yes_or_no(self.whole, f"{self.kind}: whole"))

    def _count_shares(self, members: int) -> int:
        return 1 if self.whole else members

    def _moves(self, group: Ints) -> Moves:
        # Contributors are destinations too: nobody has the sum from the start.
        shares = self._shares(len(group))
        everyone = np.tile(group, (len(shares), 1))
        return shares, everyone, everyone


def _everyone(group: Ints) -> Ints:
    """The whole group in every row, of which there are as many as members."""
    return np.tile(group, (len(group), 1))


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
    _is_one_share = True

    def _check_shared(self) -> None:
        super()._check_shared()
        self._set("cyclic", yes_or_no(self.cyclic, f"{self.kind}: cyclic"))

    def _moves(self, group: Ints) -> Moves:
        if len(group) < 2:
            raise CollectiveError(
                f"{self.kind} needs a sender and a receiver; the group has one member"
            )
        # The last receiver is the first member; without a cycle, the last member sends nothing.
        receivers = np.roll(group, -1)
        count = len(group) if self.cyclic else len(group) - 1
        shares = np.repeat(self._shares(1), count)
        return shares, group[:count, None], receivers[:count, None]

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        # Everyone sends from the beginning of its own buffer. In place, what comes in would
        # overwrite what has yet to be sent.
        place = conditions.within_share
        layout = super()._layout(conditions, ranks)
        return replace(layout, input_offset=place, output_offset=place, shift=None)


@dataclass(frozen=True)
class _Rooted(Collective):
    """A collective with one NPU that is special; the first of the group unless said otherwise."""

    root: int | None = None
    rooted = True

    def _check_shared(self) -> None:
        # The root first: whether it is in the group can be asked once it is a number.
        if self.root is not None:
            root = whole(self.root)
            if root is None:
                raise self._error(f"the root must be the number of an NPU, not {self.root!r}")
            self._set("root", root)
        super()._check_shared()
        # Without a group the members are all NPUs, which only a topology knows.
        if self.group is not None:
            self._root_of(np.array(self.ranks))

    def _root_of(self, group: Ints) -> Ints:
        """The root among these members, as an array of one."""
        root = group[:1] if self.root is None else group[group == self.root]
        if not len(root):
            raise self._error(f"root {self.root} is not in the group")
        return root

    def _root_rank(self, ranks: Ranks) -> Ints:
        return ranks.of_device[self._root_of(ranks.group)]

    def _at_root(self, conditions: Conditions, owner: Indices, ranks: Ranks) -> BufferLayout:
        """All shares in the output of the root, which keeps its own; not defined in place."""
        layout = self._gathered(conditions, owner, ranks, self._root_rank(ranks))
        return replace(layout, shift=None)

    def _others(self, group: Ints) -> Moves:
        """The shares of all members but the root, the root, and these members."""
        root = self._root_of(group)
        moves = group != root
        others = group[moves, None]
        return self._shares(len(group))[moves], np.tile(root, (len(others), 1)), others


class Broadcast(_Rooted):
    """Every NPU ends with the buffer of the root."""

    kind = "broadcast"
    spreads = True
    _is_one_share = True

    def _moves(self, group: Ints) -> Moves:
        root = self._root_of(group)
        return self._shares(1), root[None], group[group != root][None]

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        # Out of place, the root ends with the buffer as well, which needs no transfer.
        layout = super()._layout(conditions, ranks)
        return replace(layout, own=kept(self._root_rank(ranks), self.size))


class Reduce(_Rooted):
    """The root ends with the sum of all NPUs' buffers."""

    kind = "reduce"
    collects = True
    _is_one_share = True

    def _moves(self, group: Ints) -> Moves:
        return self._shares(1), group[None], self._root_of(group)[None]


class Scatter(_Rooted):
    """The root sends every NPU a share of its own; size is the buffer of the root."""

    kind = "scatter"

    def _moves(self, group: Ints) -> Moves:
        return self._others(group)

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        return self._at_root(conditions, conditions.destination_ids, ranks).reversed()


class Gather(_Rooted):
    """The root collects a share from every NPU; size is the buffer of the root."""

    kind = "gather"

    def _moves(self, group: Ints) -> Moves:
        shares, root, others = self._others(group)
        return shares, others, root

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        return self._at_root(conditions, conditions.source_ids, ranks)
