"""How busy each link is with two process groups (the paper's process_group_heatmap)."""

from __future__ import annotations

from pathlib import Path

from matplotlib.colors import Normalize

from benchmarks.paper import figures
from benchmarks.paper.setting import WAYS, Claim, Row, all_to_all, mesh, simulated, spread_rows

TITLE = "Link utilization with two process groups"
CHOICES = """\
Two rows of a 6x6 mesh, the second and the fifth, each run an All-to-All of 16 chunks of 1 MiB a pair. The paper gives
neither the mesh nor the rows; the section above has two rows of other meshes. A link's colour is the share of the whole
time for which it is held; its two directions lie side by side, each on the right as seen by its sender."""

CHUNKS = 16


def run(width: int = 6) -> list[Row]:
    """How busy the links are, whichever way it is run."""
    network, groups = mesh(width, width), spread_rows(width, 2)
    rows: list[Row] = []
    for way, make in WAYS.items():
        simulation, time = simulated(
            make(network, *(all_to_all(group, CHUNKS) for group in groups))
        )
        busy = simulation.utilization
        before = rows[0]["time (us)"] if rows else time
        rows.append({
            "way": way, "time (us)": time, "over Direct (x)": before / time, "links in use": f"{(busy > 0).mean():.0%}",
            "mean utilization": f"{busy.mean():.0%}", "utilization": busy,
        })  # fmt: skip
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    """The paper's speedup."""
    here = [f"{row['over Direct (x)']:.2f}x" for row in rows[1:]]
    return [
        Claim(
            "two groups over Direct",
            "2.8x",
            *here,
            "The same to within the paper's precision, on the mesh that we chose.",
        )
    ]


def draw(rows: list[Row], path: Path) -> None:
    """The mesh once for each way."""
    width = round(
        (1 + (1 + rows[0]["utilization"].size) ** 0.5) / 2
    )  # a mesh has 4 width (width - 1) links
    network = mesh(width, width)
    titles = [f"{figures.capital(row['way'])}: {row['time (us)'] / 1e3:.2f} ms" for row in rows]
    with figures.panels(path, *titles, size=(3.3, 3.5)) as every:
        for axes, row in zip(every, rows, strict=True):
            shares, norm = 100 * row["utilization"], Normalize(0.1, 100)
            drawn = figures.grid_network(axes, network, width, shares, figures.HEAT, norm)
            figures.npus(axes, width, network.num_npus, spread_rows(width, 2))
        bar = every[-1].figure.colorbar(drawn, ax=every, shrink=0.8, aspect=25)
        bar.set_label("link utilization (%); idle: grey")
