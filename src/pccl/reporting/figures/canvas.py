"""The network on paper: its devices, frames and links, which figures fill with colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection, PatchCollection, PolyCollection
from matplotlib.patches import Circle, FancyBboxPatch, Patch, Rectangle, Wedge

from pccl._arrays import Bools, Floats, Ints
from pccl.reporting.figures.style import FAINT, INK, TEXT, Paper, readable_on, white_patch
from pccl.reporting.layouts import Frame, arrange
from pccl.reporting.layouts.curves import points_along
from pccl.topology import Topology
from pccl.topology.core import ABSENT, SWITCH

__all__ = ["SWITCHES", "Canvas"]

# The colour of switches.
SWITCHES = "#F4F4F4"
# Inches: of a drawing, and between neighbours at most.
_WIDEST = 11.0
_HIGHEST = 8.5
_UNIT = 0.8
# Half the side of the square that is a switch, by the radius of an NPU.
_HALF_SIDE = 0.9
# Points: letters that are smaller cannot be read.
_SMALLEST_NUMBER = 4.2
_SMALLEST_LABEL = 4.5
_ALONG = np.linspace(0, 1, 49)


class Canvas:
    """Axes with the frames and devices of a topology on them; links are up to each figure.

    Attributes
    ----------
    paper, drawing
        What it is drawn on, and where everything is.
    line
        Points: how wide a link of usual width is.
    """

    def __init__(
        self,
        network: Topology,
        title: str,
        subtitle: str,
        handles: Sequence[Any],
        right: float = 0.2,
        least_height: float = 0.0,
    ) -> None:
        self._network = network
        self.drawing = arrange(network)
        left, top, far, bottom = self.drawing.extent
        room = 0.35 + self.drawing.radius
        above = room
        if self.drawing.frames:  # for their labels
            above += 0.45
        width = far - left + 2 * room
        height = bottom - top + 2 * above
        unit = min(_UNIT, _WIDEST / width, _HIGHEST / height)
        inches = max(width * unit, 1.5), max(height * unit, least_height)
        self.paper = Paper(*inches, title, subtitle, handles, right=right)
        axes = self.paper.axes
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.set_xlim(left - room, far + room)
        axes.set_ylim(bottom + above, top - above)
        self._points = 72 * unit
        self.line = float(np.clip(0.16 * self.drawing.radius * self._points, 0.3, 2.2))
        for number, frame in enumerate(self.drawing.frames):
            self._frame(number, frame)

    def devices(self, fills: Sequence[Sequence[str]]) -> None:
        """Draw circles and squares, each filled with its colours, and their numbers where there is room for them."""
        radius = self.drawing.radius
        edge = float(np.clip(0.07 * radius * self._points, 0.05, 0.8))
        parts: list[Patch] = []
        colours: list[str] = []
        rings: list[Patch] = []
        squares: list[Patch] = []
        for device in np.flatnonzero(self._network.kind != ABSENT).tolist():
            x, y = float(self.drawing.x[device]), float(self.drawing.y[device])
            if self._network.is_switch(device):
                half = _HALF_SIDE * radius
                squares.append(Rectangle((x - half, y - half), 2 * half, 2 * half))
                continue
            rings.append(Circle((x, y), radius))
            parts += _parts((x, y), radius, len(fills[device]))
            colours += fills[device]
        self._patches("npu-colours", parts, colours, 0.0)
        self._patches("npus", rings, "none", edge)
        self._patches("switches", squares, SWITCHES, edge)
        self._numbers(fills)

    def links(self, chosen: Ints, gap: Any, colours: Any, heads: Bools, widths: Any) -> None:
        """Draw the chosen links, moved apart by a gap, some with heads of arrows."""
        curves = self.drawing.curves(gap)[chosen]
        bent = self.drawing.rise[chosen] != 0
        points = points_along(curves, _ALONG)
        lines = [points[i] if bent[i] else curves[i, [0, 3]] for i in range(len(chosen))]
        # Lines with heads end where the head begins, which touches the rim of the device.
        size = 0.62 * self.drawing.radius
        pointed = np.flatnonzero(heads)
        outside = self._distance_to_rim(points[pointed], self._network.dst[chosen[pointed]])
        _, tips = _crossings(points[pointed], outside)
        last, ends = _crossings(points[pointed], outside - 0.8 * size)
        triangles = []
        for i, tip, end, k in zip(pointed.tolist(), tips, ends, last.tolist(), strict=True):
            kept = points[i, : k + 1] if bent[i] else points[i, :1]
            lines[i] = np.concatenate([kept, end[None]])
            triangles.append(_head(tip, end, size))
        axes = self.paper.axes
        axes.add_collection(
            LineCollection(lines, colors=colours, linewidths=widths, zorder=1, gid="links")
        )
        if triangles:
            faces = np.asarray(colours)[heads] if len(colours) == len(lines) else colours
            axes.add_collection(
                PolyCollection(triangles, facecolors=faces, zorder=2, gid="heads", linewidths=0)
            )

    def _patches(self, gid: str, patches: list[Patch], colours: Any, edge: float) -> None:
        if patches:
            drawn = PatchCollection(
                patches, facecolors=colours, edgecolors=INK, linewidths=edge, zorder=3, gid=gid
            )
            self.paper.axes.add_collection(drawn)

    def _frame(self, number: int, frame: Frame) -> None:
        box = FancyBboxPatch(
            (frame.left, frame.top),
            frame.right - frame.left,
            frame.bottom - frame.top,
            boxstyle="round,pad=0,rounding_size=0.35",
            facecolor="#FAFAFA",
            edgecolor="#AAAAAA",
            linewidth=min(1.0, self.line),
            zorder=0,
            gid=f"frame-{number}",
        )
        self.paper.axes.add_patch(box)
        size = min(TEXT, 0.34 * self._points)
        if size < _SMALLEST_LABEL:
            return
        self.paper.axes.text(
            frame.left + 0.2,
            frame.bottom + 0.08 if frame.label_below else frame.top - 0.08,
            frame.label,
            fontsize=size,
            color=FAINT,
            va="top" if frame.label_below else "bottom",
            bbox=white_patch("round,pad=0.1"),
            zorder=2.5,
        )

    def _numbers(self, fills: Sequence[Sequence[str]]) -> None:
        digits = len(str(self._network.num_devices - 1))
        size = min(9.0, 1.5 * self.drawing.radius * self._points / (0.66 * max(digits, 1.6)))
        if size < _SMALLEST_NUMBER:
            return
        for device in np.flatnonzero(self._network.kind != ABSENT).tolist():
            several = len(fills[device]) > 1
            plain = several or self._network.is_switch(device)
            self.paper.axes.text(
                self.drawing.x[device],
                self.drawing.y[device],
                str(device),
                fontsize=size,
                color="black" if plain else readable_on(fills[device][0]),
                ha="center",
                va="center_baseline",
                zorder=4,
                bbox=white_patch("circle,pad=0.15") if several else None,
            )

    def _distance_to_rim(self, points: Floats, devices: Any) -> Floats:
        """Return, per line and point, how far the point is outside of the device of the line; inside is negative."""
        drawing = self.drawing
        centres = np.stack([drawing.x[devices], drawing.y[devices]], axis=1)
        apart = points - centres[:, None, :]
        circle = np.hypot(apart[..., 0], apart[..., 1]) - drawing.radius
        square = np.abs(apart).max(axis=2) - _HALF_SIDE * drawing.radius
        is_switch = self._network.kind[devices] == SWITCH
        return np.asarray(np.where(is_switch[:, None], square, circle))


def _crossings(points: Floats, outside: Floats) -> tuple[Ints, Floats]:
    """Return, per line, its last point that is outside, by number, and the place where it gets inside."""
    count = points.shape[1]
    is_outside = outside > 0
    last = count - 1 - np.argmax(is_outside[:, ::-1], axis=1)
    last = np.where(is_outside.any(axis=1), np.minimum(last, count - 2), 0)
    lines = np.arange(len(points))
    before = outside[lines, last]
    after = outside[lines, last + 1]
    share = np.clip(before / np.maximum(before - after, 1e-9), 0.0, 1.0)
    step = points[lines, last + 1] - points[lines, last]
    return last, points[lines, last] + share[:, None] * step


def _head(tip: Floats, end: Floats, size: float) -> Floats:
    """Return the triangle at the end of a line, which the line enters at `end`."""
    way = tip - end
    ahead = way / max(float(np.hypot(*way)), 1e-9)
    aside = np.array([ahead[1], -ahead[0]]) * 0.42 * size
    base = tip - size * ahead
    return np.stack([tip, base + aside, base - aside])


def _parts(centre: tuple[float, float], radius: float, count: int) -> list[Patch]:
    """Return a circle, cut into so many equal parts."""
    if count == 1:
        return [Circle(centre, radius)]
    angles = np.linspace(0, 360, count + 1) - 90
    return [Wedge(centre, radius, angles[i], angles[i + 1]) for i in range(count)]
