"""Roots: where the trees of chunks begin. A chunk spreads from its source; a sum may be collected anywhere."""

from __future__ import annotations

from enum import Enum

import numpy as np

from pccl._arrays import Indices, Ints
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
    shared = np.flatnonzero(conditions.reduces & (conditions.num_destinations > 1))
    if not len(shared):
        return root
    if rule is Root.IN_TURN and _all_joined(topology, conditions):
        return root
    return _midway(topology, conditions, zones, root, shared)


def _in_turn(conditions: Conditions) -> Indices:
    """Per chunk: its source, or a destination; shares of a collective take the destinations in turn."""
    root: Indices = conditions.source_ids[conditions.source_offsets[:-1]]
    reduces = np.flatnonzero(conditions.reduces)
    share = np.cumsum(conditions.piece[reduces] == 0) - 1
    # Counted from the first share of its collective, so that every collective starts with its first destination.
    collective = conditions.collective[reduces]
    new = np.flatnonzero(np.diff(collective, prepend=-1))
    share -= np.repeat(share[new], np.diff(np.append(new, len(reduces))))
    begin = conditions.destination_offsets[reduces]
    width = np.maximum(conditions.num_destinations[reduces], 1)
    root[reduces] = conditions.destination_ids[begin + share % width]
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
    largest = conditions.sizes[0][-1:]
    there = network(topology, largest)
    back = network(topology.transpose(), largest)
    known: dict[tuple[bytes, bytes, int], Indices] = {}
    zone = zones.of_chunks(conditions)
    for number, chunk in enumerate(shared.tolist()):
        sources = conditions.sources(chunk)
        destinations = conditions.destinations(chunk)
        members = sources.tobytes(), destinations.tobytes(), int(zone[chunk])
        if members not in known:
            # The way from the farthest contributor, and the way to the farthest destination.
            before = _times(there, sources).max(axis=0)
            after = _times(back, destinations).max(axis=0)
            total = np.where(np.maximum(before, after) < NEVER, before + after, NEVER)
            # Only a switch that adds has the sum, only one that multiplies can spread it; where it holds few chunks,
            # a sum would be in the way.
            total[~(topology.multicast & topology.reduce) | (topology.buffer > 0)] = NEVER
            total[~zones.allowed[zone[chunk]]] = NEVER
            known[members] = np.flatnonzero(total == total.min()).astype(np.int32)
        best = known[members]
        root[chunk] = best[number % len(best)]
    return root


def _times(net: Network, devices: Indices) -> Ints:
    """Row i: time from the i-th of these devices to every device, for the one size of the network."""
    return unloaded_times(net, devices.astype(np.int64), np.zeros(len(devices), np.int64))
