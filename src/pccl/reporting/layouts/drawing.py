"""Where to draw every device, and along which curve every link: grids as grids, boxes as boxes, rings as circles.

Coordinates grow to the right and downwards, as on a page; devices that are next to each other are about 1 apart.
The same topology always gets the same layout.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Bools, Floats, Indices, Ints
from pccl.reporting.layouts import boxes, grids, npus, switches
from pccl.reporting.layouts.curves import around_devices, lanes, points_along, shifted_curves
from pccl.reporting.layouts.sketch import Frame, Sketch, smallest_distance
from pccl.reporting.layouts.spread import spread
from pccl.topology import Topology

__all__ = ["Drawing", "Frame", "arrange"]


@dataclass(frozen=True, eq=False, repr=False)
class Drawing:
    """A drawing of a topology, without ink.

    Attributes
    ----------
    kind
        What it is drawn as: ``"grid"``, ``"line"``, ``"ring"``, ``"circle"``, ``"squares"`` (a cube mesh), ``"star"``,
        ``"levels"``, ``"groups"``, ``"boxes"``, ``"hosts"`` (NPUs around a network of switches) or ``"spread"``.
    x, y
        Per device: its centre. Absent devices have a place as well.
    radius
        Of the circle or square that stands for a device; no two of them touch.
    frames
        Rectangles around devices that belong together, such as the boxes of a machine.
    wraps
        Per link: whether it leads round from one end of a row to the other, and so is an arc.
    lean, rise
        Per link: where the two control points of its cubic Bézier curve are, seen from its two ends: so far towards the
        other end, and so far to the left of the way. A ``rise`` of 0 is a straight line.
    lane
        Per link: its number among the links that are parallel to it, from 0.

    Examples
    --------
    >>> from pccl.topology import torus
    >>> drawing = arrange(torus(3, 4))
    >>> drawing
    Drawing(grid: 12 devices, 48 links, 14 wrap)
    >>> drawing.x[5], drawing.y[5]  # NPU 5 is the second of the second row
    (np.float64(1.0), np.float64(1.0))
    """

    kind: str
    x: Floats
    y: Floats
    radius: float
    frames: tuple[Frame, ...]
    wraps: Bools
    lean: Floats
    rise: Floats
    lane: Ints
    _ends: tuple[Indices, Indices]

    def __repr__(self) -> str:
        wrapping = f", {np.count_nonzero(self.wraps)} wrap" if self.wraps.any() else ""
        frames = f", {len(self.frames)} frames" if self.frames else ""
        return (
            f"Drawing({self.kind}: {len(self.x)} devices, {len(self.lean)} links{wrapping}{frames})"
        )

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of all devices, frames and curves."""
        bent = points_along(self.curves()[self.rise != 0], np.linspace(0, 1, 17))
        corners = [np.stack([self.x, self.y], axis=1), bent.reshape(-1, 2)]
        corners += [np.array([[f.left, f.top], [f.right, f.bottom]]) for f in self.frames]
        points = np.concatenate(corners)
        (left, top), (right, bottom) = points.min(axis=0), points.max(axis=0)
        return float(left), float(top), float(right), float(bottom)

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
        xy = np.stack([self.x, self.y], axis=1)
        src, dst = self._ends
        curves = shifted_curves(
            xy[src], xy[dst], self.lean, self.rise, np.asarray(gap * (self.lane + 0.5), np.float64)
        )
        return np.round(curves, 3)


def arrange(topology: Topology) -> Drawing:
    """Draw a topology as people know it.

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
    sketch = _sketch(topology)
    xy = np.round(sketch.xy - sketch.xy.min(axis=0), 3)
    src, dst, links = topology.src, topology.dst, topology.num_links
    radius = min(sketch.radius, 0.3 * smallest_distance(xy))
    wraps = np.zeros(links, np.bool_) if sketch.wraps is None else sketch.wraps
    lean = np.hypot(*(xy[dst] - xy[src]).T) / 3
    if sketch.rise is None:
        rise = around_devices(topology, xy, radius)
    else:  # arcs set out away from the other end, so as to pass beside the devices of their row
        lean, rise = np.where(wraps, -0.9 * np.abs(sketch.rise), lean), sketch.rise
    origin = sketch.xy.min(axis=0)
    frames = tuple(frame.moved(-origin[0], -origin[1]) for frame in sketch.frames)
    return Drawing(
        sketch.kind, xy[:, 0], xy[:, 1], radius, frames, wraps, lean, rise, lanes(topology), (src, dst)
    )  # fmt: skip


def _sketch(topology: Topology) -> Sketch:
    """The first family that the network belongs to."""
    for family in (grids.as_grid, boxes.as_boxes, npus.as_npus, switches.as_star, switches.as_levels,
                   switches.as_groups, switches.as_hosts):  # fmt: skip
        sketch = family(topology)
        if sketch is not None:
            return sketch
    return Sketch("spread", spread(topology.num_devices, topology.src, topology.dst))
