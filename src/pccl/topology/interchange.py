"""Topologies to and from networkx graphs, so that its generators, drawings and measures are at hand.

networkx is an optional extra and imported only here, on use.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from pccl.errors import PcclError, TopologyError
from pccl.topology.core import Topology
from pccl.topology.parts import ABSENT, Link, Switch, read_flag
from pccl.units import ANY_WORDS, BytesPerSecond, Picoseconds, parse

if TYPE_CHECKING:
    import networkx


def to_networkx(topology: Topology) -> networkx.MultiDiGraph[int]:
    """Return the network as a graph whose nodes are device numbers; absent devices are left out.

    Nodes have ``name`` and ``kind`` (``"npu"`` or ``"switch"``), switches also ``buffer``, ``multicast`` and
    ``reduce``. Edges have ``bandwidth`` (bytes per second), ``latency`` and ``gap`` (picoseconds), ``exclusive``, and
    the number of their ``link``.

    Examples
    --------
    >>> import networkx
    >>> from pccl.topology import mesh
    >>> networkx.diameter(to_networkx(mesh(8, 8)))
    14
    """
    graph: networkx.MultiDiGraph[int] = require_networkx().MultiDiGraph(
        name=topology.name, shape=topology.shape
    )
    for device in range(topology.num_devices):
        about: dict[str, Any] = {"name": topology.labels[device], "kind": "npu"}
        if topology.is_switch(device):
            about["kind"] = "switch"
            about["buffer"] = int(topology.buffer[device]) or None
            about["multicast"] = bool(topology.multicast[device])
            about["reduce"] = bool(topology.reduce[device])
        if topology.kind[device] != ABSENT:
            graph.add_node(device, **about)
    for link in range(topology.num_links):
        graph.add_edge(
            int(topology.src[link]),
            int(topology.dst[link]),
            bandwidth=BytesPerSecond(topology.bandwidth[link]),
            latency=Picoseconds(topology.latency[link]),
            exclusive=bool(topology.exclusive[link]),
            gap=Picoseconds(topology.gap[link]),
            link=link,
        )
    return graph


def from_networkx(
    graph: networkx.Graph[Any], *, bandwidth: str = "bandwidth", latency: str = "latency"
) -> Topology:
    """Read any networkx graph; an undirected edge becomes a link in each direction.

    NPUs are numbered in the order of the nodes, switches (``switch=True`` or ``kind="switch"``, optionally with
    ``buffer``, ``multicast`` and ``reduce``) follow them. Parallel edges stay parallel links. Truth values may be
    written as files of graphs have them: yes and no, true and false, 1 and 0.

    Parameters
    ----------
    graph
        Any graph class of networkx, with any hashable nodes.
    bandwidth, latency
        The edge attributes to read: text with a unit such as ``"50GB/s"``, or a quantity of :mod:`pccl.units`.

    Examples
    --------
    >>> import networkx
    >>> graph = networkx.petersen_graph()
    >>> networkx.set_edge_attributes(graph, "25GB/s", "speed")
    >>> networkx.set_edge_attributes(graph, "1us", "latency")
    >>> from_networkx(graph, bandwidth="speed")
    Topology('Petersen Graph': 10 NPUs, 30 links, 25GB/s, 1us)
    """
    require_networkx()
    nodes = dict(graph.nodes(data=True))
    npus = []
    hubs = {}
    for node, data in nodes.items():
        if _is_switch(node, data):
            name = _name(node, data, "switch")
            abilities = {key: _flag(data, key, f"node {node!r}") for key in ("multicast", "reduce")}
            hubs[node] = Switch(name, data.get("buffer"), **abilities)
        else:
            npus.append(node)
    numbers = {node: number for number, node in enumerate([*npus, *hubs])}
    edges = list(graph.edges(data=True))
    # Graphs of to_networkx keep the numbers of the links.
    if all("link" in data for _, _, data in edges):
        edges.sort(key=lambda edge: edge[2]["link"])
    links = []
    for a, b, data in edges:
        where = f"edge {a!r} -> {b!r}"
        for attribute in (bandwidth, latency):
            if attribute not in data:
                has = ", ".join(map(repr, data)) or "none"
                raise TopologyError(
                    f"{where} has no attribute {attribute!r}; its attributes: {has}"
                )
        speed = parse(BytesPerSecond, data[bandwidth], f"{bandwidth} of {where}")
        delay = parse(Picoseconds, data[latency], f"{latency} of {where}")
        gap = parse(Picoseconds, data.get("gap", Picoseconds(0)), f"gap of {where}")
        exclusive = _flag(data, "exclusive", where)
        links.append(Link(numbers[a], numbers[b], speed, delay, exclusive, gap))
        if not graph.is_directed():
            links.append(Link(numbers[b], numbers[a], speed, delay, exclusive, gap))
    # A graph has no absent NPUs. Where some were, what is left is no grid.
    shape = tuple(graph.graph.get("shape", ()))
    return Topology.from_links(
        [_name(node, nodes[node], "npu") for node in npus],
        links,
        hubs.values(),
        name=graph.graph.get("name") or "networkx",
        shape=shape if math.prod(shape) == len(npus) else (),
    )


def _flag(data: dict[str, Any], key: str, where: str) -> bool:
    # Files of graphs, such as GraphML, keep truth values as text or numbers.
    return read_flag(data.get(key, False), f"{key} of {where}", ANY_WORDS)


def _is_switch(node: Hashable, data: dict[str, Any]) -> bool:
    """Whether a node is a switch; raises if what it says of itself does not fit together."""
    where = f"node {node!r}"
    kind = data.get("kind")
    if kind not in (None, "npu", "switch"):
        raise TopologyError(f"kind of {where} is npu or switch, not {kind!r}")
    is_switch = _flag(data, "switch", where) if "switch" in data else kind == "switch"
    if kind is not None and is_switch != (kind == "switch"):
        raise TopologyError(
            f"{where} has kind={kind!r} and switch={data['switch']!r}, which contradict each other; leave one out"
        )
    if not is_switch:
        for key in ("multicast", "reduce", "buffer"):
            if data.get(key) is not None:
                raise TopologyError(
                    f"{where} is an NPU, and only switches have {key}; say kind='switch', or leave it out"
                )
    return is_switch


def _name(node: Hashable, data: dict[str, Any], word: str) -> str:
    return str(data.get("name", f"{word}{node}" if isinstance(node, int) else node))


def require_networkx() -> Any:
    """Return networkx, or say how to get it."""
    try:
        import networkx
    except ImportError as error:
        raise PcclError("networkx is not installed: pip install networkx") from error
    return networkx
