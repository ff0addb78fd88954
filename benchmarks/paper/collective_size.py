"""How long synthesis takes as the collective grows (the paper's coll_size_sensitivity)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.paper import figures
from benchmarks.paper.setting import (
    MIB,
    Claim,
    Row,
    all_to_all,
    duration_text,
    mesh,
    name_of,
    synthesis_seconds,
)

TITLE = "Synthesis time against the size of the collective"
CHOICES = """\
All-to-All among 64 NPUs, 8 to 512 MiB an NPU as 1 to 64 chunks of 128 KiB for each pair. "3D Hypercube" is again a 3D
mesh, 4x4x4. CPU time of one core, kernels compiled, the algorithm complete but not yet verified."""

NPUS = 64
CHUNK = MIB // 8
SHAPES = ((8, 8), (4, 4, 4))
METHOD, SEARCH = "the paper's method (s)", "our search (s)"


def run(chunks: Sequence[int] = (1, 2, 4, 8, 16, 32, 64)) -> list[Row]:
    """CPU time for each network and number of chunks."""
    rows = []
    for shape in SHAPES:
        for number in chunks:
            times = synthesis_seconds(mesh(*shape), all_to_all(range(NPUS), number, CHUNK))
            rows.append(
                {
                    "mesh": name_of(shape),
                    "size (MiB)": NPUS * number * CHUNK // MIB,
                    "chunks": number,
                    **times,
                }
            )
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    """The paper's number for the largest collective."""
    largest = max((row for row in rows if row["mesh"] == "4x4x4"), key=lambda row: row["chunks"])
    times = [duration_text(largest[column]) for column in (METHOD, SEARCH)]
    why = "Compiled kernels, and calendars of busy intervals instead of a matrix with a layer for each time step."
    return [Claim(f"{largest['size (MiB)']} MiB, 3D, 64 NPUs", "1.83 min", *times, why)]


def draw(rows: list[Row], path: Path) -> None:
    """Time against size, both axes logarithmic."""
    with figures.panels(
        path, "All-to-All synthesis, 64 NPUs, chunks of 128 KiB", size=(6.4, 3.8)
    ) as (axes,):
        for shape, style in zip(SHAPES, ("-", "--"), strict=True):
            chosen = [row for row in rows if row["mesh"] == name_of(shape)]
            for column in (METHOD, SEARCH):
                way = column.removesuffix(" (s)")
                sizes, times = (
                    [row["size (MiB)"] for row in chosen],
                    [row[column] for row in chosen],
                )
                figures.line(
                    axes, way, sizes, times, linestyle=style, label=f"{way}, {name_of(shape)}"
                )
        figures.stated(axes, 512, 1.83 * 60, "paper: 1.83 min (3D)")
        figures.log_scales(axes, sorted({row["size (MiB)"] for row in rows}))
        axes.set_xlabel("buffer of each NPU (MiB)")
        axes.set_ylabel("CPU time (s)")
        axes.legend(loc="upper left")
