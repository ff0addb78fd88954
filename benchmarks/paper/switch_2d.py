"""All-to-All on a heterogeneous 2D switch (the paper's switch_2d_a2a)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pccl
from benchmarks.paper import figures
from benchmarks.paper.setting import (
    METHOD,
    MIB,
    SEARCH,
    Claim,
    Row,
    all_to_all,
    average,
    compared,
    microseconds,
)

TITLE = "2D switch: All-to-All against Direct"
CHOICES = """\
Nodes of 8 NPUs: 400 GiB/s inside a node, one rail of 50 GiB/s for each place in a node between them, 500 ns,
unlimited switches. The paper gives no speeds. All-to-All among all NPUs, one chunk of 1 MiB a pair. Direct issues all
messages at once and goes through the own node's switch first; it is shown in two orders, of which the paper does not
say which it has: *ascending*, by destination (everyone sends to NPU 0 first), and *staggered* (NPU i sends to i + 1
first, as a pairwise exchange does, and as our baseline)."""

PER_NODE = 8
STAGGERED = "Direct, staggered (x)"


def run(nodes: Sequence[int] = (2, 4, 8, 16, 32)) -> list[Row]:
    """Times for each number of nodes."""
    rows = []
    for number in nodes:
        npus = PER_NODE * number
        network = pccl.topology.switch_2d(
            PER_NODE, number, bandwidth=("400GiB/s", "50GiB/s"), latency="500ns", exclusive=True
        )
        row = compared(network, all_to_all(range(npus), 1))
        row[STAGGERED] = row["Direct (us)"] / microseconds(_staggered(network))
        rows.append({"NPUs": npus, **row})
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    """The paper's average over all sizes."""
    over_staggered = [
        {column: row[column] / row[STAGGERED] for column in (METHOD, SEARCH)} for row in rows
    ]
    gains = sorted(row[SEARCH] for row in over_staggered)
    two = (
        ("ascending", rows, "Where everyone sends to the same NPU first, Direct loses up to half of the time."),
        ("staggered", over_staggered, "Staggered, Direct keeps every rail busy, which leaves little to gain: our "
         f"search is {gains[0]:.2f} to {gains[-1]:.2f} times as fast. The paper's number lies between the two orders, "
         "and depends on speeds that it does not give."),
    )  # fmt: skip
    return [
        Claim(
            f"average over Direct, {order}",
            "1.33x",
            *(f"{average(of, c):.2f}x" for c in (METHOD, SEARCH)),
            why,
        )
        for order, of, why in two
    ]


def draw(rows: list[Row], path: Path) -> None:
    """Bandwidth, and how many times Direct's it is."""
    npus = [row["NPUs"] for row in rows]
    series = {"the paper's method": METHOD, "our search": SEARCH}
    look = {"color": figures.GREEN, "marker": "^", "label": "Direct, staggered"}
    with figures.panels(path, "Algorithm bandwidth", "Over Direct, ascending") as (left, right):
        bandwidth = [row["NPUs"] * MIB / row["Direct (us)"] / 1e3 for row in rows]
        figures.line(left, "Direct", npus, bandwidth, label="Direct, ascending")
        right.axhline(1, color=figures.COLOURS["Direct"], linestyle="--", linewidth=1)
        for axes, scale in ((left, bandwidth), (right, [1.0] * len(rows))):
            times = [row[STAGGERED] * factor for row, factor in zip(rows, scale, strict=True)]
            axes.plot(npus, times, **look)
            for way, column in series.items():
                figures.line(
                    axes, way, npus, [row[column] * s for row, s in zip(rows, scale, strict=True)]
                )
            axes.set_xscale("log")
            axes.set_xticks(npus, map(str, npus))
            axes.set_xticks([], minor=True)
            axes.set_xlabel("NPUs")
        left.set_ylabel("bandwidth (GB/s)")
        right.set_ylabel("bandwidth over Direct (times)")
        right.axhline(
            1.33, color=figures.STATED["color"], linestyle=":", label="paper's average: 1.33x"
        )
        right.legend(handles=right.lines[-1:], loc="lower right")
        left.legend(loc="upper right")
        for axes in (left, right):
            figures.from_zero(axes)


def _staggered(network: pccl.Topology) -> pccl.Algorithm:
    """Direct, each NPU beginning with the one after itself."""
    return pccl.baseline("direct", network, pccl.AllToAll(pccl.units.Bytes(network.num_npus * MIB)))
