"""Figures along time: how many links are busy, and which."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from pccl._arrays import Floats, Ints
from pccl.algorithm import Algorithm
from pccl.algorithm.holding import held_time
from pccl.analysis import baseline
from pccl.errors import PcclError
from pccl.reporting.figures import style
from pccl.reporting.groups import process_groups
from pccl.units import whole

__all__ = ["timeline", "utilization"]

# Three of these and eight colours repeat after 24 runs.
_LINES = ("solid", "dashed", "dotted")
_INTERVALS = 300
# Transfers that are drawn one by one.
_MOST_BARS = 4_000
_LINKS = 40
_MOST_LINKS = 2_000


def utilization(algorithm: Algorithm, against: str | Sequence[str] = ()) -> Figure:
    """Draw the share of all links that are busy over time, beside baselines for the same task."""
    names = against.split(",") if isinstance(against, str) else against
    names = [name.strip() for name in names if name.strip()]
    if len(set(names)) < len(names):
        raise PcclError(f"a baseline is named twice: {', '.join(names)}")
    runs = {"this algorithm": algorithm}
    for name in names:
        runs[name] = baseline(name, algorithm.topology, *algorithm.collectives)
    handles = []
    for number, (name, run) in enumerate(runs.items()):
        busy = run.utilization.mean() if len(run.utilization) else 0.0
        label = f"{name}: {run.duration_text}, {busy:.0%} busy"
        line = _LINES[number % len(_LINES)]
        handles.append(style.handle(label, style.colour_of(number), linestyle=line, linewidth=1.4))
    subtitle = style.subtitle_of(algorithm)
    paper = style.Paper(
        6.0, 3.0, "Links that are busy over time", subtitle, handles, left=0.7, bottom=0.55
    )
    last = max(int(run.duration) for run in runs.values())
    factor, unit = style.time_unit(last)
    highest = 0.0
    for number, (run, handle) in enumerate(zip(runs.values(), handles, strict=True)):
        duration = int(run.duration)
        intervals = max(20, round(_INTERVALS * duration / max(last, 1)))
        curve = 100 * _busy_links(run, intervals)
        highest = max(highest, float(curve.max()))
        paper.axes.stairs(
            curve,
            np.linspace(0, duration / factor, intervals + 1),
            baseline=0,
            color=handle.get_color(),
            linestyle=handle.get_linestyle(),
            linewidth=handle.get_linewidth(),
            gid=f"run-{number}",
        )
    paper.axes.set_xlim(0, max(last / factor, 1e-9) * 1.01)
    paper.axes.set_ylim(0, 104 if highest > 50 else max(10.0, 1.1 * highest))
    paper.axes.set_xlabel(f"time ({unit})")
    paper.axes.set_ylabel("links busy (%)")
    paper.no_spines("top", "right")
    return paper.figure


def timeline(algorithm: Algorithm, links: int = _LINKS) -> Figure:
    """Draw when each link is held, and for which process group; of many links the busiest, of many transfers shares."""
    most = whole(links)
    if most is None or not 1 <= most <= _MOST_LINKS:
        raise PcclError(
            f"the number of links to show must be from 1 to {_MOST_LINKS:,}, not {links!r}"
        )
    t = algorithm.transfers
    shown = _busiest(algorithm, most)
    used = np.count_nonzero(t.link_busy)
    which = f"all {used:,}" if len(shown) == used else f"the {len(shown)} busiest of {used:,}"
    row_of_link = np.full(algorithm.topology.num_links, -1)
    row_of_link[shown] = np.arange(len(shown))
    transfers = np.flatnonzero(row_of_link[t.link] >= 0)
    one_by_one = len(transfers) <= _MOST_BARS
    groups, of_collective = process_groups(algorithm.topology, algorithm.collectives)
    collective = algorithm.conditions.collective[t.chunk[transfers]]
    group = np.array(of_collective, np.int64)[collective]
    labels = {number: style.group_label(groups[number]) for number in np.unique(group).tolist()}
    paper = style.Paper(
        7.0,
        float(np.clip(0.17 * len(shown), 1.2, 9.0)),
        f"When links are held: {which} links that are used",
        style.subtitle_of(algorithm),
        style.handles_in_colours(labels, "s") if one_by_one else (),
        left=1.05,
        right=1.2,
        bottom=0.55,
    )
    duration = int(algorithm.duration)
    factor, unit = style.time_unit(duration)
    if one_by_one:
        _draw_bars(paper, algorithm, row_of_link, transfers, group, factor)
        note = ""
    else:
        _draw_shares(paper, algorithm, row_of_link, transfers, factor)
        count = f"{len(transfers):,} transfers are"
        if len(transfers) < len(t):
            count = f"the {len(transfers):,} of {len(t):,} transfers over these links are"
        note = f"; {count} too many to draw one by one"
    paper.axes.set_xlim(0, max(duration / factor, 1e-9))
    paper.axes.set_ylim(max(len(shown), 1) - 0.5, -0.5)
    paper.axes.set_xlabel(f"time ({unit}){note}")
    paper.axes.set_ylabel("link (from → to)")
    paper.no_spines("top", "right")
    _label_links(paper, algorithm, shown, lines=one_by_one)
    return paper.figure


def _draw_bars(
    paper: style.Paper,
    algorithm: Algorithm,
    row_of_link: Ints,
    transfers: Ints,
    group: Ints,
    factor: int,
) -> None:
    """Draw a bar per transfer, in the colour of its process group."""
    t = algorithm.transfers
    row = row_of_link[t.link[transfers]]
    begin = t.start[transfers] / factor
    end = begin + t.hold[transfers] / factor
    top = row - 0.4
    bottom = row + 0.4
    corners = np.stack([begin, top, begin, bottom, end, bottom, end, top], axis=1)
    bars = PolyCollection(
        list(corners.reshape(-1, 4, 2)),
        facecolors=[style.colour_of(number) for number in group.tolist()],
        edgecolors="white",
        linewidths=0.4 if len(transfers) <= 1_000 else 0.15,
        gid="transfers",
    )
    paper.axes.add_collection(bars)


def _draw_shares(
    paper: style.Paper, algorithm: Algorithm, row_of_link: Ints, transfers: Ints, factor: int
) -> None:
    """Draw the share of each interval for which each link is held, in colour; what is idle stays white."""
    t = algorithm.transfers
    rows = int(row_of_link.max()) + 1
    width = int(algorithm.duration) / _INTERVALS
    held = held_time(
        row_of_link[t.link[transfers]],
        t.start[transfers],
        t.hold[transfers],
        rows=rows,
        intervals=_INTERVALS,
        width=width,
    )
    shares = 100 * held / width
    # Rounding must not colour what is idle.
    shares[shares < 1e-6] = np.nan
    heat = ScalarMappable(Normalize(0, 100), colormaps[style.HEAT].with_extremes(bad="white"))
    paper.axes.imshow(
        shares,
        cmap=heat.cmap,
        norm=heat.norm,
        aspect="auto",
        interpolation="nearest",
        extent=(0.0, int(algorithm.duration) / factor, rows - 0.5, -0.5),
        gid="shares",
    )
    paper.colour_bar(heat, "link held (%)", paper.height)


def _busy_links(algorithm: Algorithm, intervals: int) -> Floats:
    """Return the share of all links that are held, per interval."""
    t = algorithm.transfers
    width = max(int(algorithm.duration), 1) / intervals
    everything = np.zeros(len(t), np.int64)
    held = held_time(everything, t.start, t.hold, rows=1, intervals=intervals, width=width)
    return np.asarray(held[0] / (width * max(algorithm.topology.num_links, 1)))


def _busiest(algorithm: Algorithm, most: int) -> Ints:
    """Return the links that are held longest, ordered by the devices that they join."""
    topology = algorithm.topology
    busy = algorithm.transfers.link_busy
    used = np.flatnonzero(busy)
    chosen = used[np.argsort(-busy[used], kind="stable")[:most]]
    return chosen[np.lexsort((chosen, topology.dst[chosen], topology.src[chosen]))]


def _label_links(paper: style.Paper, algorithm: Algorithm, shown: Ints, lines: bool) -> None:
    """Write a label per link, or where that has no room, one per sender, and draw lines between senders."""
    src = algorithm.topology.src[shown].tolist()
    dst = algorithm.topology.dst[shown].tolist()
    first = np.flatnonzero(np.diff(src, prepend=-1))
    # Lines do not help if nearly every link has its own sender.
    if lines and 2 * len(first) < len(shown) + 20:
        for place in first[1:].tolist():
            paper.axes.axhline(place - 0.5, color="#CCCCCC", linewidth=0.4)
    points = 72 * paper.height
    size = points / max(len(shown), 1)
    if size >= 6.5:
        labels = [f"{a} → {b}" for a, b in zip(src, dst, strict=True)]
        paper.axes.set_yticks(range(len(shown)), labels)
    else:
        middle = (first + np.append(first[1:], len(shown)) - 1) / 2
        every = int(np.ceil(8.0 * len(first) / points))
        labels = [f"from {src[row]}" for row in first[::every].tolist()]
        paper.axes.set_yticks(middle[::every], labels)
    paper.axes.tick_params(axis="y", length=0, labelsize=min(7.0, max(size, 6.0)))
