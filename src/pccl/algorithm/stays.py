"""Chunks in switches with finite buffers: from when until when each one stays.

A stay lasts from the first byte received to the last byte sent, as the verifier counts it: a message that is only
passed on stays by itself. Several partial sums that a switch adds to one sum share a stay, and a whole chunk that
comes in after an earlier copy was sent on begins another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pccl._arrays import Ints, inverse
from pccl.algorithm.core import Transfers
from pccl.errors import InfeasibleError
from pccl.topology import Topology
from pccl.topology.parts import UNLIMITED


@dataclass(frozen=True)
class Stays:
    """Stays in the planned order: by switch, and by when they begin. Their transfers stand in two lists."""

    switch: Ints
    until: Ints  # when they are planned to end
    previous: Ints  # the stay of the same chunk in the same switch before, or -1
    into: tuple[Ints, Ints]  # transfers that bring the chunk, and the stay of each
    out: tuple[Ints, Ints]  # transfers that send it on, and the stay of each

    def __len__(self) -> int:
        return len(self.switch)

    @cached_property
    def next(self) -> Ints:
        """Per stay: the one of the same chunk in the same switch after it, or -1."""
        after = np.full(len(self), -1, np.int64)
        again = np.flatnonzero(self.previous >= 0)
        after[self.previous[again]] = again
        return after


def find_stays(transfers: Transfers, world: Topology) -> Stays:
    """The stays of a plan in the switches whose buffers are finite."""
    t = transfers
    finite = world.buffer != UNLIMITED
    into = np.flatnonzero(finite[t.dst])
    out = np.flatnonzero(finite[t.src])
    row = np.concatenate([into, out])
    if not len(row):
        return Stays(row, row, row, (row, row), (row, row))
    # Which message it is, where messages are passed on one by one: that of the transfer that brings it; -1 elsewhere.
    message = np.full(len(row), -1, np.int64)
    if len(t.follows):
        message[: len(into)] = np.where(t.comes_to_pass[into], into, -1)
        message[len(into) :] = t.follows[out]
    # Comings and goings by switch, chunk and when they begin; of those at one moment, goings first.
    comes = np.arange(len(row)) < len(into)
    # At the receiver a transfer begins when its first byte comes in, a latency after its start.
    begin = t.start[row] + np.where(comes, t.topology.latency[t.link[row]], 0)
    switch = np.where(comes, t.dst[row], t.src[row])
    order = np.lexsort((comes, begin, message, t.chunk[row], switch))
    row = row[order]
    comes = comes[order]
    begin = begin[order]
    switch = switch[order]
    message = message[order]
    end = begin + t.transmission[row]
    chunk = t.chunk[row]
    # Of another switch, chunk or message than the one before.
    changes = (switch[1:] != switch[:-1]) | (chunk[1:] != chunk[:-1])
    another = np.append(True, changes | (message[1:] != message[:-1]))
    # A whole chunk that has come in before anything else happens to it opens a stay, if it was sent on before.
    copied = comes & ~t.reduce[row]
    undisturbed = np.append(another[1:] | (end[:-1] <= begin[1:]), True)
    opens = another.copy()
    opens[1:] |= (copied & undisturbed)[1:] & ~comes[:-1]
    first = np.flatnonzero(opens)
    # What would become other stays if times changed: a copy that comes in on top of what is held, or, before a copy
    # comes, a sum that is not all sent on.
    strange = np.add.reduceat(comes.astype(np.int64), first) > 1
    strange &= np.logical_or.reduceat(copied, first)
    goes_on = np.append(~another[first[1:]], False)
    last_in = np.maximum.reduceat(np.where(comes, end, -1), first)
    last_out = np.maximum.reduceat(np.where(comes, -1, begin), first)
    strange |= goes_on & (last_in > last_out)
    if np.any(strange):
        i = int(first[np.argmax(strange)])
        raise InfeasibleError(
            f"chunk {chunk[i]} comes to {world.device_text(int(switch[i]))} again while it is there; "
            "within a finite buffer that cannot be timed anew"
        )
    # Stays of a chunk in a switch have followed each other so far, so that the previous one was the
    # entry before. Now they are numbered in the order in which places are handed on.
    by_begin = np.lexsort((begin[first], switch[first]))
    number = inverse(by_begin)
    stay = number[np.cumsum(opens) - 1]
    return Stays(
        switch=switch[first][by_begin].astype(np.int64),
        until=np.maximum.reduceat(end, first)[by_begin],
        previous=np.where(another[first], -1, np.roll(number, 1))[by_begin],
        into=(row[comes], stay[comes]),
        out=(row[~comes], stay[~comes]),
    )
