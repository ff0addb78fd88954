"""From transfers over links to messages between NPUs, which is all that Chakra knows.

A chunk that passes switches becomes one message from the NPU before them to the NPU behind them. What a switch sends on
to several devices is sent to each of them by the NPU; what it adds up is sent by every contributor, and added up by the
receiver. So the links to and from such a switch carry more than planned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pccl.algorithm import Algorithm
from pccl.export.timeline import feeds

__all__ = ["Messages", "messages_of"]

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Messages:
    """One row per message, in the planned order of their starts.

    Attributes
    ----------
    first, last
        The transfers with which a message leaves its sender and gets to its receiver; often one and the same.
    route, route_offsets
        The links that message ``i`` takes are ``route[route_offsets[i]:route_offsets[i + 1]]``.
    inputs, input_offsets
        The messages that its sender must have received, likewise.
    """

    first: Ints
    last: Ints
    route: Ints
    route_offsets: Ints
    inputs: Ints
    input_offsets: Ints

    def __len__(self) -> int:
        return len(self.first)


def messages_of(algorithm: Algorithm) -> Messages:
    """Lower an algorithm to messages; for a million transfers that is a matter of seconds.

    Examples
    --------
    >>> import pccl
    >>> star = pccl.topology.switch(4)
    >>> messages = messages_of(pccl.synthesize(star, pccl.AllToAll("4MiB")))
    >>> len(messages), messages.route_offsets[:3].tolist()
    (12, [0, 2, 4])
    """
    first, last, hops = _ways(algorithm)
    order = np.lexsort((last, algorithm.transfers.link[first], algorithm.transfers.start[first]))
    first, last, hops = first[order], last[order], hops[order]
    used = hops >= 0
    inputs, counts = _inputs(algorithm, first, last)
    return Messages(
        first, last, algorithm.transfers.link[hops[used]].astype(np.int64), _offsets(used.sum(axis=1)), inputs, counts
    )


def _ways(algorithm: Algorithm) -> tuple[Ints, Ints, Ints]:
    """Every way from NPU to NPU: its first and last transfer, and all of them (padded with -1 behind)."""
    t, is_switch = algorithm.transfers, np.zeros(algorithm.topology.num_devices, np.bool_)
    is_switch[algorithm.topology.switches] = True
    before, after = feeds(algorithm)
    offsets, fed_by = _lists(after, before, len(t))
    last = np.flatnonzero(~is_switch[t.dst])
    ways = last[:, None]
    while np.any(inner := is_switch[t.src[ways[:, 0]]]):
        head = ways[:, 0]
        width = np.where(inner, offsets[head + 1] - offsets[head], 1)
        ways = np.repeat(ways, width, axis=0)
        place = np.arange(len(ways)) - np.repeat(np.cumsum(width) - width, width)
        extended = np.repeat(inner, width)
        head = np.where(extended, fed_by[np.where(extended, offsets[ways[:, 0]] + place, 0)], -1)
        longer, same = np.column_stack([head, ways]), np.column_stack([ways, np.full(len(ways), -1)])
        ways = np.where(extended[:, None], longer, same)
    return ways[:, 0], ways[np.arange(len(ways)), np.sum(ways >= 0, axis=1) - 1], ways


def _inputs(algorithm: Algorithm, first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Messages whose last transfers bring what the first transfer of a message sends on."""
    count = len(algorithm.transfers)
    before, after = feeds(algorithm, everything=True)
    offsets, fed_by = _lists(after, before, count)
    arriving_offsets, arriving = _lists(last, np.arange(len(last)), count)
    owner, transfer = _expand(np.arange(len(first)), offsets[first], offsets[first + 1], fed_by)
    owner, message = _expand(owner, arriving_offsets[transfer], arriving_offsets[transfer + 1], arriving)
    return message, _offsets(np.bincount(owner, minlength=len(first)))


def _lists(keys: Ints, values: Ints, count: int) -> tuple[Ints, Ints]:
    """The values of each key: those of key `k` are ``values[offsets[k]:offsets[k + 1]]``."""
    return _offsets(np.bincount(keys, minlength=count)), values[np.argsort(keys, kind="stable")]


def _expand(owner: Ints, begin: Ints, end: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Each owner as often as it has values, and these values."""
    width = end - begin
    place = np.arange(int(width.sum())) - np.repeat(np.cumsum(width) - width, width)
    return np.repeat(owner, width), values[np.repeat(begin, width) + place]


def _offsets(counts: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
