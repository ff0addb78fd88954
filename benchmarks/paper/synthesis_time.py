"""How long synthesis takes as the network grows (the paper's npu_size_scalability)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.paper import figures
from benchmarks.paper.setting import (
    Claim,
    Row,
    all_to_all,
    duration_text,
    mesh,
    name_of,
    synthesis_seconds,
)

TITLE = "Synthesis time against the number of NPUs"
CHOICES = """\
All-to-All among all NPUs, one chunk of 1 MiB a pair. The paper's "3D Hypercube" of 512 and 1,000 NPUs can only be a
grid of 8x8x8 and 10x10x10: we take 3D meshes. CPU time of one core, kernels compiled, the algorithm complete but not
yet verified. TE-CCL was not run here; its point is the paper's (3 minutes for 36 NPUs)."""

MESHES = tuple((n, n) for n in (4, 5, 6, 7, 8, 10, 12, 16, 20))
GRIDS = tuple((n, n, n) for n in (2, 3, 4, 5, 6, 7, 8, 10))
METHOD, SEARCH = "the paper's method (s)", "our search (s)"


def run(shapes: Sequence[tuple[int, ...]] = (*MESHES, *GRIDS)) -> list[Row]:
    """CPU time for each shape."""
    rows = []
    for shape in shapes:
        npus = math.prod(shape)
        times = synthesis_seconds(mesh(*shape), all_to_all(range(npus), 1))
        rows.append({"mesh": name_of(shape), "NPUs": npus, **times})
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    """The paper's numbers for 36, 512 and 1,000 NPUs, and its growth."""
    kernel = "Compiled kernels, and calendars of busy intervals instead of a matrix with a layer for each time step."
    stated = {
        "8x8x8": ("512 NPUs", "11.68 min", kernel),
        "10x10x10": ("1,000 NPUs", "2.01 h", "As above; our search keeps to shortest routes here."),
        "6x6": (
            "36 NPUs (6x6)",
            "3 min / 4,404 = 41 ms",
            "As above; the paper states a ratio to TE-CCL.",
        ),
    }
    times = {
        row["mesh"]: [duration_text(row[column]) for column in (METHOD, SEARCH)] for row in rows
    }
    found = [
        Claim(what, paper, *times[of], why)
        for of, (what, paper, why) in stated.items()
        if of in times
    ]
    growth = [f"O(n^{_growth(rows, column):.1f})" for column in (METHOD, SEARCH)]
    why = (
        "Fitted over 3D meshes from 64 NPUs on: there are n^2 chunks, and a search directed at its destination does "
        "not visit all n NPUs for each."
    )
    return [*found, Claim("growth", "O(n^3)", *growth, why)]


def draw(rows: list[Row], path: Path) -> None:
    """Time against NPUs, both axes logarithmic."""
    with figures.panels(path, "All-to-All synthesis", size=(6.4, 4.0)) as (axes,):
        for dimensions, name, style in ((2, "2D mesh", "-"), (3, "3D mesh", "--")):
            chosen = [row for row in rows if row["mesh"].count("x") == dimensions - 1]
            for column in (METHOD, SEARCH):
                way = column.removesuffix(" (s)")
                times = [row[column] for row in chosen]
                label = f"{way}, {name}"
                figures.line(
                    axes, way, [row["NPUs"] for row in chosen], times, linestyle=style, label=label
                )
        figures.stated(axes, 512, 11.68 * 60, "paper: 11.68 min")
        figures.stated(axes, 1000, 2.01 * 3600, "paper: 2.01 h")
        figures.stated(axes, 36, 180, "paper: TE-CCL, 3 min", ha="left", offset=(8, 0))
        figures.log_scales(axes, [8, 16, 36, 64, 128, 256, 512, 1000])
        axes.set_xlabel("NPUs")
        axes.set_ylabel("CPU time (s)")
        axes.legend(loc="upper left")


def _growth(rows: list[Row], column: str) -> float:
    """The exponent with which the time grows with the number of NPUs, on 3D meshes."""
    chosen = [row for row in rows if row["mesh"].count("x") == 2 and row["NPUs"] >= 64]
    npus, times = np.log([row["NPUs"] for row in chosen]), np.log([row[column] for row in chosen])
    return float(np.polyfit(npus, times, 1)[0])
