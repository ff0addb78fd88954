"""The building blocks of networks, and their products.

A mesh is a product of lines, a torus of rings, a hypercube of rings of two, a "2D switch" of switches. NPUs of a
product are numbered row by row: the last dimension runs fastest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from pccl.errors import TopologyError
from pccl.topology.core import Topology
from pccl.topology.parts import ABSENT, LINK_COLUMNS, Link, Switch, read_flag
from pccl.units import Bandwidth, Time, whole

BANDWIDTH: Bandwidth = "50GiB/s"
LATENCY: Time = "500ns"
NO_GAP: Time = "0ns"
# A typing error should not fill the memory with links.
_MOST_LINKS = 10_000_000
Pairs: TypeAlias = list[tuple[int, int]]


def line(
    npus: int,
    *,
    bandwidth: Bandwidth = BANDWIDTH,
    latency: Time = LATENCY,
    exclusive: bool = False,
    gap: Time = NO_GAP,
) -> Topology:
    """NPUs in a row, neighbours joined in both directions.

    Examples
    --------
    >>> line(4, bandwidth="50GB/s")
    Topology('line:4': 4 NPUs, 6 links, 50GB/s, 500ns)
    """
    pairs = [(i, i + 1) for i in range(_positive(npus, "line") - 1)]
    return _joined(f"line:{npus}", npus, [pairs], bandwidth, latency, exclusive, gap)


def ring(
    npus: int,
    *,
    bandwidth: Bandwidth = BANDWIDTH,
    latency: Time = LATENCY,
    exclusive: bool = False,
    gap: Time = NO_GAP,
    unidirectional: bool = False,
) -> Topology:
    """NPUs in a circle, neighbours joined in both directions or only towards the next.

    A ring of two is one pair of links: the way round is the way back.

    Examples
    --------
    >>> ring(4, unidirectional=True)
    Topology('ring:4,unidirectional': 4 NPUs, 4 links, 50GiB/s, 500ns)
    """
    pairs = [(i, (i + 1) % npus) for i in range(_positive(npus, "ring"))]
    if read_flag(unidirectional, "unidirectional"):
        ahead = [Link(a, b, bandwidth, latency, exclusive, gap) for a, b in pairs if a != b]
        return Topology.from_links(npus, ahead, name=f"ring:{npus},unidirectional")
    # Of two NPUs the second pair is the first one turned round; of one, it leads to itself.
    if npus <= 2:
        pairs.pop()
    return _joined(f"ring:{npus}", npus, [pairs], bandwidth, latency, exclusive, gap)


def fully_connected(
    npus: int,
    *,
    bandwidth: Bandwidth = BANDWIDTH,
    latency: Time = LATENCY,
    exclusive: bool = False,
    gap: Time = NO_GAP,
) -> Topology:
    """Every pair of NPUs joined in both directions.

    Examples
    --------
    >>> fully_connected(4)
    Topology('fully-connected:4': 4 NPUs, 12 links, 50GiB/s, 500ns)
    """
    # Before the pairs are listed: their list is what would fill the memory.
    affordable(_positive(npus, "fully connected network") * (npus - 1), "fully connected network")
    pairs = list(combinations(range(npus), 2))
    return _joined(f"fully-connected:{npus}", npus, [pairs], bandwidth, latency, exclusive, gap)


def switch(
    npus: int,
    *,
    bandwidth: Bandwidth = BANDWIDTH,
    latency: Time = LATENCY,
    exclusive: bool = False,
    gap: Time = NO_GAP,
    buffer: int | None = None,
    multicast: bool = False,
    reduce: bool = False,
) -> Topology:
    """NPUs around one switch; bandwidth and latency are those of each link to and from it.

    Examples
    --------
    >>> switch(8, bandwidth="400GB/s")
    Topology('switch:8': 8 NPUs, 1 switch, 16 links, 400GB/s, 500ns)
    """
    pairs = [(i, npus) for i in range(_positive(npus, "switch"))]
    hubs = [Switch("", buffer, multicast, reduce)]
    return _joined(f"switch:{npus}", npus, [pairs], bandwidth, latency, exclusive, gap, hubs)


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
    counts = [factor.num_npus for factor in factors]
    npus = math.prod(counts)
    affordable(sum(npus // factor.num_npus * factor.num_links for factor in factors), "product")
    # One axis for each factor, even for one that is itself a grid.
    numbers = np.arange(npus).reshape(counts)
    columns: dict[str, list[Any]] = {key: [] for key in LINK_COLUMNS}
    hubs: list[Switch] = []
    for dimension, factor in enumerate(factors):
        # Every row along this dimension is a copy of the factor: its NPUs, then switches of its own.
        rows = np.moveaxis(numbers, dimension, -1).reshape(-1, factor.num_npus)
        first = npus + len(hubs)
        for row in range(len(rows)):
            for s in factor.switches.tolist():
                label = f"dim{dimension}.{row}.{factor.labels[s]}"
                buffer = int(factor.buffer[s]) or None
                can = bool(factor.multicast[s]), bool(factor.reduce[s])
                hubs.append(Switch(label, buffer, *can))
        own_hubs = np.arange(first, npus + len(hubs)).reshape(len(rows), -1)
        # Device d of the factor is members[row, d] in this row; in every topology NPUs come first.
        members = np.concatenate([rows, own_hubs], axis=1)
        for key, parts in columns.items():
            column = getattr(factor, key)
            is_end = key in ("src", "dst")
            parts.append(members[:, column].ravel() if is_end else np.tile(column, len(rows)))
    # Links go in as columns: one object for each would take long where there are millions.
    frame = Topology.from_links(
        npus,
        [],
        hubs,
        name=name or " x ".join(factor.name for factor in factors),
        shape=[size for factor in factors for size in factor.shape],
    )
    links: dict[str, Any] = {key: np.concatenate(parts) for key, parts in columns.items()}
    return replace(frame, **links)


def grid(
    *shape: int,
    wrap: bool | Sequence[bool] = False,
    bandwidth: Bandwidth | Sequence[Bandwidth] = BANDWIDTH,
    latency: Time | Sequence[Time] = LATENCY,
    exclusive: bool = False,
    gap: Time | Sequence[Time] = NO_GAP,
    name: str | None = None,
) -> Topology:
    """A grid of any dimension; ``wrap``, ``bandwidth``, ``latency`` and ``gap`` are for all dimensions or one each.

    Examples
    --------
    >>> grid(4, 8, wrap=(True, False), bandwidth=("100GB/s", "50GB/s"))
    Topology('grid:4x8,wrap=yes/no': 32 NPUs, 120 links, 50GB/s to 100GB/s, 500ns)
    """
    if not shape:
        raise TopologyError("a grid needs at least one dimension")
    wraps = [read_flag(one, "wrap") for one in _per_dimension(wrap, len(shape), "wrap")]
    bandwidths = _per_dimension(bandwidth, len(shape), "bandwidth")
    latencies = _per_dimension(latency, len(shape), "latency")
    gaps = _per_dimension(gap, len(shape), "gap")
    rows = [
        (ring if wrapped else line)(npus, bandwidth=b, latency=a, exclusive=exclusive, gap=g)
        for npus, wrapped, b, a, g in zip(shape, wraps, bandwidths, latencies, gaps, strict=True)
    ]
    wrapping = "/".join("yes" if wrapped else "no" for wrapped in wraps)
    return product(*rows, name=name or f"grid:{_times(shape)},wrap={wrapping}")


def mesh(
    *shape: int,
    bandwidth: Bandwidth | Sequence[Bandwidth] = BANDWIDTH,
    latency: Time | Sequence[Time] = LATENCY,
    exclusive: bool = False,
    gap: Time | Sequence[Time] = NO_GAP,
) -> Topology:
    """A product of lines.

    Examples
    --------
    >>> mesh(3, 3)
    Topology('mesh:3x3': 9 NPUs, 24 links, 50GiB/s, 500ns)
    """
    name = f"mesh:{_times(shape)}"
    return grid(
        *shape, bandwidth=bandwidth, latency=latency, exclusive=exclusive, gap=gap, name=name
    )


def torus(
    *shape: int,
    bandwidth: Bandwidth | Sequence[Bandwidth] = BANDWIDTH,
    latency: Time | Sequence[Time] = LATENCY,
    exclusive: bool = False,
    gap: Time | Sequence[Time] = NO_GAP,
) -> Topology:
    """A product of rings.

    Examples
    --------
    >>> torus(4, 4, 4)
    Topology('torus:4x4x4': 64 NPUs, 384 links, 50GiB/s, 500ns)
    """
    name = f"torus:{_times(shape)}"
    return grid(
        *shape,
        wrap=True,
        bandwidth=bandwidth,
        latency=latency,
        exclusive=exclusive,
        gap=gap,
        name=name,
    )


def hypercube(
    dimensions: int,
    *,
    bandwidth: Bandwidth | Sequence[Bandwidth] = BANDWIDTH,
    latency: Time | Sequence[Time] = LATENCY,
    exclusive: bool = False,
    gap: Time | Sequence[Time] = NO_GAP,
) -> Topology:
    """``2 ** dimensions`` NPUs, joined where their numbers differ in one bit.

    Examples
    --------
    >>> hypercube(6)
    Topology('hypercube:6': 64 NPUs, 384 links, 50GiB/s, 500ns)
    """
    # The shift is bounded, as two to the power of a typing error would itself fill the memory.
    affordable(dimensions << min(_positive(dimensions, "hypercube"), 64), "hypercube")
    shape = (2,) * dimensions
    name = f"hypercube:{dimensions}"
    return grid(
        *shape,
        wrap=True,
        bandwidth=bandwidth,
        latency=latency,
        exclusive=exclusive,
        gap=gap,
        name=name,
    )


def switch_2d(
    npus_per_node: int,
    nodes: int,
    *,
    bandwidth: Bandwidth | Sequence[Bandwidth] = ("400GiB/s", "50GiB/s"),
    latency: Time | Sequence[Time] = LATENCY,
    exclusive: bool = False,
    gap: Time | Sequence[Time] = NO_GAP,
    buffer: int | None = None,
    multicast: bool = False,
    reduce: bool = False,
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
    gaps = _per_dimension(gap, 2, "gap")
    inside, between = (
        switch(
            n,
            bandwidth=b,
            latency=a,
            exclusive=exclusive,
            gap=g,
            buffer=buffer,
            multicast=multicast,
            reduce=reduce,
        )
        for n, b, a, g in zip((npus_per_node, nodes), bandwidths, latencies, gaps, strict=True)
    )
    # The last dimension runs fastest, so that the NPUs of a node follow each other.
    return product(between, inside, name=f"switch2d:{npus_per_node}x{nodes}")


def leaf_spine(
    leaves: int,
    npus_per_leaf: int,
    spines: int,
    *,
    bandwidth: Bandwidth | Sequence[Bandwidth] = BANDWIDTH,
    latency: Time | Sequence[Time] = LATENCY,
    exclusive: bool = False,
    gap: Time | Sequence[Time] = NO_GAP,
    buffer: int | None = None,
    multicast: bool = False,
    reduce: bool = False,
) -> Topology:
    """A two-level tree: NPUs on leaf switches, every leaf joined to every spine.

    Bandwidth and latency are given as (NPU to leaf, leaf to spine).

    Examples
    --------
    >>> leaf_spine(4, 8, 2, bandwidth=("50GB/s", "200GB/s"))
    Topology('leaf-spine:4x8x2': 32 NPUs, 6 switches, 80 links, 50GB/s to 200GB/s, 500ns)
    """
    _positive(leaves, "leaf-spine (leaves)")
    _positive(npus_per_leaf, "leaf-spine (NPUs per leaf)")
    _positive(spines, "leaf-spine (spines)")
    npus = leaves * npus_per_leaf
    affordable(2 * (npus + leaves * spines), "leaf-spine")
    first_spine = npus + leaves
    to_leaf = [(i, npus + i // npus_per_leaf) for i in range(npus)]
    to_spine = [(npus + i, first_spine + j) for i in range(leaves) for j in range(spines)]
    # Switches are numbered as they are listed: leaves, then spines, as the pairs above have it.
    labels = [f"leaf{i}" for i in range(leaves)] + [f"spine{i}" for i in range(spines)]
    hubs = [Switch(label, buffer, multicast, reduce) for label in labels]
    name = f"leaf-spine:{leaves}x{npus_per_leaf}x{spines}"
    return _joined(name, npus, [to_leaf, to_spine], bandwidth, latency, exclusive, gap, hubs)


def fat_tree(
    arity: int,
    *,
    bandwidth: Bandwidth = BANDWIDTH,
    latency: Time = LATENCY,
    exclusive: bool = False,
    gap: Time = NO_GAP,
    buffer: int | None = None,
    multicast: bool = False,
    reduce: bool = False,
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
    # Each of three levels has as many cables as there are NPUs, with a link in each direction.
    affordable(6 * npus, "fat tree")
    # The switches of a level are numbered pod by pod, after the NPUs and the levels below.
    edge = npus
    middle = edge + arity * half
    core = middle + arity * half
    pairs = [(i, edge + i // half) for i in range(npus)]
    for pod in range(arity):
        for a in range(half):
            pairs += [(edge + pod * half + a, middle + pod * half + b) for b in range(half)]
            # The a-th middle switches of all pods share the a-th group of core switches, so that
            # every core switch reaches each pod once.
            pairs += [(middle + pod * half + a, core + a * half + b) for b in range(half)]
    levels = {"edge": arity * half, "middle": arity * half, "core": half * half}
    labels = [f"{level}{i}" for level, count in levels.items() for i in range(count)]
    hubs = [Switch(label, buffer, multicast, reduce) for label in labels]
    return _joined(f"fat-tree:{arity}", npus, [pairs], bandwidth, latency, exclusive, gap, hubs)


def dragonfly(
    groups: int,
    routers_per_group: int,
    npus_per_router: int,
    *,
    bandwidth: Bandwidth | Sequence[Bandwidth] = BANDWIDTH,
    latency: Time | Sequence[Time] = LATENCY,
    exclusive: bool = False,
    gap: Time | Sequence[Time] = NO_GAP,
    buffer: int | None = None,
    multicast: bool = False,
    reduce: bool = False,
) -> Topology:
    """Groups of fully connected routers, and one link between every two groups, spread evenly over their routers.

    Bandwidth and latency are given as (NPU to router, inside a group, between groups).

    Examples
    --------
    >>> dragonfly(5, 4, 2)
    Topology('dragonfly:5x4x2': 40 NPUs, 20 switches, 160 links, 50GiB/s, 500ns)
    """
    _positive(groups, "dragonfly (groups)")
    _positive(routers_per_group, "dragonfly (routers)")
    _positive(npus_per_router, "dragonfly (NPUs per router)")
    npus = groups * routers_per_group * npus_per_router
    affordable(2 * npus + groups * (routers_per_group**2 + groups), "dragonfly")
    to_router = [(i, npus + i // npus_per_router) for i in range(npus)]
    first = [npus + group * routers_per_group for group in range(groups)]
    inside = [
        (router + a, router + b)
        for router in first
        for a, b in combinations(range(routers_per_group), 2)
    ]
    between = []
    for a, b in combinations(range(groups), 2):
        # The links of a group go to the others in circular order and take its routers in turn.
        router_a = (b - a - 1) % routers_per_group
        router_b = (a - b - 1) % groups % routers_per_group
        between.append((first[a] + router_a, first[b] + router_b))
    labels = [f"router{g}.{r}" for g in range(groups) for r in range(routers_per_group)]
    hubs = [Switch(label, buffer, multicast, reduce) for label in labels]
    name = f"dragonfly:{groups}x{routers_per_group}x{npus_per_router}"
    return _joined(
        name, npus, [to_router, inside, between], bandwidth, latency, exclusive, gap, hubs
    )


def _joined(
    name: str,
    npus: int,
    levels: Sequence[Pairs],
    bandwidth: Bandwidth | Sequence[Bandwidth],
    latency: Time | Sequence[Time],
    exclusive: bool,
    gap: Time | Sequence[Time],
    switches: Sequence[Switch] = (),
) -> Topology:
    """Join pairs of devices in both directions; every level of them has its own bandwidth, latency and gap."""
    bandwidths = _per_dimension(bandwidth, len(levels), "bandwidth")
    latencies = _per_dimension(latency, len(levels), "latency")
    gaps = _per_dimension(gap, len(levels), "gap")
    links = []
    for pairs, speed, delay, pause in zip(levels, bandwidths, latencies, gaps, strict=True):
        for a, b in pairs:
            links.append(Link(a, b, speed, delay, exclusive, pause))
            links.append(Link(b, a, speed, delay, exclusive, pause))
    return Topology.from_links(npus, links, switches, name=name)


def _positive(count: int, what: str) -> int:
    if whole(count) is None or count < 1:
        raise TopologyError(f"a {what} needs a positive number, not {count!r}")
    # A count beyond the limit for links is a typing error, too, and is refused before anything is
    # listed.
    affordable(count, what)
    return count


def affordable(links: int, what: str) -> None:
    """Raise if there would be too many links."""
    if links > _MOST_LINKS:
        raise TopologyError(f"this {what} has more than {_MOST_LINKS:,} links")


def _per_dimension(value: Any, dimensions: int, what: str) -> list[Any]:
    # Text is a sequence as well, but one value.
    values = list(value) if isinstance(value, list | tuple) else [value] * dimensions
    if len(values) != dimensions:
        raise TopologyError(f"{what} has {len(values)} entries for {dimensions} dimensions")
    return values


def _times(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
