"""All-to-All among all NPUs of a mesh (the paper's mesh_a2a)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pccl
from benchmarks.paper import figures
from benchmarks.paper.setting import METHOD, SEARCH, Claim, Row, all_to_all, average, compared, mesh

TITLE = "2D mesh: All-to-All against Direct"
CHOICES = """\
All-to-All among all NPUs of a square mesh, one chunk of 1 MiB a pair for Direct and for the paper's method; our
search may cut it further. Direct goes along the row first, then along the column. The bound holds however data are
cut; TE-CCL was not run."""

BOUND = "bound (x)"


def run(widths: Sequence[int] = (3, 4, 5, 6, 7, 8, 9, 10)) -> list[Row]:
    """Times for each width."""
    rows = []
    for width in widths:
        network, everyone = mesh(width, width), range(width * width)
        row = compared(network, all_to_all(everyone, 1))
        free = pccl.AllToAll(size=all_to_all(everyone, 1).size)
        bound = int(pccl.lower_bound(network, free, quick=True).value) / 1e6
        rows.append(
            {"mesh": f"{width}x{width}", "width": width, **row, BOUND: row["Direct (us)"] / bound}
        )
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    """The paper only says that it is faster than Direct."""
    here = [
        f"{min(r[c] for r in rows):.2f}-{max(r[c] for r in rows):.2f}x" for c in (METHOD, SEARCH)
    ]
    room = f"The bound leaves room for {average(rows, BOUND):.2f}x on average: Direct is good when everyone takes part."
    return [Claim("all sizes", "faster than Direct", *here, room)]


def draw(rows: list[Row], path: Path) -> None:
    """How many times Direct's bandwidth."""
    with figures.panels(path, "All-to-All on the whole mesh", size=(5.6, 3.4)) as (axes,):
        figures.speedups(axes, rows, "width")
        widths = [row["width"] for row in rows]
        bounds = [row[BOUND] for row in rows]
        axes.plot(
            widths,
            bounds,
            color=figures.GREEN,
            linestyle=":",
            label="bound: no algorithm is faster",
        )
        axes.set_xticks(widths, [row["mesh"] for row in rows])
        axes.set_xlabel("mesh")
        figures.from_zero(axes)
        axes.legend(loc="lower right")
