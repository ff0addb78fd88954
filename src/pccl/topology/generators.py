"""The building blocks of networks, and their products.

A mesh is a product of lines, a torus of rings, a hypercube of rings of two, a "2D switch" of switches. NPUs of a
product are numbered row by row: the last dimension runs fastest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from pccl.errors import TopologyError
from pccl.topology.core import ABSENT, Link, Switch, Topology
from pccl.units import Bandwidth, Time, whole

__all__ = [
    "dragonfly",
    "fat_tree",
    "fully_connected",
    "grid",
    "hypercube",
    "leaf_spine",
    "line",
    "mesh",
    "product",
    "ring",
    "switch",
    "switch_2d",
    "torus",
]

BANDWIDTH: Bandwidth = "50GiB/s"
LATENCY: Time = "500ns"
_MOST_LINKS = 10_000_000  # a typing error should not fill the memory with links


def line(
    npus: int, *, bandwidth: Bandwidth = BANDWIDTH, latency: Time = LATENCY, exclusive: bool = False
) -> Topology:
    """NPUs in a row, neighbours joined in both directions.

    Examples
    --------
    >>> line(4, bandwidth="50GB/s")
    Topology('line:4': 4 NPUs, 6 links, 50GB/s, 500ns)
    """
    pairs = [(i, i + 1) for i in range(_positive(npus, "line") - 1)]
    return _joined(npus, pairs, bandwidth, latency, exclusive, f"line:{npus}")


def ring(
    npus: int,
    *,
    bandwidth: Bandwidth = BANDWIDTH,
    latency: Time = LATENCY,
    exclusive: bool = False,
    unidirectional: bool = False,
) -> Topology:
    """NPUs in a circle, neighbours joined in both directions or only towards the next.

    A ring of two is one pair of links: the way round is the way back.

    Examples
    --------
    >>> ring(4, unidirectional=True)
    Topology('ring:4,unidirectional': 4 NPUs, 4 links, 50GiB/s, 500ns)
    """
    _positive(npus, "ring")
    if unidirectional:
        ahead = [
            Link(i, (i + 1) % npus, bandwidth, latency, exclusive)
            for i in range(npus if npus > 1 else 0)
        ]
        return Topology.from_links(npus, ahead, name=f"ring:{npus},unidirectional")
    pairs = [(i, (i + 1) % npus) for i in range(npus if npus > 2 else npus - 1)]
    return _joined(npus, pairs, bandwidth, latency, exclusive, f"ring:{npus}")


def fully_connected(
    npus: int, *, bandwidth: Bandwidth = BANDWIDTH, latency: Time = LATENCY, exclusive: bool = False
) -> Topology:
    """Every pair of NPUs joined in both directions.

    Examples
    --------
    >>> fully_connected(4)
    Topology('fully-connected:4': 4 NPUs, 12 links, 50GiB/s, 500ns)
    """
    _affordable(_positive(npus, "fully connected network") * (npus - 1), "fully connected network")
    pairs = list(combinations(range(npus), 2))
    return _joined(npus, pairs, bandwidth, latency, exclusive, f"fully-connected:{npus}")


def switch(
    npus: int,
    *,
    bandwidth: Bandwidth = BANDWIDTH,
    latency: Time = LATENCY,
    exclusive: bool = False,
    buffer: int | None = None,
    multicast: bool = True,
) -> Topology:
    """NPUs around one switch; bandwidth and latency are those of each link to and from it.

    Examples
    --------
    >>> switch(8, bandwidth="400GB/s")
    Topology('switch:8': 8 NPUs, 1 switch, 16 links, 400GB/s, 500ns)
    """
    pairs = [(i, npus) for i in range(_positive(npus, "switch"))]
    hub = [Switch(buffer=buffer, multicast=multicast)]
    return _joined(npus, pairs, bandwidth, latency, exclusive, f"switch:{npus}", hub)


def product(*factors: Topology, name: str | None = None) -> Topology:
    """Cartesian product: every row along dimension ``d`` is a copy of factor ``d``, with switches of its own.

    Examples
    --------
    >>> product(line(2), ring(4), name="ladder")
    Topology('ladder': 8 NPUs, 24 links, 50GiB/s, 500ns)
    """
    if not factors:
        raise TopologyError("a product needs at least one topology")
    if any(np.any(factor.kind == ABSENT) for factor in factors):
        raise TopologyError(
            "a product of damaged topologies is not defined; take devices out of the product instead"
        )
    shape = tuple(size for factor in factors for size in factor.shape)
    counts = [factor.num_npus for factor in factors]
    npus = math.prod(counts)
    _affordable(sum(npus // factor.num_npus * factor.num_links for factor in factors), "product")
    numbers = np.arange(npus).reshape(counts)
    devices = numbers.size
    columns: dict[str, list[Any]] = {
        c: [] for c in ("src", "dst", "latency", "bandwidth", "exclusive")
    }
    hubs: list[Switch] = []
    for dimension, factor in enumerate(factors):
        rows = np.moveaxis(numbers, dimension, -1).reshape(-1, factor.num_npus)
        hub_count = len(factor.switches)
        own_hubs = devices + np.arange(len(rows) * hub_count).reshape(len(rows), hub_count)
        members = np.concatenate([rows, own_hubs], axis=1)
        devices += own_hubs.size
        columns["src"].append(members[:, factor.src].ravel())
        columns["dst"].append(members[:, factor.dst].ravel())
        for column in ("latency", "bandwidth", "exclusive"):
            columns[column].append(np.tile(getattr(factor, column), len(rows)))
        for row in range(len(rows)):
            for s in factor.switches.tolist():
                label = f"dim{dimension}.{row}.{factor.labels[s]}"
                hubs.append(Switch(label, int(factor.buffer[s]) or None, bool(factor.multicast[s])))
    frame = Topology.from_links(
        numbers.size, [], hubs, name=name or " x ".join(f.name for f in factors), shape=shape
    )
    joined: dict[str, Any] = {column: np.concatenate(parts) for column, parts in columns.items()}
    return replace(frame, **joined)


def grid(
    *shape: int,
    wrap: bool | Sequence[bool] = False,
    bandwidth: Bandwidth | Sequence[Bandwidth] = BANDWIDTH,
    latency: Time | Sequence[Time] = LATENCY,
    exclusive: bool = False,
    name: str | None = None,
) -> Topology:
    """A grid of any dimension; ``wrap``, ``bandwidth`` and ``latency`` are for all dimensions or one each.

    Examples
    --------
    >>> grid(4, 8, wrap=(True, False), bandwidth=("100GB/s", "50GB/s"))
    Topology('grid:4x8,wrap=yes/no': 32 NPUs, 120 links, 50GB/s to 100GB/s, 500ns)
    """
    if not shape:
        raise TopologyError("a grid needs at least one dimension")
    wraps = _per_dimension(wrap, len(shape), "wrap")
    bandwidths = _per_dimension(bandwidth, len(shape), "bandwidth")
    latencies = _per_dimension(latency, len(shape), "latency")
    rows = [
        (ring if wrapped else line)(npus, bandwidth=b, latency=a, exclusive=exclusive)
        for npus, wrapped, b, a in zip(shape, wraps, bandwidths, latencies, strict=True)
    ]
    wrapping = "/".join("yes" if wrapped else "no" for wrapped in wraps)
    return product(*rows, name=name or f"grid:{_times(shape)},wrap={wrapping}")


def mesh(
    *shape: int,
    bandwidth: Bandwidth | Sequence[Bandwidth] = BANDWIDTH,
    latency: Time | Sequence[Time] = LATENCY,
    exclusive: bool = False,
) -> Topology:
    """A product of lines.

    Examples
    --------
    >>> mesh(3, 3)
    Topology('mesh:3x3': 9 NPUs, 24 links, 50GiB/s, 500ns)
    """
    return grid(
        *shape,
        bandwidth=bandwidth,
        latency=latency,
        exclusive=exclusive,
        name=f"mesh:{_times(shape)}",
    )


def torus(
    *shape: int,
    bandwidth: Bandwidth | Sequence[Bandwidth] = BANDWIDTH,
    latency: Time | Sequence[Time] = LATENCY,
    exclusive: bool = False,
) -> Topology:
    """A product of rings.

    Examples
    --------
    >>> torus(4, 4, 4)
    Topology('torus:4x4x4': 64 NPUs, 384 links, 50GiB/s, 500ns)
    """
    name = f"torus:{_times(shape)}"
    return grid(
        *shape, wrap=True, bandwidth=bandwidth, latency=latency, exclusive=exclusive, name=name
    )


def hypercube(
    dimensions: int,
    *,
    bandwidth: Bandwidth | Sequence[Bandwidth] = BANDWIDTH,
    latency: Time | Sequence[Time] = LATENCY,
    exclusive: bool = False,
) -> Topology:
    """``2 ** dimensions`` NPUs, joined where their numbers differ in one bit.

    Examples
    --------
    >>> hypercube(6)
    Topology('hypercube:6': 64 NPUs, 384 links, 50GiB/s, 500ns)
    """
    _affordable(dimensions << min(_positive(dimensions, "hypercube"), 64), "hypercube")
    shape = (2,) * dimensions
    name = f"hypercube:{dimensions}"
    return grid(
        *shape, wrap=True, bandwidth=bandwidth, latency=latency, exclusive=exclusive, name=name
    )


def switch_2d(
    npus_per_node: int,
    nodes: int,
    *,
    bandwidth: Bandwidth | Sequence[Bandwidth] = ("400GiB/s", "50GiB/s"),
    latency: Time | Sequence[Time] = LATENCY,
    exclusive: bool = False,
    buffer: int | None = None,
    multicast: bool = True,
) -> Topology:
    """Nodes of NPUs around a switch, and one rail switch for each place in a node: the paper's 2D Switch.

    Bandwidth and latency are given as (inside a node, between nodes). NPUs are numbered node by node.

    Examples
    --------
    >>> switch_2d(8, 4)
    Topology('switch2d:8x4': 32 NPUs, 12 switches, 128 links, 50GiB/s to 400GiB/s, 500ns)
    """
    bandwidths = _per_dimension(bandwidth, 2, "bandwidth")
    latencies = _per_dimension(latency, 2, "latency")
    inside, between = (
        switch(n, bandwidth=b, latency=a, exclusive=exclusive, buffer=buffer, multicast=multicast)
        for n, b, a in zip((npus_per_node, nodes), bandwidths, latencies, strict=True)
    )
    return product(between, inside, name=f"switch2d:{npus_per_node}x{nodes}")


def leaf_spine(
    leaves: int,
    npus_per_leaf: int,
    spines: int,
    *,
    bandwidth: Bandwidth | Sequence[Bandwidth] = BANDWIDTH,
    latency: Time | Sequence[Time] = LATENCY,
    exclusive: bool = False,
    buffer: int | None = None,
    multicast: bool = True,
) -> Topology:
    """A two-level tree: NPUs on leaf switches, every leaf joined to every spine.

    Bandwidth and latency are given as (NPU to leaf, leaf to spine).

    Examples
    --------
    >>> leaf_spine(4, 8, 2, bandwidth=("50GB/s", "200GB/s"))
    Topology('leaf-spine:4x8x2': 32 NPUs, 6 switches, 80 links, 50GB/s to 200GB/s, 500ns)
    """
    for count, what in ((leaves, "leaves"), (npus_per_leaf, "NPUs per leaf"), (spines, "spines")):
        _positive(count, f"leaf-spine ({what})")
    npus = leaves * npus_per_leaf
    down, up = _per_dimension(bandwidth, 2, "bandwidth")
    near, far = _per_dimension(latency, 2, "latency")
    links = [
        wire
        for i in range(npus)
        for wire in _both(i, npus + i // npus_per_leaf, down, near, exclusive)
    ]
    for leaf in range(leaves):
        for spine in range(spines):
            links += _both(npus + leaf, npus + leaves + spine, up, far, exclusive)
    names = [f"leaf{i}" for i in range(leaves)] + [f"spine{i}" for i in range(spines)]
    hubs = [Switch(label, buffer, multicast) for label in names]
    return Topology.from_links(
        npus, links, hubs, name=f"leaf-spine:{leaves}x{npus_per_leaf}x{spines}"
    )


def fat_tree(
    arity: int,
    *,
    bandwidth: Bandwidth = BANDWIDTH,
    latency: Time = LATENCY,
    exclusive: bool = False,
    buffer: int | None = None,
    multicast: bool = True,
) -> Topology:
    """The three-level fat tree of switches with ``arity`` ports: ``arity ** 3 / 4`` NPUs at full bisection bandwidth.

    Examples
    --------
    >>> fat_tree(4)
    Topology('fat-tree:4': 16 NPUs, 20 switches, 96 links, 50GiB/s, 500ns)
    """
    if whole(arity) is None or arity < 2 or arity % 2:
        raise TopologyError(f"a fat tree needs an even number of ports, at least 2, not {arity!r}")
    half = arity // 2
    npus = arity * half * half
    _affordable(6 * npus, "fat tree")
    edge, middle, core = npus, npus + arity * half, npus + 2 * arity * half
    pairs = [(i, edge + i // half) for i in range(npus)]
    for pod in range(arity):
        for a in range(half):
            pairs += [(edge + pod * half + a, middle + pod * half + b) for b in range(half)]
            pairs += [(middle + pod * half + a, core + a * half + b) for b in range(half)]
    names = [f"{level}{i}" for level, n in (("edge", arity * half), ("middle", arity * half), ("core", half * half))
             for i in range(n)]  # fmt: skip
    hubs = [Switch(label, buffer, multicast) for label in names]
    return _joined(npus, pairs, bandwidth, latency, exclusive, f"fat-tree:{arity}", hubs)


def dragonfly(
    groups: int,
    routers_per_group: int,
    npus_per_router: int,
    *,
    bandwidth: Bandwidth | Sequence[Bandwidth] = BANDWIDTH,
    latency: Time | Sequence[Time] = LATENCY,
    exclusive: bool = False,
    buffer: int | None = None,
    multicast: bool = True,
) -> Topology:
    """Groups of fully connected routers, and one link between every two groups, spread evenly over their routers.

    Bandwidth and latency are given as (NPU to router, inside a group, between groups).

    Examples
    --------
    >>> dragonfly(5, 4, 2)
    Topology('dragonfly:5x4x2': 40 NPUs, 20 switches, 160 links, 50GiB/s, 500ns)
    """
    for count, what in (
        (groups, "groups"),
        (routers_per_group, "routers"),
        (npus_per_router, "NPUs per router"),
    ):
        _positive(count, f"dragonfly ({what})")
    npus = groups * routers_per_group * npus_per_router
    _affordable(2 * npus + groups * (routers_per_group**2 + groups), "dragonfly")
    bandwidths = _per_dimension(bandwidth, 3, "bandwidth")
    latencies = _per_dimension(latency, 3, "latency")
    tiers: list[list[tuple[int, int]]] = [
        [(i, npus + i // npus_per_router) for i in range(npus)],
        [],
        [],
    ]
    for group in range(groups):
        first = npus + group * routers_per_group
        tiers[1] += [(first + a, first + b) for a, b in combinations(range(routers_per_group), 2)]
    for a, b in combinations(range(groups), 2):
        # The links of a group go to the others in circular order and take its routers in turn.
        router_a, router_b = (
            (b - a - 1) % routers_per_group,
            (a - b - 1) % groups % routers_per_group,
        )
        tiers[2].append(
            (npus + a * routers_per_group + router_a, npus + b * routers_per_group + router_b)
        )
    links = [
        wire
        for pairs, b, a in zip(tiers, bandwidths, latencies, strict=True)
        for pair in pairs
        for wire in _both(*pair, b, a, exclusive)
    ]
    names = [f"router{g}.{r}" for g in range(groups) for r in range(routers_per_group)]
    hubs = [Switch(label, buffer, multicast) for label in names]
    name = f"dragonfly:{groups}x{routers_per_group}x{npus_per_router}"
    return Topology.from_links(npus, links, hubs, name=name)


def _joined(
    npus: int,
    pairs: Sequence[tuple[int, int]],
    bandwidth: Bandwidth,
    latency: Time,
    exclusive: bool,
    name: str,
    switches: Sequence[Switch] = (),
) -> Topology:
    links = [wire for a, b in pairs for wire in _both(a, b, bandwidth, latency, exclusive)]
    return Topology.from_links(npus, links, switches, name=name)


def _both(
    a: int, b: int, bandwidth: Bandwidth, latency: Time, exclusive: bool
) -> tuple[Link, Link]:
    return Link(a, b, bandwidth, latency, exclusive), Link(b, a, bandwidth, latency, exclusive)


def _positive(count: int, what: str) -> int:
    number = whole(count)
    if number is None or number < 1:
        raise TopologyError(f"a {what} needs a positive number, not {count!r}")
    return number


def _affordable(links: int, what: str) -> None:
    if links > _MOST_LINKS:
        raise TopologyError(f"this {what} has more than {_MOST_LINKS:,} links")


def _per_dimension(value: Any, dimensions: int, what: str) -> list[Any]:
    values = list(value) if isinstance(value, list | tuple) else [value] * dimensions
    if len(values) != dimensions:
        raise TopologyError(f"{what} has {len(values)} entries for {dimensions} dimensions")
    return values


def _times(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
