"""The page of a library: time over sizes against NCCL and the bound, and which plan serves which sizes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pccl._files import replacing
from pccl.units import Bytes, time_text

if TYPE_CHECKING:
    from pccl.tuning.library import Library, Point

_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.2rem .8rem;border-bottom:1px solid #ddd;text-align:right}
th:first-child,td:first-child{text-align:left}svg{max-width:100%;height:auto}"""


def write_page(library: Library, path: Path) -> None:
    """Write the page; the curves are left out where matplotlib is not installed."""
    kinds = list(dict.fromkeys(point.collective for point in library.curves))
    parts = [
        f"<h1>Plans for {escape(library.topology)}</h1>",
        f"<p>For {escape(library.target)}.</p>",
    ]
    for kind in kinds:
        points = [point for point in library.curves if point.collective == kind]
        parts.append(f"<h2>{escape(kind)}</h2>{_curve(kind, points)}{_table(points)}")
    title = f"<title>Plans for {escape(library.topology)}</title>"
    head = f'<!doctype html><html lang="en"><meta charset="utf-8">{title}<style>{_STYLE}</style>'
    with replacing(path) as file:
        file.write((head + "\n".join(parts) + "</html>\n").encode())


def _table(points: Sequence[Point]) -> str:
    names = ("size", "plan", "time", "NCCL", "as fast", "bound", "of bound")
    rows = [
        (
            str(Bytes(point.size)),
            point.plan,
            time_text(point.time),
            time_text(point.nccl) if point.nccl else "",
            f"{point.nccl / point.time:.2f}x" if point.nccl and point.time else "",
            time_text(point.bound),
            f"{point.bound / point.time:.0%}" if point.time else "",
        )
        for point in points
    ]
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _curve(kind: str, points: Sequence[Point]) -> str:
    try:
        from pccl.reporting.figures import style
    except ImportError:
        return ""
    import numpy as np
    from matplotlib.lines import Line2D

    from pccl.reporting.figures.sizes import put_sizes, put_times

    sizes = np.array([point.size for point in points])
    curves: dict[str, list[int]] = {"plans": [point.time for point in points]}
    if all(point.nccl for point in points):
        curves["NCCL"] = [point.nccl for point in points]
    curves["bound"] = [point.bound for point in points]
    looks: dict[str, dict[str, Any]] = {
        "plans": {"color": style.COLOURS[0], "linewidth": 2.2, "marker": "o", "markersize": 5},
        "NCCL": {"color": style.COLOURS[1], "linewidth": 1.2, "marker": "s", "markersize": 4},
        "bound": {"color": style.FAINT, "linewidth": 1.0, "linestyle": "dashed"},
    }
    with style.own_settings():
        handles = [Line2D([], [], label=name, **looks[name]) for name in curves]
        paper = style.Paper(6.0, 3.0, f"{kind}: time over sizes", "", handles, left=0.8, bottom=0.6)
        for name, times in curves.items():
            paper.axes.plot(sizes, times, gid=f"{kind}-{name}", **looks[name])
        put_sizes(paper.axes, sizes)
        put_times(paper.axes)
        paper.axes.grid(color=style.PALE, linewidth=0.5)
        paper.axes.set_ylabel("time")
        # Where one plan ends and the next begins.
        for before, after in pairwise(points):
            if before.plan != after.plan:
                edge = (before.size * after.size) ** 0.5
                paper.axes.axvline(edge, color=style.PALE, linewidth=1.0, linestyle="dotted")
        text = StringIO()
        paper.figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]
