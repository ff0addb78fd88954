"""From transfers over links to messages between NPUs, which is all that Chakra knows.

A chunk that passes switches becomes one message from the NPU before them to the NPU behind them. What a switch sends on
to several devices is sent to each of them by the NPU; what it adds up is sent by every contributor, and added up by the
receiver. Of several receivers of such a sum one adds it up, another for each chunk, and sends it to the others. So the
links to and from such a switch carry more than planned.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from pccl._arrays import Ints, offsets_of
from pccl.algorithm import Algorithm
from pccl.formats.perfetto.timeline import feeds

__all__ = ["Messages", "messages_of"]


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
    >>> messages = messages_of(pccl.synthesize(star, pccl.AllToAll("4MiB", chunks=1)))
    >>> len(messages), messages.route_offsets[:3].tolist()
    (12, [0, 2, 4])
    """
    first, last, hops = _ways(algorithm)
    kept, sum_of = _share_sums(algorithm, first, last)
    first, last, hops, sum_of = first[kept], last[kept], hops[kept], sum_of[kept]
    start = np.where(
        sum_of >= 0, algorithm.transfers.arrival[sum_of], algorithm.transfers.start[first]
    )
    order = np.lexsort((last, algorithm.transfers.link[first], start))
    first, last, hops, sum_of = first[order], last[order], hops[order], sum_of[order]
    used = hops >= 0
    inputs, counts = _inputs(algorithm, first, last, sum_of)
    return Messages(
        first,
        last,
        algorithm.transfers.link[hops[used]].astype(np.int64),
        _offsets(used.sum(axis=1)),
        inputs,
        counts,
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
        longer, same = (
            np.column_stack([head, ways]),
            np.column_stack([ways, np.full(len(ways), -1)]),
        )
        ways = np.where(extended[:, None], longer, same)
    return ways[:, 0], ways[np.arange(len(ways)), np.sum(ways >= 0, axis=1) - 1], ways


def _share_sums(algorithm: Algorithm, first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Ways to keep; and per way the transfer that brings its sender the sum that it sends, or -1 if it sends its own.

    What several receive as the same sum goes to one of them, who sends it to the others the way its own part would go.
    Nobody sends to itself.
    """
    t = algorithm.transfers
    kept, sum_of = t.src[first] != t.dst[last], np.full(len(first), -1, np.int64)
    offsets, ways = _lists(last, np.arange(len(last)), len(t))
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for brings in np.flatnonzero((np.diff(offsets) > 1) & ~t.reduce).tolist():
        parts = sorted(first[ways[offsets[brings] : offsets[brings + 1]]].tolist())
        alike[int(t.chunk[brings]), *parts].append(brings)
    for (chunk, *parts), brought in alike.items():
        senders = sorted(set(t.src[parts].tolist()))
        turn = {npu: (place - chunk) % len(senders) for place, npu in enumerate(senders)}
        able = [
            (int(t.arrival[b]), turn[int(t.dst[b])], b) for b in brought if int(t.dst[b]) in turn
        ]
        for other in brought if able else []:
            arrival, _, one = min(able)
            if other != one and t.arrival[other] >= arrival:
                mine = ways[offsets[other] : offsets[other + 1]]
                kept[mine] = t.src[first[mine]] == t.dst[one]
                sum_of[mine] = one
    return np.flatnonzero(kept), sum_of


def _inputs(algorithm: Algorithm, first: Ints, last: Ints, sum_of: Ints) -> tuple[Ints, Ints]:
    """Messages whose last transfers bring what a message sends on: a sum, or what its first transfer does."""
    count = len(algorithm.transfers)
    before, after = feeds(algorithm, everything=True)
    offsets, fed_by = _lists(after, before, count)
    arriving_offsets, arriving = _lists(last, np.arange(len(last)), count)
    end = np.where(sum_of >= 0, offsets[first], offsets[first + 1])
    owner, transfer = _expand(np.arange(len(first)), offsets[first], end, fed_by)
    sums = np.flatnonzero(sum_of >= 0)
    owner, transfer = np.concatenate([owner, sums]), np.concatenate([transfer, sum_of[sums]])
    by = np.argsort(owner, kind="stable")
    owner, transfer = owner[by], transfer[by]
    owner, message = _expand(
        owner, arriving_offsets[transfer], arriving_offsets[transfer + 1], arriving
    )
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
    return offsets_of(counts).astype(np.int64)
