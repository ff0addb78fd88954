"""How busy the network is over time (the paper's utilizationGraph)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.paper import figures
from benchmarks.paper.setting import MIB, WAYS, Claim, Row, all_to_all, mesh, simulated

TITLE = "Network utilization over time"
CHOICES = """\
All-to-All of 128 MiB on an 8x8 mesh, in chunks of 1 MiB: among all 64 NPUs (2 chunks a pair), and among 32 of them (4
chunks a pair). The paper does not say which 32: we take every second column, NPUs 0, 2, 4, ..., 62. Among the first
four rows instead the paper's method is {first_rows:.2f}x as fast as Direct."""

WIDTH, SIZE = 8, 128 * MIB
INTERVALS = 60


def run(width: int = WIDTH, size: int = SIZE) -> list[Row]:
    """Utilization over time for both groups, whichever way they are run."""
    npus = width * width
    groups = {npus: range(npus), npus // 2: range(0, npus, 2)}
    rows = []
    for members, group in groups.items():
        rows += _rows(width, f"{members} NPUs", list(group), size)
    rows += _rows(width, f"{npus // 2} NPUs, first rows", list(range(npus // 2)), size)
    return rows


def choices(rows: list[Row]) -> str:
    """The choices, with the number of the other placement."""
    return CHOICES.format(first_rows=rows[-2]["over Direct (x)"])


def claims(rows: list[Row]) -> list[Claim]:
    """The paper's speedup for 32 NPUs, and what it says of 64."""
    faster = {
        row["group"]: [r["over Direct (x)"] for r in rows if r["group"] == row["group"]][1:]
        for row in rows
    }
    everyone, half = list(faster.values())[:2]
    every = [f"{value:.2f}x" for value in everyone]
    return [
        Claim("32 of 64 NPUs, over Direct", "1.88x", *(f"{value:.2f}x" for value in half),
              "Every second column leaves as many links free as it takes, which allows 2x."),
        Claim("all 64 NPUs, over Direct", "shorter", *every,
              "Links across the middle are the limit, and Direct nearly fills them."),
    ]  # fmt: skip


def draw(rows: list[Row], path: Path) -> None:
    """One panel for each group."""
    groups = list(dict.fromkeys(row["group"] for row in rows))[:2]
    with figures.panels(path, *(f"Group of {group}" for group in groups), sharey=True) as every:
        for axes, group in zip(every, groups, strict=True):
            for row in (row for row in rows if row["group"] == group):
                edges = np.linspace(0, row["time (us)"] / 1e3, row["utilization"].size + 1)
                axes.stairs(100 * row["utilization"], edges, color=figures.COLOURS[row["way"]], label=row["way"],
                            linewidth=1.4, baseline=0)  # fmt: skip
            axes.set_xlabel("time (ms)")
            axes.set_xlim(left=0)
            axes.set_ylim(0, 105)
        every[0].set_ylabel("links in use (%)")
        every[0].legend(loc="lower left")


def _rows(width: int, name: str, group: list[int], size: int) -> list[Row]:
    network = mesh(width, width)
    chunks = max(size // MIB // len(group), 1)
    rows: list[Row] = []
    for way, make in WAYS.items():
        simulation, time = simulated(make(network, all_to_all(group, chunks)))
        before = rows[0]["time (us)"] if rows else time
        rows.append({
            "group": name, "way": way, "time (us)": time, "over Direct (x)": before / time,
            "mean utilization": f"{simulation.utilization.mean():.0%}",
            "utilization": simulation.utilization_over_time(INTERVALS),
        })  # fmt: skip
    return rows
