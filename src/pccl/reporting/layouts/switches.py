"""Networks with switches: boxes, stars, trees, dragonflies, and whatever their switches form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.reporting.layouts.npus import sketch_of_pairs, twins_among
from pccl.reporting.layouts.sketch import (
    Outline,
    Sketch,
    circle,
    hops_from,
    pairs_of,
    places_of,
    points,
    row,
    smallest_distance,
)
from pccl.topology import Topology

# NPUs of a router side by side.
_ABREAST = 4
# NPUs side by side under a tree; of more, some stand below others.
_WIDEST_TREE = 48
# Of one row of boxes; more boxes stand on both sides of the switches that join them.
_WIDEST_ROW = 24
# Of one row of boxes that buses join, and how far the buses are apart.
_WIDEST_BUS = 90
_BETWEEN_BUSES = 1.0
# Signs of a name that a square has room for, and how wide one more of them is.
_SHORT_NAME = 6
_SIGN = 0.12
# In place of a box, for switches between boxes.
_SHARED = -1


def as_boxes(topology: Topology) -> Sketch | None:
    """Return the network as boxes: by its shape, or else by the fastest switch of each NPU."""
    # Per device; everything below only arranges what this finds.
    box = _boxes(topology)
    if box is None:
        return None
    count = int(box.max()) + 1
    pairs = pairs_of(topology)
    boxes = [_inside(topology, pairs, box, number) for number in range(count)]
    both_npus = np.all(pairs < places_of(topology), axis=1)
    same_box = box[pairs[:, 0]] == box[pairs[:, 1]]
    # Links that lead round others take more room.
    room = 1.0 if np.any(both_npus & same_box) else 0.6
    # All boxes get the size of the largest, so that rows and columns line up.
    spans = [np.ptp(inside.places, axis=0) for inside in boxes]
    size = np.max(spans, axis=0) + 2 * room + (0.7, 1.0)
    shared = np.flatnonzero(box == _SHARED)
    rails = _are_rails(pairs, box, shared, count) and count * size[0] <= _WIDEST_BUS
    across, rows = (count, 1) if rails else _arrangement(topology, count, size, len(shared))
    # Between the boxes above and those below is a band, in which the shared switches are.
    width = across * size[0]
    band = 0.6 if count == 2 else 0.0
    if len(shared) and not rails:
        band = max(2.0, 0.1 * width, 0.16 * len(shared))
    # Half of the rows above the band, and the odd one too.
    rows_above = (rows + 1) // 2 if rows > 1 else 0
    xy = np.zeros((topology.num_devices, 2))
    frames = []
    for number, inside in enumerate(boxes):
        line, place = divmod(number, across)
        in_line = min(across, count - line * across)
        above = line < rows_above
        y = (line - rows_above) * size[1]
        if not above:
            y += 2 * band if rows_above else band
        # Boxes above turn the side with their ports down, to the band.
        turned = above and (len(shared) > 0 or count == 2)
        places = inside.places * (1, -1) if turned else inside.places
        middle = (places.min(axis=0) + places.max(axis=0)) / 2
        centre = np.array([(place - (in_line - 1) / 2) * size[0], y + size[1] / 2])
        xy[inside.devices] = places - middle + centre
        frames.append(Outline(f"box {number}", inside.devices, room, not turned))
        frames += inside.frames
    if rails:
        # One above the other, each along all boxes: what joins the first NPUs is the nearest.
        xy[shared, 1] = -_BETWEEN_BUSES * np.arange(1, len(shared) + 1)
        span = _wide_enough(topology, xy)
        span[shared] = width / 2 - room
        straight = np.zeros(topology.num_links)
        return Sketch("boxes", xy, tuple(frames), arcs=straight, span=span)
    apart = max(1.2, 0.8 * width / max(len(shared), 1))
    xy[shared] = row(len(shared), apart, band if rows_above else 0.0)
    return Sketch("boxes", xy, tuple(frames), span=_wide_enough(topology, xy))


def _wide_enough(topology: Topology, xy: Floats) -> Floats:
    """Return, per device, how far it reaches to either side, so that long names of switches have room inside."""
    span = np.zeros(len(xy))
    for switch in topology.switches.tolist():
        signs = len(topology.labels[switch])
        if signs <= _SHORT_NAME:
            continue
        across, down = np.abs(xy - xy[switch]).T
        # Only what stands beside it is in the way, and not the switch itself.
        beside = across[(down < 1) & (across > 0)]
        span[switch] = min(_SIGN * signs / 2, 0.4 * beside.min(initial=np.inf))
    return span


def as_star(topology: Topology) -> Sketch | None:
    """Return NPUs around their only switch."""
    # Nothing but spokes: every pair ends at the one switch.
    hubs = topology.switches
    if len(hubs) != 1 or np.any(pairs_of(topology)[:, 1] != hubs[0]):
        return None
    xy = np.zeros((topology.num_devices, 2))
    others = np.arange(topology.num_devices) != hubs[0]
    xy[others] = circle(topology.num_devices - 1, least=1.5)
    return Sketch("star", xy)


def as_hosts(topology: Topology) -> Sketch | None:
    """Return NPUs on one switch each: a tree, a dragonfly, or whatever their switches form."""
    pairs = pairs_of(topology)
    places = places_of(topology)
    own = pairs[pairs[:, 0] < places]
    # Each NPU has exactly one link, and that to a switch.
    alone = np.array_equal(own[:, 0], np.arange(places)) and np.all(own[:, 1] >= places)
    if not alone:
        return None
    home = own[:, 1]
    return (
        _levels(topology, pairs, home)
        or _groups(topology, pairs, home)
        or _around_switches(topology, pairs, home)
    )


def _levels(topology: Topology, pairs: Ints, home: Ints) -> Sketch | None:
    """Return a tree: NPUs below, each on one switch, and links only between one level of switches and the next."""
    is_npu = np.arange(topology.num_devices) < places_of(topology)
    hops: Floats = hops_from(is_npu[None], pairs)[0]
    # Switches that no NPU reaches are above all.
    reached = np.isfinite(hops)
    level = np.where(reached, hops, hops[reached].max() + 1).astype(np.int64)
    top = int(level.max())
    # One level is a star, and a link within a level makes it no tree.
    if top < 2 or np.any(level[pairs[:, 0]] == level[pairs[:, 1]]):
        return None
    xy = np.zeros((topology.num_devices, 2))
    leaves, hosts = np.unique(home, return_counts=True)
    # As many abreast as keep the whole tree from growing too wide.
    columns = max(1, min(int(hosts.max()), int(_WIDEST_TREE // len(leaves))))
    start = 0.0
    for leaf in leaves.tolist():
        npus = np.flatnonzero(home == leaf)
        y, x = np.divmod(np.arange(len(npus)), columns)
        xy[npus] = points(start + x, y)
        start += min(columns, len(npus)) + 0.5
    width = start - 1.5
    height = max(1.5, 0.35 * width / top)
    # Of every pair, who is below and who above.
    lower, upper = np.take_along_axis(pairs, np.argsort(level[pairs], axis=1), axis=1).T
    for number in range(1, top + 1):
        # A switch belongs above the middle of what hangs on it.
        own = np.flatnonzero(level == number)
        hanging = np.bincount(upper, minlength=len(xy))[own]
        sums = np.bincount(upper, xy[lower, 0], len(xy))[own]
        middle = np.where(hanging > 0, sums / np.maximum(hanging, 1), width / 2)
        order = own[np.lexsort((own, middle))]
        xy[order] = row(len(order), max(1.0, width / len(order)), -height * number, width / 2)
        # Leaves stand exactly above their NPUs; higher levels are spaced evenly.
        if number == 1:
            xy[own, 0] = middle
    return Sketch("levels", xy)


def _groups(topology: Topology, pairs: Ints, home: Ints) -> Sketch | None:
    """Return a dragonfly: groups of switches that are all joined with each other, around a circle, NPUs outside."""
    groups = _cliques(topology, pairs)
    if groups is None:
        return None
    insides = [_group(home, group) for group in groups]
    room = 0.5 + max(float(np.abs(inside).max()) for _, inside in insides)
    xy = np.zeros((topology.num_devices, 2))
    frames = []
    # Neighbouring frames do not touch, even if they are at a corner of each other.
    centres = circle(len(groups), 2 * np.sqrt(2) * room + 0.4)
    for number, (devices, inside) in enumerate(insides):
        xy[devices] = centres[number] + inside
        frames.append(Outline(f"group {number}", devices))
    return Sketch("groups", xy, tuple(frames))


def _around_switches(topology: Topology, pairs: Ints, home: Ints) -> Sketch:
    """Return switches drawn for themselves, and NPUs around the switch that each hangs on."""
    first = int(topology.switches[0])
    between = pairs[np.all(pairs >= first, axis=1)] - first
    switches = sketch_of_pairs(topology.num_devices - first, between)
    most = int(np.bincount(home).max())
    # Far enough out that the NPUs of the fullest switch do not touch.
    reach = max(1.0, 0.4 + 0.5 / np.sin(np.pi / max(most, 2)))
    xy = np.zeros((topology.num_devices, 2))
    xy[first:] = switches.xy * (2 * reach + 1.0) / smallest_distance(switches.xy)
    for switch in np.unique(home).tolist():
        npus = np.flatnonzero(home == switch)
        xy[npus] = xy[switch] + circle(len(npus), least=reach) @ _turn(0.35)
    return Sketch("hosts", xy)


def _boxes(topology: Topology) -> Ints | None:
    """Return, per device, its box, or that it is shared; None if the network is no machine of boxes."""
    places = places_of(topology)
    # A machine of several dimensions says itself what a box is: its last one.
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
        # A switch that only one box uses is inside of it; one that several use is between them.
        own = np.unique(of_npu[to_switch[to_switch[:, 1] == switch, 0]])
        if len(own) == 1:
            box[switch] = own[0]
    return box


def _are_rails(pairs: Ints, box: Ints, shared: Ints, count: int) -> bool:
    """Return whether each of the shared switches has one neighbour in every box, an NPU; two boxes need no buses."""
    if count < 3 or len(shared) < 2:
        return False
    for switch in shared.tolist():
        others = pairs[np.any(pairs == switch, axis=1)].sum(axis=1) - switch
        if len(others) != count or len(np.unique(box[others])) != count or np.any(box[others] < 0):
            return False
    return True


def _by_fastest_switch(topology: Topology, places: int) -> Ints | None:
    """Return NPUs grouped by the switch that each sends to at the highest rate, if all send to several switches."""
    up = np.flatnonzero((topology.src < places) & (topology.dst >= places))
    homes = np.unique(points(topology.src[up], topology.dst[up]), axis=0)
    if places < 4 or np.any(np.bincount(homes[:, 0], minlength=places) < 2):
        return None
    order = up[np.lexsort((topology.dst[up], -topology.bandwidth[up], topology.src[up]))]
    # The first of each sender, which after sorting is the fastest.
    fastest = order[np.unique(topology.src[order], return_index=True)[1]]
    _, group, sizes = np.unique(topology.dst[fastest], return_inverse=True, return_counts=True)
    return group.reshape(-1).astype(np.int64) if len(sizes) > 1 and sizes.min() > 1 else None


class _Box(NamedTuple):
    """The devices of a box, their places, and frames inside of it."""

    devices: Ints
    places: Floats
    frames: list[Outline]


def _inside(topology: Topology, pairs: Ints, box: Ints, number: int) -> _Box:
    """Return a box, from the side of the other boxes: ports, NPUs, hubs."""
    devices = np.flatnonzero(box == number)
    npus = devices[devices < places_of(topology)]
    between = pairs[np.all(np.isin(pairs, npus), axis=1)]
    rows = [row(len(npus))]
    frames = []
    if len(between):
        joined = np.searchsorted(npus, between)
        sketch = sketch_of_pairs(len(npus), joined, twins_among(topology, npus))
        rows = [sketch.xy]
        # Their labels would stand in the way of the links that leave the box.
        frames = [Outline("", npus[frame.devices], frame.room) for frame in sketch.frames]
    left, top = rows[0].min(axis=0)
    right, bottom = rows[0].max(axis=0)
    width = max(float(right - left), 1.0)
    leads_out = np.unique(pairs[box[pairs[:, 0]] != box[pairs[:, 1]]])
    own = devices[len(npus) :]
    is_port = np.isin(own, leads_out)
    ports = own[is_port]
    hubs = own[~is_port]
    for switches, y in ((ports, top - 1.3), (hubs, bottom + max(1.3, 0.14 * width))):
        apart = max(1.0, width / max(len(switches), 1))
        rows.append(row(len(switches), apart, y, (left + right) / 2))
    return _Box(np.concatenate([npus, ports, hubs]), np.concatenate(rows), frames)


def _arrangement(topology: Topology, count: int, size: Floats, shared: int) -> tuple[int, int]:
    """Return how many boxes stand side by side, and in how many rows."""
    if not shared and count == 2:
        return 1, 2
    if not shared and len(topology.shape) == 3:
        return int(topology.shape[1]), int(topology.shape[0])
    if count * size[0] <= _WIDEST_ROW:
        return count, 1
    # A page that is about 1.7 times as wide as high.
    across = int(np.ceil(np.sqrt(1.7 * count * size[1] / size[0])))
    rows = max(2, -(-count // across))
    return -(-count // rows), rows


def _cliques(topology: Topology, pairs: Ints) -> list[list[int]] | None:
    """Return switches in groups of neighbouring numbers that are all joined; None unless these have an equal size."""
    joined = set(map(tuple, pairs.tolist()))
    groups: list[list[int]] = []
    for switch in topology.switches.tolist():
        if groups and all((other, switch) in joined for other in groups[-1]):
            groups[-1].append(switch)
        else:
            groups.append([switch])
    sizes = {len(group) for group in groups}
    return groups if len(groups) > 1 and len(sizes) == 1 and sizes != {1} else None


def _group(home: Ints, routers: list[int]) -> tuple[Ints, Floats]:
    """Return switches and their NPUs, and places: on a circle around the origin, with the NPUs on its outside."""
    hosts = [np.flatnonzero(home == router) for router in routers]
    widest = 0.8 * min(max(map(len, hosts)), _ABREAST) + 0.2
    share = 2 * np.sin(np.pi / max(len(routers), 2))
    ring = circle(len(routers), least=max(1.3, 1.3 / share, widest / share - 1))
    fans = [place + _fan(len(npus), place) for npus, place in zip(hosts, ring, strict=True)]
    return np.concatenate([routers, *hosts]).astype(np.int64), np.concatenate([ring, *fans])


def _fan(count: int, outwards: Floats) -> Floats:
    """Return points in rows, on the outside of a switch."""
    y, x = np.divmod(np.arange(count), _ABREAST)
    in_row = np.minimum(count - _ABREAST * y, _ABREAST)
    across = (x - (in_row - 1) / 2) * 0.8
    ahead = 1.0 + 0.75 * y
    # Turned such that 'up' leads away from the middle of the group.
    angle = np.arctan2(outwards[0], -outwards[1])
    return points(across, -ahead) @ _turn(angle)


def _turn(angle: float) -> Floats:
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
