"""How long exports to runtimes take, on networks of 64 NPUs: ``python -m benchmarks.export``.

CPU time is that of the export alone, with the interpreter that runs every file before it is saved, after kernels are
compiled. Algorithms are synthesized with the effort ``fast``, since theirs are no smaller than others. A schedule that
a runtime has no room for is refused, with a line that says why; that has to be as quick.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import product
from pathlib import Path

import pccl
from pccl.topology import parse_topology

TOPOLOGIES = (
    "ring:64", "ring:64,unidirectional", "mesh:8x8", "torus:8x8", "torus:4x4x4", "hypercube:6", "fully-connected:64",
    "switch:64", "leaf-spine:8x8x4", "switch2d:8x8", "dgx1:8", "a100:8", "h100:8",
)  # fmt: skip
COLLECTIVES = {
    "all-to-all": pccl.AllToAll, "all-gather": pccl.AllGather, "reduce-scatter": pccl.ReduceScatter,
    "all-reduce": pccl.AllReduce,
}  # fmt: skip
FORMATS = {"msccl": "algo.xml", "mscclpp": "algo.plan.json"}
MOST_SECONDS = 10
ROW = "{:<24}{:<15}{:>6}  {:<8}{:>10}{:>8}{:>7}  {}"


def measure(
    algorithm: pccl.Algorithm, format: str, folder: Path, in_place: bool
) -> tuple[float, str]:
    """CPU seconds of one export, and what came of it."""
    begin = time.process_time()
    try:
        result = pccl.export(algorithm, folder / FORMATS[format], format, in_place=in_place)[
            "checked"
        ]
    except pccl.PcclError as error:
        result = f"refused: {error}"
    return time.process_time() - begin, result


def main() -> None:
    """Print the table; exits non-zero if a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topology", action="append", help="one of 64 NPUs; by default many")
    parser.add_argument(
        "--collective", action="append", choices=COLLECTIVES, help="by default the first two"
    )
    parser.add_argument("--chunks", action="append", type=int, help="by default 1 and 4")
    parser.add_argument("--in-place", action="store_true", help="export for calls in place")
    given = parser.parse_args()
    print(
        ROW.format(
            "topology", "collective", "chunks", "format", "transfers", "CPU s", "limit", "result"
        ),
        flush=True,
    )
    slow = []
    with tempfile.TemporaryDirectory() as folder:
        small = pccl.synthesize(parse_topology("ring:4"), pccl.AllToAll("4MiB"), effort="fast")
        for format in FORMATS:  # noqa: A001
            measure(small, format, Path(folder), given.in_place)  # compiles
        for name, kind, chunks in product(
            given.topology or TOPOLOGIES,
            given.collective or list(COLLECTIVES)[:2],
            given.chunks or (1, 4),
        ):
            task = COLLECTIVES[kind]("64MiB", chunks=chunks)
            algorithm = pccl.synthesize(parse_topology(name), task, effort="fast")
            for format in FORMATS:  # noqa: A001
                seconds, result = measure(algorithm, format, Path(folder), given.in_place)
                row = (
                    name,
                    kind,
                    chunks,
                    format,
                    f"{len(algorithm.transfers):,}",
                    f"{seconds:.2f}",
                    MOST_SECONDS,
                )
                print(ROW.format(*row, result), flush=True)
                if seconds > MOST_SECONDS:
                    slow.append(f"{kind} with {chunks} chunks on {name} as {format}")
    if slow:
        raise SystemExit(f"slower than promised: {', '.join(slow)}")


if __name__ == "__main__":
    main()
