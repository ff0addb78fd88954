"""Whether every runtime takes what we find, and how long it takes there: ``python -m benchmarks.matrix``.

Each row is a plan with the defaults: its number of chunks, its time, and the time of its messages between NPUs in each
runtime (how many times as long as planned), or why the runtime cannot take it. With ``--for`` every plan is made for
the runtime of its column. The two matrices are those that users have tried: ``machines`` and ``defaults``.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pccl
from pccl.targets import TARGETS
from pccl.topology import parse_topology

FILES = {"msccl": "algo.xml", "mscclpp": "algo.plan.json", "chakra": "algo"}
KINDS = {
    "all-gather": pccl.AllGather, "reduce-scatter": pccl.ReduceScatter, "all-reduce": pccl.AllReduce,
    "all-to-all": pccl.AllToAll,
}  # fmt: skip
# Networks, by what the table calls them, with the ranks of the group; None for all.
NETWORKS: dict[str, tuple[str, range | None]] = {
    name: (name, None)
    for name in ("dgx1", "a100:2", "h100:1", "h100:4", "mi250:2", "mesh:4x4", "switch:8", "torus:4x4", "mesh:8x8",
                 "dgx2:1", "torus:4x4x4")
} | {"mesh:8x8 row": ("mesh:8x8", range(8))}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """What to plan."""

    network: str
    kind: str
    size: str

    def plan(self, target: str | None = None) -> pccl.Algorithm:
        """The plan with the defaults."""
        name, group = NETWORKS[self.network]
        collective = KINDS[self.kind](self.size, group=None if group is None else list(group))
        return pccl.synthesize(parse_topology(name), collective, target=target)


MATRICES = {
    "machines": [
        Case(network, kind, size)
        for network in ("dgx1", "a100:2", "h100:1", "h100:4", "mi250:2", "mesh:4x4", "mesh:8x8 row", "switch:8",
                        "torus:4x4")
        for kind in KINDS
        for size in ("64KiB", "64MiB")
    ],
    "defaults": [
        Case(network, kind, "64MiB")
        for network in ("dgx1", "a100:2", "h100:4", "mesh:8x8", "torus:4x4x4")
        for kind in ("all-gather", "all-reduce", "all-to-all")
    ],
}  # fmt: skip


def written(algorithm: pccl.Algorithm, target: str) -> tuple[str, bool]:
    """The time in a runtime, also as a share of the plan, or why it cannot take it; and whether a file was written."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            pccl.export(algorithm, Path(folder) / FILES[target], target)
        except pccl.PcclError as error:
            return f"refused: {error}", False
    lowered = int(TARGETS[target].time_of(algorithm, quick=False))
    ratio = lowered / max(int(algorithm.duration), 1)
    return f"{lowered / 1e6:,.2f} ({ratio:.3f})", True


def rows(cases: list[Case], made_for_each: bool) -> Iterator[tuple[Case, list[str], bool]]:
    """Each case with what the table says of it, and whether all files were written."""
    for case in cases:
        plan = None if made_for_each else case.plan()
        cells = (
            []
            if plan is None
            else [f"{plan.collectives[0].pieces}", f"{int(plan.duration) / 1e6:,.2f}"]
        )
        complete = True
        for target in FILES:
            cell, is_written = written(plan or case.plan(target), target)
            cells.append(cell)
            complete &= is_written
        yield case, cells, complete


def main() -> None:
    """Print the tables; exits non-zero if something was not written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matrix", choices=MATRICES, help="by default both")
    parser.add_argument("--network", action="append", choices=NETWORKS, help="by default all")
    parser.add_argument("--size", help="by default all, such as 64MiB")
    parser.add_argument("--for", dest="each", action="store_true", help="a plan for every runtime")
    given = parser.parse_args()
    missing = 0
    for name in [given.matrix] if given.matrix else MATRICES:
        cases = [
            case
            for case in MATRICES[name]
            if case.network in (given.network or NETWORKS) and given.size in (None, case.size)
        ]
        about = [] if given.each else ["chunks", "planned us"]
        print("  ".join([f"{name:<36}", *(f"{title:>18}" for title in (*about, *FILES))]))
        for case, cells, complete in rows(cases, given.each):
            label = f"{case.network:<14}{case.kind:<16}{case.size:<6}"
            print("  ".join([label, *(f"{cell:>18}" for cell in cells)]), flush=True)
            missing += not complete
    if missing:
        raise SystemExit(f"not everything was written in {missing} rows")


if __name__ == "__main__":
    main()
