"""Figures along time: how many links are busy, and which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.patches import Patch

from pccl._arrays import Floats, Ints
from pccl.algorithm import Algorithm
from pccl.algorithm.core import time_text
from pccl.errors import PcclError
from pccl.reporting.figures.style import (
    COLOURS,
    FAINT,
    HEAT,
    MOST_NAMED,
    TEXT,
    clean,
    groups_of,
    legend_height,
    legend_width,
    paper,
    shares_over_time,
    subtitle_of,
    time_unit,
)
from pccl.units import whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pccl.analysis import Simulation

__all__ = ["timeline", "utilization"]


_DASHES = ((), (5, 2), (2, 1.5), (7, 2, 2, 2), (1, 1.2), (8, 2), (4, 1, 1, 1), (3, 3), (10, 2))
_INTERVALS = 300
_MOST_BARS = 4_000  # transfers drawn one by one
_LINKS, _MOST_LINKS = 40, 2_000


def utilization(algorithm: Algorithm, against: str | Sequence[str] = ()) -> Figure:
    """The share of all links that are busy over time, beside baselines for the same task."""
    from pccl.analysis import baseline, simulate

    names = _baseline_names(against)
    runs = {_own_name(algorithm): algorithm}
    runs |= {name: baseline(name, algorithm.topology, *algorithm.collectives) for name in names}
    results = {name: simulate(run) for name, run in runs.items()}
    last = max(int(result.finish) for result in results.values())
    factor, unit = time_unit(last)
    labels = [_run_label(name, result) for name, result in results.items()]
    figure, axes = paper(6.0, 3.0, "Links that are busy over time", subtitle_of(algorithm),
                         left=0.7, bottom=0.55, right=legend_width(labels) + 0.2)  # fmt: skip
    curves: list[Floats] = []
    for number, (label, result) in enumerate(zip(labels, results.values(), strict=True)):
        intervals = max(20, round(_INTERVALS * int(result.finish) / max(last, 1)))
        moments = np.linspace(0, int(result.finish) / factor, intervals + 1)
        curves.append(100 * result.utilization_over_time(intervals))
        axes.stairs(curves[-1], moments, baseline=0, label=label, color=COLOURS[number % len(COLOURS)], linewidth=1.4,
                    linestyle=(0, _DASHES[number % len(_DASHES)] or (None)) if number else "solid",
                    gid=f"run-{number}")  # fmt: skip
    axes.set_xlim(0, max(last / factor, 1e-9) * 1.01)
    busiest = max(float(np.max(shares)) for shares in curves)
    axes.set_ylim(0, 104 if busiest > 50 else max(10.0, 1.1 * busiest))
    axes.set_xlabel(f"time ({unit})")
    axes.set_ylabel("links busy (%)")
    _plain(axes)
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False, borderaxespad=0.0)
    return figure


def timeline(algorithm: Algorithm, links: int = _LINKS) -> Figure:
    """When each link is held, and for which process group; of many links the busiest, of many transfers the share."""
    from pccl.analysis import simulate

    number = whole(links)
    if number is None or not 1 <= number <= _MOST_LINKS:
        raise PcclError(
            f"the number of links to show must be from 1 to {_MOST_LINKS:,}, not {links!r}"
        )
    result = simulate(algorithm)
    shown = _busiest(result, number)
    rows = np.full(algorithm.topology.num_links, -1)
    rows[shown] = np.arange(len(shown))
    row = rows[algorithm.transfers.link]
    inside = np.flatnonzero(row >= 0)
    chart = _bars if len(inside) <= _MOST_BARS else _cells
    return chart(result, shown, row[inside], inside)


def _bars(result: Simulation, shown: Ints, row: Ints, transfers: Ints) -> Figure:
    """A bar per transfer, in the colour of its process group."""
    algorithm = result.algorithm
    groups, of_collective = groups_of(algorithm.topology, algorithm.collectives)
    group = np.array(of_collective)[
        algorithm.conditions.collective[algorithm.transfers.chunk[transfers]]
    ]
    handles = _handles([groups[number] for number in np.unique(group).tolist()])
    right = legend_width([str(handle.get_label()) for handle in handles]) + 0.2
    figure, axes, factor, unit = _link_axes(result, shown, right, len(handles))
    begin, end = (time[transfers] / factor for time in (result.start, result.start + result.hold))
    corners = np.stack(
        [begin, row - 0.4, begin, row + 0.4, end, row + 0.4, end, row - 0.4], axis=1
    ).reshape(-1, 4, 2)
    colours = [groups[number].colour for number in group.tolist()]
    edge = 0.4 if len(corners) <= 1_000 else 0.15
    axes.add_collection(
        PolyCollection(
            list(corners), facecolors=colours, edgecolors="white", linewidths=edge, gid="transfers"
        )
    )
    axes.set_xlabel(f"time ({unit})")
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(1.02, 1.0),
        frameon=False,
        borderaxespad=0.0,
    )
    first = _first_of_device(result, shown)
    if 2 * len(first) < len(shown) + 20:
        axes.hlines(
            first[1:] - 0.5,
            0,
            1,
            transform=axes.get_yaxis_transform(),
            color="#CCCCCC",
            linewidth=0.4,
        )
    return figure


def _cells(result: Simulation, shown: Ints, row: Ints, transfers: Ints) -> Figure:
    """For each link and interval the share for which the link is held, in colour; what is idle stays white."""
    figure, axes, factor, unit = _link_axes(result, shown, 1.2, 5)
    begin, finish = result.start[transfers], int(result.finish)
    shares = 100 * shares_over_time(
        row, begin, begin + result.hold[transfers], (len(shown), _INTERVALS), finish
    )
    shares[shares == 0] = np.nan
    scale, heat = Normalize(0, 100), colormaps[HEAT].with_extremes(bad="white")
    extent = (0.0, finish / factor, len(shown) - 0.5, -0.5)
    axes.imshow(
        shares,
        cmap=heat,
        norm=scale,
        aspect="auto",
        interpolation="nearest",
        extent=extent,
        gid="shares",
    )
    axes.set_xlabel(f"time ({unit}); {len(transfers):,} transfers are too many to draw one by one")
    box, width = axes.get_position(), figure.get_figwidth()
    beside = figure.add_axes((box.x1 + 0.15 / width, box.y0, 0.13 / width, box.height))
    bar = figure.colorbar(ScalarMappable(scale, HEAT), cax=beside)
    bar.set_label("link held (%)", fontsize=TEXT)
    bar.outline.set_visible(False)
    return figure


def _link_axes(
    result: Simulation, shown: Ints, right: float, entries: int
) -> tuple[Figure, Axes, int, str]:
    """Axes with a row for each link, and the unit of time, in picoseconds and by name."""
    height = float(np.clip(0.17 * len(shown), legend_height(entries), 9.0))
    title, subtitle = _timeline_title(result.algorithm, len(shown)), subtitle_of(result.algorithm)
    figure, axes = paper(7.0, height, title, subtitle, left=1.05, bottom=0.55, right=right)
    factor, unit = time_unit(int(result.finish))
    axes.set_xlim(0, max(int(result.finish) / factor, 1e-9))
    axes.set_ylim(max(len(shown), 1) - 0.5, -0.5)
    axes.set_ylabel("link (from → to)")
    _plain(axes)
    _link_labels(axes, result, shown, 72 * height)
    return figure, axes, factor, unit


def _baseline_names(against: str | Sequence[str]) -> list[str]:
    from pccl.analysis import baselines

    names = (
        [name.strip() for name in against.split(",")] if isinstance(against, str) else list(against)
    )
    known = [entry.name for entry in baselines()]
    for name in names:
        if name not in known:
            raise PcclError(f"there is no baseline {name!r}; there are {', '.join(known)}")
    if len(set(names)) < len(names):
        raise PcclError(f"a baseline is named twice: {', '.join(names)}")
    return names


def _own_name(algorithm: Algorithm) -> str:
    method = algorithm.provenance.method
    return (
        method.removeprefix("baseline ") + " (this file)"
        if method.startswith("baseline ")
        else "pccl"
    )


def _run_label(name: str, result: Simulation) -> str:
    mean = float(result.utilization.mean()) if len(result.utilization) else 0.0
    return f"{name}: {time_text(int(result.finish))}, {mean:.0%} busy"


def _busiest(result: Simulation, most: int) -> Ints:
    """The links that are used most, ordered by the devices that they join."""
    topology, busy = result.algorithm.topology, result.link_busy
    used = np.flatnonzero(busy)
    chosen = used[np.argsort(-busy[used], kind="stable")[:most]]
    return chosen[np.lexsort((chosen, topology.dst[chosen], topology.src[chosen]))]


def _timeline_title(algorithm: Algorithm, shown: int) -> str:
    used = len(np.unique(algorithm.transfers.link))
    if shown < used:
        return f"When links are held: the {shown} busiest of {used:,} links that are used"
    return f"When links are held: all {used:,} links that are used"


def _handles(groups: Sequence[Any]) -> list[Patch]:
    handles = [Patch(color=group.colour, label=clean(group.label)) for group in groups[:MOST_NAMED]]
    if len(groups) > MOST_NAMED:
        handles.append(Patch(alpha=0, label=f"and {len(groups) - MOST_NAMED} more; colours repeat"))
    return handles


def _link_labels(axes: Axes, result: Simulation, shown: Ints, points: float) -> None:
    """A label per link, or where the height of the figure in points is too little for that, one per device."""
    topology, first = result.algorithm.topology, _first_of_device(result, shown)
    src, dst = topology.src[shown].tolist(), topology.dst[shown].tolist()
    size = points / max(len(shown), 1)
    if size >= 6.5:
        axes.set_yticks(range(len(shown)), [f"{a} → {b}" for a, b in zip(src, dst, strict=True)])
    else:
        every = int(np.ceil(8.0 * len(first) / points))
        middle = (first + np.append(first[1:], len(shown)) - 1) / 2
        axes.set_yticks(middle[::every], [f"from {src[row]}" for row in first[::every].tolist()])
    axes.tick_params(axis="y", length=0, labelsize=min(7.0, max(size, 6.0)))


def _first_of_device(result: Simulation, shown: Ints) -> Ints:
    """The first row of each device that sends."""
    return np.flatnonzero(np.diff(result.algorithm.topology.src[shown], prepend=-1))


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(color=FAINT, labelcolor=FAINT)
