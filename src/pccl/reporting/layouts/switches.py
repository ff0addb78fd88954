"""Networks whose NPUs hang on switches: stars, trees, dragonflies, and whatever their switches form."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.reporting.layouts.npus import sketch_of_pairs
from pccl.reporting.layouts.sketch import (
    Sketch,
    adjacency,
    circle,
    frame_around,
    pairs_of,
    row,
    smallest_distance,
)
from pccl.topology import Topology

__all__ = ["as_groups", "as_hosts", "as_levels", "as_star"]

_ABREAST = 4  # NPUs of a router side by side
_WIDEST = 48  # NPUs side by side under a tree; of more, some stand below others


def as_star(topology: Topology) -> Sketch | None:
    """NPUs around their only switch."""
    pairs = pairs_of(topology)
    if len(topology.switches) != 1 or np.any(pairs[:, 1] != topology.switches[0]):
        return None
    xy = np.zeros((topology.num_devices, 2))
    others = np.flatnonzero(np.arange(topology.num_devices) != topology.switches[0])
    xy[others] = circle(len(others), least=1.5)
    return Sketch("star", xy)


def as_levels(topology: Topology) -> Sketch | None:
    """A tree: NPUs below, each on one switch, and links only between one level of switches and the next."""
    home, levels, pairs = _home(topology), _levels(topology), pairs_of(topology)
    if home is None or levels.max() < 2:
        return None
    if np.any(levels[pairs[:, 0]] == levels[pairs[:, 1]]):
        return None
    xy = np.zeros((topology.num_devices, 2))
    joined = adjacency(topology.num_devices, pairs)
    leaves, hosts = np.unique(home, return_counts=True)
    columns = max(1, min(int(hosts.max()), int(_WIDEST // len(leaves))))
    start = 0.0
    for leaf in leaves.tolist():
        npus = np.flatnonzero(home == leaf)
        y, x = np.divmod(np.arange(len(npus)), columns)
        xy[npus] = np.stack([start + x, y], axis=1)
        start += min(columns, len(npus)) + 0.5
    width, top = start - 1.5, int(levels.max())
    height = max(1.5, 0.35 * width / top)
    for level in range(1, top + 1):
        below = {
            s: [xy[d, 0] for d in joined[s] if levels[d] < level] for s in _where(levels, level)
        }
        middle = {s: float(np.mean(x)) if x else width / 2 for s, x in below.items()}
        order = sorted(middle, key=lambda s: (middle[s], s))
        xy[order] = row(len(order), max(1.0, width / len(order)), -height * level, width / 2)
        if level == 1:
            xy[order, 0] = [middle[s] for s in order]
    return Sketch("levels", xy)


def as_groups(topology: Topology) -> Sketch | None:
    """A dragonfly: groups of switches that are all joined with each other, around a circle, NPUs on the outside."""
    home = _home(topology)
    groups = None if home is None else _cliques(topology)
    if home is None or groups is None:
        return None
    inside = [_group(home, group) for group in groups]
    room = 0.5 + max(float(np.abs(points).max()) for _, points in inside)
    xy = np.zeros((topology.num_devices, 2))
    frames = []
    # Neighbouring frames do not touch, even if they are at a corner of each other.
    for number, centre in enumerate(circle(len(groups), 2 * np.sqrt(2) * room + 0.4)):
        devices, points = inside[number]
        xy[devices] = centre + points
        frames.append(frame_around(xy[devices], f"group {number}", 0.5))
    return Sketch("groups", xy, tuple(frames))


def _group(home: Ints, routers: list[int]) -> tuple[Ints, Floats]:
    """Switches on a circle around the origin, with their NPUs on its outside: the devices and their places."""
    hosts = [np.flatnonzero(home == router) for router in routers]
    widest = 0.8 * min(max(map(len, hosts)), _ABREAST) + 0.2
    share = 2 * np.sin(np.pi / max(len(routers), 2))
    ring = circle(len(routers), least=max(1.3, 1.3 / share, widest / share - 1))
    places = [
        ring,
        *(place + _fan(len(npus), place) for npus, place in zip(hosts, ring, strict=True)),
    ]
    return np.concatenate([routers, *hosts]).astype(np.int64), np.concatenate(places)


def as_hosts(topology: Topology) -> Sketch | None:
    """Switches drawn for themselves, and NPUs around the switch that each hangs on."""
    home = _home(topology)
    if home is None:
        return None
    first = int(topology.switches[0])
    pairs = pairs_of(topology)
    pairs = pairs[np.all(pairs >= first, axis=1)] - first
    switches = sketch_of_pairs(topology.num_devices - first, pairs)
    xy = np.zeros((topology.num_devices, 2))
    hosts = int(np.bincount(home).max())
    reach = max(1.0, 0.4 + 0.5 / np.sin(np.pi / max(hosts, 2)))
    xy[first:] = switches.xy * (2 * reach + 1.0) / smallest_distance(switches.xy)
    for switch in np.unique(home).tolist():
        npus = np.flatnonzero(home == switch)
        turned = circle(len(npus), least=reach) @ _turn(0.35)
        xy[npus] = xy[switch] + turned
    return Sketch("hosts", xy)


def _home(topology: Topology) -> Ints | None:
    """Per NPU, the one switch that it hangs on; None if some hang on several, or on each other."""
    pairs, first = pairs_of(topology), int(np.prod(topology.shape))
    if not len(topology.switches) or np.any(pairs[:, 1] < first):
        return None
    own = pairs[pairs[:, 0] < first]
    if np.any(np.bincount(own[:, 0], minlength=first) != 1):
        return None
    return np.asarray(own[np.argsort(own[:, 0]), 1])


def _levels(topology: Topology) -> Ints:
    """Per device: hops to the nearest NPU; switches that no NPU reaches are above all."""
    pairs = pairs_of(topology)
    levels = np.where(np.arange(topology.num_devices) < np.prod(topology.shape), 0, -1)
    for level in range(1, topology.num_devices + 1):
        for a, b in ((0, 1), (1, 0)):
            ahead = pairs[levels[pairs[:, a]] == level - 1, b]
            levels[ahead[levels[ahead] < 0]] = level
        if not np.any(levels == level):
            break
    return np.where(levels < 0, levels.max() + 1, levels)


def _where(levels: Ints, level: int) -> list[int]:
    return np.flatnonzero(levels == level).tolist()


def _cliques(topology: Topology) -> list[list[int]] | None:
    """Switches in groups of neighbouring numbers that are all joined; None unless that makes groups of equal size."""
    joined = [set(others) for others in adjacency(topology.num_devices, pairs_of(topology))]
    groups: list[list[int]] = []
    for switch in topology.switches.tolist():
        if groups and all(other in joined[switch] for other in groups[-1]):
            groups[-1].append(switch)
        else:
            groups.append([switch])
    sizes = {len(group) for group in groups}
    return groups if len(groups) > 1 and len(sizes) == 1 and sizes != {1} else None


def _fan(count: int, outwards: Floats) -> Floats:
    """Points in rows, on the outside of a switch."""
    y, x = np.divmod(np.arange(count), _ABREAST)
    wide = np.minimum(count - _ABREAST * y, _ABREAST)
    across = (x - (wide - 1) / 2) * 0.8
    ahead = 1.0 + 0.75 * y
    angle = np.arctan2(outwards[0], -outwards[1])
    return np.stack([across, -ahead], axis=1) @ _turn(angle)


def _turn(angle: float) -> Floats:
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
