"""Figures on the network itself: what it is, and how busy its links are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D

from pccl._arrays import Bools, Floats, Ints
from pccl.algorithm import Algorithm
from pccl.reporting.figures.canvas import SWITCHES, Canvas
from pccl.reporting.figures.style import (
    COLOURS,
    HEAT,
    INK,
    MOST_NAMED,
    TEXT,
    Group,
    clean,
    groups_of,
    legend_width,
    subtitle_of,
)
from pccl.topology import Topology
from pccl.units import BytesPerSecond

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["heatmap", "topology"]

_MANY_LINKS = 4_000  # from here on, without heads of arrows
_PLAIN = "#DDDDDD"
_WIDTHS = 4  # bandwidths that are told apart by width


def topology(subject: Algorithm | Topology) -> Figure:
    """The network, its process groups in colour, its bandwidths by the width of links."""
    if isinstance(subject, Topology):
        network, groups, whole = subject, list[Group](), True
    else:
        network = subject.topology
        groups, _ = groups_of(network, subject.collectives)
        whole = False
    handles = _device_handles(network, groups, whole) + _bandwidth_handles(network)
    facts = repr(network).partition(": ")[2].removesuffix(")")
    right = legend_width([str(handle.get_label()) for handle in handles])
    canvas = Canvas(network, network.name, facts, right, len(handles))
    canvas.devices(_fills(network, groups, COLOURS[4] if whole else _PLAIN))
    chosen, gap, one_way = _cables(network)
    widths = canvas.line * _relative_widths(network)[chosen]
    heads = one_way & (network.num_links <= _MANY_LINKS)
    canvas.links(chosen, gap * 0.7 * canvas.drawing.radius, ["#777777"], heads, widths)
    canvas.legend(handles)
    return canvas.figure


def heatmap(algorithm: Algorithm) -> Figure:
    """How busy each link is, on the network; both directions side by side."""
    from pccl.analysis import simulate

    network = algorithm.topology
    shares = 100 * simulate(algorithm).utilization
    title = f"Link utilization: {shares.mean() if len(shares) else 0:.1f} % on average"
    canvas = Canvas(
        network, title, subtitle_of(algorithm), 1.3, entries=12
    )  # three, and the colour bar
    groups, _ = groups_of(network, algorithm.collectives)
    members = np.zeros(network.num_devices, np.bool_)
    for group in groups:
        members[list(group.npus)] = True
    canvas.devices([("#555555",) if member else ("#FFFFFF",) for member in members.tolist()])
    heat = ScalarMappable(_scale(shares), HEAT)
    used = np.argsort(shares, kind="stable")  # the busiest on top
    colours = heat.to_rgba(shares[used])
    colours[shares[used] == 0] = (0.85, 0.85, 0.85, 1.0)
    heads = np.full(len(used), network.num_links <= _MANY_LINKS)
    canvas.links(used, 0.8 * canvas.drawing.radius, colours, heads, 1.5 * canvas.line)
    _colour_bar(canvas, heat)
    handles = [_npu_handle("takes part", "#555555")]
    if members.sum() < network.num_npus:
        handles.append(_npu_handle("does not", "#FFFFFF"))
    if np.any(shares == 0):
        handles.append(Line2D([], [], color="#D9D9D9", linewidth=2, label="unused link"))
    if len(handles) > 1:
        canvas.legend(handles)
    return canvas.figure


def _scale(shares: Floats) -> Normalize:
    """From 0, or from 50 % if all links that are used are busier than that, to the next ten per cent."""
    lowest, highest = shares[shares > 0].min(initial=100.0), shares.max(initial=0.0)
    return Normalize(
        50.0 if 50 <= lowest < highest else 0.0, max(10.0, float(10 * np.ceil(highest / 10)))
    )


def _colour_bar(canvas: Canvas, heat: ScalarMappable) -> None:
    width, height = canvas.figure.get_size_inches()
    long = min(2.2, height - 1.75)
    axes = canvas.figure.add_axes(
        (canvas.right + 0.1 / width, 0.25 / height, 0.13 / width, max(long, 0.6) / height)
    )
    bar = canvas.figure.colorbar(heat, cax=axes)
    bar.set_label("share of the time a link is held (%)", fontsize=TEXT if long > 2 else 6)
    bar.outline.set_visible(False)


def _fills(network: Topology, groups: Sequence[Group], otherwise: str) -> list[tuple[str, ...]]:
    """Per device its colours: one for each of its groups, up to four."""
    fills: list[tuple[str, ...]] = [()] * network.num_devices
    for group in groups:
        for npu in group.npus:
            if len(fills[npu]) < 4:
                fills[npu] += (group.colour,)
    return [colours or (otherwise,) for colours in fills]


def _device_handles(network: Topology, groups: Sequence[Group], whole: bool) -> list[Any]:
    handles = [_npu_handle(group.label, group.colour) for group in groups[:MOST_NAMED]]
    if len(groups) > MOST_NAMED:
        handles.append(
            Line2D(
                [], [], linestyle="", label=f"and {len(groups) - MOST_NAMED} more; colours repeat"
            )
        )
    taken = {npu for group in groups for npu in group.npus}
    if whole:
        handles.append(_npu_handle("NPU", COLOURS[4]))
    elif len(taken) < network.num_npus:
        handles.append(_npu_handle("in no process group", _PLAIN))
    if len(network.switches):
        square = {
            "marker": "s",
            "markersize": 7,
            "markerfacecolor": SWITCHES,
            "markeredgecolor": INK,
        }
        handles.append(Line2D([], [], linestyle="", label="switch", markeredgewidth=0.6, **square))  # type: ignore[arg-type]
    return handles


def _npu_handle(label: str, colour: str) -> Any:
    circle = {"marker": "o", "markersize": 7, "markerfacecolor": colour, "markeredgecolor": INK}
    return Line2D([], [], linestyle="", label=clean(label), markeredgewidth=0.6, **circle)  # type: ignore[arg-type]


def _bandwidth_handles(network: Topology) -> list[Any]:
    values, of_link = network.rates
    if not 1 < len(values) <= _WIDTHS:
        return []
    widths = [_relative_widths(network)[of_link == i].max() for i in range(len(values))]
    return [
        Line2D([], [], color="#777777", linewidth=1.4 * width, label=str(BytesPerSecond(value)))
        for value, width in zip(values.tolist(), widths, strict=True)
    ][::-1]


def _relative_widths(network: Topology) -> Floats:
    values, of_link = network.rates
    if not 1 < len(values) <= _WIDTHS:
        return np.ones(network.num_links)
    return np.linspace(0.5, 1.7, len(values))[of_link]


def _cables(network: Topology) -> tuple[Ints, Floats, Bools]:
    """What to draw: one line for two links that differ in their direction alone, otherwise each link.

    Returned are the links drawn; per link of the network 1 if it is moved aside; and per link drawn whether it needs
    the head of an arrow, as there is no equal link the other way.
    """
    columns = np.stack(
        [network.src, network.dst, network.bandwidth, network.latency, network.exclusive], axis=1
    )
    links = [tuple(row) for row in columns.tolist()]
    equal, between = Counter(links), Counter(link[:2] for link in links)
    matched = np.array(
        [equal[a, b, *rest] == equal[b, a, *rest] for a, b, *rest in links], np.bool_
    )
    ahead, back = (np.array([between[ends] for ends in pairs], np.int64)
                   for pairs in (((a, b) for a, b, *_ in links), ((b, a) for a, b, *_ in links)))  # fmt: skip
    one_line = matched & (ahead == 1)
    chosen = np.flatnonzero(~one_line | (network.src < network.dst))
    return chosen, np.where(one_line | ((ahead == 1) & (back == 0)), 0.0, 1.0), ~matched[chosen]
