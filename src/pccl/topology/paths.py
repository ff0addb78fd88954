"""Paths through a network: its diameter, and the ways through switches that direct links can stand for."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from math import prod
from typing import Any

import numpy as np

from pccl._arrays import Ints
from pccl.errors import TopologyError
from pccl.topology.core import Topology
from pccl.topology.parts import DEVICE_COLUMNS, NPU, SWITCH


def diameter(topology: Topology) -> int:
    """Return the number of links on the longest of the shortest paths between NPUs.

    Raises :class:`~pccl.errors.TopologyError` if some NPU cannot reach another.
    """
    # Row d: the devices that reach d so far, as bits. Every step ORs the rows at the sources of the links into d.
    reached = np.packbits(np.eye(topology.num_devices, dtype=np.bool_), axis=1)
    wanted = np.packbits(np.isin(np.arange(topology.num_devices), topology.npus))
    offsets, links = topology.in_links
    # For an empty range `reduceat` returns an entry that is not in it: without links in, a row
    # stays out.
    entered = np.flatnonzero(np.diff(offsets))
    hops = 0
    while True:
        missing = wanted & ~reached[topology.npus]
        if not missing.any():
            return hops
        # All rows go on from what was before, so that a step is one hop for everybody.
        before = reached.copy()
        if len(links):
            rows = before[topology.src[links]]
            reached[entered] |= np.bitwise_or.reduceat(rows, offsets[:-1][entered])
        # A step that changes nothing will never change anything.
        if np.array_equal(before, reached):
            break
        hops += 1
    row = int(np.argmax(missing.any(axis=1)))
    sender = topology.device_text(int(np.argmax(np.unpackbits(missing[row]))))
    receiver = topology.device_text(int(topology.npus[row]))
    raise TopologyError(f"{sender} cannot reach {receiver}")


def unroll_switches(topology: Topology) -> Topology:
    """Replace switches by direct links, see :meth:`Topology.unroll_switches`."""
    # The ways are fixed first, for only then is it known how many of them share each link.
    ways = _ways_through_switches(topology)
    load = np.bincount([link for way in ways for link in way], minlength=topology.num_links)
    # Rounded down, so that shares together are never faster than the link.
    share = topology.bandwidth // np.maximum(load, 1)
    direct: dict[str, list[Any]] = {
        "src": [topology.src[way[0]] for way in ways],
        "dst": [topology.dst[way[-1]] for way in ways],
        "latency": [topology.latency[way].sum() for way in ways],
        "bandwidth": [share[way].min() for way in ways],
        "exclusive": [topology.exclusive[way].any() for way in ways],
        "gap": [topology.gap[way].max() for way in ways],
    }
    is_npu = topology.kind == NPU
    own = is_npu[topology.src] & is_npu[topology.dst]
    changes: dict[str, Any] = {
        name: [*getattr(topology, name)[own], *values] for name, values in direct.items()
    }
    for name in ("labels", *DEVICE_COLUMNS):
        changes[name] = getattr(topology, name)[: prod(topology.shape)]
    return replace(topology, name=f"{topology.name}, unrolled", lost=(), **changes)


def _ways_through_switches(topology: Topology) -> list[list[int]]:
    """Return one way of least latency, as links, for each pair of NPUs and each set of switches that joins them."""
    component = _components(topology)
    ways = []
    for npu in topology.npus.tolist():
        # By sets of switches that are joined: two NPUs on two separate networks get a direct link
        # for each.
        entrances: dict[int, list[int]] = {}
        for link in _leaving(topology, npu):
            device = int(topology.dst[link])
            if topology.is_switch(device):
                entrances.setdefault(int(component[device]), []).append(link)
        for links in entrances.values():
            ways += _ways_from(topology, npu, links)
    return ways


def _ways_from(topology: Topology, npu: int, entrances: list[int]) -> list[list[int]]:
    """Dijkstra's algorithm by latency and hops; ties are broken by who asks, so that equal switches share the load."""
    order = count()
    # Latency, hops, the order in which they were found, and the way itself.
    heap: list[tuple[int, int, int, list[int]]] = []

    def go_on(latency: int, way: list[int], links: list[int]) -> None:
        # With the same turn for all, the first of several equal switches would get everything.
        turn = npu % max(len(links), 1)
        for link in links[turn:] + links[:turn]:
            further = latency + int(topology.latency[link])
            heappush(heap, (further, len(way), next(order), [*way, link]))

    go_on(0, [], entrances)
    # Ways end at NPUs: these have links of their own, and need not pass on what is for others.
    seen = {npu}
    ways = []
    while heap:
        latency, _, _, way = heappop(heap)
        device = int(topology.dst[way[-1]])
        if device in seen:
            continue
        seen.add(device)
        if topology.is_switch(device):
            go_on(latency, way, _leaving(topology, device))
        else:
            ways.append(way)
    return ways


def _leaving(topology: Topology, device: int) -> list[int]:
    first, links = topology.out_links
    found: list[int] = links[first[device] : first[device + 1]].tolist()
    return found


def _components(topology: Topology) -> Ints:
    """For each switch, the least number among the switches that links between switches join it to."""
    component = np.arange(topology.num_devices)
    is_switch = topology.kind == SWITCH
    joined = is_switch[topology.src] & is_switch[topology.dst]
    src = topology.src[joined]
    dst = topology.dst[joined]
    # Labels only ever get smaller, so this ends; it ends when both ends of every link agree.
    while np.any(component[src] != component[dst]):
        np.minimum.at(component, src, component[dst])
        np.minimum.at(component, dst, component[src])
    return component
