"""Two process groups on a 3x3 mesh, in full (the paper's ProcessGroupSynthesisResult)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.patches import Patch

import pccl
from benchmarks.paper import figures
from benchmarks.paper.setting import MIB, WAYS, Claim, Row, mesh, simulated

TITLE = "Worked example: two process groups on a 3x3 mesh"
CHOICES = """\
NPUs 0-2 run an All-to-Allv: NPU 0 sends 2 MiB to each of the others, which send 1 MiB. NPUs 6-8 run an All-Gather of
1 MiB an NPU. Every share is cut into two chunks (the paper gives no sizes). *Confined* is our search with each group
kept to its own row, as synthesizers that know nothing of groups would have it."""

WIDTH = 3
FIRST, MIDDLE, LAST = (0, 1, 2), (3, 4, 5), (6, 7, 8)
BOTH = figures.PINK


def run() -> list[Row]:
    """Times, and the use of NPUs in no group, whichever way it is run."""
    network, collectives = mesh(WIDTH, WIDTH), _collectives()
    ways = {**WAYS, "confined": lambda *args: pccl.baseline("confined", *args)}
    rows: list[Row] = []
    for way in ("Direct", "confined", "the paper's method", "our search"):
        algorithm = ways[way](network, *collectives)
        t, (simulation, time) = algorithm.transfers, simulated(algorithm)
        relayed = np.isin(t.src, MIDDLE) | np.isin(t.dst, MIDDLE)
        rows.append({
            "way": way, "time (us)": time, "over Direct (x)": (rows[0]["time (us)"] if rows else time) / time,
            "transfers": len(t), "to or from NPUs 3-5": int(relayed.sum()),
            "link": t.link, "start": simulation.start / 1e6, "held": simulation.hold / 1e6,
            "group": algorithm.conditions.collective[t.chunk],
        })  # fmt: skip
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    """The paper's statement about the NPUs in no group."""
    here = [f"{row['to or from NPUs 3-5']} of {row['transfers']} transfers" for row in rows[2:]]
    confined = rows[1]["time (us)"] / rows[2]["time (us)"]
    why = (
        "The paper shows transfers but counts none; the verifier finds no congestion, and the paper's method is "
        f"{confined:.2f}x as fast as groups confined to their rows."
    )
    return [Claim("links of NPUs 3-5, in no group", "actively used", *here, why)]


def draw(rows: list[Row], path: Path) -> None:
    """Which group uses which link, and when: the paper's method."""
    network, row = mesh(WIDTH, WIDTH), rows[2]
    titles = "Links by group", f"The paper's method: {row['time (us)']:.0f} us"
    with figures.panels(path, *titles, size=(4.2, 4.0), width_ratios=(1, 1.6)) as (left, right):
        users = np.zeros(network.num_links, np.int64)
        np.bitwise_or.at(users, row["link"], row["group"] + 1)  # 3: both
        colours = ListedColormap([figures.PALE, *figures.GROUPS, BOTH])
        figures.grid_network(left, network, WIDTH, users, colours, Normalize(-0.5, 3.5))
        figures.npus(left, WIDTH, network.num_npus, (FIRST, LAST))
        used = [link for link in np.lexsort((network.dst, network.src)).tolist() if users[link]]
        place = np.array([used.index(link) for link in row["link"]])
        for group in (0, 1):
            chosen = row["group"] == group
            right.barh(place[chosen], row["held"][chosen], left=row["start"][chosen], height=0.7,
                       color=figures.GROUPS[group], edgecolor="white", linewidth=0.8)  # fmt: skip
        right.set_yticks(
            range(len(used)), [f"{network.src[link]} to {network.dst[link]}" for link in used]
        )
        right.invert_yaxis()
        right.grid(visible=False, axis="y")
        right.set_ylabel("link")
        right.set_xlabel("time (us)")
        labels = ("All-to-Allv, NPUs 0-2", "All-Gather, NPUs 6-8", "both")
        handles = [
            Patch(color=colour, label=label)
            for colour, label in zip((*figures.GROUPS, BOTH), labels, strict=True)
        ]
        left.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.02))


def _collectives() -> tuple[pccl.Collective, ...]:
    one, two = (pccl.units.Bytes(n * MIB) for n in (1, 2))
    uneven = pccl.AllToAllV([[0, two, two], [one, 0, one], [one, one, 0]], group=FIRST, chunks=2)
    return uneven, pccl.AllGather(size=pccl.units.Bytes(3 * MIB), group=LAST, chunks=2)
