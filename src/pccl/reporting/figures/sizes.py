"""The figure over sizes: how long it takes and which bandwidth that is, beside baselines and the bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pccl._arrays import Floats
from pccl.algorithm import Algorithm
from pccl.analysis import Comparison, baselines, size_range, sweep
from pccl.errors import PcclError
from pccl.reporting.figures import style
from pccl.settings import Settings
from pccl.units import Bytes, Picoseconds, largest_unit, time_text

SIZES = "1KiB:1GiB"
# From one size to the next.
_STEP = 4
_TICKS = 6
_OURS = "pccl"
_BOUND = "bound"
_MARKERS = ("s", "^", "D", "v", "P", "X")


def draw(
    algorithm: Algorithm,
    sizes: str = SIZES,
    against: str | Sequence[str] = (),
    effort: str = "balanced",
    progress: Callable[[int, int, str], None] | None = None,
) -> Figure:
    """Draw time and bus bandwidth over sizes; without names the baselines are those that NCCL would run."""
    collectives = [
        # The number of chunks is part of what was found, for one size.
        collective.uncut() if collective.has_one_size else collective
        for collective in algorithm.collectives
    ]
    names = style.listed(against)
    kinds = {collective.kind for collective in collectives}
    if not names:
        # What people have today; of one kind of collective, all go by one scheme.
        today = [entry for entry in baselines() if kinds <= entry.today]
        names = [entry.name for entry in today if len(kinds) > 1 or not entry.mixes]
    elif len(set(names)) < len(names):
        raise PcclError(f"a baseline is named twice: {', '.join(names)}")
    comparisons = sweep(
        algorithm.topology,
        collectives,
        size_range(sizes, _STEP),
        names,
        settings=Settings(effort=effort),
        progress=progress,
    )
    if against:
        _refuse_left_out(comparisons)
    return _draw(algorithm, comparisons)


def _refuse_left_out(comparisons: Sequence[Comparison]) -> None:
    """Raise for a baseline that was asked for by name and cannot do it."""
    for comparison in comparisons:
        for row in comparison.left_out:
            raise PcclError(f"the baseline {row.name!r}: {row.reason}")


def _draw(algorithm: Algorithm, comparisons: Sequence[Comparison]) -> Figure:
    times = _column(comparisons, "duration")
    rates = _column(comparisons, "bus_bandwidth")
    size = np.array([int(one.algorithm.collectives[0].size) for one in comparisons])
    looks = _looks(list(times))
    largest = comparisons[-1].algorithm.collectives[0].size
    # Of some size, if not of all.
    needs = {row.name: row.needs for one in comparisons for row in one.rows if row.needs}
    names = {name: style.marked(name, needs.get(name, ())) for name in times}
    labels = {
        name: f"{names[name]}: {time_text(int(curve[-1]))}"
        if np.isfinite(curve[-1])
        else names[name]
        for name, curve in times.items()
    }
    handles = [style.handle(f"at {largest}", "none")]
    handles += [Line2D([], [], label=labels[name], **look) for name, look in looks.items()]
    handles += style.explained(needs.values())
    paper = style.Paper(
        8.0,
        3.3,
        "Time and bus bandwidth over sizes",
        _subtitle(algorithm, comparisons),
        handles,
        left=0.75,
        bottom=0.6,
        panels=2,
    )
    time_axes, rate_axes = paper.panels
    for name, look in looks.items():
        # Ours lies above the others, and the bound below all of them.
        layer: dict[str, Any] = {"zorder": {_OURS: 4, _BOUND: 2}.get(name, 3), "clip_on": False}
        time_axes.plot(size, times[name], gid=f"time-{name}", **look, **layer)
        rate_axes.plot(size, rates[name] / 1e9, gid=f"busbw-{name}", **look, **layer)
    for axes in paper.panels:
        put_sizes(axes, size)
        axes.grid(color=style.PALE, linewidth=0.5)
        axes.set_axisbelow(True)
    # What takes no time at all has no place on a logarithmic axis.
    if np.all(times[_BOUND] > 0):
        put_times(time_axes)
    # Beyond the bound is where nobody gets.
    lowest = time_axes.get_ylim()[0]
    time_axes.fill_between(size, lowest, times[_BOUND], color=style.PALE, alpha=0.5, linewidth=0)
    time_axes.set_ylim(bottom=lowest)
    highest = 1.08 * max(float(rates[_BOUND].max()), 1.0) / 1e9
    above = np.full(len(size), highest)
    rate_axes.fill_between(
        size, rates[_BOUND] / 1e9, above, color=style.PALE, alpha=0.5, linewidth=0
    )
    rate_axes.set_ylim(0, highest)
    time_axes.set_ylabel("time")
    rate_axes.set_ylabel("bus bandwidth (GB/s)")
    return paper.figure


def _column(comparisons: Sequence[Comparison], name: str) -> dict[str, Floats]:
    """A figure of all who ran, ours first and the bound last, by name and size; where one did not run it is missing."""
    curves: dict[str, Floats] = {_OURS: np.full(len(comparisons), np.nan)}
    for place, comparison in enumerate(comparisons):
        for row in comparison.rows:
            curve = curves.setdefault(row.name, np.full(len(comparisons), np.nan))
            curve[place] = float(getattr(row, name))
    curves[_BOUND] = curves.pop(_BOUND)
    return curves


def _looks(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """How each curve is drawn: ours wide, baselines with markers of their own, the bound dashed."""
    looks: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(names):
        colour = style.colour_of(number)
        marker = _MARKERS[(number - 1) % len(_MARKERS)]
        looks[name] = {
            "color": colour,
            "linewidth": 1.2,
            "marker": marker,
            "markersize": 4.5,
            # A white rim keeps markers apart where curves meet.
            "markeredgecolor": "white",
            "markeredgewidth": 0.5,
        }
    looks[_OURS] |= {"linewidth": 2.2, "marker": "o", "markersize": 6.0}
    looks[_BOUND] = {"color": style.FAINT, "linewidth": 1.0, "linestyle": "dashed"}
    return looks


def _subtitle(algorithm: Algorithm, comparisons: Sequence[Comparison]) -> str:
    """What it is, and how it compares with what people have today."""
    kinds = ", ".join(dict.fromkeys(one.kind for one in algorithm.collectives))
    text = f"{kinds} on {style.name_of(algorithm.topology.name)}"
    today = {
        one.algorithm.collectives[0].size: one.today.speedup or 1.0
        for one in comparisons
        if one.today is not None
    }
    if not today:
        return text
    least = min(today, key=lambda size: today[size])
    most = max(today, key=lambda size: today[size])
    ours = f"ours is {today[least]:.2f}x ({least}) to {today[most]:.2f}x ({most}) as fast"
    return f"{text}; {ours} as the best that NCCL does"


def put_sizes(axes: Any, size: Any) -> None:
    """Label a few of the sizes along the axis."""
    axes.set_xscale("log", base=2)
    every = -(-len(size) // _TICKS)
    # The last one has its label in any case.
    shown = size[::-1][::every][::-1]
    axes.set_xticks(shown, [str(Bytes(one)) for one in shown.tolist()])
    axes.set_xticks([], minor=True)
    axes.set_xlim(size[0] / 1.3, size[-1] * 1.3)
    axes.set_xlabel("size")


def put_times(axes: Any) -> None:
    """Label powers of ten in words, and what lies between if there are few of them."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    between = (1.0, 2.0, 5.0) if high < 200 * low else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=between))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda time, _: _brief(time)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _brief(time: float) -> str:
    factor, unit = largest_unit(Picoseconds, max(round(time), 1))
    return f"{time / factor:g} {unit}"
