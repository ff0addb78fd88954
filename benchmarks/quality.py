"""How good the algorithms are: ``python -m benchmarks.quality [--only TEXT] [--effort NAME] [--write] [--explain]``.

Every workload is synthesized, verified, bounded and set beside the baselines that apply to it (as they are, and cut
into as many chunks as ours; those that would take too long are left out). Times are in steps (one chunk over one link)
where all links are alike, in microseconds elsewhere. CPU time is that of one synthesis, after kernels are compiled;
there is one process for each core, which keeps to it, so that rows do not disturb each other. The goal is what we
promise; what misses it is marked. ``--write`` renews the page docs/quality.md, with what benchmarks/missing.toml says
of rows whose gap is large; the status is 1 if it has nothing to say of some. ``--explain`` searches longer for those,
to tell whether the schedule or the bound is to blame.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue

import networkx
import numpy as np

import pccl
from benchmarks.quality_page import LARGE_GAP, Result, lines, name_of, summary, unexplained, write
from pccl.bounds import tree_optimum
from pccl.collective import Collective
from pccl.formats.lowering.replay import lowered_time
from pccl.topology import Topology, parse_topology
from pccl.units import counted

STEP = 1_000_000  # a chunk of 1 kB over a link of 1 GB/s, in picoseconds
EVEN = {"bandwidth": "1GB/s", "latency": "0ns"}
MACHINES = ("dgx1", "a100:2", "mi250:2", "dgx2:2", "ndv2:2", "ndv2:4", "h100:4")
SIZES = {"1 KiB": 2**10, "64 KiB": 2**16, "1 MB": 10**6, "64 MB": 64 * 10**6, "1 GB": 10**9}
KINDS = {
    "All-to-All": pccl.AllToAll,
    "All-Gather": pccl.AllGather,
    "Reduce-Scatter": pccl.ReduceScatter,
    "All-Reduce": pccl.AllReduce,
}
# With one root; we promise nothing of these but that no baseline is faster.
ROOTED = {"Broadcast": pccl.Broadcast, "Reduce": pccl.Reduce}
# Where latencies count less than this share of the time, an All-Reduce is set beside the optimum over trees.
LARGE = 64 * 10**6
# A longer search of so many seconds either gains more than a little, or the bound is low.
LONGER = 8
LITTLE = 0.02
# Network, size and chunks: for these, all methods and improvements are tried, and all runtimes asked.
SMALL = (("mesh:2x2", "4MiB", 1), ("mesh:4x4", "1MB", None), ("switch2d:2x2", "64KiB", None))
# Whether processes can keep to a core.
CAN_PIN = hasattr(os, "sched_setaffinity")


@dataclass(frozen=True)
class Workload:
    """What to synthesize, in which unit to show it, and what we promise."""

    section: str
    name: str
    topology: Callable[[], Topology]
    collectives: Callable[[int], Sequence[Collective]]  # given the number of NPUs
    goal: float | None = None  # in units
    most_gap: float | None = None
    over_trees: float | None = None  # by which share it may exceed the optimum over trees
    over_way: float | None = None  # how many times the longest unloaded way it may take
    unit: str = "steps"


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
    for size, amount in SIZES.items():
        others = () if amount > 10**6 else ("mesh:8x8", "torus:4x4x4", "switch2d:4x4")
        for machine in (*MACHINES, *others):
            for what, kind in (KINDS | (ROOTED if machine in MACHINES else {})).items():
                sums = what == "All-Reduce"
                promise = 0.04 if machine == "mi250:2" and what != "All-to-All" else 0.03
                is_promised = amount == 10**9 and what in KINDS
                yield Workload(
                    f"Machines, {size}",
                    f"{what}, {machine}",
                    named(machine),
                    buffer(kind, amount, None),
                    most_gap=promise if is_promised and not sums else None,
                    over_trees=0.03 if is_promised and sums else None,
                    unit="us",
                )
    yield from all_reduces()


def all_reduces() -> Iterator[Workload]:
    """What we promise of All-Reduces besides."""
    for chunks, goal in ((1, 46), (4, 155), (16, 600)):
        name = f"mesh 8x8, {chunks} chunk{'s' * (chunks > 1)}"
        yield Workload(
            "All-Reduce on meshes",
            name,
            even(pccl.topology.mesh, 8, 8),
            whole(pccl.AllReduce, chunks),
            goal,
        )
    for mesh in ("mesh:4x4", "mesh:6x6", "mesh:8x8", "mesh:4x4x4"):
        yield Workload(
            "All-Reduce on meshes, 64 MiB",
            mesh,
            named(mesh),
            buffer(pccl.AllReduce, 2**26, None),
            over_trees=0.05,
            unit="us",
        )
    for machine in ("h100:4,nvls=yes,sharp=yes", "switch:8,multicast=yes,reduce=yes"):
        yield Workload(
            "All-Reduce where switches add, 1 GB",
            machine,
            named(machine),
            buffer(pccl.AllReduce, 10**9, None),
            most_gap=0.05,
            unit="us",
        )
    for machine in ("dgx1", "switch:8", "torus:4x4x4", "hypercube:4", "h100:4"):
        yield Workload(
            "All-Reduce without gaps between messages, 1 KiB",
            machine,
            without_gaps(machine),
            buffer(pccl.AllReduce, 2**10, None),
            over_way=1.2,
            unit="us",
        )


def without_gaps(machine: str) -> Callable[[], Topology]:
    def make() -> Topology:
        topology = parse_topology(machine)
        document = pccl.topology.topology_to_dict(topology)
        for link in document["links"]:
            link.pop("gap", None)
        return pccl.topology.topology_from_dict(document)

    return make


def longest_way(topology: Topology) -> float:
    """The longest of the quickest ways between NPUs, in picoseconds: latencies alone."""
    graph = networkx.DiGraph()
    for src, dst, latency in zip(
        topology.src.tolist(), topology.dst.tolist(), topology.latency.tolist(), strict=True
    ):
        graph.add_edge(src, dst, latency=latency)
    ways = dict(networkx.all_pairs_dijkstra_path_length(graph, weight="latency"))
    npus = topology.npus.tolist()
    return float(max(ways[a][b] for a in npus for b in npus))


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
    goal = workload.goal
    if workload.over_way is not None:
        goal = workload.over_way * longest_way(topology) / scale
    cuts = [algorithm.collectives]
    cuts += [tuple(collectives)] * (tuple(collectives) != algorithm.collectives)  # not cut at all
    best = best_baseline(topology, cuts)
    return Result(
        workload.section,
        workload.name,
        workload.unit,
        int(algorithm.duration) / scale,
        int(lowered_time(algorithm)) / scale,
        bool(algorithm.needs),
        best_bound(topology, collectives, algorithm) / scale,
        seconds,
        algorithm.provenance.method.partition(": ")[2],
        "" if collectives[0].chunks else counted(algorithm.collectives[0].pieces, "chunk"),
        goal,
        workload.most_gap,
        workload.over_trees,
        along_trees(topology, collectives, scale),
        None if best is None else (best[0], best[1] / scale),
    )


def best_bound(
    topology: Topology, collectives: Sequence[Collective], algorithm: pccl.Algorithm
) -> int:
    """The best that was proven with the algorithm, or is proven now."""
    bound = int(pccl.lower_bound(topology, *collectives).value)
    return bound if algorithm.bound is None else max(bound, int(algorithm.bound.value))


def along_trees(topology: Topology, collectives: Sequence[Collective], scale: int) -> float | None:
    """The optimum over trees of a large All-Reduce."""
    one = collectives[0]
    if len(collectives) > 1 or one.kind != "all-reduce" or int(one.size) < LARGE:
        return None
    return int(tree_optimum(topology, one)) / scale


def best_baseline(
    topology: Topology, cuts: Sequence[Sequence[Collective]]
) -> tuple[str, int] | None:
    found: dict[str, int] = {}
    for collectives in cuts:
        for entry in pccl.baselines():
            # With our own method, or by what is run for itself if all are of one kind.
            if entry.synthesizes or entry.mixes:
                continue
            try:
                duration = int(pccl.baseline(entry.name, topology, *collectives).duration)
            except pccl.PcclError:  # does not apply
                continue
            found[entry.name] = min(duration, found.get(entry.name, duration))
    return min(found.items(), key=lambda item: item[1], default=None)


def measured(numbers: Sequence[int], effort: str) -> Iterator[Result]:
    """The results for these workloads, in their order, as many at a time as there are cores."""
    cores: SimpleQueue[int] = multiprocessing.SimpleQueue()
    usable = sorted(os.sched_getaffinity(0)) if CAN_PIN else range(os.cpu_count() or 1)
    for core in usable:
        cores.put(core)
    with ProcessPoolExecutor(len(usable), initializer=begin_on, initargs=(cores,)) as pool:
        asked = [pool.submit(measure_number, number, effort) for number in numbers]
        for one in asked:
            yield one.result()


def begin_on(cores: SimpleQueue[int]) -> None:
    """Keep to one core, whatever threads there are, and load what is compiled."""
    if CAN_PIN:
        os.sched_setaffinity(0, {cores.get()})
    for name, size, chunks in SMALL:
        for kind in KINDS.values():
            pccl.synthesize(parse_topology(name), kind(size, chunks=chunks))


def measure_number(number: int, effort: str) -> Result:
    """Workloads are named by their numbers, since processes cannot send functions to each other."""
    return measure([*workloads()][number], effort)


def explanations(results: Sequence[Result]) -> Iterator[str]:
    """Whether the schedule or the bound is to blame where the gap is large: a table."""
    yield "| workload | gap | a longer search | gap then | missing |"
    yield "|---|---|---|---|---|"
    found_by = {(one.section, one.name): one for one in workloads()}
    for r in results:
        if r.gap <= LARGE_GAP:
            continue
        workload = found_by[r.section, r.name]
        topology = workload.topology()
        collectives = workload.collectives(topology.num_npus)
        found = pccl.synthesize(topology, *collectives, effort="thorough", time_limit=LONGER)
        longer = min(int(found.duration) / STEP, r.time)
        bound = max(r.bound, int(found.bound.value) / STEP if found.bound else 0)
        missing = [word for word, is_so in (
            ("schedule", longer < (1 - LITTLE) * r.time),
            ("bound", longer > (1 + LARGE_GAP / 2) * bound),
        ) if is_so]  # fmt: skip
        yield (
            f"| {name_of(r)} | {r.gap:.1%} | {longer:,.2f} | {longer / bound - 1:.1%} "
            f"| {' and '.join(missing)} |"
        )


def main() -> None:
    """Print the rows, and write the page if that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="workloads whose section or name contains this")
    parser.add_argument("--effort", default="balanced")
    parser.add_argument("--write", action="store_true", help="renew docs/quality.md")
    parser.add_argument("--explain", action="store_true", help="say what is missing in large gaps")
    asked = parser.parse_args()
    if asked.write and asked.only:
        parser.error("a page has all rows: --write goes without --only")
    numbers = [
        number
        for number, workload in enumerate(workloads())
        if asked.only in f"{workload.section}: {workload.name}"
    ]
    results = []
    for result in measured(numbers, asked.effort):
        results.append(result)
        print([*lines(results)][-1], flush=True)
    missed = [r for r in results if r.missed]
    print(f"{len(results)} workloads, {len(missed)} of them miss what we promise")
    print(summary(results))
    if asked.explain:
        for line in explanations(results):
            print(line, flush=True)
    if asked.write:
        write(results, asked.effort)
    unknown = unexplained(results)
    if unknown:
        names = "\n".join(f"  {name_of(r)}: {r.gap:.1%}" for r in unknown)
        raise SystemExit(f"not explained in benchmarks/missing.toml:\n{names}")


if __name__ == "__main__":
    main()
