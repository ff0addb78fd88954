"""What all figures share: colours for every eye, paper without a display, files without dates."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib.style
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from pccl._files import replacing
from pccl.collective.groups import format_group

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pccl.algorithm import Algorithm
    from pccl.collective import Collective
    from pccl.topology import Topology

__all__ = [
    "COLOURS",
    "HEAT",
    "Group",
    "clean",
    "groups_of",
    "own_settings",
    "paper",
    "readable_on",
    "save",
    "time_unit",
]

# Okabe and Ito's colours, which differ for all kinds of colour vision; after the eighth they start again.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
HEAT = "viridis_r"  # what is idle is left white or grey
INK, FAINT = "#222222", "#666666"
MOST_NAMED = len(COLOURS)
TITLE, TEXT = 11.0, 8.0  # points

_SETTINGS: dict[str, Any] = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": TEXT,
    "svg.fonttype": "none",  # texts stay texts, which can be searched for
    "svg.hashsalt": "pccl",  # ids that do not change from run to run
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "text.parse_math": False,
    "savefig.dpi": 150,
}
_WITHOUT_DATE = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}


@dataclass(frozen=True)
class Group:
    """NPUs that communicate with each other, and what they do."""

    label: str
    npus: tuple[int, ...]
    colour: str


@contextmanager
def own_settings() -> Iterator[None]:
    """Our settings instead of those of the user, which come back afterwards."""
    with warnings.catch_warnings(), matplotlib.style.context(["default", _SETTINGS]):
        warnings.filterwarnings(
            "ignore", message="Glyph .* missing from"
        )  # names may be in any script
        yield


def paper(
    width: float, height: float, title: str, subtitle: str, *, left: float = 0.2, right: float = 0.2,
    bottom: float = 0.2, top: float = 0.75,
) -> tuple[Figure, Axes]:  # fmt: skip
    """A figure whose axes have this size in inches, with margins around them and a title."""
    needed = max(0.088 * len(title), 0.064 * len(subtitle)) + 0.3
    right = max(right, needed - left - width)
    total = left + width + right, bottom + height + top
    figure = Figure(figsize=total)
    axes = figure.add_axes(
        (left / total[0], bottom / total[1], width / total[0], height / total[1])
    )
    for text, y, size, colour in ((title, 0.3, TITLE, INK), (subtitle, 0.52, TEXT, FAINT)):
        figure.text(0.15 / total[0], 1 - y / total[1], clean(text), fontsize=size, color=colour)
    return figure, axes


def save(figure: Figure, path: Path) -> None:
    """Write the file, whole or not at all."""
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix[1:], metadata=_WITHOUT_DATE[path.suffix])


def groups_of(
    topology: Topology, collectives: Sequence[Collective]
) -> tuple[list[Group], list[int]]:
    """The different process groups, and for each collective which of them it runs in."""
    members: dict[tuple[int, ...], list[str]] = {}
    found = []
    for collective in collectives:
        npus = tuple(sorted(collective.ranks)) or tuple(topology.npus.tolist())
        kinds = members.setdefault(npus, [])
        if collective.kind not in kinds:
            kinds.append(collective.kind)
        found.append(list(members).index(npus))
    groups = []
    for number, (npus, kinds) in enumerate(members.items()):
        who = "all NPUs" if len(npus) == topology.num_npus else _short(format_group(npus))
        groups.append(Group(f"{', '.join(kinds)}: {who}", npus, COLOURS[number % len(COLOURS)]))
    return groups, found


def subtitle_of(algorithm: Algorithm) -> str:
    """What the algorithm is, in one line."""
    kinds = list(dict.fromkeys(collective.kind for collective in algorithm.collectives))
    tasks = f"{len(algorithm.collectives)} collectives" if len(algorithm.collectives) > 1 else ""
    what = ": ".join(filter(None, [tasks, ", ".join(kinds)]))
    return f"{what} on {algorithm.topology.name}, {len(algorithm.transfers):,} transfers, {algorithm.duration_text}"


def time_unit(time: int) -> tuple[int, str]:
    """Picoseconds in the unit to show times up to this one in, and its name."""
    for unit, factor in (("s", 10**12), ("ms", 10**9), ("us", 10**6), ("ns", 10**3)):
        if time >= factor:
            return factor, unit
    return 1, "ps"


def readable_on(colour: str) -> str:
    """Black or white, whichever can be read on the colour."""
    red, green, blue = to_rgb(colour)
    return "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else "white"


def clean(text: str) -> str:
    """The text without signs that cannot be printed, which names in files may hold."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _short(text: str, most: int = 24) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def legend_height(entries: int) -> float:
    """Inches that a legend of so many entries takes."""
    return 0.4 + 0.175 * entries


def legend_width(labels: Sequence[str]) -> float:
    """Inches that a legend with these labels takes."""
    return 0.55 + 0.072 * max(map(len, labels), default=0)


def shares_over_time(
    row: np.ndarray[Any, Any],
    begin: np.ndarray[Any, Any],
    end: np.ndarray[Any, Any],
    shape: tuple[int, int],
    finish: int,
) -> np.ndarray[Any, Any]:
    """Per row and interval until the finish: the share of it that intervals from `begin` to `end` fill."""
    rows, intervals = shape
    width = finish / intervals
    held = np.zeros(rows * intervals)
    later = np.zeros(rows * intervals)
    for moments, sign in (
        (begin, 1.0),
        (end, -1.0),
    ):  # from a moment on, the rest of its interval and all that follow
        interval = np.minimum((moments / width).astype(np.int64), intervals - 1)
        cell = row * intervals + interval
        held += sign * np.bincount(cell, (interval + 1) * width - moments, len(held))
        later += sign * np.bincount(cell, minlength=len(later))
    follow = np.cumsum(later.reshape(shape), axis=1) - later.reshape(shape)
    return np.clip(held.reshape(shape) / width + follow, 0.0, 1.0)
