"""The setting of all figures: the model of the network, the groups, and the ways to run a collective."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pccl

MIB = 2**20
LINKS = {
    "bandwidth": "50GiB/s",
    "latency": "500ns",
    "exclusive": True,
}  # exclusive: the paper's own model

Row = dict[str, Any]  # column: value; arrays are for the figure, and left out of tables
Run = Callable[..., pccl.Algorithm]


@dataclass(frozen=True)
class Claim:
    """A number that the paper states, ours beside it, and why they differ."""

    what: str
    paper: str
    method: str  #: the paper's method, run here
    search: str  #: our search
    why: str


# --- networks and collectives ----------------------------------------------------------------------------------------


def mesh(*shape: int) -> pccl.Topology:
    """A mesh of the paper, in two dimensions or three."""
    return pccl.topology.mesh(*shape, **LINKS)


def name_of(shape: Iterable[int]) -> str:
    """Such as 8x8."""
    return "x".join(map(str, shape))


def mesh_row(width: int, row: int) -> list[int]:
    """The NPUs of a row of a square mesh."""
    return list(range(row * width, (row + 1) * width))


def spread_rows(width: int, count: int) -> list[list[int]]:
    """So many rows of a square mesh, spread evenly: each in the middle of its share of the mesh."""
    return [mesh_row(width, (2 * i + 1) * width // (2 * count)) for i in range(count)]


def all_to_all(group: Sequence[int], chunks: int, chunk_bytes: int = MIB) -> pccl.AllToAll:
    """An All-to-All in which every pair exchanges so many chunks."""
    return pccl.AllToAll(
        size=pccl.units.Bytes(len(group) * chunks * chunk_bytes), group=group, chunks=chunks
    )


# --- ways to run them ------------------------------------------------------------------------------------------------


def method(
    topology: pccl.Topology, *collectives: pccl.Collective, **options: Any
) -> pccl.Algorithm:
    """The paper's method: one chunk after another, the farthest first, each as early as it can arrive by any route."""
    return pccl.synthesize(
        topology, *collectives, effort="fast", method="earliest-arrival", order="farthest-first", routes="any",
        **options,
    )  # fmt: skip


def search(topology: pccl.Topology, *collectives: pccl.Collective) -> pccl.Algorithm:
    """Our search, which also chooses the number of chunks."""
    return pccl.synthesize(
        topology, *(replace(collective, chunks=None) for collective in collectives)
    )


def direct(topology: pccl.Topology, *collectives: pccl.Collective) -> pccl.Algorithm:
    """Pairwise sends and receives along fixed routes, all issued at once: by source, then by destination."""
    return pccl.baseline("direct-ascending", topology, *collectives)


WAYS: dict[str, Run] = {"Direct": direct, "the paper's method": method, "our search": search}


def simulated(algorithm: pccl.Algorithm) -> tuple[pccl.Simulation, float]:
    """What the algorithm does, once it has been verified, and until when, in microseconds."""
    pccl.verify(algorithm)
    simulation = pccl.simulate(algorithm)
    return simulation, int(simulation.finish) / 1e6


def microseconds(algorithm: pccl.Algorithm) -> float:
    """How long it takes."""
    return simulated(algorithm)[1]


def compared(topology: pccl.Topology, *collectives: pccl.Collective) -> Row:
    """How long Direct takes, and how many times faster the others are."""
    times = {way: microseconds(run(topology, *collectives)) for way, run in WAYS.items()}
    return {
        "Direct (us)": times["Direct"],
        **{
            f"{way} (x)": times["Direct"] / times[way]
            for way in ("the paper's method", "our search")
        },
    }


METHOD, SEARCH = "the paper's method (x)", "our search (x)"


def times_faster(row: Row, column: str) -> str:
    """Such as 2.81x."""
    return f"{row[column]:.2f}x"


def average(rows: Sequence[Row], column: str) -> float:
    """The mean of a column."""
    return math.fsum(row[column] for row in rows) / len(rows)


# --- time of synthesis -----------------------------------------------------------------------------------------------


def cpu_seconds(call: Callable[[], object], budget: float = 0.5) -> float:
    """CPU time of a call: the best of a few within the budget, in seconds; what is long is done once."""
    best, spent = math.inf, 0.0
    for _ in range(5):
        begin = time.process_time()
        call()
        seconds = time.process_time() - begin
        best, spent = min(best, seconds), spent + seconds
        if spent > budget:
            break
    return best


def synthesis_seconds(topology: pccl.Topology, collective: pccl.Collective) -> Row:
    """CPU time that the paper's method needs for a collective whose chunks are given, and one pass of our search."""
    ways = {
        "the paper's method (s)": method,
        "our search (s)": partial(pccl.synthesize, effort="fast"),
    }
    for way in ways.values():
        way(mesh(3, 3), all_to_all(range(9), 1))  # compiles what is not compiled yet
    return {
        name: cpu_seconds(partial(way, topology, collective, verify=False))
        for name, way in ways.items()
    }


def duration_text(seconds: float) -> str:
    """Such as 3.1 ms, 0.39 s or 2.8 s."""
    return (
        f"{seconds * 1e3:.1f} ms"
        if seconds < 0.1
        else f"{seconds:.2g} s"
        if seconds < 10
        else f"{seconds:.0f} s"
    )
