"""Machines of several boxes: a frame around the NPUs and switches of each, and the switches between boxes outside."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.reporting.layouts.npus import sketch_of_pairs
from pccl.reporting.layouts.sketch import Sketch, frame_around, pairs_of, places_of, row
from pccl.topology import Topology

__all__ = ["as_boxes"]

# Of one row of boxes; more boxes stand on both sides of the switches that join them.
_WIDEST = 24
# In place of a box, for switches between boxes.
_SHARED = -1


def as_boxes(topology: Topology) -> Sketch | None:
    """Return the network as boxes: by its shape, or else by the fastest switch of each NPU."""
    box = _boxes(topology)
    if box is None:
        return None
    count = int(box.max()) + 1
    pairs = pairs_of(topology)
    insides = [_inside(topology, pairs, box, number) for number in range(count)]
    both_npus = np.all(pairs < places_of(topology), axis=1)
    same_box = box[pairs[:, 0]] == box[pairs[:, 1]]
    # Links that lead round others take more room.
    room = 1.0 if np.any(both_npus & same_box) else 0.6
    spans = [np.ptp(points, axis=0) for _, points in insides]
    size = np.max(spans, axis=0) + 2 * room + (0.7, 1.0)
    shared = np.flatnonzero(box == _SHARED)
    across, rows = _arrangement(topology, count, size, len(shared))
    # Between the boxes above and those below is a band, in which the shared switches are.
    width = across * size[0]
    band = 0.6 if count == 2 else 0.0
    if len(shared):
        band = max(2.0, 0.1 * width, 0.16 * len(shared))
    rows_above = (rows + 1) // 2 if rows > 1 else 0
    xy = np.zeros((topology.num_devices, 2))
    frames = []
    for number, (devices, points) in enumerate(insides):
        line, place = divmod(number, across)
        in_line = min(across, count - line * across)
        above = line < rows_above
        y = (line - rows_above) * size[1]
        if not above:
            y += 2 * band if rows_above else band
        # Boxes above turn the side with their ports down, to the band.
        turned = above and (len(shared) > 0 or count == 2)
        if turned:
            points = points * (1, -1)
        middle = (points.min(axis=0) + points.max(axis=0)) / 2
        centre = np.array([(place - (in_line - 1) / 2) * size[0], y + size[1] / 2])
        xy[devices] = points - middle + centre
        frames.append(frame_around(xy[devices], f"box {number}", room, label_below=not turned))
    apart = max(1.2, 0.8 * width / max(len(shared), 1))
    xy[shared] = row(len(shared), apart, band if rows_above else 0.0)
    return Sketch("boxes", xy, tuple(frames))


def _boxes(topology: Topology) -> Ints | None:
    """Return, per device, its box, or that it is shared; None if the network is no machine of boxes."""
    places = places_of(topology)
    of_npu: Ints | None
    if len(topology.shape) > 1 and 1 < topology.shape[-1] < places:
        of_npu = np.arange(places) // topology.shape[-1]
    else:
        of_npu = _by_fastest_switch(topology, places)
    if of_npu is None:
        return None
    box = np.full(topology.num_devices, _SHARED, np.int64)
    box[:places] = of_npu
    pairs = pairs_of(topology)
    to_switch = pairs[(pairs[:, 0] < places) & (pairs[:, 1] >= places)]
    for switch in np.unique(to_switch[:, 1]).tolist():
        own = np.unique(of_npu[to_switch[to_switch[:, 1] == switch, 0]])
        if len(own) == 1:
            box[switch] = own[0]
    return box


def _by_fastest_switch(topology: Topology, places: int) -> Ints | None:
    """Return NPUs grouped by the switch that each sends to at the highest rate, if all send to several switches."""
    up = np.flatnonzero((topology.src < places) & (topology.dst >= places))
    homes = np.unique(np.stack([topology.src[up], topology.dst[up]], axis=1), axis=0)
    if places < 4 or np.any(np.bincount(homes[:, 0], minlength=places) < 2):
        return None
    order = up[np.lexsort((topology.dst[up], -topology.bandwidth[up], topology.src[up]))]
    fastest = order[np.unique(topology.src[order], return_index=True)[1]]
    _, group, sizes = np.unique(topology.dst[fastest], return_inverse=True, return_counts=True)
    return group.reshape(-1).astype(np.int64) if len(sizes) > 1 and sizes.min() > 1 else None


def _inside(topology: Topology, pairs: Ints, box: Ints, number: int) -> tuple[Ints, Floats]:
    """Return the devices of a box and their places, from the side of the other boxes: ports, NPUs, hubs."""
    devices = np.flatnonzero(box == number)
    npus = devices[devices < places_of(topology)]
    between = pairs[np.all(np.isin(pairs, npus), axis=1)]
    points = row(len(npus))
    if len(between):
        points = sketch_of_pairs(len(npus), np.searchsorted(npus, between)).xy
    left, top = points.min(axis=0)
    right, bottom = points.max(axis=0)
    width = max(float(right - left), 1.0)
    leads_out = np.unique(pairs[box[pairs[:, 0]] != box[pairs[:, 1]]])
    own = devices[len(npus) :]
    is_port = np.isin(own, leads_out)
    order = [npus]
    places = [points]
    for switches, y in (
        (own[is_port], top - 1.3),
        (own[~is_port], bottom + max(1.3, 0.14 * width)),
    ):
        order.append(switches)
        apart = max(1.0, width / max(len(switches), 1))
        places.append(row(len(switches), apart, y, (left + right) / 2))
    return np.concatenate(order), np.concatenate(places)


def _arrangement(topology: Topology, count: int, size: Floats, shared: int) -> tuple[int, int]:
    """Return how many boxes stand side by side, and in how many rows."""
    if not shared and count == 2:
        return 1, 2
    if not shared and len(topology.shape) == 3:
        return int(topology.shape[1]), int(topology.shape[0])
    if count * size[0] <= _WIDEST:
        return count, 1
    across = int(np.ceil(np.sqrt(1.7 * count * size[1] / size[0])))
    rows = max(2, -(-count // across))
    return -(-count // rows), rows
