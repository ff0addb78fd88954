"""Rounds: which messages go at the same time, for transports that take many at once and wait for all of them."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints
from pccl.runtime.scripts import Scripts


def rounds_of(scripts: Scripts) -> Ints:
    """Per message: its round, counted from zero.

    A rank that begins all messages of a round, waits for all of them, and takes them in the order of its script may go
    on with its next round. In every round a rank sends at most one message to each other, in the planned order.

    Examples
    --------
    >>> import pccl
    >>> from pccl.runtime import scripts_of
    >>> ring = pccl.topology.ring(4, unidirectional=True)
    >>> scripts = scripts_of(pccl.synthesize(ring, pccl.AllGather("4kB", chunks=1)))
    >>> np.bincount(rounds_of(scripts)).tolist()
    [4, 4, 4]
    """
    m = scripts.messages
    found = np.zeros(len(m), np.int64)
    first, then, apart = _pairs(scripts)
    # The longest way to each message, step by step.
    while True:
        later = found.copy()
        np.maximum.at(later, then, found[first] + apart)
        if np.array_equal(later, found):
            return found
        found = later


def _pairs(scripts: Scripts) -> tuple[Ints, Ints, Ints]:
    """Pairs of messages, and whether the second needs a later round than the first, or may have the same."""
    m = scripts.messages
    by_way = np.lexsort((m.tag, m.dst, m.src))
    way = np.stack([m.src, m.dst])[:, by_way]
    same = np.all(way[:, 1:] == way[:, :-1], axis=0)
    # On one way, one after the other.
    pairs = [(by_way[:-1][same], by_way[1:][same], np.ones(np.count_nonzero(same), np.int64))]
    # What is sent on has been taken; what is added to something comes after it, perhaps in the same round.
    sends_on = scripts.after % 2 == 0
    taken = scripts.before % 2 == 1
    pairs.append((scripts.before // 2, scripts.after // 2, (taken & sends_on).astype(np.int64)))
    first, then, apart = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return first, then, apart
