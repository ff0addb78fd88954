"""Where to draw every device, and along which curve every link: grids as grids, boxes as boxes, rings as circles.

Coordinates grow to the right and downwards, as on a page; devices that are next to each other are about 1 apart.
The same topology always gets the same drawing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from pccl._arrays import Bools, Floats, Ints, count_within, inverse
from pccl.reporting.layouts import npus, switches
from pccl.reporting.layouts.sketch import directions, lengths, points, smallest_distance
from pccl.topology import Topology
from pccl.topology.parts import ABSENT, NPU, SWITCH
from pccl.units import counted

# The first that knows the network draws it.
_FAMILIES = (
    npus.as_grid,
    switches.as_boxes,
    npus.as_npus,
    switches.as_star,
    switches.as_hosts,
    npus.as_anything,
)
# Pairs of a link and a device; in larger networks links lead straight on.
_MOST_CHECKS = 40_000
_BOWS = np.array([0.35, -0.35, 0.6, -0.6, 0.9, -0.9, 1.3, -1.3, 1.8, -1.8])
_SAMPLES = np.linspace(0, 1, 25)[1:-1]


@dataclass(frozen=True)
class Frame:
    """A rectangle around devices that belong together.

    Attributes
    ----------
    label
        What to write beside it, if anything.
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


@dataclass(frozen=True, eq=False, repr=False)
class Drawing:
    """The places of the devices of a topology, and the curves of its links.

    Attributes
    ----------
    topology
        What is drawn.
    kind
        What it is drawn as: ``"grid"``, ``"line"``, ``"ring"``, ``"circle"``, ``"squares"`` (a cube mesh), ``"pairs"``
        (dies of a package, or whatever else has a twin), ``"star"``, ``"levels"``, ``"groups"``, ``"boxes"``,
        ``"hosts"`` (NPUs around a network of switches) or ``"spread"``.
    x, y
        Per device: its centre. Absent devices have a place as well.
    radius
        Of the circle or square that stands for a device; no two of them touch.
    frames
        Rectangles around devices that belong together, such as the boxes of a machine.
    wraps
        Per link: whether it leads round from one end of a row to the other, and so is an arc.
    rise
        Per link: how far the control points of its curve are to the left of the way. With 0 it is a straight line.
    lane
        Per link: its number among the links that are parallel to it, from 0.
    span
        Per device: how far it reaches to the left and to the right of its centre. A switch of which that is more than
        nothing is drawn as a bus, which links meet straight above or below their other end.

    Examples
    --------
    >>> from pccl.topology import torus
    >>> drawing = arrange(torus(3, 4))
    >>> drawing
    Drawing(grid: 12 devices, 48 links, 14 wrap)
    >>> drawing.x[5], drawing.y[5]  # NPU 5 is the second of the second row
    (np.float64(1.0), np.float64(1.0))
    """

    topology: Topology
    kind: str
    x: Floats
    y: Floats
    radius: float
    frames: tuple[Frame, ...]
    wraps: Bools
    rise: Floats
    lane: Ints
    span: Floats

    def __repr__(self) -> str:
        wrapping = f", {np.count_nonzero(self.wraps)} wrap" if self.wraps.any() else ""
        frames = f", {len(self.frames)} frames" if self.frames else ""
        counts = f"{counted(len(self.x), 'device')}, {counted(len(self.rise), 'link')}"
        return f"Drawing({self.kind}: {counts}{wrapping}{frames})"

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of all devices, frames and curves."""
        bent = points_along(self.curves()[self.rise != 0], np.linspace(0, 1, 17))
        corners = [((f.left, f.top), (f.right, f.bottom)) for f in self.frames]
        reach = points(self.span, np.zeros_like(self.span))
        parts = [
            self.xy - reach,
            self.xy + reach,
            bent.reshape(-1, 2),
            np.reshape(corners, (-1, 2)),
        ]
        all_points = np.concatenate(parts)
        left, top = all_points.min(axis=0).tolist()
        right, bottom = all_points.max(axis=0).tolist()
        return left, top, right, bottom

    @property
    def xy(self) -> Floats:
        """Per device: its centre."""
        return points(self.x, self.y)

    def curves(self, gap: float | Floats = 0.0) -> Floats:
        """Per link: start, two control points and end of its cubic Bézier curve, as an array (links, 4, 2).

        Curves lead from centre to centre. With a `gap`, each is moved to the right of its way by half of it, so that
        the two directions of a cable are `gap` apart, and links parallel to it by one gap more each. There may be a gap
        for each link.

        Examples
        --------
        >>> from pccl.topology import line
        >>> arrange(line(2)).curves(gap=0.1)[0].tolist()
        [[0.0, 0.05], [0.333, 0.05], [0.667, 0.05], [1.0, 0.05]]
        """
        start, end = _ends(self.topology, self.xy, self.span)
        shift = np.asarray(gap * (self.lane + 0.5), np.float64)
        return _bezier_curves(start, end, self.rise, self.wraps, shift).round(3)


def lost_cables(topology: Topology) -> list[tuple[int, int]]:
    """The ends of the cables that are out of order, each once.

    Examples
    --------
    >>> from pccl.topology import ring
    >>> lost_cables(ring(4).without(links=["0:1"]))
    [(0, 1)]
    """
    return sorted({(min(ends), max(ends)) for ends in topology.lost})


def arrange(topology: Topology) -> Drawing:
    """Return the drawing of a topology as people know it.

    Grids become grids, three-dimensional ones planes above each other; machines of several boxes become frames with
    their NPUs inside and the switches between boxes outside; trees of switches become levels; routers that are all
    joined become groups around a circle; rings, and small networks with many links, become circles. Anything else is
    spread so that distances on the page follow distances in hops.

    Examples
    --------
    >>> from pccl.topology import parse_topology
    >>> texts = ("mesh:3x3", "ring:8", "h100:4", "fat-tree:4", "dragonfly:5x4x2")
    >>> [arrange(parse_topology(text)).kind for text in texts]
    ['grid', 'ring', 'boxes', 'levels', 'groups']
    """
    # Lazily: the last family spreads anything, at a price.
    whole = _mended(topology)
    sketches = (family(whole) for family in _FAMILIES)
    sketch = next(sketch for sketch in sketches if sketch is not None)
    # Rounded, so that files are short and do not depend on the last bits of a machine.
    exact = sketch.xy - sketch.xy.min(axis=0)
    xy = exact.round(3)
    # So that even the nearest two leave room for an arrow between them.
    radius = min(sketch.radius, 0.3 * smallest_distance(xy))
    frames = []
    for outline in sketch.frames:
        inside = exact[outline.devices]
        left, top = (inside.min(axis=0) - outline.room).round(3).tolist()
        right, bottom = (inside.max(axis=0) + outline.room).round(3).tolist()
        frames.append(Frame(outline.label, left, top, right, bottom, outline.label_below))
    span = np.zeros(len(xy)) if sketch.span is None else sketch.span.round(3)
    if sketch.arcs is None:
        rise = _rises_round_devices(topology, xy, span, radius)
    else:
        rise = sketch.arcs[: topology.num_links]
    # Only families that know their links have links that lead round.
    wraps = (rise != 0) & (sketch.arcs is not None)
    # The number of each link among those with the same ends.
    # One number per ordered pair of devices; parallel links share it.
    ends = topology.src.astype(np.int64) * topology.num_devices + topology.dst
    _, parallel = np.unique(ends, return_counts=True)
    lane = count_within(parallel)[inverse(np.argsort(ends, kind="stable"))]
    x, y = xy.T
    return Drawing(topology, sketch.kind, x, y, radius, tuple(frames), wraps, rise, lane, span)


def _mended(topology: Topology) -> Topology:
    """The network as it was before anything failed, so that it is drawn as people know it; lost links come last."""
    if not topology.lost:
        return topology
    src, dst = np.array(topology.lost, np.int32).T
    columns: dict[str, Any] = {"src": src, "dst": dst}
    # How fast they were is forgotten. As the slowest, they make no two devices belong together.
    for name in ("latency", "bandwidth", "exclusive", "gap"):
        column = getattr(topology, name)
        columns[name] = np.full(len(src), column.min() if len(column) else 1, column.dtype)
    for name, more in columns.items():
        columns[name] = np.concatenate([getattr(topology, name), more])
    back = np.unique(np.concatenate([src, dst]))
    kind = topology.kind.copy()
    is_npu = back < prod(topology.shape)
    kind[back] = np.where(is_npu, NPU, SWITCH)
    return replace(topology, kind=kind, lost=(), **columns)


def points_along(curves: Floats, shares: Floats) -> Floats:
    """Return points at these shares of Bézier curves; their axis takes the place of that of the control points."""
    t = shares[:, None]
    a, b, c, d = (curves[..., i, None, :] for i in range(4))
    return np.asarray(
        (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d
    )


def _ends(topology: Topology, xy: Floats, span: Floats) -> tuple[Floats, Floats]:
    """Return where links leave and where they arrive: in the middle of a device, or along a bus."""

    def met(devices: Any, others: Any) -> Floats:
        x, y = xy[devices].T
        reach = span[devices]
        return points(np.clip(xy[others, 0], x - reach, x + reach), y)

    return met(topology.src, topology.dst), met(topology.dst, topology.src)


def _bezier_curves(start: Floats, end: Floats, rise: Floats, wraps: Bools, shift: Floats) -> Floats:
    """Return start, two control points and end of cubic Bézier curves.

    The control points are `rise` to the left of the way. All of the curve is moved by `shift` to the right.
    """
    length = lengths(end - start)
    ahead, left = directions(end - start)
    start = start - shift[:, None] * left
    end = end - shift[:, None] * left
    # Arcs set out away from the other end, so as to pass beside the devices of their row.
    lean = np.where(wraps, -0.9 * np.abs(rise), length / 3)
    along = lean[:, None] * ahead
    up = rise[:, None] * left
    return np.stack([start, start + along + up, end - along + up, end], axis=1)


def _rises_round_devices(topology: Topology, xy: Floats, span: Floats, radius: float) -> Floats:
    """Return, per link, how far its curve rises to the left in order to pass by all devices but its own two."""
    # Straight, unless a device is in the way.
    rise = np.zeros(topology.num_links)
    if topology.num_links * len(xy) > _MOST_CHECKS:
        return rise
    present = np.flatnonzero(topology.kind != ABSENT)
    middle = xy[present].mean(axis=0)
    start, end = _ends(topology, xy, span)
    # Both directions of a cable take the same curve.
    chosen: dict[tuple[int, int], float] = {}
    for link in _blocked(topology, start, end, xy, present, 1.15 * radius).tolist():
        src = int(topology.src[link])
        dst = int(topology.dst[link])
        way = (min(src, dst), max(src, dst))
        side = 1.0 if src < dst else -1.0
        if way not in chosen:
            others = present[(present != src) & (present != dst)]
            bow = _bow(start[link], end[link], xy[others], middle, 1.3 * radius)
            chosen[way] = side * bow
        rise[link] = side * chosen[way]
    return rise


def _blocked(
    topology: Topology, start: Floats, end: Floats, xy: Floats, devices: Ints, room: float
) -> Ints:
    """Return the links whose straight lines touch a device that is not theirs."""
    begin = start[:, None, :]
    way = end[:, None, :] - begin
    there = xy[devices][None]
    along = ((there - begin) * way).sum(axis=2) / np.maximum((way**2).sum(axis=2), 1e-9)
    # The point of the line that is nearest to the device, not beyond its ends.
    foot = begin + np.clip(along, 0, 1)[..., None] * way
    near = ((there - foot) ** 2).sum(axis=2) < room**2
    for ends in (topology.src, topology.dst):
        near &= devices != ends[:, None]
    return np.flatnonzero(near.any(axis=1))


def _bow(start: Floats, end: Floats, others: Floats, middle: Floats, room: float) -> float:
    """Return the smallest rise that clears the other devices, preferably away from the middle, or else the best."""
    way = end - start
    length = float(np.hypot(*way))
    to_the_left = np.array([way[1], -way[0]])
    outwards = 1.0 if to_the_left @ ((start + end) / 2 - middle) >= 0 else -1.0
    # A cubic curve reaches 3/4 of the height of its control points.
    rises = outwards * max(1.0, 0.22 * length) * _BOWS / 0.75
    straight = np.zeros_like(rises)
    curves = _bezier_curves(start[None], end[None], rises, straight != 0, straight)
    apart = points_along(curves, _SAMPLES)[:, :, None] - others
    clear = np.sqrt((apart**2).sum(axis=3).min(axis=(1, 2)))
    # The bows are tried from flat to high: the first that fits disturbs least.
    fine = np.flatnonzero(clear > room)
    return float(rises[fine[0] if len(fine) else np.argmax(clear)])
