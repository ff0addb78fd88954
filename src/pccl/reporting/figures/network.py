"""Figures on the network itself: what it is, and how busy its links are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PatchCollection, PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Patch, Rectangle, Wedge

from pccl._arrays import Bools, Floats, Ints
from pccl.algorithm import Algorithm
from pccl.reporting.figures import style
from pccl.reporting.groups import process_groups
from pccl.reporting.layouts import Frame, arrange, lost_cables
from pccl.reporting.layouts.drawing import points_along
from pccl.reporting.layouts.sketch import directions, lengths
from pccl.topology import Topology
from pccl.topology.parts import ABSENT, SWITCH
from pccl.units import BytesPerSecond

# From here on, links are drawn without heads of arrows.
_MANY_LINKS = 4_000
# Bandwidths that are told apart by width.
_WIDTHS = 4
# Colours of devices and links.
_NPU = style.COLOURS[4]
_MEMBER = "#555555"
_OUTSIDE = "#FFFFFF"
_LINK = "#777777"
_UNUSED = "#D9D9D9"
_LOST = "#C44E52"
# Switches, by whether they multiply and whether they add: what the legend says, and the colour.
_SWITCHES = {
    (False, False): ("switch", "#F4F4F4"),
    (True, False): ("switch that multiplies", "#FBE3B5"),
    (False, True): ("switch that adds", "#C9DDF2"),
    (True, True): ("switch that multiplies and adds", "#CBE8C4"),
}
# Inches: of a drawing, and between neighbours at most.
_WIDEST = 11.0
_HIGHEST = 8.5
_UNIT = 0.8
# Half the side of the square that is a switch, by the radius of an NPU.
_HALF_SIDE = 0.9
# Of a switch that is drawn as a bus: its height, as a share of what is usual.
_BUS = 0.75
_WIDEST_OF_BUSES = 16.0
# Points: letters that are smaller cannot be read.
_SMALLEST_NUMBER = 4.2
_SMALLEST_LABEL = 4.5
_ALONG = np.linspace(0, 1, 49)


def topology(subject: Algorithm | Topology) -> Figure:
    """Draw the network, its process groups in colour, its bandwidths by the width of links."""
    if isinstance(subject, Topology):
        network = subject
        handles = [style.handle("NPU", _NPU, "o")]
        fills: list[tuple[str, ...]] = [(_NPU,)] * network.num_devices
    else:
        network = subject.topology
        # Which collective is in which group does not matter here: a device has the colours of its groups.
        groups, _ = process_groups(network, subject.collectives)
        labels = {number: style.group_label(group) for number, group in enumerate(groups)}
        handles = style.handles_in_colours(labels, "o")
        # One colour for each of its groups, up to four.
        fills = [()] * network.num_devices
        for number, group in enumerate(groups):
            for npu in group.npus:
                fills[npu] = (*fills[npu], style.colour_of(number))[:4]
        # Grey needs a word only where there is any.
        if not all(fills[npu] for npu in network.npus):
            handles.append(style.handle("in no process group", style.PALE, "o"))
        fills = [colours or (style.PALE,) for colours in fills]
    for able, (label, colour) in _SWITCHES.items():
        alike = [switch for switch in network.switches if _abilities(network, switch) == able]
        if alike:
            handles.append(style.handle(label, colour, "s"))
        for switch in alike:
            fills[switch] = (colour,)
    rates, of_link = network.rates
    widths = np.ones(len(rates))
    # One bandwidth needs no legend, and widths of many cannot be told apart.
    if 1 < len(rates) <= _WIDTHS:
        widths = np.linspace(0.5, 1.7, len(rates))
        for rate, width in zip(rates[::-1].tolist(), widths[::-1], strict=True):
            handles.append(style.handle(str(BytesPerSecond(rate)), _LINK, linewidth=1.4 * width))
    if network.lost:
        handles.append(style.handle("out of order", _LOST, linestyle="--"))
    # The title has the name already.
    facts = repr(network).removeprefix(f"Topology({network.name!r}: ").removesuffix(")")
    canvas = _Canvas(network, style.name_of(network.name), facts, handles)
    canvas.devices(fills)
    # A cable is one line, or a mesh would be twice as many lines without saying more.
    chosen, aside, one_way = _cables(network)
    canvas.lost()
    gap = 0.7 * canvas.drawing.radius * aside
    colours = np.full(len(chosen), _LINK)
    canvas.links(chosen, gap, colours, one_way, canvas.line * widths[of_link[chosen]])
    return canvas.paper.figure


def heatmap(algorithm: Algorithm) -> Figure:
    """Draw how busy each link is, on the network; both directions side by side."""
    network = algorithm.topology
    shares = 100 * algorithm.utilization
    # Also of a network without links, which takes no time.
    average = shares.sum() / max(len(shares), 1)
    groups, _ = process_groups(network, algorithm.collectives)
    fills = np.full(network.num_devices, _OUTSIDE)
    # Black and white only: colours belong to the links here.
    fills[network.switches] = _SWITCHES[False, False][1]
    fills[[npu for group in groups for npu in group.npus]] = _MEMBER
    handles = [style.handle("takes part", _MEMBER, "o")]
    if np.any(fills[network.npus] == _OUTSIDE):
        handles.append(style.handle("does not", _OUTSIDE, "o"))
    if np.any(shares == 0):
        handles.append(style.handle("unused link", _UNUSED, linewidth=2))
    title = f"Link utilization: {average:.1f} % on average"
    subtitle = style.subtitle_of(algorithm)
    # If everybody takes part and every link is used, a legend says nothing.
    shown = handles if len(handles) > 1 else ()
    # Room on the right for the colour bar, and height enough for its labels.
    canvas = _Canvas(network, title, subtitle, shown, right=1.3, least_height=2.5)
    canvas.devices([(colour,) for colour in fills.tolist()])
    canvas.lost()
    heat = ScalarMappable(_scale(shares), style.HEAT)
    # The busiest are drawn last, on top of the others.
    order = np.argsort(shares, kind="stable")
    colours = heat.to_rgba(shares[order])
    colours[shares[order] == 0] = (0.85, 0.85, 0.85, 1.0)
    heads = np.ones(len(order), np.bool_)
    canvas.links(order, 0.8 * canvas.drawing.radius, colours, heads, 1.5 * canvas.line)
    height = min(2.2, canvas.paper.height - 0.8)
    canvas.paper.colour_bar(heat, "share of the time a link is held (%)", height)
    return canvas.paper.figure


def _abilities(network: Topology, switch: int) -> tuple[bool, bool]:
    """Whether a switch multiplies messages, and whether it adds them up."""
    return bool(network.multicast[switch]), bool(network.reduce[switch])


def _scale(shares: Floats) -> Normalize:
    """From 0, or from 50 % if all links that are used are busier than that, to the next ten per cent."""
    lowest = shares[shares > 0].min(initial=100.0)
    highest = shares.max(initial=0.0)
    # Of links that are all busy for most of the time, the differences are of interest.
    first = 50.0 if 50 <= lowest < highest else 0.0
    return Normalize(first, max(10.0, float(10 * np.ceil(highest / 10))))


def _cables(network: Topology) -> tuple[Ints, Floats, Bools]:
    """Choose what to draw: one line for two links that differ in their direction alone, otherwise each link.

    Returned are the links drawn; per link of the network 1 if it is moved aside; and per link drawn whether it needs
    the head of an arrow, as there is no equal link the other way.
    """
    columns = (network.src, network.dst, network.bandwidth, network.latency, network.exclusive)
    # Two links are alike if all five agree, and opposite if they agree after turning one round.
    links = list(zip(*(column.tolist() for column in columns), strict=True))
    equal = Counter(links)
    between = Counter(link[:2] for link in links)
    chosen = []
    one_way = []
    aside = np.ones(network.num_links)
    for number, link in enumerate(links):
        src, dst, *features = link
        # As many there as back: then none of them needs an arrow.
        matched = equal[link] == equal[dst, src, *features]
        alone = between[src, dst] == 1
        # Nothing to be beside of: the line leads from centre to centre.
        if alone and (matched or not between[dst, src]):
            aside[number] = 0.0
        # Of a cable, the link that starts at the smaller number stands for both.
        if not (alone and matched) or src < dst:
            chosen.append(number)
            one_way.append(not matched)
    return np.array(chosen, np.int64), aside, np.array(one_way, np.bool_)


class _Canvas:
    """Axes with the frames and devices of a topology on them; links are up to each figure.

    Attributes
    ----------
    paper, drawing
        What it is drawn on, and where everything is.
    line
        Points: how wide a link of usual width is.
    """

    def __init__(
        self,
        network: Topology,
        title: str,
        subtitle: str,
        handles: Sequence[Any],
        right: float = 0.2,
        least_height: float = 0.0,
    ) -> None:
        self.drawing = arrange(network)
        left, top, far, bottom = self.drawing.extent
        room = 0.35 + self.drawing.radius
        above = room
        if self.drawing.frames:  # for their labels
            above += 0.45
        width = far - left + 2 * room
        height = bottom - top + 2 * above
        # Inches per unit of the drawing: small networks are not blown up, large ones fit a page.
        widest = _WIDEST_OF_BUSES if np.any(self.drawing.span) else _WIDEST
        unit = min(_UNIT, widest / width, _HIGHEST / height)
        inches = max(width * unit, 1.5), max(height * unit, least_height)
        self.paper = style.Paper(*inches, title, subtitle, handles, right=right)
        axes = self.paper.axes
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.set_xlim(left - room, far + room)
        # Drawings have y grow downwards, matplotlib upwards.
        axes.set_ylim(bottom + above, top - above)
        self._points = 72 * unit
        # Follows the devices, but stays visible on large networks and slender on small ones.
        self.line = float(np.clip(0.16 * self.drawing.radius * self._points, 0.3, 2.2))
        for number, frame in enumerate(self.drawing.frames):
            self._frame(number, frame)

    def devices(self, fills: Sequence[Sequence[str]]) -> None:
        """Draw circles and squares, each filled with its colours, and their numbers where there is room for them."""
        network = self.drawing.topology
        radius = self.drawing.radius
        half = _HALF_SIDE * radius
        edge = float(np.clip(0.07 * radius * self._points, 0.05, 0.8))
        # One size for all numbers: the largest that has room for the longest inside its circle.
        digits = len(str(network.num_devices - 1))
        size = min(9.0, 1.5 * radius * self._points / (0.66 * max(digits, 1.6)))
        parts: list[Patch] = []
        faces: list[str] = []
        rings: list[Patch] = []
        squares: list[Patch] = []
        hubs: list[str] = []
        for device in np.flatnonzero(network.kind != ABSENT).tolist():
            x = float(self.drawing.x[device])
            y = float(self.drawing.y[device])
            colours = fills[device]
            several = len(colours) > 1
            if network.is_switch(device):
                hubs += colours
                span = float(self.drawing.span[device])
                height = _BUS * half if span else half
                squares.append(
                    Rectangle((x - half - span, y - height), 2 * (half + span), 2 * height)
                )
            else:
                faces += colours
                rings.append(Circle((x, y), radius))
                # Equal slices from the top on.
                angles = np.linspace(0, 360, len(colours) + 1) - 90
                wedges = (Wedge((x, y), radius, *ends) for ends in pairwise(angles))
                parts += wedges if several else rings[-1:]
            text = str(device)
            letters = size
            # Switches are known by their names, if there is room for them.
            if network.is_switch(device):
                name = style.printable(network.labels[device])
                room = 2 * _BUS * half * len(name) if span else 1.9 * half
                fitting = room * self._points / (0.62 * max(len(name), 1))
                if fitting >= _SMALLEST_NUMBER:
                    text = name
                    letters = min(fitting, size)
            if size >= _SMALLEST_NUMBER:
                self.paper.axes.text(
                    x,
                    y,
                    text,
                    fontsize=letters,
                    color="black" if several else style.readable_on(colours[0]),
                    ha="center",
                    va="center_baseline",
                    zorder=4,
                    bbox=style.white_patch("circle,pad=0.15") if several else None,
                )
        # Collections, because a thousand single patches make a file that browsers choke on.
        for gid, patches, inside, width in (
            ("npu-colours", parts, faces, 0.0),
            ("npus", rings, "none", edge),
            ("switches", squares, hubs, edge),
        ):
            if patches:
                drawn = PatchCollection(
                    patches,
                    facecolors=inside,
                    edgecolors=style.INK,
                    linewidths=width,
                    zorder=3,
                    gid=gid,
                )
                self.paper.axes.add_collection(drawn)

    def links(self, chosen: Ints, gap: Any, colours: Any, heads: Bools, widths: Any) -> None:
        """Draw the chosen links, moved apart by a gap, some with heads of arrows unless there are very many."""
        network = self.drawing.topology
        curves = self.drawing.curves(gap)[chosen]
        bent = self.drawing.rise[chosen] != 0
        points = points_along(curves, _ALONG)
        # Two points are enough for a straight line, which is nearly every line.
        lines = [points[i] if bent[i] else curves[i, [0, 3]] for i in range(len(chosen))]
        # Lines with heads end where the head begins, which touches the rim of the device.
        size = 0.62 * self.drawing.radius
        # Among thousands of links, heads are specks that only enlarge the file.
        heads = heads & (network.num_links <= _MANY_LINKS)
        pointed = np.flatnonzero(heads)
        outside = self._distance_to_rim(points[pointed], network.dst[chosen[pointed]])
        _, tips = _crossings(points[pointed], outside)
        last, ends = _crossings(points[pointed], outside - 0.8 * size)
        for i, end, k in zip(pointed.tolist(), ends, last.tolist(), strict=True):
            # The line up to the last point outside of the head, and then the place where the head begins.
            kept = points[i, : k + 1] if bent[i] else points[i, :1]
            lines[i] = np.vstack([kept, end])
        add = self.paper.axes.add_collection
        add(LineCollection(lines, colors=colours, linewidths=widths, zorder=1, gid="links"))
        if len(pointed):
            ahead, left = directions(tips - ends)
            aside = left * 0.42 * size
            base = tips - size * ahead
            triangles = list(np.stack([tips, base + aside, base - aside], axis=1))
            faces = colours[heads]
            add(PolyCollection(triangles, facecolors=faces, zorder=2, gid="heads", linewidths=0))

    def lost(self) -> None:
        """Draw the cables that are out of order, dashed, and so devices that are."""
        network = self.drawing.topology
        xy = self.drawing.xy
        ends = list(lost_cables(network))
        if ends:
            lines = [xy[list(pair)] for pair in ends]
            drawn = LineCollection(lines, colors=_LOST, linewidths=self.line, linestyles="--")
            drawn.set(zorder=0.9, gid="lost")
            self.paper.axes.add_collection(drawn)
        for device in np.flatnonzero(network.kind == ABSENT).tolist():
            circle = Circle(xy[device], self.drawing.radius, fill=False, edgecolor=_LOST)
            circle.set(linestyle="--", linewidth=min(1.0, self.line), zorder=2)
            self.paper.axes.add_patch(circle)

    def _frame(self, number: int, frame: Frame) -> None:
        box = FancyBboxPatch(
            (frame.left, frame.top),
            frame.right - frame.left,
            frame.bottom - frame.top,
            boxstyle="round,pad=0,rounding_size=0.35",
            facecolor="#FAFAFA",
            edgecolor="#AAAAAA",
            linewidth=min(1.0, self.line),
            zorder=0,
            gid=f"frame-{number}",
        )
        self.paper.axes.add_patch(box)
        # Labels shrink with the drawing, and are left out where nobody could read them.
        size = min(style.TEXT, 0.34 * self._points)
        if size < _SMALLEST_LABEL:
            return
        self.paper.axes.text(
            frame.left + 0.2,
            frame.bottom + 0.08 if frame.label_below else frame.top - 0.08,
            frame.label,
            fontsize=size,
            color=style.FAINT,
            va="top" if frame.label_below else "bottom",
            bbox=style.white_patch("round,pad=0.1"),
            zorder=2.5,
        )

    def _distance_to_rim(self, points: Floats, devices: Any) -> Floats:
        """Return, per line and point, how far the point is outside of the device of the line; inside is negative."""
        drawing = self.drawing
        apart = points - drawing.xy[devices][:, None]
        circle = lengths(apart) - drawing.radius
        # The distance in the norm whose unit circle is a square.
        span = drawing.span[devices]
        half = _HALF_SIDE * drawing.radius * np.where(span > 0, _BUS, 1.0)
        apart[..., 0] = np.maximum(np.abs(apart[..., 0]) - span[:, None], 0.0)
        square = np.abs(apart).max(axis=2) - half[:, None]
        is_switch = drawing.topology.kind[devices] == SWITCH
        return np.asarray(np.where(is_switch[:, None], square, circle))


def _crossings(points: Floats, outside: Floats) -> tuple[Ints, Floats]:
    """Return, per line, its last point that is outside, by number, and the place where it gets inside."""
    count = points.shape[1]
    is_outside = outside > 0
    # From the end: a curve may leave its own device, pass another, and come in once.
    last = count - 1 - np.argmax(is_outside[:, ::-1], axis=1)
    last = np.where(is_outside.any(axis=1), np.minimum(last, count - 2), 0)
    lines = np.arange(len(points))
    before = outside[lines, last]
    after = outside[lines, last + 1]
    # Linear between two samples, which are near enough for that.
    share = np.clip(before / np.maximum(before - after, 1e-9), 0.0, 1.0)
    step = points[lines, last + 1] - points[lines, last]
    return last, points[lines, last] + share[:, None] * step
