"""What the families of networks return, and the figures that they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pccl._arrays import Bools, Floats, Ints
from pccl.topology import Topology

__all__ = [
    "Frame",
    "Sketch",
    "adjacency",
    "circle",
    "frame_around",
    "pairs_of",
    "row",
    "smallest_distance",
]

_SAMPLE = 2_000  # devices whose nearest neighbours are looked for


@dataclass(frozen=True)
class Frame:
    """A rectangle around devices that belong together.

    Attributes
    ----------
    label
        What to write beside it.
    left, top, right, bottom
        Its sides.
    label_below
        Whether the label belongs below the frame, as the links come in from above; otherwise it belongs above.
    """

    label: str
    left: float
    top: float
    right: float
    bottom: float
    label_below: bool = False

    def moved(self, x: float, y: float) -> Frame:
        """The same frame elsewhere."""
        left, top, right, bottom = (
            round(float(side), 3)
            for side in (self.left + x, self.top + y, self.right + x, self.bottom + y)
        )
        return Frame(self.label, left, top, right, bottom, self.label_below)


@dataclass(frozen=True, eq=False)
class Sketch:
    """Places of devices (a row x, y each), and what else a family knows; `rise` and `wraps` are per link."""

    kind: str
    xy: Floats
    frames: tuple[Frame, ...] = ()
    radius: float = 0.3
    wraps: Bools | None = None
    rise: Floats | None = None


def pairs_of(topology: Topology) -> Ints:
    """Devices that are joined, in either direction or both: rows of two, the smaller number first, each once."""
    both = np.stack(
        [np.minimum(topology.src, topology.dst), np.maximum(topology.src, topology.dst)], axis=1
    )
    return np.unique(both.astype(np.int64), axis=0).reshape(-1, 2)


def adjacency(count: int, pairs: Ints) -> list[list[int]]:
    """Per device, those joined to it, ascending."""
    joined: list[list[int]] = [[] for _ in range(count)]
    for a, b in np.asarray(pairs).tolist():
        joined[a].append(b)
        joined[b].append(a)
    return [sorted(others) for others in joined]


def circle(count: int, apart: float = 1.0, least: float = 0.0) -> Floats:
    """Points around the origin, clockwise from the top, neighbours so far `apart` or more."""
    radius = max(least, apart / 2 / np.sin(np.pi / count)) if count > 1 else least
    angle = 2 * np.pi * np.arange(count) / max(count, 1)
    return radius * np.stack([np.sin(angle), -np.cos(angle)], axis=1)


def row(count: int, apart: float = 1.0, y: float = 0.0, middle: float = 0.0) -> Floats:
    """Points side by side."""
    x = middle + (np.arange(count) - (count - 1) / 2) * apart
    return np.stack([x, np.full(count, y)], axis=1)


def frame_around(points: Floats, label: str, room: float = 0.6, label_below: bool = False) -> Frame:
    """A frame with so much room between its sides and the centres of devices."""
    (left, top), (right, bottom) = points.min(axis=0) - room, points.max(axis=0) + room
    return Frame(label, float(left), float(top), float(right), float(bottom), label_below)


def smallest_distance(xy: Floats) -> float:
    """Between any two devices; of very many devices, only some are looked at."""
    count = len(xy)
    if count < 2:
        return 1.0
    some: Sequence[int] = range(0, count, max(1, count // _SAMPLE))
    nearest = np.inf
    for device in some:
        squares = ((xy - xy[device]) ** 2).sum(axis=1)
        squares[device] = np.inf
        nearest = min(nearest, float(squares.min()))
    return float(np.sqrt(nearest))
