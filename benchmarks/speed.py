"""How long synthesis takes, how good the result is, and what the paper needed: ``python -m benchmarks.speed``.

Every workload runs in a process of its own, after kernels are compiled, on one core; CPU time is the best of several
runs. Links are exclusive, as in the paper, so that time goes in steps (one chunk over one link); beside them stands the
proven bound. The last column is the same search without the restriction to shortest routes, which is the paper's own
method. ``--against FOLDER`` measures another checkout in turn with this one, and says what has become slower.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pccl
from benchmarks import against

ROUNDS = 2  # of measuring both checkouts; the best counts


@dataclass(frozen=True)
class Workload:
    """An All-to-All on a mesh, and the limits we promise."""

    shape: tuple[int, ...]
    chunks: int
    chunk_bytes: int
    runs: int
    most_seconds: float
    most_steps: int | None
    paper: str

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"mesh {'x'.join(map(str, self.shape))}" + (
            f", {self.chunks} chunks" if self.chunks > 1 else ""
        )


WORKLOADS = (
    Workload((6, 6), 1, 2**20, 20, 0.005, None, "-"),
    Workload((8, 8), 1, 2**20, 10, math.inf, None, "-"),
    Workload((8, 8), 64, 2**17, 3, 1.5, None, "1.83 min"),
    Workload((8, 8, 8), 1, 2**20, 5, 1.2, 1032, "11.68 min"),
    Workload((10, 10, 10), 1, 2**20, 2, 8.0, 2515, "2.01 h"),
)


def measure(workload: Workload) -> dict[str, float]:
    """Run one workload in this process."""
    mesh = pccl.topology.mesh(*workload.shape, bandwidth="50GiB/s", latency="500ns", exclusive=True)
    small = pccl.topology.mesh(2, 2, bandwidth="50GiB/s", latency="500ns", exclusive=True)
    pccl.synthesize(small, pccl.AllToAll(size="4MiB"), effort="fast")  # compiles
    size = math.prod(workload.shape) * workload.chunks * workload.chunk_bytes
    collective = pccl.AllToAll(size=pccl.units.Bytes(size), chunks=workload.chunks)
    best = math.inf
    for _ in range(workload.runs):
        begin = time.process_time()
        algorithm = pccl.synthesize(mesh, collective, effort="fast", verify=False)
        best = min(best, time.process_time() - begin)
    step = int(algorithm.transfers.arrival[0] - algorithm.transfers.start[0])
    result = {
        "seconds": best,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        / 2**20,  # of synthesis alone: it comes first
        "steps": algorithm.duration / step,
        "bound": pccl.lower_bound(mesh, collective).value / step,
        "transfers": len(algorithm.transfers),
    }
    begin = time.process_time()
    pccl.verify(algorithm)
    result["verify"] = time.process_time() - begin
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "algorithm.pccl"
        begin = time.process_time()
        algorithm.save(path)
        result["save"] = time.process_time() - begin
        result["megabytes"] = path.stat().st_size / 1e6
        begin = time.process_time()
        loaded = pccl.load(path)
        result["load"] = time.process_time() - begin
    if loaded != algorithm:
        raise SystemExit("the file does not give back what was saved")
    if math.prod(workload.shape) < 1000:  # with detours, 10x10x10 takes most of a minute
        begin = time.process_time()
        detours = pccl.synthesize(
            mesh, collective, effort="fast", verify=False, routes="any", order="farthest-first"
        )
        result["any"] = time.process_time() - begin
        result["any_steps"] = detours.duration / algorithm.duration * result["steps"]
    return result


def measure_apart(number: int, folder: Path) -> dict[str, float]:
    """Run one workload in a process of its own, with the sources of a checkout."""
    output = subprocess.run(
        [sys.executable, "-m", "benchmarks.speed", "--only", str(number)],
        cwd=folder,
        env=against.environment(folder),
        check=True,
        capture_output=True,
        text=True,
    )
    figures: dict[str, float] = json.loads(output.stdout)
    return figures


def compare(other: Path) -> None:
    """Print CPU times here beside those of another checkout, both measured in turn; exits non-zero if slower."""
    comparison = against.Comparison(width=31)
    for number, workload in enumerate(WORKLOADS):
        ours = []
        theirs = []
        for _ in range(ROUNDS):
            ours.append(measure_apart(number, against.HERE))
            theirs.append(measure_apart(number, other))
        for figure in ("seconds", "any", "verify", "save", "load"):
            if figure not in ours[0]:
                continue
            comparison.add(
                f"{workload.name:<22} {figure}",
                [run[figure] for run in ours],
                [run[figure] for run in theirs],
            )
    comparison.finish()


def main() -> None:
    """Print the table; exits non-zero if a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=int, help="run one workload here, print its figures as JSON")
    against.add_option(parser)
    given = parser.parse_args()
    if given.only is not None:
        print(json.dumps(measure(WORKLOADS[given.only])))
    elif given.against is not None:
        compare(given.against)
    else:
        print_table()


def print_table() -> None:
    """Print what everything takes; exits non-zero if a promise is broken."""
    columns = ("All-to-All on", "steps", "bound", "CPU s", "limit", "paper", "peak GiB", "verify s", "save s", "load s",
               "file MB", "any route: steps, CPU s")  # fmt: skip
    widths = (21, 7, 6, 8, 6, 9, 8, 8, 6, 6, 7, 23)
    print(
        "  ".join(name.rjust(width) for name, width in zip(columns, widths, strict=True)),
        flush=True,
    )
    broken = []
    for number, workload in enumerate(WORKLOADS):
        r = measure_apart(number, against.HERE)
        any_route = f"{r['any_steps']:,.0f}, {r['any']:.3g}" if "any" in r else "-"
        limit = "-" if math.isinf(workload.most_seconds) else f"{workload.most_seconds:g}"
        row = (workload.name, f"{r['steps']:,.0f}", f"{r['bound']:,.0f}", f"{r['seconds']:.4f}", limit,
               workload.paper, f"{r['memory']:.2f}", f"{r['verify']:.3f}", f"{r['save']:.2f}", f"{r['load']:.2f}",
               f"{r['megabytes']:.1f}", any_route)  # fmt: skip
        print(
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)),
            flush=True,
        )
        slow = r["seconds"] > workload.most_seconds or max(r["verify"], r["save"], r["load"]) > 10
        if (
            slow
            or r["memory"] > 3e9 / 2**30
            or (workload.most_steps and r["steps"] > workload.most_steps)
        ):
            broken.append(workload.name)
    if broken:
        raise SystemExit(f"more than promised: {', '.join(broken)}")


if __name__ == "__main__":
    main()
