"""What all figures share: colours for every eye, paper without a display, legends, files without dates."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib import font_manager
from matplotlib.cm import ScalarMappable
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pccl._files import replacing
from pccl.algorithm import Algorithm
from pccl.algorithm.core import needs_in_brief
from pccl.reporting.groups import ProcessGroup, shortened
from pccl.units import counted

# Okabe and Ito's colours, which differ for all kinds of colour vision; after the eighth they start again.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
# For shares; what is idle is left white or grey.
HEAT = "viridis_r"
INK = "#222222"
FAINT = "#666666"
PALE = "#DDDDDD"
# Points.
TITLE = 11.0
TEXT = 8.0
# Characters, beyond which names would make a figure wider than any screen.
_LONGEST_NAME = 48
_LONGEST_LINE = 140

_FONT = "DejaVu Sans"
# What systems have for the signs of Chinese, Japanese and Korean, which our own font has not.
_EAST_ASIAN = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR",
    "Source Han Sans SC", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback", "Unifont",
    "PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic",
)  # fmt: skip
_SETTINGS: dict[str, Any] = {
    "font.size": TEXT,
    # Texts stay texts, which can be searched for; ids do not change from run to run.
    "svg.fonttype": "none",
    "svg.hashsalt": "pccl",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "text.parse_math": False,
    "savefig.dpi": 150,
}
# The same figure is the same file, so that a repository sees only real changes.
_WITHOUT_DATE = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}


@contextmanager
def own_settings(suffix: str = ".svg") -> Iterator[None]:
    """Use our settings for such a file instead of those of the user, which come back afterwards."""
    settings = _SETTINGS | {"font.family": _families(suffix)}
    with warnings.catch_warnings(), matplotlib.style.context(["default", settings]):
        # Names may be in any script, also in one that no font here has.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _families(suffix: str) -> list[str]:
    """Return the fonts of which the first that has a sign draws it."""
    there: list[str] = []
    # What shows an SVG looks for a font itself; so the file is the same on every machine.
    if suffix != ".svg":
        installed = {font.name for font in font_manager.fontManager.ttflist}
        there = [name for name in _EAST_ASIAN if name in installed]
    return [_FONT, *there, "sans-serif"]


def save(figure: Figure, path: Path) -> None:
    """Write the file, whole or not at all."""
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix[1:], metadata=_WITHOUT_DATE[path.suffix])


class Paper:
    """A figure with axes of a given size, a title above them and a legend beside them.

    Parameters
    ----------
    width, height
        Inches that the axes take; they are higher if the legend needs that.
    title, subtitle
        Two lines above the axes.
    handles
        The entries of the legend.
    left, right, bottom
        Inches beside and below the axes; the legend and the lines of text may need more on the right.
    panels
        How many axes share the width, side by side; `axes` are the first of them.
    """

    def __init__(
        self,
        width: float,
        height: float,
        title: str,
        subtitle: str,
        handles: Sequence[Any] = (),
        *,
        left: float = 0.2,
        right: float = 0.2,
        bottom: float = 0.2,
        panels: int = 1,
    ) -> None:
        above = 0.75
        # The legend is beside the axes; text is measured by counting, without a renderer.
        labels = [len(str(handle.get_label())) for handle in handles]
        if handles:
            right = max(right, 0.7 + 0.072 * max(labels))
        title = printable(shortened(title, _LONGEST_LINE))
        subtitle = printable(shortened(subtitle, _LONGEST_LINE))
        # Inches that a character takes.
        text_width = max(0.088 * len(title), 0.064 * len(subtitle)) + 0.3
        right = max(right, text_width - left - width)
        # A legend may be higher than what it explains.
        self.height = max(height, 0.4 + 0.175 * len(handles))
        self._size = left + width + right, bottom + self.height + above
        self._beside = left + width + 0.15
        self._bottom = bottom
        # Not through pyplot, which keeps figures for ever and may look for a display.
        self.figure = Figure(figsize=self._size)
        # Every panel but the first has its labels on its left, where it needs as much room.
        step = (width + left) / panels
        self.panels = [
            self._add_axes(left + panel * step, bottom, step - left, self.height)
            for panel in range(panels)
        ]
        self.axes = self.panels[0]
        for axes in self.panels:
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(color=FAINT, labelcolor=FAINT)
        across, up = self._size
        self.figure.text(0.15 / across, 1 - 0.3 / up, title, fontsize=TITLE)
        self.figure.text(0.15 / across, 1 - 0.52 / up, subtitle, color=FAINT)
        if handles:
            self.figure.legend(
                handles=list(handles),
                loc="upper left",
                bbox_to_anchor=(self._beside / across, 1 - above / up),
                frameon=False,
                borderaxespad=0.0,
                handlelength=1.4,
            )

    def colour_bar(self, heat: ScalarMappable, label: str, height: float) -> None:
        """Add a colour bar beside the axes, from below up to this height in inches."""
        bar = self.figure.colorbar(
            heat, cax=self._add_axes(self._beside, self._bottom, 0.13, height)
        )
        # Along a short bar, a long label would be cut off.
        bar.set_label(label, fontsize=TEXT if height > 2 else 6)
        bar.outline.set_visible(False)

    def _add_axes(self, left: float, bottom: float, width: float, height: float) -> Any:
        across, up = self._size
        return self.figure.add_axes((left / across, bottom / up, width / across, height / up))


def listed(names: str | Sequence[str]) -> list[str]:
    """Return names that may be given as one text, with commas."""
    parts = names.split(",") if isinstance(names, str) else names
    return [name.strip() for name in parts if name.strip()]


def handle(label: str, colour: str, marker: str = "", **style: Any) -> Line2D:
    """Return an entry of a legend: a line, or a marker with a rim."""
    if marker:
        # Of a marker no line, or it would be struck through in the legend.
        style |= {"linestyle": "", "marker": marker, "markersize": 7, "markerfacecolor": colour}
        style |= {"markeredgecolor": INK, "markeredgewidth": 0.6}
    return Line2D([], [], color=colour, label=printable(label), **style)


def handles_in_colours(labels: Mapping[int, str], marker: str = "") -> list[Line2D]:
    """Return an entry for each of the first labels, in the colour of its number, and one that counts the others."""
    entries = [handle(label, colour_of(number), marker) for number, label in labels.items()]
    # A ninth entry would have the colour of the first.
    more = len(entries) - len(COLOURS)
    if more > 0:
        entries[len(COLOURS) :] = [handle(f"and {more} more; colours repeat", "none")]
    return entries


def white_patch(shape: str) -> dict[str, Any]:
    """Return what is drawn behind a text so that it can be read on anything."""
    return {"boxstyle": shape, "facecolor": "white", "edgecolor": "none", "alpha": 0.9}


def colour_of(number: int) -> str:
    """Return the colour of a group, chunk or run."""
    return COLOURS[number % len(COLOURS)]


def group_label(group: ProcessGroup) -> str:
    """Return what a legend calls a process group."""
    return f"{', '.join(group.kinds)}: {shortened(group.name, 24)}"


def subtitle_of(algorithm: Algorithm) -> str:
    """Return what the algorithm is, in one line."""
    what = ", ".join(dict.fromkeys(collective.kind for collective in algorithm.collectives))
    if len(algorithm.collectives) > 1:
        what = f"{len(algorithm.collectives)} collectives: {what}"
    name = name_of(algorithm.topology.name)
    needs = f", with {needs_in_brief(algorithm.needs)}" if algorithm.needs else ""
    transfers = counted(len(algorithm.transfers), "transfer")
    return f"{what} on {name}, {transfers}, {algorithm.duration_text}{needs}"


def marked(name: str, needs: tuple[str, ...]) -> str:
    """Return a name in a legend, with a sign behind it if that needs switches that do more than pass messages on."""
    return f"{name} +" if needs else name


def explained(needs: Iterable[tuple[str, ...]]) -> list[Line2D]:
    """Return entries of a legend that explain the sign, if anything there needs such switches."""
    work = {one for each in needs for one in each}
    if not work:
        return []
    # As one line, it would make the legend wider than all others.
    text = needs_in_brief(tuple(name for name in ("multicast", "reduce") if name in work))
    if len(work) == 2:
        text = text.replace(" and ", " or ")
    who, _, what = text.partition(" that ")
    return [handle(f"+ needs {who} that", "none"), handle(f"   {what}", "none")]


def name_of(name: str) -> str:
    """Return the name of a network, as long as there is room for it."""
    return shortened(name, _LONGEST_NAME)


def readable_on(colour: str) -> str:
    """Return black or white, whichever can be read on the colour."""
    red, green, blue = to_rgb(colour)
    # The eye sees green as bright and blue as dark: the weights of old television.
    return "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else "white"


def printable(text: Iterable[str]) -> str:
    """Return the text without signs that cannot be printed, which names in files may hold."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)
