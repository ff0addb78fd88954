"""How long exports to runtimes take, on networks of 64 NPUs: ``python -m benchmarks.export``.

CPU time is that of the export alone, with the interpreter that runs every file before it is saved, after kernels are
compiled. Algorithms are synthesized with the effort ``fast``, since theirs are no smaller than others. A schedule that
a runtime has no room for is refused, with a line that says why; that has to be as quick. ``--against FOLDER`` measures
another checkout in turn with this one, and says what has become slower.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pccl
from benchmarks import against
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
RUNS = 3  # of a row in each of two checkouts; the best counts
ROW = "{:<24}{:<15}{:>6}  {:<8}{:>10}{:>8}{:>7}  {}"


class Row(NamedTuple):
    """A schedule that is exported to every runtime."""

    topology: str
    collective: str
    chunks: int
    in_place: bool

    def synthesize(self) -> pccl.Algorithm:
        """Make the schedule, in one pass."""
        task = COLLECTIVES[self.collective]("64MiB", chunks=self.chunks)
        return pccl.synthesize(parse_topology(self.topology), task, effort="fast")


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


def compile_all(folder: Path) -> None:
    """Export something small to every format, so that no row has to wait for compilation."""
    small = pccl.synthesize(parse_topology("ring:4"), pccl.AllToAll("4MiB"), effort="fast")
    for format in FORMATS:  # noqa: A001
        measure(small, format, folder, in_place=False)


def print_table(rows: list[Row]) -> None:
    """Print what everything takes; exits non-zero if a promise is broken."""
    print(
        ROW.format(
            "topology", "collective", "chunks", "format", "transfers", "CPU s", "limit", "result"
        ),
        flush=True,
    )
    slow = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compile_all(folder)
        for row in rows:
            algorithm = row.synthesize()
            for format in FORMATS:  # noqa: A001
                seconds, result = measure(algorithm, format, folder, row.in_place)
                cells = (
                    row.topology,
                    row.collective,
                    row.chunks,
                    format,
                    f"{len(algorithm.transfers):,}",
                    f"{seconds:.2f}",
                    MOST_SECONDS,
                    result,
                )
                print(ROW.format(*cells), flush=True)
                if seconds > MOST_SECONDS:
                    slow.append(
                        f"{row.collective} with {row.chunks} chunks on {row.topology} as {format}"
                    )
    if slow:
        raise SystemExit(f"slower than promised: {', '.join(slow)}")


def serve() -> None:
    """Measure one row for each line of standard input, as often as it comes; answer with seconds of each format."""
    known: dict[Row, pccl.Algorithm] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compile_all(folder)
        for line in sys.stdin:
            row = Row(*json.loads(line))
            if row not in known:
                known = {row: row.synthesize()}
            seconds = {}
            for format in FORMATS:  # noqa: A001
                seconds[format], _ = measure(known[row], format, folder, row.in_place)
            print(json.dumps(seconds), flush=True)


class Server:
    """A process that exports with what a checkout has of pccl, and measures with what stands here."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def measure(self, row: Row) -> dict[str, float]:
        """CPU seconds of one run, by format."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(row), file=self._process.stdin, flush=True)
        seconds: dict[str, float] = json.loads(self._process.stdout.readline())
        return seconds


@contextmanager
def server(checkout: Path) -> Iterator[Server]:
    """Start a server, and end it afterwards."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.export", "--serve"],
        cwd=against.HERE,
        env=against.environment(checkout),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Server(process)


def compare(other: Path, rows: list[Row]) -> None:
    """Print CPU times here beside those of another checkout, both measured in turn; exits non-zero if slower."""
    comparison = against.Comparison(width=55)
    with server(against.HERE) as here, server(other) as there:
        for row in rows:
            ours = []
            theirs = []
            for _ in range(RUNS):
                ours.append(here.measure(row))
                theirs.append(there.measure(row))
            for format in FORMATS:  # noqa: A001
                comparison.add(
                    f"{row.topology:<24}{row.collective:<15}{row.chunks:>6}  {format}",
                    [run[format] for run in ours],
                    [run[format] for run in theirs],
                )
    comparison.finish()


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topology", action="append", help="one of 64 NPUs; by default many")
    parser.add_argument(
        "--collective", action="append", choices=COLLECTIVES, help="by default the first two"
    )
    parser.add_argument("--chunks", action="append", type=int, help="by default 1 and 4")
    parser.add_argument("--in-place", action="store_true", help="export for calls in place")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    against.add_option(parser)
    given = parser.parse_args()
    rows = [
        Row(*row, given.in_place)
        for row in product(
            given.topology or TOPOLOGIES,
            given.collective or list(COLLECTIVES)[:2],
            given.chunks or (1, 4),
        )
    ]
    if given.serve:
        serve()
    elif given.against is not None:
        compare(given.against, rows)
    else:
        print_table(rows)


if __name__ == "__main__":
    main()
