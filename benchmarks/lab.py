"""Plans and Direct on real TCP, in a box: ``python -m benchmarks.lab``; ``--rate 20mbit --runs 5``.

Meshes of 3x3 and 4x4, All-to-All and All-Gather, of all NPUs (4 chunks) and of the second row (16 chunks), chunks of
64 KiB. Prints the rows of the table in docs/lab.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pccl
from pccl.lab import measure
from pccl.units import Bytes

CHUNK = 2**16


def cases() -> Iterator[tuple[str, pccl.Topology, pccl.Collective]]:
    for side in (3, 4):
        mesh = pccl.topology.mesh(side, side, bandwidth="1GB/s", latency="0ns")
        row = range(side, 2 * side)
        for kind in (pccl.AllToAll, pccl.AllGather):
            everybody = kind(Bytes(side * side * 4 * CHUNK), chunks=4)
            yield f"{mesh.name}, {everybody.kind}, all", mesh, everybody
            few = kind(Bytes(side * 16 * CHUNK), group=row, chunks=16)
            yield f"{mesh.name}, {few.kind}, one row", mesh, few


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", default="20mbit")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    for name, network, collective in cases():
        if options.only not in name:
            continue
        plan = pccl.synthesize(network, collective)
        ours, direct = measure(plan, rate=options.rate, against=["direct"], runs=options.runs)
        modelled = direct.planned / ours.planned
        measured = direct.best / ours.best
        cells = (
            name,
            f"{ours.planned:.3f}",
            f"{ours.best:.3f}",
            f"{ours.ratio:.2f}",
            f"{direct.planned:.3f}",
            f"{direct.best:.3f}",
            f"{modelled:.2f}",
            f"{measured:.2f}",
            f"{measured / modelled:.2f}",
        )
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
