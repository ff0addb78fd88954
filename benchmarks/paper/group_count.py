"""One to eight groups of eight on an 8x8 mesh (the paper's pg_scalability)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.paper import figures
from benchmarks.paper.setting import (
    METHOD,
    SEARCH,
    Claim,
    Row,
    all_to_all,
    compared,
    mesh,
    mesh_row,
    times_faster,
)
from pccl.collective.groups import format_group

TITLE = "One to eight process groups"
CHOICES = """\
An 8x8 mesh; each group is a row of 8 NPUs and runs an All-to-All of 128 MiB, which is 16 chunks of 1 MiB a pair. The
paper does not say which rows come first: we fill the mesh from the top, NPUs 0-7 being the first group. One group in
the middle of the mesh has free links on both sides: by the paper's method it is {middle:.2f}x as fast as Direct."""

WIDTH, CHUNKS = 8, 16
MIDDLE = (WIDTH // 2,)


def run(counts: Sequence[int] = tuple(range(1, WIDTH + 1)), chunks: int = CHUNKS) -> list[Row]:
    """Times for each number of groups from the top, and for one in the middle."""
    network = mesh(WIDTH, WIDTH)
    rows = []
    for places in (*(tuple(range(count)) for count in counts), MIDDLE):
        times = compared(network, *(all_to_all(mesh_row(WIDTH, place), chunks) for place in places))
        rows.append({"groups": len(places), "rows": format_group(places), **times})
    return rows


def choices(rows: list[Row]) -> str:
    """The choices, with the number of the other placement."""
    return CHOICES.format(middle=rows[-1][METHOD])


def claims(rows: list[Row]) -> list[Claim]:
    """The paper's number for one group, and its trend."""
    one = [times_faster(rows[0], column) for column in (METHOD, SEARCH)]
    most = [times_faster(rows[-2], column) for column in (METHOD, SEARCH)]
    return [
        Claim("one group", "3.05x", *one, "The same; our search places chunks in rounds and cuts them finer."),
        Claim(f"{rows[-2]['groups']} groups", "less", *most, "Every row is taken, and its middle link is the limit."),
    ]  # fmt: skip


def draw(rows: list[Row], path: Path) -> None:
    """How many times Direct's bandwidth."""
    rows = rows[:-1]
    with figures.panels(path, "Groups of 8 on an 8x8 mesh", size=(5.6, 3.4)) as (axes,):
        figures.speedups(axes, rows, "groups")
        axes.plot([1], [3.05], label="paper: 3.05x for one group", **figures.STATED)
        figures.from_zero(axes)
        axes.set_xticks([row["groups"] for row in rows])
        axes.set_xlabel("groups")
        axes.legend(loc="upper right")
