"""The network on paper: its devices, frames and links, which figures fill with colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection, PatchCollection, PolyCollection
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle, Wedge

from pccl._arrays import Bools, Floats, Ints
from pccl.reporting.figures.style import FAINT, INK, TEXT, legend_height, paper, readable_on
from pccl.reporting.layouts.curves import points_along
from pccl.reporting.layouts.drawing import Drawing, arrange
from pccl.topology import Topology
from pccl.topology.core import ABSENT, SWITCH

__all__ = ["SWITCHES", "Canvas"]

SWITCHES = "#F4F4F4"  # their colour
_WIDEST, _HIGHEST, _UNIT = 11.0, 8.5, 0.8  # inches: of a drawing, and between neighbours at most
_LABEL = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": "none"}
_ALONG = np.linspace(0, 1, 49)


class Canvas:
    """Axes with the devices of a topology on them; links are up to each figure."""

    def __init__(
        self, network: Topology, title: str, subtitle: str, right: float, entries: int
    ) -> None:
        self.network, self.drawing = network, arrange(network)
        x0, y0, x1, y1 = self.drawing.extent
        room = 0.35 + self.drawing.radius
        above = 0.45 if self.drawing.frames else 0.0  # for the labels of frames
        size = x1 - x0 + 2 * room, y1 - y0 + 2 * (room + above)
        unit = min(_UNIT, _WIDEST / size[0], _HIGHEST / size[1])
        width, height = max(size[0] * unit, 1.5), max(size[1] * unit, legend_height(entries))
        self.figure, self.axes = paper(width, height, title, subtitle, right=right)
        self.right = (0.2 + width + 0.15) / self.figure.get_figwidth()
        self.axes.set_axis_off()
        self.axes.set_aspect("equal")
        self.axes.set_xlim(x0 - room, x1 + room)
        self.axes.set_ylim(y1 + room + above, y0 - room - above)
        self.points = 72 * unit  # per unit of the layout
        self.line = float(np.clip(0.16 * self.drawing.radius * self.points, 0.3, 2.2))
        self._frames()

    def devices(self, fills: Sequence[Sequence[str]]) -> None:
        """Circles and squares, each filled with its colours, and their numbers where there is room for them."""
        drawing, kind, radius = self.drawing, self.network.kind, self.drawing.radius
        edge = float(np.clip(0.07 * radius * self.points, 0.05, 0.8))
        parts, colours, rings, squares = [], [], [], []
        for device in np.flatnonzero(kind != ABSENT).tolist():
            centre = float(drawing.x[device]), float(drawing.y[device])
            if kind[device] == SWITCH:
                corner = centre[0] - 0.9 * radius, centre[1] - 0.9 * radius
                squares.append(Rectangle(corner, 1.8 * radius, 1.8 * radius))
                continue
            rings.append(Circle(centre, radius))
            for part, colour in zip(
                _parts(centre, radius, len(fills[device])), fills[device], strict=True
            ):
                parts.append(part)
                colours.append(colour)
        for gid, patches, face, line in (
            ("npu-colours", parts, colours, 0.0), ("npus", rings, "none", edge), ("switches", squares, SWITCHES, edge),
        ):  # fmt: skip
            if patches:
                found = PatchCollection(
                    patches, facecolors=face, edgecolors=INK, linewidths=line, zorder=3, gid=gid
                )
                self.axes.add_collection(found)
        self._numbers(fills)

    def links(self, chosen: Ints, gap: Any, colours: Any, heads: Bools, widths: Any) -> None:
        """The chosen links, moved apart by a gap, some with heads of arrows."""
        size = 0.62 * self.drawing.radius
        lines, triangles = _lines(self.drawing, chosen, gap), []
        for i, points in zip(
            np.flatnonzero(heads).tolist(),
            _ends_at_rims(self.network, self.drawing, chosen[heads], gap),
            strict=True,
        ):
            triangles.append(_head(points, size))
            lines[i] = _shortened(points, 0.8 * size)
        drawn = LineCollection(
            lines, colors=colours, linewidths=widths, zorder=1, gid="links", capstyle="butt"
        )
        self.axes.add_collection(drawn)
        if triangles:
            faces = np.asarray(colours)[heads] if len(colours) == len(lines) else colours
            self.axes.add_collection(
                PolyCollection(triangles, facecolors=faces, zorder=2, gid="heads", linewidths=0)
            )

    def legend(self, handles: Sequence[Any]) -> None:
        """A legend to the right of the drawing."""
        height = self.figure.get_figheight()
        self.figure.legend(
            handles=list(handles), loc="upper left", bbox_to_anchor=(self.right, 1 - 0.75 / height), frameon=False,
            borderaxespad=0.0, handlelength=1.4, fontsize=TEXT,
        )  # fmt: skip

    def _frames(self) -> None:
        for number, frame in enumerate(self.drawing.frames):
            width, height = frame.right - frame.left, frame.bottom - frame.top
            box = FancyBboxPatch(
                (frame.left, frame.top), width, height, boxstyle="round,pad=0,rounding_size=0.35", facecolor="#FAFAFA",
                edgecolor="#AAAAAA", linewidth=min(1.0, self.line), zorder=0, gid=f"frame-{number}",
            )  # fmt: skip
            self.axes.add_patch(box)
            size = min(TEXT, 0.34 * self.points)
            if size >= 4.5:
                y, align = (
                    (frame.bottom + 0.08, "top")
                    if frame.label_below
                    else (frame.top - 0.08, "bottom")
                )
                patch = {
                    "boxstyle": "round,pad=0.1",
                    "facecolor": "white",
                    "edgecolor": "none",
                    "alpha": 0.85,
                }
                left = frame.left + 0.2
                self.axes.text(
                    left,
                    y,
                    frame.label,
                    fontsize=size,
                    color=FAINT,
                    va=align,
                    bbox=patch,
                    zorder=2.5,
                )

    def _numbers(self, fills: Sequence[Sequence[str]]) -> None:
        digits = len(str(self.network.num_devices - 1))
        size = min(9.0, 1.5 * self.drawing.radius * self.points / (0.66 * max(digits, 1.6)))
        if size < 4.2:
            return
        for device in np.flatnonzero(self.network.kind != ABSENT).tolist():
            switch = self.network.kind[device] == SWITCH
            several = len(fills[device]) > 1
            colour = "black" if switch or several else readable_on(fills[device][0])
            self.axes.text(
                self.drawing.x[device], self.drawing.y[device], str(device), fontsize=size, color=colour, ha="center",
                va="center_baseline", zorder=4, bbox=_LABEL if several else None,
            )  # fmt: skip


def _lines(drawing: Drawing, chosen: Ints, gap: Any) -> list[Floats]:
    """The curves of links as lists of points, from centre to centre."""
    curves, bent = drawing.curves(gap)[chosen], drawing.rise[chosen] != 0
    lines = list(curves[:, [0, 3]])
    for i, points in zip(
        np.flatnonzero(bent).tolist(), points_along(curves[bent], _ALONG), strict=True
    ):
        lines[i] = points
    return lines


def _ends_at_rims(network: Topology, drawing: Drawing, chosen: Ints, gap: Any) -> list[Floats]:
    """The curves of links as lists of points, which end where the device that they lead to begins."""
    points = points_along(drawing.curves(gap)[chosen], _ALONG)
    end, bent = network.dst[chosen], drawing.rise[chosen] != 0
    apart = points - np.stack([drawing.x[end], drawing.y[end]], axis=1)[:, None, :]
    square = np.abs(apart).max(axis=2) - 0.9 * drawing.radius
    outside = np.where(
        (network.kind[end] == SWITCH)[:, None], square, np.hypot(*apart.T).T - drawing.radius
    )
    last = np.maximum(
        points.shape[1] - 1 - np.argmax(outside[:, ::-1] > 0, axis=1), 1
    )  # the last point before the rim
    lines = []
    for i, k in enumerate(np.minimum(last, points.shape[1] - 2).tolist()):
        share = outside[i, k] / max(outside[i, k] - outside[i, k + 1], 1e-9)
        rim = points[i, k] + min(max(share, 0.0), 1.0) * (points[i, k + 1] - points[i, k])
        kept = points[i, : k + 1] if bent[i] else points[i, :1]
        lines.append(np.concatenate([kept, rim[None]]))
    return lines


def _ahead(points: Floats) -> Floats:
    """The direction in which a line ends."""
    way = points[-1] - points[max(-4, -len(points))]
    return np.asarray(way / max(float(np.hypot(*way)), 1e-9))


def _shortened(points: Floats, length: float) -> Floats:
    """The line without its last piece, of this length."""
    far = np.hypot(*(points - points[-1]).T) > length
    kept = points[: max(int(np.count_nonzero(np.cumsum(far[::-1])[::-1])), 1)]
    return np.concatenate([kept, [points[-1] - length * _ahead(points)]])


def _head(points: Floats, size: float) -> Floats:
    ahead = _ahead(points)
    aside = np.array([ahead[1], -ahead[0]]) * 0.42 * size
    base = points[-1] - size * ahead
    return np.stack([points[-1], base + aside, base - aside])


def _parts(centre: tuple[float, float], radius: float, count: int) -> list[Any]:
    if count == 1:
        return [Circle(centre, radius)]
    angles = np.linspace(0, 360, count + 1) - 90
    return [Wedge(centre, radius, angles[i], angles[i + 1]) for i in range(count)]
