"""Networks without switches: grids, lines, rings, cube meshes and cliques; and anything that has no order, spread."""

from __future__ import annotations

from itertools import chain, combinations, count, permutations
from math import gcd

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.reporting.layouts.sketch import (
    Outline,
    Sketch,
    circle,
    hops_from,
    lengths,
    pairs_of,
    points,
    row,
)
from pccl.topology import Topology

# How far apart the columns and rows of a slanted plane are.
_WIDE = 1.6
_FLAT = 0.5
# NPUs in one row; a longer line turns back at its ends.
_LONG_LINE = 24
_SMALL_CIRCLE = 32
# Pairs of a DGX-1: two complete fours, of which each device is joined to its twin.
_CUBE_MESH = [[a, b] for a, b in combinations(range(8), 2) if a // 4 == b // 4 or b == a + 4]
# Pairs of twins for which all orders are tried, and how far apart they stand.
_MOST_TWINS = 8
_ACROSS = 2.1
_DOWN = 2.7
# Devices from which distances are counted, if all would be too many.
_PIVOTS = 60
# Pairs of devices looked at, over all rounds.
_WORK = 60_000_000
_MOST_ROUNDS = 150
# Devices nearer to each other than about this are moved apart.
_CELL = 0.6

Cell = tuple[int, int]


def as_grid(topology: Topology) -> Sketch | None:
    """Return a grid of two or more dimensions, if all links join neighbours along one of them.

    The third dimension is drawn as planes, seen at a slant, above each other.
    """
    shape = np.array([size for size in topology.shape if size > 1])
    if len(shape) < 2 or topology.num_devices != np.prod(shape):
        return None
    place = np.stack(np.unravel_index(np.arange(topology.num_devices), shape))
    # Along the axes of the grid.
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


def as_npus(topology: Topology) -> Sketch | None:
    """Return the network as a line, a ring, or what its NPUs form otherwise, if it has no switches."""
    if len(topology.switches):
        return None
    twins = twins_among(topology, np.arange(topology.num_devices))
    return sketch_of_pairs(topology.num_devices, pairs_of(topology), twins)


def as_anything(topology: Topology) -> Sketch:
    """Return any network, spread."""
    return Sketch("spread", _spread(topology.num_devices, pairs_of(topology)))


def twins_among(topology: Topology, devices: Ints) -> Ints | None:
    """Return these devices in pairs, if each is joined to its twin faster than to any other, as the dies of a package.

    A row of two numbers for each pair, which count the devices from 0; None unless all of them have twins.
    """
    count = len(devices)
    if count % 2 or not 4 <= count <= 2 * _MOST_TWINS:
        return None
    number = np.full(topology.num_devices, -1)
    number[devices] = np.arange(count)
    src = number[topology.src]
    dst = number[topology.dst]
    inside = (src >= 0) & (dst >= 0)
    rate = np.zeros((count, count))
    # Parallel links are as fast as all of them together.
    np.add.at(rate, (src[inside], dst[inside]), topology.bandwidth[inside])
    rate += rate.T
    twin = rate.argmax(axis=1)
    others = rate.copy()
    others[np.arange(count), twin] = 0
    is_mutual = twin[twin] == np.arange(count)
    is_fastest = rate.max(axis=1) > others.max(axis=1)
    if not np.all(is_mutual & is_fastest):
        return None
    first = np.flatnonzero(np.arange(count) < twin)
    return points(first, twin[first])


def sketch_of_pairs(devices: int, pairs: Ints, twins: Ints | None = None) -> Sketch:
    """Return a sketch of devices of which some pairs are joined; twins stay together."""
    joined = pairs.tolist()
    order = _chain(devices, joined)
    if order is not None:
        closed = len(joined) > 1 and sorted((order[0], order[-1])) in joined
        xy = np.empty((devices, 2))
        xy[order] = circle(devices) if closed else _line(devices)
        return Sketch("ring" if closed else "line", xy)
    # Known by its pairs, since its shape says no more than eight NPUs.
    if joined == _CUBE_MESH:
        # Two squares beside each other, mirrored, so that two of the four links between twins are short.
        left = np.array([[1.3, 0.0], [0.0, 0.0], [1.3, 1.3], [0.0, 1.3]])
        return Sketch("squares", np.concatenate([left, left * (-1, 1) + (4.2, 0.0)]))
    if twins is not None:
        return _in_pairs(devices, pairs, twins)
    # With so many links, a circle shows more than any attempt to untangle them.
    dense = devices <= _SMALL_CIRCLE and len(joined) > 1.4 * devices
    if dense or len(joined) == devices * (devices - 1) // 2:
        return Sketch("circle", circle(devices))
    return Sketch("spread", _spread(devices, pairs))


def _in_pairs(devices: int, pairs: Ints, twins: Ints) -> Sketch:
    """Return twins above each other, in one or two rows, in the order that makes the links shortest."""
    count = len(twins)
    columns = count if count <= 3 else -(-count // 2)
    line, place = np.divmod(np.arange(count), columns)
    spots = points(place * _ACROSS, line * _DOWN)
    # Of each device: its pair, and whether it is the lower one.
    of_pair = np.empty(devices, np.int64)
    below = np.zeros(devices)
    for number, twin in enumerate(twins):
        of_pair[twin] = number
        below[twin[1]] = 1.0
    orders = np.array(list(permutations(range(count))))
    a, b = pairs.T
    ways = spots[orders[:, of_pair[a]]] - spots[orders[:, of_pair[b]]]
    ways[..., 1] += below[a] - below[b]
    best = orders[np.argmin(lengths(ways).sum(axis=1).round(6))]
    xy = spots[best[of_pair]]
    xy[:, 1] += below
    # Labels stand outside, where no links lead from one row to the other.
    frames = [
        Outline(f"pair {number}", twin, 0.45, label_below=bool(line[best[number]]))
        for number, twin in enumerate(twins)
    ]
    return Sketch("pairs", xy, tuple(frames), radius=0.27)


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


def _chain(devices: int, pairs: list[list[int]]) -> list[int] | None:
    """Return the devices in the order of a line or ring, if the pairs form one; by number, if that is an order."""
    if all(b - a in (1, devices - 1) for a, b in pairs):
        return list(range(devices))
    joined: list[list[int]] = [[] for _ in range(devices)]
    for a, b in pairs:
        joined[a].append(b)
        joined[b].append(a)
    degrees = [len(others) for others in joined]
    if min(degrees) < 1 or max(degrees) > 2:
        return None
    order = [degrees.index(1) if 1 in degrees else 0]
    while len(order) < devices:
        ahead = [other for other in joined[order[-1]] if other not in (order[0], *order[-2:])]
        if not ahead:
            return None
        order.append(min(ahead))
    return order


def _line(devices: int) -> Floats:
    if devices <= _LONG_LINE:
        return row(devices)
    columns = int(np.ceil(np.sqrt(1.6 * devices)))
    y, x = np.divmod(np.arange(devices), columns)
    return points(np.where(y % 2, columns - 1 - x, x), y).astype(np.float64)


def _spread(devices: int, pairs: Ints) -> Floats:
    """Return places such that distances on the page follow distances in hops (stress majorization), always the same."""
    # Distances from all devices if that is affordable, otherwise from some, evenly chosen.
    pivots = np.arange(devices)
    if devices**2 * 8 > _WORK:
        pivots = np.unique(np.linspace(0, devices - 1, _PIVOTS).astype(np.int64))
    hops = hops_from(pivots[:, None] == np.arange(devices), pairs)
    # What cannot be reached counts as a little farther than anything else.
    hops = np.where(np.isinf(hops), hops[np.isfinite(hops)].max() + 2, hops)
    xy = _first_guess(hops)
    if len(pivots) == devices:
        for _ in range(min(_MOST_ROUNDS, _WORK // devices**2)):
            xy = _improved(xy, hops)
    return _apart(xy)


def _first_guess(hops: Floats) -> Floats:
    """Return principal axes of the distances to the pivots, and a spiral that keeps what looks the same apart."""
    squares = hops**2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1, keepdims=True) + squares.mean()
    _, vectors = np.linalg.eigh(centred @ centred.T)
    axes = np.round(vectors[:, [-1, -2]], 9)
    # An axis has no direction of its own: its largest entry is made positive.
    largest = axes[np.argmax(np.abs(axes), axis=0), [0, 1]]
    axes *= np.where(largest < 0, -1, 1)
    xy: Floats = -0.5 * centred.T @ axes
    xy *= hops.max() / 2 / max(float(np.abs(xy).max()), 1e-9)
    number = np.arange(len(xy))
    turn = number * np.pi * (3 - np.sqrt(5))
    out = np.sqrt(number / len(xy))
    return np.asarray(xy + 0.15 * out[:, None] * points(np.cos(turn), np.sin(turn)))


def _improved(xy: Floats, hops: Floats) -> Floats:
    """Move every device to where the others, each at the wanted distance, would have it on average."""
    delta = xy[:, None, :] - xy[None, :, :]
    length = np.maximum(lengths(delta), 1e-6)
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
            around = chain.from_iterable(_ring(cell, size) for size in count(1))
            cell = next(other for other in around if other not in taken)
            placed[device] = cell[0] * _CELL, cell[1] * _CELL
        taken.add(cell)
    return placed


def _ring(cell: Cell, size: int) -> list[Cell]:
    """Return the cells of a square around a cell, the nearest first."""
    side = range(-size, size + 1)
    steps = [(i, j) for i in side for j in side if max(abs(i), abs(j)) == size]
    # Of all of them, one coordinate has this size; the other one says which is nearer.
    steps.sort(key=lambda step: abs(step[0]) + abs(step[1]))
    return [(cell[0] + i, cell[1] + j) for i, j in steps]
