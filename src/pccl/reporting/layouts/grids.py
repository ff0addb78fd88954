"""Meshes, tori and hypercubes: rows and columns; the third dimension as planes, seen at a slant, above each other."""

from __future__ import annotations

from math import gcd

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.reporting.layouts.sketch import Sketch
from pccl.topology import Topology

__all__ = ["as_grid"]

# How far apart the columns and rows of a slanted plane are.
_WIDE = 1.6
_FLAT = 0.5


def as_grid(topology: Topology) -> Sketch | None:
    """Return the network as a grid of two or more dimensions, if all its links join neighbours along one of them."""
    shape = np.array([size for size in topology.shape if size > 1])
    if len(shape) < 2 or topology.num_devices != np.prod(shape):
        return None
    place = np.stack(np.unravel_index(np.arange(topology.num_devices), shape))
    delta = place[:, topology.dst] - place[:, topology.src]
    if np.any(np.count_nonzero(delta, axis=0) != 1):
        return None
    axis = np.argmax(delta != 0, axis=0)
    step = delta.sum(axis=0)
    wraps = (np.abs(step) == shape[axis] - 1) & (np.abs(step) > 1)
    if not np.all(wraps | (np.abs(step) == 1)):
        return None
    if len(shape) == 2:
        steps = np.array([[0.0, 1.0], [1.0, 0.0]])
        rooms = np.ones(2)
        radius = 0.24
    else:
        steps, rooms, radius = _slanted(shape)
    # Both directions of a cable bow to the same side of the page.
    arcs = np.where(wraps, 0.6 * rooms[axis] * np.sign(step), 0.0)
    return Sketch("grid", place.T @ steps, radius=radius, arcs=arcs)


def _slanted(shape: Ints) -> tuple[Floats, Floats, float]:
    """Return, per dimension, one step on the page and the room beside a row; and how large a device may be.

    Every further dimension starts below, or beside, all that has been drawn before it.
    """
    rows = int(shape[-2])
    # About 0.4 of a column, such that no device is right below another of its plane, where links lead down.
    apart = [m for m in range(1, rows + 1) if gcd(m, rows) == 1]
    slant = _WIDE * min(apart, key=lambda m: abs(m - 0.4 * rows)) / rows
    steps = np.zeros((len(shape), 2))
    steps[-1] = (_WIDE, 0.0)
    steps[-2] = (-slant, _FLAT)
    for dimension in range(len(shape) - 3, -1, -1):
        width, height = np.abs(steps).T @ (shape - 1)
        below = (len(shape) - dimension) % 2 == 1
        # Keeps rows behind each other apart.
        nudge = 0.0 if dimension == len(shape) - 3 else 0.6
        steps[dimension] = (nudge, height + 0.9) if below else (width + 1.2, nudge)
    rooms = np.full(len(shape), _WIDE / rows)
    rooms[-1] = _FLAT
    rooms[-2] = _WIDE * _FLAT / np.hypot(slant, _FLAT)
    return steps, rooms, min(0.2, 0.4 * _WIDE / rows)
