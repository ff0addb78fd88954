"""Links as curves: side by side where they are parallel, and round the devices in their way."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Bools, Floats, Ints
from pccl.topology import Topology

__all__ = ["around_devices", "lanes", "points_along", "shifted_curves"]

_MOST_CHECKS = 40_000  # pairs of a link and a device; in larger networks links lead straight on
_MOST_BENDS = 1_000
_BLOCK = 200_000
_BOWS = np.array([0.35, -0.35, 0.6, -0.6, 0.9, -0.9, 1.3, -1.3, 1.8, -1.8])
_SAMPLES = np.linspace(0, 1, 25)[1:-1]


def shifted_curves(start: Floats, end: Floats, lean: Floats, rise: Floats, shift: Floats) -> Floats:
    """Control points of cubic Bézier curves, moved to the right of their way."""
    ahead, left = _directions(start, end)
    start, end = start - shift[:, None] * left, end - shift[:, None] * left
    up = rise[:, None] * left
    return np.stack(
        [start, start + lean[:, None] * ahead + up, end - lean[:, None] * ahead + up, end], axis=1
    )


def lanes(topology: Topology) -> Ints:
    """Per link: its number among those with the same ends."""
    key = topology.src.astype(np.int64) * topology.num_devices + topology.dst
    order = np.argsort(key, kind="stable")
    first = np.searchsorted(key[order], key[order])
    lane = np.empty(topology.num_links, np.int64)
    lane[order] = np.arange(topology.num_links) - first
    return lane


def around_devices(topology: Topology, xy: Floats, radius: float) -> Floats:
    """Per link: how far its curve rises to the left in order to pass by all devices but its own two."""
    rise = np.zeros(topology.num_links)
    present = topology.kind != 2
    if topology.num_links * len(xy) > _MOST_CHECKS:
        return rise
    blocked = _blocked(topology, xy, present, 1.15 * radius)[:_MOST_BENDS]
    middle = xy[present].mean(axis=0)
    chosen: dict[tuple[int, int], float] = {}
    for link in blocked.tolist():
        src, dst = int(topology.src[link]), int(topology.dst[link])
        a, b = min(src, dst), max(src, dst)
        if (a, b) not in chosen:
            others = present.copy()
            others[[a, b]] = False
            chosen[a, b] = _bow(xy[a], xy[b], xy[others], middle, 1.3 * radius)
        rise[link] = chosen[a, b] if src == a else -chosen[a, b]
    return rise


def _blocked(topology: Topology, xy: Floats, present: Bools, room: float) -> Ints:
    """Links whose straight lines touch a device that is not theirs."""
    found = []
    block = max(1, _BLOCK // max(len(xy), 1))
    for first in range(0, topology.num_links, block):
        src, dst = topology.src[first : first + block], topology.dst[first : first + block]
        start, way = xy[src][:, None, :], (xy[dst] - xy[src])[:, None, :]
        along = ((xy[None] - start) * way).sum(axis=2) / np.maximum((way**2).sum(axis=2), 1e-9)
        foot = start + np.clip(along, 0, 1)[..., None] * way
        near = (((xy[None] - foot) ** 2).sum(axis=2) < room**2) & present
        rows = np.arange(len(src))
        near[rows, src] = near[rows, dst] = False
        found.append(first + np.flatnonzero(near.any(axis=1)))
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _bow(start: Floats, end: Floats, others: Floats, middle: Floats, room: float) -> float:
    """The smallest bow that clears the other devices, preferably away from the middle; if none does, the best."""
    _, left = _directions(start[None], end[None])
    outwards = 1.0 if float(left[0] @ ((start + end) / 2 - middle)) >= 0 else -1.0
    length = float(np.hypot(*(end - start)))
    rises = outwards * np.outer([max(1.0, 0.22 * length)], _BOWS).ravel() / 0.75
    clear = np.empty(len(rises))
    for i, rise in enumerate(rises):
        lean = np.array([length / 3])
        points = points_along(
            shifted_curves(start[None], end[None], lean, np.array([rise]), np.zeros(1))[0], _SAMPLES
        )
        clear[i] = np.sqrt(((points[:, None] - others[None]) ** 2).sum(axis=2).min())
    fine = np.flatnonzero(clear > room)
    return float(rises[fine[0] if len(fine) else np.argmax(clear)])


def points_along(curves: Floats, shares: Floats) -> Floats:
    """Points at these shares of Bézier curves; an axis for them takes the place of that of the control points."""
    t = shares[:, None]
    a, b, c, d = (curves[..., i, None, :] for i in range(4))
    return np.asarray(
        (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d
    )


def _directions(start: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Unit vectors ahead and to the left, on a page where y grows downwards."""
    way = end - start
    ahead = way / np.maximum(np.hypot(way[:, 0], way[:, 1]), 1e-9)[:, None]
    return ahead, np.stack([ahead[:, 1], -ahead[:, 0]], axis=1)
