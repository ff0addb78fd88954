"""Roots: where the trees of chunks begin. A chunk spreads from its source; a sum may be collected anywhere."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from pccl._arrays import Indices, Ints, offsets_of
from pccl.collective import Conditions
from pccl.network import NEVER, Network, network, unloaded_times
from pccl.synthesis.zones import Zones
from pccl.topology import Topology


class Root(Enum):
    """Where sums with several destinations are collected."""

    IN_TURN = "in turn"  # at each of their destinations, share by share
    MIDWAY = "midway"  # between all who take part, which may be at a switch


def find_roots(topology: Topology, conditions: Conditions, zones: Zones, rule: Root) -> Indices:
    """Per chunk: its source, or the device where its sum is collected.

    Where not everybody can be reached from everybody, that is always midway: a destination need not lead to others.
    """
    root = _in_turn(conditions)
    shared = _shared_sums(conditions)
    if not len(shared):
        return root
    if rule is Root.IN_TURN and _all_joined(topology, conditions):
        return root
    return _midway(topology, conditions, zones, root, shared)


def _shared_sums(conditions: Conditions) -> Ints:
    """The chunks whose sums have several destinations, so that there is a choice where to collect them."""
    return np.flatnonzero(conditions.reduces & (conditions.num_destinations > 1))


def _in_turn(conditions: Conditions) -> Indices:
    """Per chunk: its source, or a destination; shares of a collective take the destinations in turn."""
    # A plain chunk has one source, which is the first of its own.
    root: Indices = conditions.source_ids[conditions.source_offsets[:-1]]
    reduces = np.flatnonzero(conditions.reduces)
    # All pieces of a share have its number.
    share = np.cumsum(conditions.piece[reduces] == 0) - 1
    # Counted from the first share of its collective, so that every collective starts with its first destination.
    collective = conditions.collective[reduces]
    first = np.flatnonzero(np.diff(collective, prepend=-1))
    sums = np.diff(np.append(first, len(reduces)))
    share -= np.repeat(share[first], sums)
    begin = conditions.destination_offsets[reduces]
    # A sum that is for nobody has no destinations to take in turn.
    destinations = np.maximum(conditions.num_destinations[reduces], 1)
    root[reduces] = conditions.destination_ids[begin + share % destinations]
    return root


def _all_joined(topology: Topology, conditions: Conditions) -> bool:
    """Whether there is a way from every device that takes part to every other."""
    ends = np.concatenate([conditions.source_ids, conditions.destination_ids])
    smallest = np.ones(1, np.int64)
    # If one reaches all, and all reach it, then everybody reaches everybody by way of it.
    for side in (topology, topology.transpose()):
        times = _times(network(side, smallest), ends[:1])[0]
        if np.any(times[ends] >= NEVER):
            return False
    return True


def _midway(
    topology: Topology, conditions: Conditions, zones: Zones, root: Indices, shared: Ints
) -> Indices:
    """Like `root`, but the `shared` sums are collected midway; where several devices are equally good, in turn."""
    root = root.copy()
    best = _Middles(topology, conditions, zones, reach=1.0)
    for number, chunk in enumerate(shared.tolist()):
        devices = best.of(chunk)
        root[chunk] = devices[number % len(devices)]
    return root


def least_along_trees(topology: Topology, conditions: Conditions, zones: Zones) -> int:
    """Picoseconds before the last byte of any sum can be where it must if all sums are collected at one device each.

    However data are cut, it has to go there, and on from there.
    """
    single_bytes = replace(conditions, bytes=np.ones(len(conditions), np.int64))
    middles = _Middles(topology, single_bytes, zones, reach=1.0)
    times = [middles.time_of(chunk) for chunk in _shared_sums(conditions)[:1].tolist()]
    return max(times, default=0)


class Candidates(NamedTuple):
    """Where trees may begin: those of a chunk at device[first[c] : first[c + 1]], where c is its `choice`."""

    choice: Ints  # per chunk
    first: Ints
    device: Indices


def find_candidates(
    topology: Topology, conditions: Conditions, zones: Zones, reach: float
) -> Candidates:
    """Per chunk: its source, or all devices that are not far from the middle of those who take part in its sum.

    From a root, ways in and out take up to `reach` times as long as from the middle.
    """
    choice: Ints = _in_turn(conditions).astype(np.int64)
    # One list for every device that is the only choice, then those of sums that may be collected anywhere.
    everyone = np.arange(topology.num_devices, dtype=np.int32)
    lists: list[Indices] = list(everyone[:, None])
    near = _Middles(topology, conditions, zones, reach)
    # Most sums share their list with others: each is kept once, by its bytes.
    number: dict[bytes, int] = {}
    for chunk in _shared_sums(conditions).tolist():
        devices = near.of(chunk)
        key = devices.tobytes()
        if key not in number:
            number[key] = len(lists)
            lists.append(devices)
        choice[chunk] = number[key]
    lengths = np.array([len(devices) for devices in lists])
    return Candidates(choice, offsets_of(lengths), np.concatenate(lists))


class _Middles:
    """Devices near the middle of those who take part in a sum, found once for all sums of the same members."""

    def __init__(
        self, topology: Topology, conditions: Conditions, zones: Zones, reach: float
    ) -> None:
        self.conditions = conditions
        self.allowed = zones.allowed
        self.zone = zones.of_chunks(conditions)
        self.reach = reach
        largest = conditions.sizes[0][-1:]
        self.there = network(topology, largest)
        self.back = network(topology.transpose(), largest)
        # Only a switch that adds has the sum, only one that multiplies can spread it; where it holds few chunks, a sum
        # would be in the way.
        self.able = topology.multicast & topology.reduce & (topology.buffer == 0)
        self.known: dict[tuple[bytes, bytes, int], Indices] = {}

    def of(self, chunk: int) -> Indices:
        """The devices for the sum that this chunk is."""
        sources = self.conditions.sources(chunk)
        destinations = self.conditions.destinations(chunk)
        zone = int(self.zone[chunk])
        members = sources.tobytes(), destinations.tobytes(), zone
        if members not in self.known:
            total = self._there_and_back(chunk)
            near = total <= self.reach * total.min()
            self.known[members] = np.flatnonzero(near).astype(np.int32)
        return self.known[members]

    def time_of(self, chunk: int) -> int:
        """Picoseconds that the sum takes by way of the best of them."""
        return int(self._there_and_back(chunk).min()) * self.there.unit

    def _there_and_back(self, chunk: int) -> Ints:
        """Per device: the way from the farthest contributor, and the way to the farthest destination."""
        before = _times(self.there, self.conditions.sources(chunk)).max(axis=0)
        after = _times(self.back, self.conditions.destinations(chunk)).max(axis=0)
        # A sum with what is never would wrap round.
        is_joined = np.maximum(before, after) < NEVER
        total = np.where(is_joined, before + after, NEVER)
        total[~(self.able & self.allowed[int(self.zone[chunk])])] = NEVER
        return total


def _times(net: Network, devices: Indices) -> Ints:
    """Row i: time from the i-th of these devices to every device, for the one size of the network."""
    return unloaded_times(net, devices.astype(np.int64), np.zeros(len(devices), np.int64))
