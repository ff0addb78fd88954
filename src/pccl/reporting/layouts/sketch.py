"""What the families of networks return, and the shapes that they are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Bools, Column, Floats, Ints
from pccl.topology import Topology

# Devices whose nearest neighbours are looked for.
_SAMPLE = 2_000


@dataclass(frozen=True, eq=False)
class Outline:
    """Devices to draw a rectangle around.

    Attributes
    ----------
    label
        What to write beside it, if anything.
    devices
        The devices.
    room
        How far its sides are from the centres of the devices.
    label_below
        Whether the label belongs below.
    """

    label: str
    devices: Ints
    room: float = 0.5
    label_below: bool = False


@dataclass(frozen=True, eq=False)
class Sketch:
    """Where a family of networks has its devices.

    Attributes
    ----------
    kind
        The name of the family.
    xy
        Per device: its centre, anywhere on the page.
    frames
        Rectangles around devices, those outside before those inside of them.
    radius
        How large a device is, if there is room for that.
    arcs
        Per link: how far it rises to the left of its way, or 0 if it leads straight on; None to find that out.
    span
        Per device: how far it reaches to the left and to the right, for a switch that is drawn as a bus; None if none
        is.
    """

    kind: str
    xy: Floats
    frames: tuple[Outline, ...] = ()
    radius: float = 0.3
    arcs: Floats | None = None
    span: Floats | None = None


def pairs_of(topology: Topology) -> Ints:
    """Return devices that are joined, in either direction or both: rows of two, the smaller number first, each once."""
    ends = points(topology.src, topology.dst).astype(np.int64)
    return np.unique(np.sort(ends, axis=1), axis=0).reshape(-1, 2)


def places_of(topology: Topology) -> int:
    """Return how many numbers are those of NPUs, absent ones included; those of switches follow."""
    return int(np.prod(topology.shape))


def hops_from(starts: Bools, pairs: Ints) -> Floats:
    """Return, per row of `starts` and device, the hops from the nearest start; infinity if none reaches the device."""
    hops = np.where(starts, 0.0, np.inf)
    src = pairs.ravel()
    dst = pairs[:, ::-1].ravel()
    # Level by level, from all starts at once.
    for distance in range(1, starts.shape[1]):
        reached = np.zeros_like(starts)
        np.logical_or.at(reached.T, dst, (hops == distance - 1).T[src])
        reached &= np.isinf(hops)
        if not reached.any():
            break
        hops[reached] = distance
    return hops


def points(x: Column, y: Column) -> Column:
    """Return points with these coordinates, one per row."""
    return np.stack([x, y], axis=1)


def lengths(ways: Floats) -> Floats:
    """Return how long ways are, given as pairs of coordinates along the last axis."""
    return np.asarray(np.hypot(ways[..., 0], ways[..., 1]))


def directions(ways: Floats) -> tuple[Floats, Floats]:
    """Return vectors of length 1 along ways, and to the left of them; no way at all has no direction."""
    ahead = ways / np.maximum(lengths(ways), 1e-9)[:, None]
    # Downwards is where y grows.
    return ahead, points(ahead[:, 1], -ahead[:, 0])


def circle(count: int, apart: float = 1.0, least: float = 0.0) -> Floats:
    """Return points around the origin, clockwise from the top, with neighbours so far `apart` or more."""
    radius = least
    if count > 1:
        # The chord between neighbours is to be `apart` long.
        radius = max(least, apart / 2 / np.sin(np.pi / count))
    angle = 2 * np.pi * np.arange(count) / max(count, 1)
    return radius * points(np.sin(angle), -np.cos(angle))


def row(count: int, apart: float = 1.0, y: float = 0.0, middle: float = 0.0) -> Floats:
    """Return points side by side."""
    x = middle + (np.arange(count) - (count - 1) / 2) * apart
    return points(x, np.full(count, y))


def smallest_distance(xy: Floats) -> float:
    """Return the distance between the nearest two devices; of very many, only some are looked at."""
    if len(xy) < 2:
        return 1.0
    nearest = np.inf
    for device in range(0, len(xy), max(1, len(xy) // _SAMPLE)):
        squares = ((xy - xy[device]) ** 2).sum(axis=1)
        # Nobody is its own neighbour.
        squares[device] = np.inf
        nearest = min(nearest, float(squares.min()))
    return float(np.sqrt(nearest))
