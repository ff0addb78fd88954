"""The ways through switches, from NPU to NPU, which direct links can stand for."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pccl.topology.core import Topology

__all__ = ["ways_through_switches"]


def ways_through_switches(topology: Topology) -> list[list[int]]:
    """The links of one way, of the least latency, for each pair of NPUs and each set of switches that joins them."""
    component = _components(topology)
    ways = []
    for npu in topology.npus.tolist():
        doors: dict[int, list[int]] = {}
        for link in _leaving(topology, npu):
            if topology.is_switch(int(topology.dst[link])):
                doors.setdefault(component[int(topology.dst[link])], []).append(link)
        for links in doors.values():
            ways += _ways_from(topology, npu, links)
    return ways


def _ways_from(topology: Topology, npu: int, doors: list[int]) -> list[list[int]]:
    """Dijkstra's algorithm by latency and hops; ties are broken by who asks, so that equal switches share the load."""
    heap: list[tuple[int, int, int, int]] = []
    for turn, link in enumerate(_turned(doors, npu)):
        heappush(heap, (int(topology.latency[link]), 1, turn, link))
    reached: dict[int, list[int]] = {}
    came: dict[int, list[int]] = {}
    order = len(doors)
    best: dict[int, list[int]] = {link: [link] for link in doors}
    while heap:
        latency, hops, _, link = heappop(heap)
        device, way = int(topology.dst[link]), best[link]
        if not topology.is_switch(device):
            if device != npu:
                came.setdefault(device, way)
            continue
        if device in reached:
            continue
        reached[device] = way
        for ahead in _turned(_leaving(topology, device), npu):
            if int(topology.dst[ahead]) not in reached and ahead not in best:
                best[ahead] = [*way, ahead]
                heappush(heap, (latency + int(topology.latency[ahead]), hops + 1, order, ahead))
                order += 1
    return list(came.values())


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
    joined = [
        pair
        for pair in zip(topology.src.tolist(), topology.dst.tolist(), strict=True)
        if set(pair) <= set(component)
    ]
    changed = True
    while changed:
        changed = False
        for a, b in joined:
            least = min(component[a], component[b])
            if (component[a], component[b]) != (least, least):
                component[a] = component[b] = least
                changed = True
    return component
