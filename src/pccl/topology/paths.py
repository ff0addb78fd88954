"""Paths through a network: its diameter, and the ways through switches that direct links can stand for."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from pccl.errors import TopologyError

if TYPE_CHECKING:
    from pccl.topology.core import Topology

__all__ = ["diameter", "ways_through_switches"]


def diameter(topology: Topology) -> int:
    """Return the number of links on the longest of the shortest paths between NPUs.

    Raises :class:`~pccl.errors.TopologyError` if some NPU cannot reach another.
    """
    # Row d: the devices that reach d so far, as bits. Every step ORs the rows at the sources of the links into d.
    reached = np.packbits(np.eye(topology.num_devices, dtype=np.bool_), axis=1)
    wanted = np.packbits(np.isin(np.arange(topology.num_devices), topology.npus))
    offsets, links = topology.in_links
    entered = np.flatnonzero(np.diff(offsets))
    hops = 0
    while True:
        missing = wanted & ~reached[topology.npus]
        if not missing.any():
            return hops
        before = reached.copy()
        if len(links):
            rows = before[topology.src[links]]
            reached[entered] |= np.bitwise_or.reduceat(rows, offsets[:-1][entered])
        if np.array_equal(before, reached):
            break
        hops += 1
    row = int(np.argmax(missing.any(axis=1)))
    sender = topology.device_text(int(np.argmax(np.unpackbits(missing[row]))))
    receiver = topology.device_text(int(topology.npus[row]))
    raise TopologyError(f"{sender} cannot reach {receiver}")


def ways_through_switches(topology: Topology) -> list[list[int]]:
    """Return one way of least latency, as links, for each pair of NPUs and each set of switches that joins them."""
    component = _components(topology)
    ways = []
    for npu in topology.npus.tolist():
        entrances: dict[int, list[int]] = {}
        for link in _leaving(topology, npu):
            device = int(topology.dst[link])
            if topology.is_switch(device):
                entrances.setdefault(component[device], []).append(link)
        for links in entrances.values():
            ways += _ways_from(topology, npu, links)
    return ways


def _ways_from(topology: Topology, npu: int, entrances: list[int]) -> list[list[int]]:
    """Dijkstra's algorithm by latency and hops; ties are broken by who asks, so that equal switches share the load."""
    heap: list[tuple[int, int, int, int]] = []
    for turn, link in enumerate(_turned(entrances, npu)):
        heappush(heap, (int(topology.latency[link]), 1, turn, link))
    order = len(entrances)
    way_to: dict[int, list[int]] = {link: [link] for link in entrances}
    seen = set()
    ways: dict[int, list[int]] = {}
    while heap:
        latency, hops, _, link = heappop(heap)
        device = int(topology.dst[link])
        way = way_to[link]
        if not topology.is_switch(device):
            if device != npu:
                ways.setdefault(device, way)
            continue
        if device in seen:
            continue
        seen.add(device)
        for ahead in _turned(_leaving(topology, device), npu):
            if int(topology.dst[ahead]) not in seen and ahead not in way_to:
                way_to[ahead] = [*way, ahead]
                heappush(heap, (latency + int(topology.latency[ahead]), hops + 1, order, ahead))
                order += 1
    return list(ways.values())


def _leaving(topology: Topology, device: int) -> list[int]:
    first, links = topology.out_links
    found: list[int] = links[first[device] : first[device + 1]].tolist()
    return found


def _turned(links: list[int], by: int) -> list[int]:
    turn = by % max(len(links), 1)
    return links[turn:] + links[:turn]


def _components(topology: Topology) -> dict[int, int]:
    """For each switch, the least number among the switches that links between switches join it to."""
    component = {switch: switch for switch in topology.switches.tolist()}
    links = zip(topology.src.tolist(), topology.dst.tolist(), strict=True)
    joined = [(a, b) for a, b in links if a in component and b in component]
    changed = True
    while changed:
        changed = False
        for a, b in joined:
            least = min(component[a], component[b])
            if max(component[a], component[b]) != least:
                component[a] = least
                component[b] = least
                changed = True
    return component
