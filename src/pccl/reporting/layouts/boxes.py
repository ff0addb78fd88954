"""Machines of several boxes: a frame around the NPUs and switches of each, and the switches between boxes outside."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.reporting.layouts.npus import sketch_of_pairs
from pccl.reporting.layouts.sketch import Sketch, frame_around, pairs_of, row
from pccl.topology import Topology

__all__ = ["as_boxes"]

_WIDEST = 24  # of one row of boxes; more boxes stand on both sides of the switches that join them
_SHARED = -1  # in place of a box, for switches between boxes


def as_boxes(topology: Topology) -> Sketch | None:
    """The network as boxes: by its shape, or else by the fastest switch of each NPU."""
    box = _boxes(topology)
    if box is None:
        return None
    count = int(box.max()) + 1
    insides = [_inside(topology, box, number) for number in range(count)]
    room = 1.0 if _joined_inside(topology, box) else 0.6  # for links that lead round others
    size = np.max([np.ptp(points, axis=0) for _, points in insides], axis=0) + 2 * room + (0.7, 1.0)
    shared = np.flatnonzero(box == _SHARED)
    across, rows = _arrangement(topology, count, size, len(shared))
    width = across * size[0]
    band = (
        max(2.0, 0.1 * width, 0.16 * len(shared)) if len(shared) else (0.6 if count == 2 else 0.0)
    )
    above = (rows + 1) // 2 if rows > 1 else 0
    xy, frames = np.zeros((topology.num_devices, 2)), []
    for number, (devices, points) in enumerate(insides):
        line, place = divmod(number, across)
        in_line = min(across, count - line * across)
        upside_down = line < above and bool(len(shared) or count == 2)
        y = (line - above) * size[1] + (0.0 if line < above else band * (2 if above else 1))
        points = points * (1, -1) if upside_down else points
        centre = np.array([(place - (in_line - 1) / 2) * size[0], y + size[1] / 2])
        xy[devices] = points - (points.min(axis=0) + points.max(axis=0)) / 2 + centre
        frames.append(frame_around(xy[devices], f"box {number}", room, label_below=not upside_down))
    xy[shared] = row(
        len(shared), max(1.2, 0.8 * width / max(len(shared), 1)), band if above else 0.0
    )
    return Sketch("boxes", xy, tuple(frames))


def _boxes(topology: Topology) -> Ints | None:
    """Per device its box, or that it is shared; None if the network is no machine of boxes."""
    places = int(np.prod(topology.shape))
    if len(topology.shape) > 1 and 1 < topology.shape[-1] < places:
        of_npu = np.arange(places) // topology.shape[-1]
    else:
        fastest = _fastest_switch(topology, places)
        if fastest is None:
            return None
        of_npu = fastest
    box = np.concatenate([of_npu, np.full(topology.num_devices - places, _SHARED)])
    pairs = pairs_of(topology)
    to_npu = pairs[(pairs[:, 0] < places) & (pairs[:, 1] >= places)]
    for switch in np.unique(to_npu[:, 1]).tolist():
        own = np.unique(of_npu[to_npu[to_npu[:, 1] == switch, 0]])
        box[switch] = own[0] if len(own) == 1 else _SHARED
    return box


def _fastest_switch(topology: Topology, places: int) -> Ints | None:
    """NPUs grouped by the switch that each sends to at the highest rate, if all send to several switches."""
    up = np.flatnonzero((topology.src < places) & (topology.dst >= places))
    homes = np.unique(np.stack([topology.src[up], topology.dst[up]], axis=1), axis=0)
    if places < 4 or np.any(np.bincount(homes[:, 0], minlength=places)[:places] < 2):
        return None
    order = up[np.lexsort((topology.dst[up], -topology.bandwidth[up], topology.src[up]))]
    first = order[np.unique(topology.src[order], return_index=True)[1]]
    _, group, sizes = np.unique(topology.dst[first], return_inverse=True, return_counts=True)
    return group.reshape(-1).astype(np.int64) if len(sizes) > 1 and sizes.min() > 1 else None


def _inside(topology: Topology, box: Ints, number: int) -> tuple[Ints, Floats]:
    """The devices of a box and their places: towards other boxes, which are above, NICs, then NPUs, then its hubs."""
    devices = np.flatnonzero(box == number)
    places = int(np.prod(topology.shape))
    npus, own = devices[devices < places], devices[devices >= places]
    pairs = pairs_of(topology)
    between = pairs[np.all(np.isin(pairs, npus), axis=1)]
    sketch = sketch_of_pairs(len(npus), np.searchsorted(npus, between)) if len(between) else None
    points = row(len(npus)) if sketch is None else sketch.xy
    outside = np.unique(pairs[box[pairs[:, 0]] != box[pairs[:, 1]]])
    ports, hubs = own[np.isin(own, outside)], own[~np.isin(own, outside)]
    width = max(float(np.ptp(points[:, 0])), 1.0)
    middle = (points[:, 0].min() + points[:, 0].max()) / 2
    rows = [points]
    for switches, y in (
        (ports, points[:, 1].min() - 1.3),
        (hubs, points[:, 1].max() + max(1.3, 0.14 * width)),
    ):
        rows.append(row(len(switches), max(1.0, width / max(len(switches), 1)), y, middle))
    return np.concatenate([npus, ports, hubs]), np.concatenate(rows)


def _joined_inside(topology: Topology, box: Ints) -> bool:
    """Whether NPUs of one box are joined directly."""
    npu = topology.kind == 0
    return bool(
        np.any(npu[topology.src] & npu[topology.dst] & (box[topology.src] == box[topology.dst]))
    )


def _arrangement(topology: Topology, count: int, size: Floats, shared: int) -> tuple[int, int]:
    """How many boxes stand side by side, and in how many rows."""
    if not shared and count == 2:
        return 1, 2
    if not shared and len(topology.shape) == 3:
        return int(topology.shape[1]), int(topology.shape[0])
    if count * size[0] <= _WIDEST:
        return count, 1
    across = int(np.ceil(np.sqrt(1.7 * count * size[1] / size[0])))
    rows = max(2, -(-count // across))
    return -(-count // rows), rows
