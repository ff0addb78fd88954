"""Figures along time: how many links are busy, and which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from pccl._arrays import Floats, Ints, largest
from pccl.algorithm import Algorithm
from pccl.algorithm.holding import held_time
from pccl.analysis import baseline
from pccl.errors import PcclError
from pccl.reporting.figures import style
from pccl.reporting.groups import process_groups, shortened
from pccl.units import Picoseconds, counted, largest_unit, whole

# Three of these and eight colours repeat after 24 runs.
_LINES = ("solid", "dashed", "dotted")
_INTERVALS = 300
# Transfers that are drawn one by one.
_MOST_BARS = 4_000
_LINKS = 40
_MOST_LINKS = 2_000
# Characters of the name of a link.
_LONGEST = 22


def utilization(algorithm: Algorithm, against: str | Sequence[str] = ()) -> Figure:
    """Draw the share of all links that are busy over time, beside baselines for the same task."""
    names = style.listed(against)
    if len(set(names)) < len(names):
        raise PcclError(f"a baseline is named twice: {', '.join(names)}")
    # Ours first, which has the first colour and the solid line.
    runs = {"this algorithm": algorithm}
    for name in names:
        runs[name] = baseline(name, algorithm.topology, *algorithm.collectives)
    handles = []
    looks = []
    for number, (name, run) in enumerate(runs.items()):
        busy = run.utilization.sum() / max(run.topology.num_links, 1)
        look: dict[str, Any] = {"linestyle": _LINES[number % len(_LINES)], "linewidth": 1.4}
        label = f"{style.marked(name, run.needs)}: {run.duration_text}, {busy:.0%} busy"
        handles.append(style.handle(label, style.colour_of(number), **look))
        looks.append(look | {"color": style.colour_of(number), "gid": f"run-{number}"})
    handles += style.explained(run.needs for run in runs.values())
    subtitle = style.subtitle_of(algorithm)
    # One curve needs no legend, which would take a third of the page.
    if len(runs) == 1:
        subtitle += (
            f", {algorithm.utilization.sum() / max(algorithm.topology.num_links, 1):.0%} busy"
        )
        handles = []
    paper = style.Paper(
        6.0, 3.0, "Links that are busy over time", subtitle, handles, left=0.7, bottom=0.55
    )
    last = max(int(run.duration) for run in runs.values())
    factor, unit = largest_unit(Picoseconds, last)
    highest = 0.0
    for run, look in zip(runs.values(), looks, strict=True):
        t = run.transfers
        duration = int(run.duration)
        # Equal widths for all runs, so that a short one is not drawn in finer steps.
        intervals = max(20, round(_INTERVALS * duration / max(last, 1)))
        width = max(duration, 1) / intervals
        # All links together are one row.
        row = np.zeros(len(t), np.int64)
        held = held_time(row, t.start, t.hold, rows=1, intervals=intervals, width=width)
        curve = 100 * (held[0] / (width * max(run.topology.num_links, 1)))
        highest = max(highest, float(curve.max()))
        times = np.linspace(0, duration / factor, intervals + 1)
        # Steps, because that is what is known: an average over each interval.
        paper.axes.stairs(curve, times, baseline=0, **look)
    paper.axes.set(
        xlim=(0, max(last / factor, 1e-9) * 1.01),
        # All of the scale if it is used, or else as much of it as shows the differences.
        ylim=(0, 104 if highest > 50 else max(10.0, 1.1 * highest)),
        xlabel=f"time ({unit})",
        ylabel="links busy (%)",
    )
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
    used = int(np.count_nonzero(t.link_busy))
    which = f"the {len(shown)} busiest of " if len(shown) < used else ""
    # -1 marks links that are not shown.
    row_of_link = np.full(algorithm.topology.num_links, -1)
    row_of_link[shown] = np.arange(len(shown))
    transfers = np.flatnonzero(row_of_link[t.link] >= 0)
    row = row_of_link[t.link[transfers]]
    start = t.start[transfers]
    hold = t.hold[transfers]
    # More bars than pixels would hide how idle a link is; shares do not.
    one_by_one = len(transfers) <= _MOST_BARS
    collective = algorithm.conditions.collective[t.chunk[transfers]]
    group, labels = _colours(algorithm, collective.astype(np.int64))
    paper = style.Paper(
        7.0,
        float(np.clip(0.17 * len(shown), 1.2, 9.0)),
        f"When links are held: {which}{counted(used, 'link')} in use",
        style.subtitle_of(algorithm),
        style.handles_in_colours(labels, "s") if one_by_one else (),
        left=1.4,
        right=1.2,
        bottom=0.55,
    )
    duration = int(algorithm.duration)
    factor, unit = largest_unit(Picoseconds, duration)
    note = ""
    if one_by_one:
        _draw_bars(paper, row, start / factor, hold / factor, group)
    else:
        width = duration / _INTERVALS
        held = held_time(row, start, hold, rows=len(shown), intervals=_INTERVALS, width=width)
        _draw_shares(paper, 100 * held / width, duration / factor)
        count = f"{len(transfers):,} transfers are"
        if len(transfers) < len(t):
            count = f"the {len(transfers):,} of {len(t):,} transfers over these links are"
        note = f"; {count} too many to draw one by one"
    paper.axes.set(
        xlim=(0, max(duration / factor, 1e-9)),
        ylim=(max(len(shown), 1) - 0.5, -0.5),
        xlabel=f"time ({unit}){note}",
        ylabel="link (from → to)",
    )
    _label_links(paper, algorithm, shown, lines=one_by_one)
    return paper.figure


def _colours(algorithm: Algorithm, collective: Ints) -> tuple[Ints, dict[int, str]]:
    """Return the number of the colour of each transfer, by its collective, and what the colours stand for.

    Process groups have a colour each, as long as there are enough; then each kind of collective has one.
    """
    groups, of_collective = process_groups(algorithm.topology, algorithm.collectives)
    number = np.array(of_collective, np.int64)[collective]
    labels = {one: style.group_label(groups[one]) for one in np.unique(number).tolist()}
    if len(labels) <= len(style.COLOURS):
        return number, labels
    kinds = list(dict.fromkeys(one.kind for one in algorithm.collectives))
    number = np.array([kinds.index(one.kind) for one in algorithm.collectives])[collective]
    count = {kind: sum(one.kind == kind for one in algorithm.collectives) for kind in kinds}
    return number, {
        one: f"{kinds[one]}, {count[kinds[one]]} groups" for one in np.unique(number).tolist()
    }


def _draw_bars(paper: style.Paper, row: Ints, begin: Floats, hold: Floats, group: Ints) -> None:
    """Draw a bar per transfer, in the colour of its process group."""
    end = begin + hold
    top = row - 0.4
    bottom = row + 0.4
    # Built at once: thousands of rectangles one by one take seconds.
    corners = np.stack([begin, top, begin, bottom, end, bottom, end, top], axis=1)
    bars = PolyCollection(
        list(corners.reshape(-1, 4, 2)),
        facecolors=[style.colour_of(number) for number in group.tolist()],
        edgecolors="white",
        linewidths=0.4 if len(row) <= 1_000 else 0.15,
        gid="transfers",
    )
    paper.axes.add_collection(bars)


def _draw_shares(paper: style.Paper, shares: Floats, last: float) -> None:
    """Draw the share of each interval for which each link is held, in colour; what is idle stays white."""
    # Rounding must not colour what is idle.
    shares[shares < 1e-6] = np.nan
    image = paper.axes.imshow(
        shares,
        cmap=colormaps[style.HEAT].with_extremes(bad="white"),
        vmin=0,
        vmax=100,
        aspect="auto",
        interpolation="nearest",
        extent=(0.0, last, len(shares) - 0.5, -0.5),
        gid="shares",
    )
    paper.colour_bar(image, "link held (%)", paper.height)


def _busiest(algorithm: Algorithm, most: int) -> Ints:
    """Return the links that are held longest, as many of each kind as it has a share, by the devices that they join.

    The busiest of all would be of one kind, where some links are slower than others.
    """
    topology = algorithm.topology
    busy = algorithm.transfers.link_busy
    ends = 2 * topology.kind[topology.src].astype(np.int64) + topology.kind[topology.dst]
    key = np.unique(topology.bandwidth, return_inverse=True)[1].reshape(-1) * 8 + ends
    used = busy > 0
    kinds = np.unique(key[used])
    parts = []
    left = most
    for done, kind in enumerate(kinds.tolist()):
        own = np.where(key == kind, busy, 0)
        # What is left, shared by the links that are left; the last takes what is over.
        rest = np.count_nonzero(used & np.isin(key, kinds[done:]))
        count = min(left, int(-(-left * np.count_nonzero(own) // rest)))
        parts.append(largest(own, count))
        left -= len(parts[-1])
    chosen = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    # In the order in which people look for a link, and not in that of their load.
    return chosen[np.lexsort((chosen, topology.dst[chosen], topology.src[chosen]))]


def _label_links(paper: style.Paper, algorithm: Algorithm, shown: Ints, lines: bool) -> None:
    """Write a label per link, or where that has no room, one per sender, and draw lines between senders."""
    src = algorithm.topology.src[shown].tolist()
    dst = algorithm.topology.dst[shown].tolist()
    # Where a new sender begins.
    first = np.flatnonzero(np.diff(src, prepend=-1))
    # Lines do not help if nearly every link has its own sender.
    if lines and 2 * len(first) < len(shown) + 20:
        for place in first[1:].tolist():
            paper.axes.axhline(place - 0.5, color="#CCCCCC", linewidth=0.4)
    points = 72 * paper.height
    size = points / max(len(shown), 1)
    if size >= 6.5:
        names = algorithm.topology.labels
        labels = [
            shortened(f"{names[a]} → {names[b]}", _LONGEST) for a, b in zip(src, dst, strict=True)
        ]
        paper.axes.set_yticks(range(len(shown)), labels)
    else:
        middle = (first + np.append(first[1:], len(shown)) - 1) / 2
        # As many labels as have room at 8 points each.
        every = int(np.ceil(8.0 * len(first) / points))
        names = algorithm.topology.labels
        labels = [shortened(f"from {names[src[row]]}", _LONGEST) for row in first[::every].tolist()]
        paper.axes.set_yticks(middle[::every], labels)
    paper.axes.tick_params(axis="y", length=0, labelsize=min(7.0, max(size, 6.0)))
