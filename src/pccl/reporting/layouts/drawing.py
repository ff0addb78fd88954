"""Where to draw every device, and along which curve every link: grids as grids, boxes as boxes, rings as circles.

Coordinates grow to the right and downwards, as on a page; devices that are next to each other are about 1 apart.
The same topology always gets the same drawing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Bools, Floats, Ints
from pccl.reporting.layouts import boxes, grids, npus, switches
from pccl.reporting.layouts.curves import (
    bezier_curves,
    lanes,
    points_along,
    rises_round_devices,
)
from pccl.reporting.layouts.sketch import Frame, Sketch, pairs_of, smallest_distance
from pccl.reporting.layouts.spread import spread
from pccl.topology import Topology

__all__ = ["Drawing", "arrange"]

# The first that knows the network draws it.
_FAMILIES = (
    grids.as_grid,
    boxes.as_boxes,
    npus.as_npus,
    switches.as_star,
    switches.as_levels,
    switches.as_groups,
    switches.as_hosts,
)


@dataclass(frozen=True, eq=False, repr=False)
class Drawing:
    """The places of the devices of a topology, and the curves of its links.

    Attributes
    ----------
    topology
        What is drawn.
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
    rise
        Per link: how far the control points of its curve are to the left of the way. With 0 it is a straight line.
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

    topology: Topology
    kind: str
    x: Floats
    y: Floats
    radius: float
    frames: tuple[Frame, ...]
    wraps: Bools
    rise: Floats
    lane: Ints

    def __repr__(self) -> str:
        wrapping = f", {np.count_nonzero(self.wraps)} wrap" if self.wraps.any() else ""
        frames = f", {len(self.frames)} frames" if self.frames else ""
        counts = f"{len(self.x)} devices, {len(self.rise)} links"
        return f"Drawing({self.kind}: {counts}{wrapping}{frames})"

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of all devices, frames and curves."""
        bent = points_along(self.curves()[self.rise != 0], np.linspace(0, 1, 17))
        corners = [(f.left, f.top) for f in self.frames] + [
            (f.right, f.bottom) for f in self.frames
        ]
        centres = np.stack([self.x, self.y], axis=1)
        points = np.concatenate([centres, bent.reshape(-1, 2), np.reshape(corners, (-1, 2))])
        left, top = points.min(axis=0).tolist()
        right, bottom = points.max(axis=0).tolist()
        return left, top, right, bottom

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
        start = xy[self.topology.src]
        end = xy[self.topology.dst]
        # Arcs set out away from the other end, so as to pass beside the devices of their row.
        third = np.hypot(*(end - start).T) / 3
        lean = np.where(self.wraps, -0.9 * np.abs(self.rise), third)
        shift = np.asarray(gap * (self.lane + 0.5), np.float64)
        return bezier_curves(start, end, lean, self.rise, shift).round(3)


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
    sketch = _sketch(topology)
    origin = sketch.xy.min(axis=0)
    xy = np.round(sketch.xy - origin, 3)
    radius = min(sketch.radius, 0.3 * smallest_distance(xy))
    if sketch.arcs is None:
        rise = rises_round_devices(topology, xy, radius)
        wraps = np.zeros(topology.num_links, np.bool_)
    else:
        rise = sketch.arcs
        wraps = rise != 0
    return Drawing(
        topology,
        sketch.kind,
        x=xy[:, 0],
        y=xy[:, 1],
        radius=radius,
        frames=tuple(frame.moved(-origin) for frame in sketch.frames),
        wraps=wraps,
        rise=rise,
        lane=lanes(topology),
    )


def _sketch(topology: Topology) -> Sketch:
    for family in _FAMILIES:
        sketch = family(topology)
        if sketch is not None:
            return sketch
    return Sketch("spread", spread(topology.num_devices, pairs_of(topology)))
