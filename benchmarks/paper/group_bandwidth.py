"""Process groups as wide as the mesh (the paper's process_group_bandwidth)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from benchmarks.paper import figures
from benchmarks.paper.setting import (
    METHOD,
    SEARCH,
    Claim,
    Row,
    all_to_all,
    average,
    compared,
    direct,
    mesh,
    method,
    microseconds,
    spread_rows,
)

TITLE = "Process groups: mesh width and number of groups"
CHOICES = """\
Each group is a row of the mesh and runs an All-to-All of 16 chunks of 1 MiB a pair; Direct sends along the row. The
paper gives neither the placement nor which sizes go with which numbers of groups. Left, both grow together: every
third row of the mesh is a group, so that a group can use the rows above and below it. Right, each by itself, the rows
being spread evenly (the paper's method only)."""

CHUNKS = 16
TOGETHER = ((3, 1), (6, 2), (9, 3), (12, 4), (15, 5))  # width of the mesh, number of groups
APART = tuple((width, groups) for groups in (1, 2, 3, 4) for width in range(4, 11))


def run(
    together: Sequence[tuple[int, int]] = TOGETHER, apart: Sequence[tuple[int, int]] = APART
) -> list[Row]:
    """Times for each width and number of groups."""
    rows = []
    for width, groups in together:
        collectives = [all_to_all(row, CHUNKS) for row in spread_rows(width, groups)]
        rows.append(
            {
                "mesh": f"{width}x{width}",
                "groups": groups,
                **compared(mesh(width, width), *collectives),
            }
        )
    for width, groups in apart:
        network, collectives = (
            mesh(width, width),
            [all_to_all(row, CHUNKS) for row in spread_rows(width, groups)],
        )
        before = microseconds(direct(network, *collectives))
        faster = before / microseconds(method(network, *collectives))
        rows.append(
            {"mesh": f"{width}x{width}", "groups": groups, "Direct (us)": before, METHOD: faster}
        )
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    """The paper's range and average."""
    of = [row for row in rows if SEARCH in row]
    ranges = [f"{min(r[c] for r in of):.2f}-{max(r[c] for r in of):.2f}x" for c in (METHOD, SEARCH)]
    averages = [f"{average(of, c):.2f}x" for c in (METHOD, SEARCH)]
    return [
        Claim("range", "2.33-3.03x", *ranges, "Three rows a group allow 3x; a mesh of 3x3 is too small to get near."),
        Claim("average", "2.68x", *averages, "Which sizes the paper averages over is not stated."),
    ]  # fmt: skip


def draw(rows: list[Row], path: Path) -> None:
    """Both growing together, and each by itself."""
    with figures.panels(
        path, "Every third row is a group", "The paper's method, rows spread evenly"
    ) as (left, right):
        _draw_together(left, [row for row in rows if SEARCH in row])
        _draw_apart(right, [row for row in rows if SEARCH not in row])


def _draw_together(axes: Axes, rows: list[Row]) -> None:
    figures.speedups(axes, [{**row, "x": i} for i, row in enumerate(rows)], "x")
    axes.set_xticks(range(len(rows)), [f"{row['mesh']}\n{_count(row['groups'])}" for row in rows])
    axes.set_xlabel("mesh, and number of groups")
    axes.axhspan(2.33, 3.03, color=figures.RED, alpha=0.12, linewidth=0, label="paper: 2.33-3.03x")
    axes.axhline(2.68, color=figures.RED, linestyle=":", label="paper's average: 2.68x")
    axes.legend(loc="center", bbox_to_anchor=(0.62, 0.54), borderaxespad=0)
    figures.from_zero(axes)


def _draw_apart(axes: Axes, rows: list[Row]) -> None:
    looks = zip((figures.GREEN, figures.ORANGE, figures.PINK, figures.SKY), "^ovP", strict=True)
    for number, (colour, marker) in enumerate(looks, 1):
        chosen = [row for row in rows if row["groups"] == number]
        x, y = [row["mesh"] for row in chosen], [row[METHOD] for row in chosen]
        axes.plot(x, y, color=colour, marker=marker, label=_count(number))
    axes.axhline(1, color=figures.COLOURS["Direct"], linestyle="--", linewidth=1)
    axes.set_xlabel("mesh")
    axes.set_ylabel("bandwidth over Direct (times)")
    axes.legend(loc="upper left")
    figures.from_zero(axes)


def _count(groups: int) -> str:
    return f"{groups} group{'s' * (groups > 1)}"
