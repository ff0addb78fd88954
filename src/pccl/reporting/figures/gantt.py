"""Figures of who is under way when: a bar per collective, and the critical path."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from pccl._arrays import Ints
from pccl.algorithm import Algorithm
from pccl.analysis import each_collective
from pccl.reporting.figures import style
from pccl.reporting.groups import shortened
from pccl.units import Picoseconds, counted, largest_unit, time_text

# Bars that have room below each other, and characters of their labels.
_MOST_ROWS = 64
_LONGEST = 34


def collectives(algorithm: Algorithm) -> Figure:
    """Draw from when to when each collective is under way, when it is done, and when it could be if it were alone."""
    rows = each_collective(algorithm, _MOST_ROWS)
    kinds = list(dict.fromkeys(row.collective.kind for row in rows))
    colours = {kind: style.colour_of(number) for number, kind in enumerate(kinds)}
    handles = [style.handle(kind, colour, "s") for kind, colour in colours.items()]
    handles.append(style.handle("bound, alone", style.INK, marker="|"))
    duration = int(algorithm.duration)
    factor, unit = largest_unit(Picoseconds, duration)
    more = len(algorithm.collectives) - len(rows)
    title = "When collectives are under way" + (f": the first {len(rows)}" if more > 0 else "")
    paper = style.Paper(
        6.5,
        max(1.2, 0.22 * len(rows)),
        title,
        style.subtitle_of(algorithm),
        handles,
        left=0.4 + 0.062 * min(_LONGEST, max(len(_name(row.collective)) for row in rows)),
        bottom=0.55,
    )
    for place, row in enumerate(rows):
        begin = int(row.begin)
        finish = int(row.finish)
        paper.axes.barh(
            place,
            (finish - begin) / factor,
            left=begin / factor,
            height=0.7,
            color=colours[row.collective.kind],
            gid=f"collective-{place}",
        )
        paper.axes.text(
            finish / factor, place, f" {time_text(finish)}", va="center", color=style.FAINT
        )
        bound = int(row.bound) / factor
        paper.axes.plot(
            [bound, bound], [place - 0.35, place + 0.35], color=style.INK, linewidth=1.2
        )
    labels = [shortened(_name(row.collective), _LONGEST) for row in rows]
    paper.axes.set_yticks(range(len(rows)), labels)
    paper.axes.tick_params(axis="y", length=0)
    paper.axes.set(
        # Room for the times behind the bars.
        xlim=(0, max(1.15 * duration / factor, 1e-9)),
        ylim=(len(rows) - 0.4, -0.6),
        xlabel=f"time ({unit})",
    )
    return paper.figure


def _name(collective: object) -> str:
    text = str(collective)
    kind, _, rest = text.partition(" of ")
    size, _, who = rest.partition(" among ")
    return f"{kind} {size}, {who.partition(', ')[0]}"


def critical_path(algorithm: Algorithm) -> Figure:
    """Draw the transfers of which each waited for the one before, back from the last that arrives."""
    path = critical_transfers(algorithm)
    t = algorithm.transfers
    topology = algorithm.topology
    of = algorithm.conditions.collective[t.chunk]
    kinds = list(dict.fromkeys(one.kind for one in algorithm.collectives))
    colours = {kind: style.colour_of(number) for number, kind in enumerate(kinds)}
    on_path = dict.fromkeys(algorithm.collectives[of[row]].kind for row in path.tolist())
    handles = [style.handle(kind, colours[kind], "s") for kind in on_path]
    duration = int(algorithm.duration)
    factor, unit = largest_unit(Picoseconds, duration)
    shown = path[-_MOST_ROWS:]
    held = int(t.hold[path].sum()) / max(duration, 1)
    part = "" if len(shown) == len(path) else f", the last {len(shown)} shown"
    paper = style.Paper(
        6.5,
        max(1.2, 0.2 * len(shown)),
        f"The critical path: {counted(len(path), 'transfer')}{part}, holding links for {held:.0%} of the time",
        style.subtitle_of(algorithm),
        handles,
        left=1.9,
        bottom=0.55,
    )
    labels = []
    for place, row in enumerate(shown.tolist()):
        begin = int(t.start[row])
        kind = algorithm.collectives[of[row]].kind
        paper.axes.barh(
            place,
            (int(t.arrival[row]) - begin) / factor,
            left=begin / factor,
            height=0.7,
            color=colours[kind],
            gid=f"step-{place}",
        )
        link = int(t.link[row])
        ends = f"{topology.labels[topology.src[link]]} → {topology.labels[topology.dst[link]]}"
        labels.append(shortened(f"{ends}, chunk {t.chunk[row]}", _LONGEST))
    paper.axes.set_yticks(range(len(shown)), labels)
    paper.axes.tick_params(axis="y", length=0)
    first = int(t.start[shown].min(initial=0)) if len(shown) < len(path) else 0
    paper.axes.set(
        xlim=(first / factor, max(duration / factor, 1e-9)),
        ylim=(max(len(shown), 1) - 0.4, -0.6),
        xlabel=f"time ({unit})",
    )
    return paper.figure


def critical_transfers(algorithm: Algorithm) -> Ints:
    """Return the rows of the transfers of which each began when the one before arrived, or left the link free.

    Examples
    --------
    >>> import pccl
    >>> line = pccl.topology.line(3, bandwidth="1GB/s", latency="0ns")
    >>> algorithm = pccl.synthesize(line, pccl.Broadcast("2kB", chunks=2))
    >>> [algorithm.topology.link_text(algorithm.transfers.link[row]) for row in critical_transfers(algorithm)]
    ['link 0 (NPU 0 -> NPU 1)', 'link 0 (NPU 0 -> NPU 1)', 'link 2 (NPU 1 -> NPU 2)']
    """
    t = algorithm.transfers
    if not len(t):
        return np.zeros(0, np.int64)
    free = t.start + t.hold
    row = int(np.argmax(t.arrival))
    path = [row]
    # Each began before the one that it makes wait.
    for _ in range(len(t)):
        if t.start[row] == 0:
            break
        # What brought the chunk to the sender, or else what held the link until then.
        brought = (t.chunk == t.chunk[row]) & (t.dst == t.src[row])
        blocked = t.link == t.link[row]
        before = np.flatnonzero(
            (brought & (t.arrival <= t.start[row])) | (blocked & (free <= t.start[row]))
        )
        if not len(before):
            break
        ends = np.where(brought[before], t.arrival[before], free[before])
        row = int(before[np.lexsort((brought[before], ends))[-1]])
        path.append(row)
    return np.array(path[::-1])
