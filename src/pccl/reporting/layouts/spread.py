"""Any network: distances on the page follow distances in hops (stress majorization), the same way every time."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.reporting.layouts.sketch import hops_from

__all__ = ["spread"]

_PIVOTS = 60
# Pairs of devices looked at, over all rounds.
_WORK = 60_000_000
_MOST_ROUNDS = 150
# Devices nearer to each other than about this are moved apart.
_CELL = 0.6

Cell = tuple[int, int]


def spread(count: int, pairs: Ints) -> Floats:
    """Return places of devices of which some pairs are joined."""
    if count == 1:
        return np.zeros((1, 2))
    # Distances from all devices if that is affordable, otherwise from some, evenly chosen.
    pivots = np.arange(count)
    if count**2 * 8 > _WORK:
        pivots = np.unique(np.linspace(0, count - 1, _PIVOTS).astype(np.int64))
    hops = hops_from(pivots[:, None] == np.arange(count), pairs)
    # What cannot be reached counts as a little farther than anything else.
    hops = np.where(np.isinf(hops), hops[np.isfinite(hops)].max() + 2, hops)
    xy = _first_guess(hops)
    if len(pivots) == count:
        for _ in range(min(_MOST_ROUNDS, _WORK // count**2)):
            xy = _improved(xy, hops)
    return _apart(xy)


def _first_guess(hops: Floats) -> Floats:
    """Return principal axes of the distances to the pivots, and a spiral that keeps what looks the same apart."""
    count = hops.shape[1]
    squares = hops**2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1, keepdims=True) + squares.mean()
    _, vectors = np.linalg.eigh(centred @ centred.T)
    axes = np.round(vectors[:, [-1, -2]] if len(hops) > 1 else vectors[:, [-1, -1]], 9)
    # An axis has no direction of its own: its largest entry is made positive.
    largest = axes[np.argmax(np.abs(axes), axis=0), [0, 1]]
    axes *= np.where(largest < 0, -1, 1)
    xy: Floats = -0.5 * centred.T @ axes
    xy *= hops.max() / 2 / max(float(np.abs(xy).max()), 1e-9)
    turn = np.arange(count) * np.pi * (3 - np.sqrt(5))
    out = np.sqrt(np.arange(count) / count)
    return np.asarray(xy + 0.15 * out[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1))


def _improved(xy: Floats, hops: Floats) -> Floats:
    """Move every device to where the others, each at the wanted distance, would have it on average."""
    delta = xy[:, None, :] - xy[None, :, :]
    length = np.maximum(np.hypot(delta[..., 0], delta[..., 1]), 1e-6)
    weight = 1 / np.maximum(hops, 0.5) ** 2
    np.fill_diagonal(weight, 0)
    pull = weight * hops / length
    wanted = weight @ xy + pull.sum(axis=1, keepdims=True) * xy - pull @ xy
    return np.asarray(wanted / weight.sum(axis=1, keepdims=True))


def _apart(xy: Floats) -> Floats:
    """Move devices that share a cell of a fine grid, or are in neighbouring ones, to the nearest free cell."""
    taken: set[Cell] = set()
    placed = xy.copy()
    for device, (x, y) in enumerate(xy):
        cell = (round(x / _CELL), round(y / _CELL))
        if not taken.isdisjoint([cell, *_ring(cell, 1)]):
            cell = _free_cell(cell, taken)
            placed[device] = cell[0] * _CELL, cell[1] * _CELL
        taken.add(cell)
    return placed


def _free_cell(cell: Cell, taken: set[Cell]) -> Cell:
    size = 1
    while True:
        for other in _ring(cell, size):
            if other not in taken:
                return other
        size += 1


def _ring(cell: Cell, size: int) -> list[Cell]:
    """Return the cells of a square around a cell, the nearest first."""
    side = range(-size, size + 1)
    steps = [(i, j) for i in side for j in side if max(abs(i), abs(j)) == size]
    steps.sort(key=lambda step: (step[0] ** 2 + step[1] ** 2, step))
    return [(cell[0] + i, cell[1] + j) for i, j in steps]
