"""Networks whose NPUs hang on switches: stars, trees, dragonflies, and whatever their switches form."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.reporting.layouts.npus import sketch_of_pairs
from pccl.reporting.layouts.sketch import (
    Sketch,
    circle,
    frame_around,
    hops_from,
    pairs_of,
    places_of,
    row,
    smallest_distance,
)
from pccl.topology import Topology

__all__ = ["as_groups", "as_hosts", "as_levels", "as_star"]

# NPUs of a router side by side.
_ABREAST = 4
# NPUs side by side under a tree; of more, some stand below others.
_WIDEST = 48


def as_star(topology: Topology) -> Sketch | None:
    """Return NPUs around their only switch."""
    hubs = topology.switches
    if len(hubs) != 1 or np.any(pairs_of(topology)[:, 1] != hubs[0]):
        return None
    xy = np.zeros((topology.num_devices, 2))
    others = np.arange(topology.num_devices) != hubs[0]
    xy[others] = circle(topology.num_devices - 1, least=1.5)
    return Sketch("star", xy)


def as_levels(topology: Topology) -> Sketch | None:
    """Return a tree: NPUs below, each on one switch, and links only between one level of switches and the next."""
    home = _home(topology)
    if home is None:
        return None
    pairs = pairs_of(topology)
    level = _levels(topology, pairs)
    top = int(level.max())
    if top < 2 or np.any(level[pairs[:, 0]] == level[pairs[:, 1]]):
        return None
    xy = np.zeros((topology.num_devices, 2))
    leaves, hosts = np.unique(home, return_counts=True)
    columns = max(1, min(int(hosts.max()), int(_WIDEST // len(leaves))))
    start = 0.0
    for leaf in leaves.tolist():
        npus = np.flatnonzero(home == leaf)
        y, x = np.divmod(np.arange(len(npus)), columns)
        xy[npus] = np.stack([start + x, y], axis=1)
        start += min(columns, len(npus)) + 0.5
    width = start - 1.5
    height = max(1.5, 0.35 * width / top)
    lower, upper = np.take_along_axis(pairs, np.argsort(level[pairs], axis=1), axis=1).T
    for number in range(1, top + 1):
        # A switch belongs above the middle of what hangs on it.
        own = np.flatnonzero(level == number)
        hanging = np.bincount(upper, minlength=len(xy))[own]
        sums = np.bincount(upper, xy[lower, 0], len(xy))[own]
        middle = np.where(hanging > 0, sums / np.maximum(hanging, 1), width / 2)
        order = own[np.lexsort((own, middle))]
        xy[order] = row(len(order), max(1.0, width / len(order)), -height * number, width / 2)
        if number == 1:
            xy[own, 0] = middle
    return Sketch("levels", xy)


def as_groups(topology: Topology) -> Sketch | None:
    """Return a dragonfly: groups of switches that are all joined with each other, around a circle, NPUs outside."""
    home = _home(topology)
    groups = _cliques(topology)
    if home is None or groups is None:
        return None
    insides = [_group(home, group) for group in groups]
    room = 0.5 + max(float(np.abs(points).max()) for _, points in insides)
    xy = np.zeros((topology.num_devices, 2))
    frames = []
    # Neighbouring frames do not touch, even if they are at a corner of each other.
    centres = circle(len(groups), 2 * np.sqrt(2) * room + 0.4)
    for number, (devices, points) in enumerate(insides):
        xy[devices] = centres[number] + points
        frames.append(frame_around(xy[devices], f"group {number}", 0.5))
    return Sketch("groups", xy, tuple(frames))


def as_hosts(topology: Topology) -> Sketch | None:
    """Return switches drawn for themselves, and NPUs around the switch that each hangs on."""
    home = _home(topology)
    if home is None:
        return None
    first = int(topology.switches[0])
    pairs = pairs_of(topology)
    between = pairs[np.all(pairs >= first, axis=1)] - first
    switches = sketch_of_pairs(topology.num_devices - first, between)
    most = int(np.bincount(home).max())
    reach = max(1.0, 0.4 + 0.5 / np.sin(np.pi / max(most, 2)))
    xy = np.zeros((topology.num_devices, 2))
    xy[first:] = switches.xy * (2 * reach + 1.0) / smallest_distance(switches.xy)
    for switch in np.unique(home).tolist():
        npus = np.flatnonzero(home == switch)
        xy[npus] = xy[switch] + circle(len(npus), least=reach) @ _turn(0.35)
    return Sketch("hosts", xy)


def _home(topology: Topology) -> Ints | None:
    """Return, per NPU, the one switch that it hangs on; None if some hang on several, or on each other."""
    pairs = pairs_of(topology)
    places = places_of(topology)
    if not len(topology.switches) or np.any(pairs[:, 1] < places):
        return None
    own = pairs[pairs[:, 0] < places]
    if not np.array_equal(own[:, 0], np.arange(places)):
        return None
    return np.asarray(own[:, 1])


def _levels(topology: Topology, pairs: Ints) -> Ints:
    """Return, per device, the hops to the nearest NPU; switches that no NPU reaches are above all."""
    is_npu = np.arange(topology.num_devices) < places_of(topology)
    hops: Floats = hops_from(is_npu[None], pairs)[0]
    highest = hops[np.isfinite(hops)].max()
    hops[np.isinf(hops)] = highest + 1
    return hops.astype(np.int64)


def _cliques(topology: Topology) -> list[list[int]] | None:
    """Return switches in groups of neighbouring numbers that are all joined; None unless these have an equal size."""
    joined = {(a, b) for a, b in pairs_of(topology).tolist()}
    groups: list[list[int]] = []
    for switch in topology.switches.tolist():
        if groups and all((other, switch) in joined for other in groups[-1]):
            groups[-1].append(switch)
        else:
            groups.append([switch])
    sizes = {len(group) for group in groups}
    return groups if len(groups) > 1 and len(sizes) == 1 and sizes != {1} else None


def _group(home: Ints, routers: list[int]) -> tuple[Ints, Floats]:
    """Return switches and their NPUs, and places: on a circle around the origin, with the NPUs on its outside."""
    hosts = [np.flatnonzero(home == router) for router in routers]
    widest = 0.8 * min(max(map(len, hosts)), _ABREAST) + 0.2
    share = 2 * np.sin(np.pi / max(len(routers), 2))
    ring = circle(len(routers), least=max(1.3, 1.3 / share, widest / share - 1))
    fans = [place + _fan(len(npus), place) for npus, place in zip(hosts, ring, strict=True)]
    return np.concatenate([routers, *hosts]).astype(np.int64), np.concatenate([ring, *fans])


def _fan(count: int, outwards: Floats) -> Floats:
    """Return points in rows, on the outside of a switch."""
    y, x = np.divmod(np.arange(count), _ABREAST)
    in_row = np.minimum(count - _ABREAST * y, _ABREAST)
    across = (x - (in_row - 1) / 2) * 0.8
    ahead = 1.0 + 0.75 * y
    angle = np.arctan2(outwards[0], -outwards[1])
    return np.stack([across, -ahead], axis=1) @ _turn(angle)


def _turn(angle: float) -> Floats:
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
