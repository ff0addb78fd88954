"""The time-expanded network of the paper: devices as rows, moments as columns, and the ways of chunks through it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from pccl._arrays import Column, Floats, Ints
from pccl.algorithm import Algorithm
from pccl.collective import Conditions
from pccl.errors import PcclError
from pccl.reporting.figures import style
from pccl.reporting.layouts.sketch import points
from pccl.units import Picoseconds, largest_unit, time_text

_MOST_DEVICES = 24
_MOST_MOMENTS = 24
_MOST_TRANSFERS = 240
_MOST_ARCS = 1_500
_MOST_LABELS = 90
# Along an arc, where its label may be.
_PLACES = (0.3, 0.22, 0.4, 0.5, 0.62, 0.72)


def draw(algorithm: Algorithm) -> Figure:
    """Draw every link at every moment in grey, and in colour those that chunks take."""
    t = algorithm.transfers
    devices = algorithm.topology.num_devices
    moments = np.unique(np.concatenate([[0], t.start, t.arrival]))
    # A picture with every moment is only worth anything while it can be read.
    _check_size(algorithm, len(moments))
    factor, unit = largest_unit(Picoseconds, int(moments[-1]))
    number_of_chunk, names = _chunk_names(algorithm.conditions)
    handles = style.handles_in_colours(dict(enumerate(names)))
    handles.append(style.handle("link at that time", style.PALE))
    # By the number of moments, until the page is full.
    width = float(np.clip(0.85 * (len(moments) - 1), 3.0, 11.0))
    paper = style.Paper(
        width,
        0.5 * (devices - 1) + 0.4,
        "Time-expanded network",
        style.subtitle_of(algorithm),
        handles,
        left=0.8,
        bottom=0.6,
    )
    axes = paper.axes
    times = moments / factor
    last = float(times[-1])
    arcs = _arcs(algorithm, moments, factor)
    # More would be one grey surface.
    if len(arcs) <= _MOST_ARCS:
        lines = LineCollection(arcs, colors=style.PALE, linewidths=0.6, zorder=1, gid="arcs")
        axes.add_collection(lines)
    axes.scatter(
        *np.meshgrid(times, np.arange(devices)),
        s=14,
        color="white",
        edgecolor=style.FAINT,
        linewidth=0.7,
        zorder=3,
        gid="nodes",
    )
    ways = _ways(t.start / factor, t.src, t.arrival / factor, t.dst)
    # Shrunk at both ends, so that it does not cover the nodes.
    arrow = {
        "arrowstyle": "-|>",
        "linewidth": 1.5,
        "shrinkA": 2.2,
        "shrinkB": 2.2,
        "mutation_scale": 8,
    }
    for chunk, (begin, end) in zip(t.chunk.tolist(), ways, strict=True):
        colour = style.colour_of(number_of_chunk[chunk])
        axes.annotate("", end, begin, zorder=4, arrowprops=arrow | {"color": colour})
    # Arrows have no id in the file; these lines, which cannot be seen, have.
    axes.add_collection(LineCollection(ways, alpha=0.0, gid="transfers"))
    if len(t) <= _MOST_LABELS:
        # Labels have a size on paper, and must be kept apart in units of the axes.
        inch = np.array([last / width or 1.0, devices / paper.height])
        look = {"fontsize": 6, "ha": "center", "va": "center", "zorder": 5}
        patch = style.white_patch("round,pad=0.12")
        for chunk, place in zip(t.chunk.tolist(), _label_places(ways, inch), strict=True):
            axes.text(*place, str(chunk), bbox=patch, **look)
    is_switch = algorithm.topology.is_switch
    names = [f"switch {i}" if is_switch(i) else f"NPU {i}" for i in range(devices)]
    axes.set_yticks(range(devices), names)
    # Moments are not even: where several are close, the first is labelled.
    ticks = _apart(times.tolist(), 0.45 * last / width)
    axes.set_xticks(ticks, [f"{tick:.4g}" for tick in ticks])
    # On a uniform network all steps are equal, as in the paper's figures.
    steps = np.unique(np.diff(moments))
    note = f", one step is {time_text(int(steps[0]))}" if len(steps) == 1 else ""
    axes.set(
        xlim=(-0.03 * last, last * 1.03 or 1.0),
        ylim=(devices - 0.5, -0.5),
        xlabel=f"time ({unit}){note}",
    )
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return paper.figure


def _check_size(algorithm: Algorithm, moments: int) -> None:
    for count, most, what in (
        (algorithm.topology.num_devices, _MOST_DEVICES, "devices"),
        (len(algorithm.transfers), _MOST_TRANSFERS, "transfers"),
        (moments, _MOST_MOMENTS, "moments at which something starts or arrives"),
    ):
        if count > most:
            raise PcclError(
                f"a time-expanded network of {count:,} {what} is too large to be read (the most is {most}); "
                "a timeline or a heatmap shows algorithms of any size"
            )


def _chunk_names(conditions: Conditions) -> tuple[list[int], list[str]]:
    """Return, per chunk, the number of its colour, and what each number stands for.

    Few chunks have a colour each; of many, those from the same source share one.
    """
    chunks = range(len(conditions))
    if len(conditions) <= len(style.COLOURS):
        return list(chunks), [f"chunk {chunk}: {_way(conditions, chunk)}" for chunk in chunks]
    # A sum has several sources; its first one stands for all.
    source = [int(conditions.sources(chunk)[0]) for chunk in chunks]
    senders = sorted(set(source))
    names = [f"chunks from {sender}" for sender in senders]
    return [senders.index(sender) for sender in source], names


def _way(conditions: Conditions, chunk: int) -> str:
    texts = []
    for devices in (conditions.sources(chunk), conditions.destinations(chunk)):
        text = ",".join(map(str, devices[:4].tolist()))
        texts.append(f"{text}…" if len(devices) > 4 else text or "nowhere")
    return " → ".join(texts)


def _arcs(algorithm: Algorithm, moments: Ints, factor: int) -> list[Floats]:
    """Return every link from every moment at which something might start, with the time that the fastest chunk takes.

    A link that nothing uses takes as long as another one of its bandwidth; if there is none it is left out.
    """
    t = algorithm.transfers
    topology = algorithm.topology
    never = np.iinfo(np.int64).max
    rates, of_link = topology.rates
    travel = np.full(topology.num_links, never)
    at_rate = np.full(len(rates), never)
    np.minimum.at(travel, t.link, t.arrival - t.start)
    # What a link of this bandwidth takes at best.
    np.minimum.at(at_rate, of_link, travel)
    travel = np.where(travel == never, at_rate[of_link], travel)
    # A link that would arrive after the end is left out.
    moment, link = np.nonzero(travel <= (moments[-1] - moments)[:, None])
    start = moments[moment]
    end = (start + travel[link]) / factor
    return _ways(start / factor, topology.src[link], end, topology.dst[link])


def _ways(start: Floats, src: Column, end: Floats, dst: Column) -> list[Floats]:
    """Return lines from one device and time to another, each as two points."""
    return list(np.stack([points(start, src), points(end, dst)], axis=1))


def _label_places(ways: list[Floats], inch: Floats) -> list[Floats]:
    """Return a place on each arc, the first at which its label covers no other; `inch` is one on both axes."""
    room = inch * (0.17, 0.13)
    placed: list[Floats] = []
    for begin, end in ways:
        for share in _PLACES:
            place = begin + share * (end - begin)
            if all(np.any(np.abs(place - other) > room) for other in placed):
                break
        placed.append(place)
    return placed


def _apart(values: Sequence[float], least: float) -> list[float]:
    """Return those of ascending values that are so far from the one before that both can be labelled."""
    kept: list[float] = []
    for value in values:
        if not kept or value - kept[-1] > least:
            kept.append(value)
    return kept
