"""Links as curves: side by side where they are parallel, and round the devices in their way."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.topology import Topology
from pccl.topology.core import ABSENT

__all__ = ["bezier_curves", "lanes", "points_along", "rises_round_devices"]

# Pairs of a link and a device; in larger networks links lead straight on.
_MOST_CHECKS = 40_000
_BOWS = np.array([0.35, -0.35, 0.6, -0.6, 0.9, -0.9, 1.3, -1.3, 1.8, -1.8])
_SAMPLES = np.linspace(0, 1, 25)[1:-1]


def bezier_curves(start: Floats, end: Floats, lean: Floats, rise: Floats, shift: Floats) -> Floats:
    """Return start, two control points and end of cubic Bézier curves.

    The control points are, seen from the ends, `lean` towards the other end and `rise` to the left of the way. All of
    the curve is moved by `shift` to the right.
    """
    way = end - start
    ahead = way / np.maximum(np.hypot(way[:, 0], way[:, 1]), 1e-9)[:, None]
    # Downwards is where y grows.
    left = np.stack([ahead[:, 1], -ahead[:, 0]], axis=1)
    start = start - shift[:, None] * left
    end = end - shift[:, None] * left
    along = lean[:, None] * ahead
    up = rise[:, None] * left
    return np.stack([start, start + along + up, end - along + up, end], axis=1)


def points_along(curves: Floats, shares: Floats) -> Floats:
    """Return points at these shares of Bézier curves; their axis takes the place of that of the control points."""
    t = shares[:, None]
    a, b, c, d = (curves[..., i, None, :] for i in range(4))
    return np.asarray(
        (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d
    )


def lanes(topology: Topology) -> Ints:
    """Return, per link, its number among those with the same ends."""
    key = topology.src.astype(np.int64) * topology.num_devices + topology.dst
    order = np.argsort(key, kind="stable")
    lane = np.empty(topology.num_links, np.int64)
    lane[order] = np.arange(topology.num_links) - np.searchsorted(key[order], key[order])
    return lane


def rises_round_devices(topology: Topology, xy: Floats, radius: float) -> Floats:
    """Return, per link, how far its curve rises to the left in order to pass by all devices but its own two."""
    rise = np.zeros(topology.num_links)
    if topology.num_links * len(xy) > _MOST_CHECKS:
        return rise
    present = np.flatnonzero(topology.kind != ABSENT)
    middle = xy[present].mean(axis=0)
    # Both directions of a cable take the same curve.
    chosen: dict[tuple[int, int], float] = {}
    for link in _blocked(topology, xy, present, 1.15 * radius).tolist():
        src = int(topology.src[link])
        dst = int(topology.dst[link])
        a, b = sorted((src, dst))
        if (a, b) not in chosen:
            others = present[(present != a) & (present != b)]
            chosen[a, b] = _bow(xy[a], xy[b], xy[others], middle, 1.3 * radius)
        rise[link] = chosen[a, b] if src == a else -chosen[a, b]
    return rise


def _blocked(topology: Topology, xy: Floats, devices: Ints, room: float) -> Ints:
    """Return the links whose straight lines touch a device that is not theirs."""
    start = xy[topology.src][:, None, :]
    way = xy[topology.dst][:, None, :] - start
    there = xy[devices][None]
    along = ((there - start) * way).sum(axis=2) / np.maximum((way**2).sum(axis=2), 1e-9)
    foot = start + np.clip(along, 0, 1)[..., None] * way
    near = ((there - foot) ** 2).sum(axis=2) < room**2
    for ends in (topology.src, topology.dst):
        near &= devices != ends[:, None]
    return np.flatnonzero(near.any(axis=1))


def _bow(start: Floats, end: Floats, others: Floats, middle: Floats, room: float) -> float:
    """Return the smallest rise that clears the other devices, preferably away from the middle, or else the best."""
    way = end - start
    length = float(np.hypot(*way))
    to_the_left = np.array([way[1], -way[0]])
    outwards = 1.0 if to_the_left @ ((start + end) / 2 - middle) >= 0 else -1.0
    rises = outwards * max(1.0, 0.22 * length) * _BOWS / 0.75
    tries = len(rises), 1
    lean = np.full(len(rises), length / 3)
    curves = bezier_curves(
        np.tile(start, tries), np.tile(end, tries), lean, rises, np.zeros(len(rises))
    )
    points = points_along(curves, _SAMPLES)
    squares = ((points[:, :, None] - others) ** 2).sum(axis=3)
    clear = np.sqrt(squares.min(axis=(1, 2)))
    fine = np.flatnonzero(clear > room)
    return float(rises[fine[0] if len(fine) else np.argmax(clear)])
