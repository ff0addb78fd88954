"""Ours beside every baseline, from 1 KiB to 1 GiB: ``python -m benchmarks.sizes [--only TEXT]``.

Every collective is synthesized on every machine at every size, with effort balanced and as many chunks as the search
likes, and set beside all baselines that apply. Times are in microseconds. A row where ours is slower is marked, and
then the status is 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pccl
from pccl.topology import parse_topology

MACHINES = (
    "dgx1", "a100:2", "h100:4", "dgx2:2", "ndv2:2", "mi250:2", "switch:8", "torus:4x4", "mesh:4x4", "hypercube:4",
)  # fmt: skip
KINDS = (pccl.AllGather, pccl.ReduceScatter, pccl.AllReduce, pccl.AllToAll)
SIZES = ("1KiB", "16KiB", "256KiB", "4MiB", "64MiB", "1GiB")


@dataclass(frozen=True)
class Row:
    """One line of the table; times are in picoseconds."""

    name: str
    size: str
    ours: int
    method: str
    seconds: float
    best: int
    baseline: str

    @property
    def slower(self) -> bool:
        """Whether a baseline is faster."""
        return self.ours > self.best

    def __str__(self) -> str:
        mark = " **slower**" if self.slower else ""
        times = f"{self.ours / 1e6:,.2f} | {self.best / 1e6:,.2f} | {self.best / self.ours:.2f}x"
        return f"| {self.name} | {self.size} | {times}{mark} | {self.baseline} | {self.method} | {self.seconds:.1f} |"


def measure(machine: str, kind: type[pccl.Collective], size: str) -> Row:
    """Synthesize one collective of one size on one machine, and run all baselines."""
    topology = parse_topology(machine)
    begin = time.process_time()
    ours = pccl.synthesize(topology, kind(size))
    seconds = time.process_time() - begin
    best = pccl.compare(ours, bound=False).best_baseline
    if best is None or best.duration is None:
        raise pccl.PcclError(f"no baseline runs {kind.kind} on {machine}")
    method = ours.provenance.method.partition(": ")[2]
    name = f"{kind.kind}, {machine}"
    return Row(name, size, int(ours.duration), method, seconds, int(best.duration), best.name)


def rows(only: str = "") -> Iterator[Row]:
    """All rows whose name contains a text."""
    for machine in MACHINES:
        for kind in KINDS:
            for size in SIZES:
                if only in f"{kind.kind}, {machine} {size}":
                    yield measure(machine, kind, size)


def main() -> int:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    print("| workload | size | ours | best baseline | | which | found by | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    slower = 0
    for row in rows(parser.parse_args().only):
        print(row, flush=True)
        slower += row.slower
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
