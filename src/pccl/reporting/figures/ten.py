"""The time-expanded network of the paper: devices as rows, moments as columns, and the ways of chunks through it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from pccl._arrays import Ints
from pccl.algorithm import Algorithm
from pccl.algorithm.core import time_text
from pccl.errors import PcclError
from pccl.reporting.figures.style import (
    COLOURS,
    FAINT,
    legend_height,
    legend_width,
    paper,
    subtitle_of,
    time_unit,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

_MOST_DEVICES, _MOST_MOMENTS, _MOST_TRANSFERS = 24, 24, 240
_MOST_ARCS = 1_500
_MANY_LABELS = 90
_PLACES = (0.3, 0.22, 0.4, 0.5, 0.62, 0.72)  # along an arc, where its label may be


def draw(algorithm: Algorithm) -> Figure:
    """Every link at every moment in grey, and in colour those that chunks take."""
    t, topology = algorithm.transfers, algorithm.topology
    moments = np.unique(np.concatenate([[0], t.start, t.arrival]))
    _check_size(algorithm, len(moments))
    factor, unit = time_unit(int(moments[-1]))
    colours, handles = _chunk_colours(algorithm)
    width = float(np.clip(0.85 * (len(moments) - 1), 3.0, 11.0))
    height = max(legend_height(len(handles)), 0.5 * (topology.num_devices - 1) + 0.4)
    right = legend_width([str(handle.get_label()) for handle in handles]) + 0.3
    figure, axes = paper(
        width,
        height,
        "Time-expanded network",
        subtitle_of(algorithm),
        left=0.8,
        bottom=0.6,
        right=right,
    )
    times = moments / factor
    _arcs(axes, algorithm, moments, factor)
    grid_x, grid_y = (part.ravel() for part in np.meshgrid(times, np.arange(topology.num_devices)))
    axes.scatter(
        grid_x, grid_y, s=14, color="white", edgecolor=FAINT, linewidth=0.7, zorder=3, gid="nodes"
    )
    begin, end = (
        np.stack([x / factor, y], axis=1) for x, y in ((t.start, t.src), (t.arrival, t.dst))
    )
    for chunk, from_, to in zip(t.chunk.tolist(), begin, end, strict=True):
        axes.annotate("", to, from_, zorder=4, arrowprops={
            "arrowstyle": "-|>", "color": colours[chunk], "linewidth": 1.5, "shrinkA": 2.2, "shrinkB": 2.2,
            "mutation_scale": 8})  # fmt: skip
    axes.add_collection(
        LineCollection(list(np.stack([begin, end], axis=1)), alpha=0.0, gid="transfers")
    )
    axes.set_xlim(times[0] - 0.03 * times[-1], times[-1] * 1.03 or 1.0)
    axes.set_ylim(topology.num_devices - 0.5, -0.5)
    if len(t) <= _MANY_LABELS:
        _labels(
            axes,
            t.chunk.tolist(),
            begin,
            end,
            (times[-1] / width or 1.0, topology.num_devices / height),
        )
    _scales(axes, algorithm, moments, factor, unit, width)
    corner = (0.95 + width) / figure.get_figwidth(), 1 - 0.75 / figure.get_figheight()
    figure.legend(
        handles=handles, loc="upper left", frameon=False, borderaxespad=0.0, bbox_to_anchor=corner
    )
    return figure


def _check_size(algorithm: Algorithm, moments: int) -> None:
    counts = ((algorithm.topology.num_devices, _MOST_DEVICES, "devices"), (len(algorithm.transfers), _MOST_TRANSFERS,
              "transfers"), (moments, _MOST_MOMENTS, "moments at which something starts or arrives"))  # fmt: skip
    for count, most, what in counts:
        if count > most:
            raise PcclError(
                f"a time-expanded network of {count:,} {what} is too large to be read (the most is {most}); "
                "a timeline or a heatmap shows algorithms of any size"
            )


def _chunk_colours(algorithm: Algorithm) -> tuple[list[str], list[Any]]:
    """Per chunk its colour: its own, or if chunks are many that of its first source; and a legend."""
    conditions = algorithm.conditions
    source = [int(conditions.sources(chunk)[0]) for chunk in range(len(conditions))]
    if len(conditions) <= len(COLOURS):
        keys = list(range(len(conditions)))
        names = [f"chunk {chunk}: {_way(conditions, chunk)}" for chunk in keys]
    else:
        senders = sorted(set(source))
        keys = [senders.index(sender) for sender in source]
        names = [f"chunks from {sender}" for sender in senders]
    colours = [COLOURS[key % len(COLOURS)] for key in keys]
    shown = names[: len(COLOURS)]
    handles = [
        Line2D([], [], color=COLOURS[i], linewidth=1.6, label=name) for i, name in enumerate(shown)
    ]
    if len(names) > len(shown):
        handles.append(
            Line2D(
                [], [], linestyle="", label=f"and {len(names) - len(shown)} more; colours repeat"
            )
        )
    return colours, [*handles, Line2D([], [], color="#DDDDDD", label="link at that time")]


def _way(conditions: Any, chunk: int) -> str:
    sources, destinations = (
        ",".join(map(str, ends[:4].tolist())) + ("…" if len(ends) > 4 else "")
        for ends in (conditions.sources(chunk), conditions.destinations(chunk))
    )
    return f"{sources} → {destinations or 'nowhere'}"


def _arcs(axes: Axes, algorithm: Algorithm, moments: Ints, factor: int) -> None:
    """Every link from every moment at which something might start, with the time that the smallest chunk takes."""
    t, topology = algorithm.transfers, algorithm.topology
    if not len(t):
        return
    travel = np.full(topology.num_links, np.iinfo(np.int64).max)
    np.minimum.at(travel, t.link, t.arrival - t.start)
    rates, of_link = topology.rates
    known = np.array([travel[of_link == i].min() for i in range(len(rates))])
    travel = np.where(travel == np.iinfo(np.int64).max, known[of_link], travel)
    arcs = []
    for start in moments.tolist():
        fits = (travel < np.iinfo(np.int64).max) & (travel <= moments[-1] - start)
        for link in np.flatnonzero(fits).tolist():
            end = (start + travel[link]) / factor
            arcs.append([(start / factor, topology.src[link]), (end, topology.dst[link])])
    if 0 < len(arcs) <= _MOST_ARCS:
        axes.add_collection(
            LineCollection(arcs, colors="#DDDDDD", linewidths=0.6, zorder=1, gid="arcs")
        )


def _labels(
    axes: Axes, chunks: Sequence[int], begin: Any, end: Any, unit: tuple[float, float]
) -> None:
    """Numbers of chunks on arcs, each at the first place where it covers no other; `unit` is an inch on the axes."""
    placed: list[tuple[float, float]] = []
    for chunk, a, b in zip(chunks, begin, end, strict=True):
        for share in _PLACES:
            x, y = a + share * (b - a)
            if all(abs(x - u) > 0.17 * unit[0] or abs(y - v) > 0.13 * unit[1] for u, v in placed):
                break
        placed.append((x, y))
        patch = {
            "boxstyle": "round,pad=0.12",
            "facecolor": "white",
            "edgecolor": "none",
            "alpha": 0.9,
        }
        axes.text(x, y, str(chunk), fontsize=6, ha="center", va="center", zorder=5, bbox=patch)


def _scales(
    axes: Axes, algorithm: Algorithm, moments: Ints, factor: int, unit: str, width: float
) -> None:
    topology = algorithm.topology
    names = [
        f"switch {d}" if topology.is_switch(d) else f"NPU {d}" for d in range(topology.num_devices)
    ]
    axes.set_yticks(range(topology.num_devices), names)
    kept, last = [], -np.inf
    for moment in (moments / factor).tolist():
        if moment - last > 0.45 * float(moments[-1]) / factor / width:  # inches that a number takes
            kept.append(moment)
            last = moment
    axes.set_xticks(kept, [f"{moment:.4g}" for moment in kept])
    steps = np.unique(np.diff(moments))
    note = f", one step is {time_text(int(steps[0]))}" if len(steps) == 1 else ""
    axes.set_xlabel(f"time ({unit}){note}")
    axes.tick_params(length=0, labelcolor=FAINT)
    axes.spines[:].set_visible(False)
