"""Covers: every contribution must get to everyone who needs it, and messages sent early bring few, late ones to few.

Divide the devices into parts, and look at a byte, at whoever contributes to it, and at whoever needs it in another
part: for each such pair there is a message from part to part that the contribution is in, and from which it still gets
there in time. A message holds only what has come to its sender, and reaches only those who are near enough. So if there
is little time, most messages serve few pairs, and there must be many of them; with more time, fewer will do.

The certificate is the part of every device, and how far apart pairs are that count. This is as true of copies and of
sums as it is of partial sums that are exchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pccl._arrays import Bools, Ints
from pccl.algorithm.bound import Certificate
from pccl.bounds.case import Case
from pccl.bounds.sets import box_labels
from pccl.bounds.windows import PICOSECONDS
from pccl.network import NEVER, network, unloaded_times
from pccl.units import Picoseconds, counted

# With more devices, or more messages that may be sent from part to part, this takes too long.
MOST_DEVICES = 160
MOST_MESSAGES = 6000
# Sets that are looked at as one part, and all others as another.
MOST_CUTS = 4
# How far pairs are apart that count: so many of the distances there are.
MOST_DISTANCES = 3
# Moments from which a link has more to carry, or until which; more of them are rounded down, which proves less.
MOST_MOMENTS = 8
# Shares with members of their own; more of them are taken for one.
MOST_CLASSES = 8


def find(case: Case) -> Iterator[tuple[Certificate, bool]]:
    """Yield boxes, slices of the grid and single NPUs as parts, with all pairs or the farthest ones."""
    topology = case.topology
    demand = case.demand.from_one_to_one
    if case.quick or topology.num_devices > MOST_DEVICES or not np.any(demand):
        return
    time = _times(case, False)
    for parts in _partitions(case):
        across = (demand > 0) & (parts[:, None] != parts) & (time < NEVER)
        distances = np.unique(time[across])
        if not len(distances) or not _manageable(case, parts):
            continue
        chosen = np.unique(np.linspace(0, len(distances) - 1, MOST_DISTANCES).astype(int))
        for distance in distances[chosen].tolist():
            yield {"parts": tuple(parts.tolist()), "distance": (distance,)}, False


def prove(case: Case, certificate: Certificate, whole_chunks: bool) -> int:
    """Picoseconds in which links from part to part can serve all pairs."""
    pairs = Pairs.of(case, certificate, whole_chunks)
    if not pairs.demand:
        return 0
    low = 0
    at_low = pairs.served(low)
    high = max(int(pairs.time[pairs.far].max()), 1)
    at_high = pairs.served(high)
    while at_high < pairs.demand:
        low = high
        at_low = at_high
        high *= 8
        if high > NEVER:
            return 0
        at_high = pairs.served(high)
    # What is served never becomes less as time goes on, and mostly grows evenly: so first as if it did, then by halves.
    evenly = True
    while low + 1 < high:
        width = high - low
        middle = low + width // 2
        if evenly:
            even = low + width * (pairs.demand - at_low) // (at_high - at_low)
            middle = min(max(even, low + 1), high - 1)
        served = pairs.served(middle)
        if served < pairs.demand:
            low = middle
            at_low = served
        else:
            high = middle
            at_high = served
        evenly = not evenly or 2 * (high - low) <= width
    return high


def explain(case: Case, certificate: Certificate, whole_chunks: bool) -> str:
    """How many pairs there are, how far apart, and what that means."""
    pairs = Pairs.of(case, certificate, whole_chunks)
    (distance,) = certificate["distance"]
    npus = case.topology.npus
    parts = len(np.unique(np.array(certificate["parts"])[npus]))
    noun = "NPUs" if parts == len(npus) else "parts of the network"
    far = int(np.count_nonzero(pairs.far[np.ix_(npus, npus)]))
    return (
        f"{counted(far, 'pair')} of NPUs are {Picoseconds(distance)} or more apart: what goes between {parts} {noun} "
        "serves few of them if it leaves early or arrives late"
    )


@dataclass(frozen=True)
class Kind:
    """What a link can do for pairs, as time goes on.

    Attributes
    ----------
    bandwidth
        Bytes per second.
    opens, closes
        Moments from which more has come to its sender, and how long before the end fewer can still be reached.
    most
        By both: how many pairs a byte serves that is sent between two moments.
    """

    bandwidth: int
    opens: tuple[int, ...]
    closes: tuple[int, ...]
    most: tuple[tuple[int, ...], ...]

    def served(self, duration: int) -> int:
        """Bytes times pairs that the link serves in this time, times the picoseconds of a second."""
        total = 0
        for i, opened in enumerate(self.opens):
            until = self.opens[i + 1] if i + 1 < len(self.opens) else duration
            for j, close in enumerate(self.closes):
                since = duration - self.closes[j + 1] if j + 1 < len(self.closes) else 0
                overlap = min(until, duration - close) - max(opened, since)
                if overlap > 0:
                    total += self.most[i][j] * overlap
        return total * self.bandwidth


@dataclass(frozen=True)
class Pairs:
    """Contributors, and those who need what they contribute, in other parts.

    Attributes
    ----------
    far
        From device to device: whether that pair counts.
    time
        From device to device: how long a byte, or the smallest chunk, takes at least.
    """

    case: Case
    parts: Ints
    far: Bools
    time: Ints
    size: int

    @classmethod
    def of(cls, case: Case, certificate: Certificate, whole_chunks: bool) -> Pairs:
        """The pairs that a certificate names."""
        parts = np.array(certificate["parts"], np.int64)
        (distance,) = certificate["distance"]
        time = _times(case, whole_chunks)
        if parts.shape != time.shape[:1]:
            raise ValueError("a part for each device")
        far = (parts[:, None] != parts) & (time >= int(distance)) & (time < NEVER)
        return cls(case, parts, far, time, _size(case, whole_chunks))

    @cached_property
    def demand(self) -> int:
        """Bytes times pairs, times the picoseconds of a second."""
        total = int(np.where(self.far, self.case.single_ends, 0).sum())
        for share in self.case.several_ends():
            pairs = int(np.count_nonzero(self.far[np.ix_(share.sources, share.destinations)]))
            total += share.bytes * pairs
        return total * PICOSECONDS

    def served(self, duration: int) -> int:
        """What all links can serve in this time, counted like the demand."""
        return sum(count * kind.served(duration) for kind, count in self.kinds.items())

    @cached_property
    def kinds(self) -> Counter[Kind]:
        """What links from part to part can do, and how many are alike."""
        found: Counter[Kind] = Counter()
        for sender, link, receivers, on in _messages(self.case, self.parts, self.size):
            first, opens = _moments(self.time[:, sender])
            last, closes = _moments(on[:, None] + self.time[receivers])
            most = np.zeros((len(first), len(last)), np.int64)
            has_come = opens <= first[:, None]
            for close in closes:
                np.maximum(most, self._most(has_come, close[:, None] <= last), out=most)
            found[
                Kind(
                    int(self.case.topology.bandwidth[link]),
                    tuple(first.tolist()),
                    tuple(last.tolist()),
                    tuple(map(tuple, most.tolist())),
                )
            ] += 1
        return found

    def _most(self, has_come: Bools, is_near: Bools) -> Ints:
        """How many pairs one message serves: [what has come, who is near]."""
        come = has_come.astype(np.float32)
        near = is_near.astype(np.float32)
        best = np.zeros((len(come), near.shape[1]), np.float32)
        for ways in self._classes:
            if ways.single:
                found = np.minimum(come @ ways.far @ near, 1)
            elif ways.one_source:
                # By source and moment: how many of those who need it are near.
                reached = ways.far @ near
                found = (come[:, :, None] * reached).max(axis=1)
            elif ways.one_destination:
                brought = come @ ways.far
                found = (brought[:, :, None] * near).max(axis=1)
            else:
                found = come @ ways.far @ near
            np.maximum(best, found, out=best)
        return np.rint(best).astype(np.int64)

    @cached_property
    def _classes(self) -> list[_Class]:
        far = self.far
        found = []
        single = self.case.single_ends > 0
        if np.any(single & far):
            found.append(_Class((far & single).astype(np.float32), single=True))
        one_source, one_destination, some = np.zeros((3, *far.shape), np.bool_)
        rest: dict[bytes, Bools] = {}
        for share in self.case.several_ends():
            ends = np.ix_(share.sources, share.destinations)
            if len(share.sources) == 1:
                one_source[ends] = True
            elif len(share.destinations) == 1:
                one_destination[ends] = True
            else:
                key = share.sources.tobytes() + share.destinations.tobytes()
                if key not in rest:
                    rest[key] = np.zeros_like(some)
                    rest[key][ends] = True
        if len(rest) > MOST_CLASSES:
            rest = {b"": np.any(list(rest.values()), axis=0)}
        if np.any(one_source & far):
            found.append(_Class((far & one_source).astype(np.float32), one_source=True))
        if np.any(one_destination & far):
            found.append(_Class((far & one_destination).astype(np.float32), one_destination=True))
        found += [_Class((far & ends).astype(np.float32)) for ends in rest.values()]
        return found


@dataclass(frozen=True)
class _Class:
    """Pairs of shares that are alike: with one end each, with one source, one destination, or the same of both."""

    far: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
    single: bool = False
    one_source: bool = False
    one_destination: bool = False


def _partitions(case: Case) -> Iterator[Ints]:
    """Parts that much must go between: per device, its part."""
    topology = case.topology
    seen = set()
    options = [*box_labels(topology), np.arange(topology.num_devices), *case.cuts[:MOST_CUTS]]
    for along in np.indices(topology.shape).reshape(len(topology.shape), -1):
        beside = np.full(topology.num_devices - len(along), -1)
        options.append(np.append(along, beside))
    for parts in options:
        _, number = np.unique(parts, return_inverse=True)
        key = number[topology.npus].tobytes()
        if len(np.unique(number[topology.npus])) > 1 and key not in seen:
            seen.add(key)
            yield number.reshape(-1).astype(np.int64)


def _keeps(case: Case) -> Bools:
    """Per device: whether something can be held there; all others pass each message on, once."""
    keeps: Bools = case.topology.multicast | case.topology.reduce
    return keeps


def _manageable(case: Case, parts: Ints) -> bool:
    receivers = (len(receivers) for _, _, receivers, _ in _messages(case, parts, 1))
    return sum(receivers) <= MOST_MESSAGES


def _messages(case: Case, parts: Ints, size: int) -> Iterator[tuple[int, int, Ints, Ints]]:
    """Yield links over which messages leave for other parts: sender, link, receivers, and the time to each of them.

    The time counts from when a byte has been sent; on the way there may be switches that only pass messages on.
    """
    topology = case.topology
    keeps = _keeps(case)
    through = _through(case, size)
    for link in np.flatnonzero(keeps[topology.src]).tolist():
        sender = int(topology.src[link])
        next_stop = int(topology.dst[link])
        if keeps[next_stop]:
            receivers = np.array([next_stop])
        else:
            receivers = np.flatnonzero(keeps & (through[next_stop] < NEVER))
        receivers = receivers[parts[receivers] != parts[sender]]
        if len(receivers):
            on = topology.latency[link] + through[next_stop, receivers]
            yield sender, link, receivers, on


def _through(case: Case, size: int) -> Ints:
    """From device to device: the time through switches that only pass messages on, and nothing else."""
    allowed = ~_keeps(case)
    net = network(case.topology, np.array([size]))
    everybody = np.arange(case.topology.num_devices)
    # Ways end at devices that keep something: they may be entered, but not left.
    time = np.full((len(everybody),) * 2, NEVER)
    np.fill_diagonal(time, 0)
    travel = net.travel[0][net.kind] * net.unit
    src = np.repeat(everybody, np.diff(net.first))
    for _ in everybody:
        before = time.copy()
        for arc in np.flatnonzero(allowed[src]).tolist():
            via = np.where(time[:, src[arc]] < NEVER, time[:, src[arc]] + travel[arc], NEVER)
            np.minimum(time[:, net.dst[arc]], via, out=time[:, net.dst[arc]])
        if np.array_equal(time, before):
            break
    return time


def _moments(times: Ints) -> tuple[Ints, Ints]:
    """The different moments there are, ascending, and which of them each time is; of many, the last one before it."""
    moments = np.unique(times[times < NEVER])
    if len(moments) > MOST_MOMENTS:
        moments = moments[np.linspace(0, len(moments) - 1, MOST_MOMENTS).astype(int)]
    rounded = moments[np.searchsorted(moments, times, side="right") - 1]
    return moments, np.where(times < NEVER, rounded, NEVER)


def _size(case: Case, whole_chunks: bool) -> int:
    """Bytes of the smallest that travels as a whole."""
    if not whole_chunks:
        return 1
    return int(case.conditions.bytes[case.conditions.num_destinations > 0].min(initial=2**62))


def _times(case: Case, whole_chunks: bool) -> Ints:
    """From device to device: how long a byte, or the smallest chunk, takes at least."""
    net = network(case.topology, np.array([_size(case, whole_chunks)]))
    everybody = np.arange(case.topology.num_devices)
    time = unloaded_times(net, everybody, np.zeros_like(everybody))
    return np.where(time < NEVER, time * net.unit, NEVER)
