"""Meshes, tori and hypercubes: rows and columns; the third dimension as planes, seen at a slant, above each other."""

from __future__ import annotations

from math import gcd

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.reporting.layouts.sketch import Sketch
from pccl.topology import Topology

__all__ = ["as_grid"]

_WIDE, _FLAT = 1.6, 0.5  # how far apart the columns and rows of a slanted plane are


def as_grid(topology: Topology) -> Sketch | None:
    """The network as a grid of two or more dimensions, if all its links join neighbours along one of them."""
    shape = np.array([size for size in topology.shape if size > 1])
    if len(shape) < 2 or topology.num_devices != np.prod(shape):
        return None
    place = np.stack(np.unravel_index(np.arange(topology.num_devices), shape))
    delta = place[:, topology.dst] - place[:, topology.src]
    if np.any(np.count_nonzero(delta, axis=0) != 1):
        return None
    axis = np.argmax(delta != 0, axis=0)
    step = delta[axis, np.arange(topology.num_links)]
    wraps = (np.abs(step) == shape[axis] - 1) & (np.abs(step) > 1)
    if not np.all(wraps | (np.abs(step) == 1)):
        return None
    steps, rooms, radius = _flat() if len(shape) == 2 else _slanted(shape)
    # Both directions of a cable bow to the same side of the page.
    rise = np.where(wraps, 0.6 * rooms[axis] * np.sign(step), 0.0)
    return Sketch("grid", place.T @ steps, radius=radius, wraps=wraps, rise=rise)


def _flat() -> tuple[Floats, Floats, float]:
    """Per dimension one step on the page and the room beside a row; and how large a device may be."""
    return np.array([[0.0, 1.0], [1.0, 0.0]]), np.ones(2), 0.24


def _slanted(shape: Ints) -> tuple[Floats, Floats, float]:
    """Likewise: every further dimension starts below, or beside, all that has been drawn before it."""
    rows = int(shape[-2])
    slant = _WIDE * _coprime_share(rows)
    steps = np.zeros((len(shape), 2))
    steps[-1], steps[-2] = (_WIDE, 0.0), (-slant, _FLAT)
    for dimension in range(len(shape) - 3, -1, -1):
        width, height = np.abs(steps).T @ (shape - 1)
        below = (len(shape) - dimension) % 2 == 1
        nudge = 0.0 if dimension == len(shape) - 3 else 0.6  # keeps rows behind each other apart
        steps[dimension] = (nudge, height + 0.9) if below else (width + 1.2, nudge)
    rooms = np.full(len(shape), _WIDE / rows)
    rooms[-1], rooms[-2] = _FLAT, _WIDE * _FLAT / np.hypot(slant, _FLAT)
    return steps, rooms, min(0.2, 0.4 * _WIDE / rows)


def _coprime_share(rows: int) -> float:
    """About 0.4, such that no device is right below another of its plane, where links between planes lead down."""
    wanted = 0.4 * rows
    return (
        min((m for m in range(1, rows + 1) if gcd(m, rows) == 1), key=lambda m: abs(m - wanted))
        / rows
    )
