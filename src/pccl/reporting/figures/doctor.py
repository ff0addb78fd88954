"""The figure of a diagnosis: what was measured, what should be, and what the fault that was found makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pccl.doctor import Diagnosis
from pccl.reporting.figures import style
from pccl.reporting.figures.sizes import put_sizes, put_times
from pccl.units import counted

# Logs that have room side by side.
_PANELS = 3


def plot_diagnosis(diagnosis: Diagnosis, path: str | Path) -> Path:
    """Draw time over sizes, for the first logs of a diagnosis, and write it to a file."""
    file = Path(path)
    with style.own_settings(file.suffix):
        style.save(draw(diagnosis), file)
    return file


def draw(diagnosis: Diagnosis) -> Figure:
    """Draw time over sizes: measured, NCCL in our model, the bound, and the best explanation."""
    looks: dict[str, dict[str, Any]] = {
        "measured": {"color": style.INK, "marker": "o", "markersize": 4, "linewidth": 1.6},
        "NCCL, as it should be": {
            "color": style.COLOURS[0],
            "marker": "s",
            "markersize": 3.5,
            "linewidth": 1.2,
        },
        "bound": {"color": style.FAINT, "linestyle": "dashed", "linewidth": 1.0},
    }
    if not diagnosis.healthy:
        looks["with the fault"] = {
            "color": style.COLOURS[5], "marker": "^", "markersize": 4.5, "linewidth": 1.2, "linestyle": "dotted",
        }  # fmt: skip
    names = list(dict.fromkeys(row.log for row in diagnosis.rows))[:_PANELS]
    handles = [Line2D([], [], label=label, **look) for label, look in looks.items()]
    title = f"Measured on {style.name_of(diagnosis.topology.name)}"
    paper = style.Paper(
        4.0 * len(names),
        3.2,
        title,
        diagnosis.verdict,
        handles,
        left=0.75,
        bottom=0.6,
        panels=len(names),
    )
    for number, (name, axes) in enumerate(zip(names, paper.panels, strict=True)):
        rows = [row for row in diagnosis.rows if row.log == name]
        sizes = np.array([int(row.size) for row in rows])
        curves = {
            "measured": [int(row.measured) for row in rows],
            "NCCL, as it should be": [int(row.nccl) for row in rows],
            "bound": [int(row.bound) for row in rows],
        }
        for label, times in curves.items():
            axes.plot(sizes, times, gid=f"{label.split(',')[0]}-{number}", **looks[label])
        if not diagnosis.healthy:
            run = diagnosis.runs[number]
            explained = 1e12 * diagnosis.explained[number]
            axes.plot(run.sizes, explained, gid=f"fault-{number}", **looks["with the fault"])
        put_sizes(axes, sizes)
        put_times(axes)
        axes.grid(color=style.PALE, linewidth=0.5)
        axes.set_title(
            f"{rows[0].kind}, {counted(len(diagnosis.runs[number].group), 'NPU')}",
            fontsize=style.TEXT,
            loc="left",
        )
    paper.axes.set_ylabel("time")
    return paper.figure
