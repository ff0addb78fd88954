"""How the figures look, beyond what all our figures share: one colour and marker for each way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

import pccl
from pccl.reporting.figures import style

BLUE, ORANGE, GREEN, PINK, SKY, RED = style.COLOURS[:6]  # for all kinds of colour vision
PALE = "#DDDDDD"
COLOURS = {"Direct": style.FAINT, "the paper's method": ORANGE, "our search": BLUE}
MARKERS = {"Direct": "s", "the paper's method": "o", "our search": "D"}
STATED = {"color": RED, "marker": "*", "markersize": 11, "linestyle": "none", "zorder": 5}
GROUPS = (SKY, ORANGE)  # on which black can be read
HEAT = mpl.colormaps[style.HEAT].with_extremes(under=PALE)  # idle

_SETTINGS: dict[str, Any] = {
    "font.size": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": PALE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
}


@contextmanager
def panels(
    path: Path, *titles: str, size: tuple[float, float] = (4.2, 3.1), **options: Any
) -> Iterator[list[Axes]]:
    """Axes side by side, each with a title and of this size in inches, saved to the path afterwards."""
    with style.own_settings(), mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(size[0] * len(titles), size[1]), layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, len(titles), **options)).tolist()
        for each, title in zip(axes, titles, strict=True):
            each.set_title(title, loc="left", fontsize=9.5)
        yield axes
        style.save(figure, path)


def capital(text: str) -> str:
    """The text with a capital letter."""
    return text[:1].upper() + text[1:]


def line(axes: Axes, way: str, x: Sequence[Any], y: Sequence[float], **options: Any) -> None:
    """A series in the colour and with the marker of its way."""
    axes.plot(x, y, **{"color": COLOURS[way], "marker": MARKERS[way], "label": way, **options})


def speedups(axes: Axes, rows: Sequence[dict[str, Any]], column: str) -> None:
    """How many times faster than Direct, against a column."""
    x = [row[column] for row in rows]
    axes.axhline(1, color=COLOURS["Direct"], linestyle="--", linewidth=1, label="Direct")
    for way in ("the paper's method", "our search"):
        line(axes, way, x, [row[f"{way} (x)"] for row in rows])
    axes.set_ylabel("bandwidth over Direct (times)")


def from_zero(axes: Axes) -> None:
    """Have the vertical axis begin at zero; the last thing to do, as it ends the choice of limits."""
    axes.set_ylim(0, axes.get_ylim()[1])


def stated(
    axes: Axes, x: float, y: float, text: str, offset: tuple[float, float] = (-9, 0), **options: Any
) -> None:
    """A point that the paper states."""
    axes.plot([x], [y], **STATED)
    axes.annotate(
        text, (x, y), offset, textcoords="offset points", color=STATED["color"], fontsize=8,
        **{"ha": "right", "va": "center", **options},
    )  # fmt: skip


def log_scales(axes: Axes, ticks: Sequence[int]) -> None:
    """Both axes logarithmic, the horizontal one with these numbers."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def grid_network(
    axes: Axes, mesh: pccl.Topology, width: int, shares: Any, colours: Any, norm: Any
) -> LineCollection:
    """A mesh row by row; each direction of a link is a line of its own, on the right as its sender sees it."""
    place = np.stack(
        [np.arange(mesh.num_npus) % width, np.arange(mesh.num_npus) // width], axis=1
    ).astype(float)
    begin, end = place[mesh.src], place[mesh.dst]
    way = end - begin
    aside = 0.09 * np.stack([-way[:, 1], way[:, 0]], axis=1)
    lines = np.stack([begin + 0.22 * way + aside, end - 0.22 * way + aside], axis=1)
    drawn = LineCollection(
        list(lines), array=shares, cmap=colours, norm=norm, linewidths=3.2, capstyle="butt"
    )
    axes.add_collection(drawn)
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(mesh.num_npus // width - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.set_axis_off()
    return drawn


def npus(axes: Axes, width: int, count: int, groups: Sequence[Sequence[int]]) -> None:
    """The NPUs with their numbers, those of groups in colour."""
    colour = {npu: GROUPS[number] for number, group in enumerate(groups) for npu in group}
    y, x = np.divmod(np.arange(count), width)
    faces = [colour.get(npu, "white") for npu in range(count)]
    axes.scatter(x, y, s=150, c=faces, edgecolors=style.INK, linewidths=0.8, zorder=3)
    for npu in range(count):
        axes.text(x[npu], y[npu], str(npu), ha="center", va="center_baseline", fontsize=7, zorder=4)
