"""Figures on the network itself: what it is, and how busy its links are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from pccl._arrays import Bools, Floats, Ints
from pccl.algorithm import Algorithm
from pccl.reporting.figures import style
from pccl.reporting.figures.canvas import SWITCHES, Canvas
from pccl.reporting.groups import ProcessGroup, process_groups
from pccl.topology import Topology
from pccl.units import BytesPerSecond

__all__ = ["heatmap", "topology"]

# From here on, links are drawn without heads of arrows.
_MANY_LINKS = 4_000
# Bandwidths that are told apart by width.
_WIDTHS = 4
# Colours of NPUs and links.
_NPU = style.COLOURS[4]
_MEMBER = "#555555"
_LINK = "#777777"
_UNUSED = "#D9D9D9"


def topology(subject: Algorithm | Topology) -> Figure:
    """Draw the network, its process groups in colour, its bandwidths by the width of links."""
    if isinstance(subject, Topology):
        network = subject
        groups: list[ProcessGroup] = []
        handles = [style.handle("NPU", _NPU, "o")]
        fills = _fills(network, groups, _NPU)
    else:
        network = subject.topology
        groups, _ = process_groups(network, subject.collectives)
        labels = {number: style.group_label(group) for number, group in enumerate(groups)}
        handles = style.handles_in_colours(labels, "o")
        fills = _fills(network, groups, style.PALE)
        if not _members(network, groups).all():
            handles.append(style.handle("in no process group", style.PALE, "o"))
    if len(network.switches):
        handles.append(style.handle("switch", SWITCHES, "s"))
    rates, of_link = network.rates
    widths = np.ones(len(rates))
    if 1 < len(rates) <= _WIDTHS:
        widths = np.linspace(0.5, 1.7, len(rates))
        for rate, width in zip(rates[::-1].tolist(), widths[::-1], strict=True):
            handles.append(style.handle(str(BytesPerSecond(rate)), _LINK, linewidth=1.4 * width))
    facts = repr(network).removeprefix(f"Topology({network.name!r}: ").removesuffix(")")
    canvas = Canvas(network, style.name_of(network.name), facts, handles)
    canvas.devices(fills)
    chosen, aside, one_way = _cables(network)
    heads = one_way & (network.num_links <= _MANY_LINKS)
    gap = 0.7 * canvas.drawing.radius * aside
    canvas.links(chosen, gap, [_LINK], heads, canvas.line * widths[of_link[chosen]])
    return canvas.paper.figure


def heatmap(algorithm: Algorithm) -> Figure:
    """Draw how busy each link is, on the network; both directions side by side."""
    network = algorithm.topology
    shares = 100 * algorithm.utilization
    average = shares.mean() if len(shares) else 0.0
    groups, _ = process_groups(network, algorithm.collectives)
    members = _members(network, groups)
    handles = [style.handle("takes part", _MEMBER, "o")]
    if not members.all():
        handles.append(style.handle("does not", "#FFFFFF", "o"))
    if np.any(shares == 0):
        handles.append(style.handle("unused link", _UNUSED, linewidth=2))
    title = f"Link utilization: {average:.1f} % on average"
    subtitle = style.subtitle_of(algorithm)
    shown = handles if len(handles) > 1 else ()
    canvas = Canvas(network, title, subtitle, shown, right=1.3, least_height=2.5)
    fills = np.full(network.num_devices, "#FFFFFF")
    fills[network.npus[members]] = _MEMBER
    canvas.devices([(colour,) for colour in fills.tolist()])
    heat = ScalarMappable(_scale(shares), style.HEAT)
    # The busiest are drawn last, on top of the others.
    order = np.argsort(shares, kind="stable")
    colours = heat.to_rgba(shares[order])
    colours[shares[order] == 0] = (0.85, 0.85, 0.85, 1.0)
    heads = np.full(len(order), network.num_links <= _MANY_LINKS)
    canvas.links(order, 0.8 * canvas.drawing.radius, colours, heads, 1.5 * canvas.line)
    height = min(2.2, canvas.paper.height - 0.8)
    canvas.paper.colour_bar(heat, "share of the time a link is held (%)", height)
    return canvas.paper.figure


def _scale(shares: Floats) -> Normalize:
    """From 0, or from 50 % if all links that are used are busier than that, to the next ten per cent."""
    lowest = shares[shares > 0].min(initial=100.0)
    highest = shares.max(initial=0.0)
    first = 50.0 if 50 <= lowest < highest else 0.0
    return Normalize(first, max(10.0, float(10 * np.ceil(highest / 10))))


def _members(network: Topology, groups: Sequence[ProcessGroup]) -> Bools:
    """Return, per NPU, whether it is in a process group."""
    taken = [npu for group in groups for npu in group.npus]
    return np.isin(network.npus, taken)


def _fills(
    network: Topology, groups: Sequence[ProcessGroup], otherwise: str
) -> list[tuple[str, ...]]:
    """Return, per device, its colours: one for each of its groups, up to four."""
    fills: list[tuple[str, ...]] = [()] * network.num_devices
    for number, group in enumerate(groups):
        for npu in group.npus:
            if len(fills[npu]) < 4:
                fills[npu] += (style.colour_of(number),)
    return [colours or (otherwise,) for colours in fills]


def _cables(network: Topology) -> tuple[Ints, Floats, Bools]:
    """Choose what to draw: one line for two links that differ in their direction alone, otherwise each link.

    Returned are the links drawn; per link of the network 1 if it is moved aside; and per link drawn whether it needs
    the head of an arrow, as there is no equal link the other way.
    """
    columns = (network.bandwidth, network.latency, network.exclusive)
    features = list(zip(*(column.tolist() for column in columns), strict=True))
    ends = list(zip(network.src.tolist(), network.dst.tolist(), strict=True))
    between = Counter(ends)
    equal = Counter(zip(ends, features, strict=True))
    chosen = []
    one_way = []
    aside = np.ones(network.num_links)
    for link, (src, dst) in enumerate(ends):
        matched = equal[(src, dst), features[link]] == equal[(dst, src), features[link]]
        alone = between[src, dst] == 1
        if alone and (matched or not between[dst, src]):
            aside[link] = 0.0
        if not (alone and matched) or src < dst:
            chosen.append(link)
            one_way.append(not matched)
    return np.array(chosen, np.int64), aside, np.array(one_way, np.bool_)
