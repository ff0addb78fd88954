"""How good the algorithms are: ``python -m benchmarks.quality [--only TEXT] [--effort NAME] [--write]``.

Every workload is synthesized, verified, bounded and set beside the baselines that apply to it (as they are, and cut
into as many chunks as ours; those that would take too long are left out). Times are in steps (one chunk over one link)
where all links are alike, in microseconds elsewhere. CPU time is that of one synthesis, after kernels are compiled, on
two threads. The goal is what we promise; what misses it is marked. ``--write`` renews the page docs/quality.md.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import networkx
import numpy as np

import pccl
from pccl.collective import Collective
from pccl.topology import Topology, parse_topology

PAGE = Path(__file__).parents[1] / "docs" / "quality.md"
STEP = 1_000_000  # a chunk of 1 kB over a link of 1 GB/s, in picoseconds
EVEN = {"bandwidth": "1GB/s", "latency": "0ns"}
MACHINES = ("dgx1", "a100:2", "mi250:2", "dgx2:2", "ndv2:2", "ndv2:4", "h100:4")


@dataclass(frozen=True)
class Workload:
    """What to synthesize, in which unit to show it, and what we promise."""

    section: str
    name: str
    topology: Callable[[], Topology]
    collectives: Callable[[int], Sequence[Collective]]  # given the number of NPUs
    goal: float | None = None  # in units
    most_gap: float | None = None
    unit: str = "steps"


@dataclass(frozen=True)
class Result:
    """A line of the table."""

    workload: Workload
    time: float
    bound: float
    seconds: float
    method: str
    chunks: str
    baseline: tuple[str, float] | None

    @property
    def gap(self) -> float:
        """By how much it exceeds the bound."""
        return self.time / self.bound - 1

    @property
    def missed(self) -> bool:
        """Whether it is not what we promise."""
        w = self.workload
        slower = self.baseline is not None and self.time > self.baseline[1] * (1 + 1e-9)
        return (
            slower
            or (w.goal is not None and self.time > w.goal + 1e-9)
            or (w.most_gap or 9.0) < self.gap
        )


# --- workloads -------------------------------------------------------------------------------------------------------


def even(make: Callable[..., Topology], *shape: int, **options: bool) -> Callable[[], Topology]:
    return lambda: make(*shape, **EVEN, **options)


def whole(kind: type[Collective], chunks: int = 1) -> Callable[[int], Sequence[Collective]]:
    """One chunk of 1 kB for each share and piece, among all NPUs."""
    return lambda n: [kind(f"{n * chunks}kB", chunks=chunks)]


def rows(
    kind: type[Collective], numbers: Sequence[int], chunks: int
) -> Callable[[int], Sequence[Collective]]:
    """Process groups are rows of the 8x8 mesh."""
    return lambda _: [
        kind(f"{8 * chunks}kB", range(8 * row, 8 * row + 8), chunks) for row in numbers
    ]


def buffer(
    kind: type[Collective], size: int, chunks: int | None
) -> Callable[[int], Sequence[Collective]]:
    """A buffer of about that size for each NPU."""

    def make(n: int) -> Sequence[Collective]:
        unit = n * (chunks or 1)
        return [kind(pccl.units.Bytes(max(1, size // unit) * unit), chunks=chunks)]

    return make


def random_regular(degree: int) -> Topology:
    graph = networkx.DiGraph(networkx.random_regular_graph(degree, 64, seed=1))
    networkx.set_edge_attributes(graph, EVEN["bandwidth"], "bandwidth")
    networkx.set_edge_attributes(graph, EVEN["latency"], "latency")
    return pccl.topology.from_networkx(graph)


def damaged_mesh() -> Topology:
    """An 8x8 mesh without a tenth of its links, the first seed for which it hangs together."""
    mesh = pccl.topology.mesh(8, 8, **EVEN)
    for seed in range(100):
        failed = np.random.default_rng(seed).permutation(mesh.num_links)[: mesh.num_links // 10]
        damaged = mesh.without(links=failed.tolist())
        graph = networkx.DiGraph(zip(damaged.src.tolist(), damaged.dst.tolist(), strict=True))
        if len(graph) == 64 and networkx.is_strongly_connected(graph):
            return damaged
    raise RuntimeError("no seed leaves the mesh in one piece")


def workloads() -> Iterator[Workload]:
    t, gather, exchange = pccl.topology, pccl.AllGather, pccl.AllToAll
    for name, topology, chunks, goal in (
        ("mesh 8x8", even(t.mesh, 8, 8), 1, 32),
        ("mesh 16x16", even(t.mesh, 16, 16), 1, 128),
        ("mesh 32x32", even(t.mesh, 32, 32), 1, 512),
        ("mesh 8x8x8", even(t.mesh, 8, 8, 8), 1, 171),
        ("mesh 8x8x8, 4 chunks", even(t.mesh, 8, 8, 8), 4, 682),
        ("torus 8x8x8", even(t.torus, 8, 8, 8), 1, 87),
        ("torus 4x4, 8 chunks", even(t.torus, 4, 4), 8, 30),
        ("ring of 16, 4 chunks", even(t.ring, 16), 4, 30),
        ("one-way ring of 16, 4 chunks", even(t.ring, 16, unidirectional=True), 4, 60),
        ("hypercube of 64", even(t.hypercube, 6), 1, 11),
        ("hypercube of 64, 4 chunks", even(t.hypercube, 6), 4, 43),
        ("fully connected 16, 4 chunks", even(t.fully_connected, 16), 4, 4),
    ):
        yield Workload("All-Gather", name, topology, whole(gather, chunks), goal)
    for name, topology, goal in (
        ("mesh 4x4", even(t.mesh, 4, 4), 17),
        ("mesh 8x8", even(t.mesh, 8, 8), 130),
        ("mesh 8x8x8", even(t.mesh, 8, 8, 8), 1030),
        ("torus 8x8", even(t.torus, 8, 8), 66),
        ("torus 4x4x4", even(t.torus, 4, 4, 4), 34),
    ):
        yield Workload("All-to-All", name, topology, whole(exchange), goal)
    for kind, name, numbers, chunks, goal in (
        (gather, "All-Gather, one row, 32 chunks", [4], 32, 76),
        (gather, "All-Gather, two rows, 8 chunks", [2, 6], 8, 20),
        (gather, "All-Gather, four rows, 8 chunks", [1, 3, 5, 7], 8, 30),
        (gather, "All-Gather, all rows, 8 chunks", range(8), 8, 57),
        (exchange, "All-to-All, one row, 16 chunks", [4], 16, 47),
        (exchange, "All-to-All, one row, 64 chunks", [4], 64, 163),
        (exchange, "All-to-All, two rows, 16 chunks", [2, 6], 16, 68),
        (exchange, "All-to-All, all rows, 4 chunks", range(8), 4, 64),
    ):
        yield Workload(
            "Process groups: rows of the 8x8 mesh",
            name,
            even(t.mesh, 8, 8),
            rows(kind, numbers, chunks),
            goal,
        )
    for kind, what in ((gather, "All-Gather"), (exchange, "All-to-All")):
        for name, topology in (
            ("random 3-regular, 64 NPUs", lambda: random_regular(3)),
            ("random 4-regular, 64 NPUs", lambda: random_regular(4)),
            ("dragonfly 5x4x2", even(t.dragonfly, 5, 4, 2)),
            ("leaf-spine 4x8x4", even(t.leaf_spine, 4, 8, 4)),
            ("mesh 8x8, 10 % of links failed", damaged_mesh),
        ):
            yield Workload(
                "Irregular networks, 4 chunks",
                f"{what}, {name}",
                topology,
                whole(kind, 4),
                most_gap=0.10,
            )
    yield from machine_workloads()


def machine_workloads() -> Iterator[Workload]:
    kinds = (
        (pccl.AllToAll, "All-to-All", 16),
        (pccl.AllGather, "All-Gather", 64),
        (pccl.ReduceScatter, "Reduce-Scatter", 64),
        (pccl.AllReduce, "All-Reduce", 64),
    )
    for machine in MACHINES:
        for kind, what, chunks in kinds:
            gap = (
                None
                if kind is pccl.AllReduce
                else 0.04
                if machine == "mi250:2" and chunks == 64
                else 0.03
            )
            given = buffer(
                kind, 10**9, chunks // 2 if machine in ("dgx2:2", "ndv2:4", "h100:4") else chunks
            )
            yield Workload(
                "Machines, 1 GB",
                f"{what}, {machine}",
                named(machine),
                given,
                most_gap=gap,
                unit="us",
            )
    for machine in (*MACHINES, "mesh:8x8", "torus:4x4x4", "switch2d:4x4"):
        for kind, what, _ in kinds:
            yield Workload(
                "Small, 1 KiB",
                f"{what}, {machine}",
                named(machine),
                buffer(kind, 1024, None),
                unit="us",
            )
    for machine in (*MACHINES, "mesh:8x8"):
        for kind, what, _ in kinds:
            yield Workload(
                "1 MB", f"{what}, {machine}", named(machine), buffer(kind, 10**6, None), unit="us"
            )


def named(machine: str) -> Callable[[], Topology]:
    return lambda: parse_topology(machine)


# --- measuring -------------------------------------------------------------------------------------------------------


def measure(workload: Workload, effort: str) -> Result:
    topology = workload.topology()
    collectives = workload.collectives(topology.num_npus)
    begin = time.process_time()
    algorithm = pccl.synthesize(topology, *collectives, effort=effort)
    seconds = time.process_time() - begin
    scale = STEP  # a step and a microsecond are the same here
    cuts = [algorithm.collectives]
    cuts += [tuple(collectives)] * (tuple(collectives) != algorithm.collectives)  # not cut at all
    best = best_baseline(topology, cuts)
    return Result(
        workload,
        int(algorithm.duration) / scale,
        int(pccl.lower_bound(topology, *collectives).value) / scale,
        seconds,
        algorithm.provenance.method.partition(": ")[2],
        "" if collectives[0].chunks else f"{algorithm.collectives[0].chunks} chunks",
        None if best is None else (best[0], best[1] / scale),
    )


def beside_its_phases(workload: Workload, results: Sequence[Result]) -> Workload:
    """On machines, an All-Reduce is to take at most 1.01 times as long as its two phases, and less for small data."""
    what, _, machine = workload.name.partition(", ")
    parts = [f"{phase}, {machine}" for phase in ("All-Gather", "Reduce-Scatter")]
    phases = [
        r.time
        for r in results
        if r.workload.section == workload.section and r.workload.name in parts
    ]
    if what != "All-Reduce" or machine not in MACHINES or len(phases) != 2:
        return workload
    picosecond = 1e-6
    return replace(
        workload,
        goal=1.01 * sum(phases) if "1 GB" in workload.section else sum(phases) - picosecond,
    )


def best_baseline(
    topology: Topology, cuts: Sequence[Sequence[Collective]]
) -> tuple[str, int] | None:
    found: dict[str, int] = {}
    for collectives in cuts:
        for entry in pccl.baselines():
            if entry.synthesizes:  # with our own method
                continue
            try:
                duration = int(pccl.baseline(entry.name, topology, *collectives).duration)
            except pccl.PcclError:  # does not apply
                continue
            found[entry.name] = min(duration, found.get(entry.name, duration))
    return min(found.items(), key=lambda item: item[1], default=None)


def lines(results: Sequence[Result]) -> Iterator[str]:
    section = ""
    for r in results:
        if r.workload.section != section:
            section = r.workload.section
            yield ""
            yield f"## {section}"
            yield ""
            yield f"| workload | {r.workload.unit} | bound | gap | goal | CPU s | found by | best baseline |"
            yield "|---|---|---|---|---|---|---|---|"
        goal = (
            f"{r.workload.goal:g}"
            if r.workload.goal
            else f"{r.workload.most_gap:.0%}"
            if r.workload.most_gap
            else ""
        )
        other = (
            f"{r.baseline[0]} {r.baseline[1]:,.2f} ({r.baseline[1] / r.time:.2f}x)"
            if r.baseline
            else ""
        )
        name = ", ".join(filter(None, (r.workload.name, r.chunks)))
        yield (
            f"| {name}{' **(missed)**' if r.missed else ''} | {r.time:,.2f} | {r.bound:,.2f} | {r.gap:.1%} | {goal} "
            f"| {r.seconds:.2f} | {r.method} | {other} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="workloads whose section or name contains this")
    parser.add_argument("--effort", default="balanced")
    parser.add_argument("--write", action="store_true", help="renew docs/quality.md")
    asked = parser.parse_args()
    pccl.synthesize(
        pccl.topology.mesh(2, 2), pccl.AllReduce("4MiB"), pccl.AllToAll("4MiB")
    )  # compiles
    results = []
    for workload in workloads():
        if asked.only in f"{workload.section}: {workload.name}":
            results.append(measure(beside_its_phases(workload, results), asked.effort))
            print(list(lines(results))[-1], flush=True)
    missed = [r for r in results if r.missed]
    print(f"{len(results)} workloads, {len(missed)} of them miss what we promise")
    if asked.write:
        write(results, asked.effort)


def write(results: Sequence[Result], effort: str) -> None:
    machine = (
        f"{platform.machine()}, Python {platform.python_version()}, two cores of a virtual machine"
    )
    head = f"""# How good the algorithms are

`make quality` renews this page: effort `{effort}`, {machine}. Times are in steps (one chunk over one link) where all
links are alike, else in microseconds; the bound is what `pccl.lower_bound` proves (for any way to cut the data into
chunks where their number is searched for); CPU time is that of one synthesis on two threads, after kernels are
compiled. The goal is a time, or a gap. The last column is the best of the [baselines](baselines.md), cut into as many
chunks as ours or not at all, and how many times longer it takes. [Machines](topologies.md#machines) are as they are
without options. The goal of an All-Reduce on a machine is 1.01 times what its Reduce-Scatter and its All-Gather take
together; for small data, less than that.

An All-Reduce of 1 KiB on `dgx1` is hardly faster than its phases: we collect each sum in one place and spread it from
there, and any place is two links away from the farthest NPU, there and back. To exchange partial sums pairwise would
take two latencies instead of four; such algorithms are not synthesized yet."""
    PAGE.write_text("\n".join([head, *lines(results), ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
