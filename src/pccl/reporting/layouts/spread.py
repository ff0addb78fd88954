"""Any network: distances on the page follow distances in hops (stress majorization), the same way every time."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pccl._arrays import Floats, Ints

__all__ = ["spread"]

_PIVOTS = 60
_WORK = 60_000_000  # pairs of devices looked at, over all rounds
_MOST_ROUNDS = 150
_CELL = 0.6  # devices nearer to each other than about this are moved apart


def spread(count: int, src: ArrayLike, dst: ArrayLike) -> Floats:
    """Places of devices, of which those of each link from `src` to `dst` are joined."""
    a, b = (np.asarray(ends, np.int64) for ends in (src, dst))
    if count == 1:
        return np.zeros((1, 2))
    hops = _hops(count, np.concatenate([a, b]), np.concatenate([b, a]), _pivots(count))
    xy = _first_guess(count, hops)
    if len(hops) == count:
        for _ in range(min(_MOST_ROUNDS, _WORK // count**2)):
            xy = _improved(xy, hops)
    return _apart(xy)


def _pivots(count: int) -> Ints:
    """All devices if that is affordable, otherwise some, evenly chosen."""
    affordable = count**2 * 8 <= _WORK
    return (
        np.arange(count)
        if affordable
        else np.unique(np.linspace(0, count - 1, _PIVOTS).astype(np.int64))
    )


def _hops(count: int, src: Ints, dst: Ints, pivots: Ints) -> Floats:
    """From each pivot to each device; what cannot be reached counts as a little farther than anything else."""
    hops = np.full((len(pivots), count), np.inf)
    hops[np.arange(len(pivots)), pivots] = 0
    for distance in range(1, count):
        reached = np.zeros_like(hops, dtype=np.bool_)
        level = hops == distance - 1
        np.logical_or.at(reached.T, dst, level.T[src])
        reached &= np.isinf(hops)
        if not reached.any():
            break
        hops[reached] = distance
    farthest = hops[np.isfinite(hops)].max()
    return np.where(np.isinf(hops), farthest + 2, hops)


def _first_guess(count: int, hops: Floats) -> Floats:
    """Principal axes of the distances to the pivots, and a spiral that keeps what looks the same apart."""
    squares = hops**2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1, keepdims=True) + squares.mean()
    _, vectors = np.linalg.eigh(centred @ centred.T)
    axes = np.round(vectors[:, [-1, -2]] if len(hops) > 1 else vectors[:, [-1, -1]], 9)
    axes *= np.where(
        axes[np.argmax(np.abs(axes), axis=0), [0, 1]] < 0, -1, 1
    )  # which way round is a matter of taste
    xy: Floats = -0.5 * centred.T @ axes
    xy *= hops.max() / 2 / max(float(np.abs(xy).max()), 1e-9)
    turn = np.arange(count) * np.pi * (3 - np.sqrt(5))
    spiral = np.sqrt(np.arange(count) / count)[:, None] * np.stack(
        [np.cos(turn), np.sin(turn)], axis=1
    )
    return np.asarray(xy + 0.15 * spiral)


def _improved(xy: Floats, hops: Floats) -> Floats:
    """One round: every device moves to where the others, each at the wanted distance, would have it on average."""
    delta = xy[:, None, :] - xy[None, :, :]
    length = np.maximum(np.hypot(delta[..., 0], delta[..., 1]), 1e-6)
    weight = 1 / np.maximum(hops, 0.5) ** 2
    np.fill_diagonal(weight, 0)
    pull = weight * hops / length
    wanted = weight @ xy + pull.sum(axis=1, keepdims=True) * xy - pull @ xy
    return np.asarray(wanted / weight.sum(axis=1, keepdims=True))


def _apart(xy: Floats) -> Floats:
    """Move devices that share a cell of a fine grid to the nearest free cell."""
    taken: set[tuple[int, int]] = set()
    placed = xy.copy()
    for device, (x, y) in enumerate(xy):
        cell = (round(x / _CELL), round(y / _CELL))
        if any((cell[0] + i, cell[1] + j) in taken for i in (-1, 0, 1) for j in (-1, 0, 1)):
            cell = _free_cell(cell, taken)
            placed[device] = cell[0] * _CELL, cell[1] * _CELL
        taken.add(cell)
    return placed


def _free_cell(cell: tuple[int, int], taken: set[tuple[int, int]]) -> tuple[int, int]:
    size = 0
    while True:
        size += 1
        ring = [
            (i, j)
            for i in range(-size, size + 1)
            for j in range(-size, size + 1)
            if max(abs(i), abs(j)) == size
        ]
        for i, j in sorted(ring, key=lambda step: (step[0] ** 2 + step[1] ** 2, step)):
            if (cell[0] + i, cell[1] + j) not in taken:
                return cell[0] + i, cell[1] + j
