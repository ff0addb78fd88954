"""``synthesize``: from a topology and collectives to a verified algorithm."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pccl._kernels import kernels_are_cached
from pccl.algorithm import Algorithm, Provenance
from pccl.algorithm import verify as check
from pccl.collective import Collective, Conditions, compile_conditions
from pccl.errors import PcclError
from pccl.synthesis.jobs import Jobs, gathering, reducing, roots
from pccl.synthesis.orders import ORDERS
from pccl.synthesis.placement import Placed, place, turn_round
from pccl.synthesis.ten import Ten, network
from pccl.topology import Topology

__all__ = ["Report", "synthesize"]

Ints = NDArray[np.int64]
Report: TypeAlias = Callable[[int, int, str], None]
ROUTES = ("minimal", "any")
BUSY = 0.6  # with links busier than this on average, detours and other orders have little to gain


@dataclass(frozen=True)
class Strategy:
    """One way to place chunks."""

    order: str
    routes: str

    def __str__(self) -> str:
        return f"earliest arrival, {self.order}, {self.routes} routes"


@dataclass(frozen=True)
class Problem:
    """What every strategy starts from."""

    topology: Topology
    conditions: Conditions
    reductions: Jobs
    gathers: Jobs
    seed: int
    report: Report = field(repr=False)


@dataclass(frozen=True)
class Solution:
    """Transfers in columns, not in order yet."""

    strategy: Strategy
    chunk: Ints
    link: Ints
    start: Ints
    reduce: NDArray[np.bool_]
    duration: int
    busy: float  # average share of the time that links are held


def synthesize(
    topology: Topology,
    *collectives: Collective,
    seed: int = 0,
    progress: Report | None = None,
    order: str | None = None,
    routes: str | None = None,
    verify: bool = True,
) -> Algorithm:
    """Find a congestion-free algorithm for all collectives running at the same time.

    Parameters
    ----------
    topology
        The network.
    *collectives
        What runs on it, each in its own process group. Devices outside a group relay its chunks where that helps.
    seed
        Breaks ties among equally distant chunks; 0 keeps them in order. The same input and seed give the same algorithm.
    progress
        Called with (chunks placed, chunks in all, what is going on) a few times a second.
    order
        ``"farthest-first"`` (the paper's) or ``"rounds"``; by default whichever turns out better.
    routes
        ``"minimal"`` to keep chunks with one destination on shortest routes, ``"any"`` to allow detours; by default detours
        are tried when shortest routes leave much of the network idle.
    verify
        Whether to have the verifier check the result.

    Returns
    -------
    Algorithm

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(4, latency="0ns", bandwidth="1GB/s")
    >>> pccl.synthesize(ring, pccl.AllGather(size="4kB"))
    Algorithm(all-gather on ring:4: 12 transfers, 2.00 us)
    """
    begin = time.perf_counter()
    for value, known, what in ((order, tuple(ORDERS), "order"), (routes, ROUTES, "routes")):
        if value is not None and value not in known:
            raise PcclError(f"there is no {what} {value!r}; there are {', '.join(known)}")
    report = progress or (lambda done, total, text: None)
    conditions = compile_conditions(topology, collectives)
    if progress is not None and not kernels_are_cached():
        report(0, len(conditions), "compiling kernels, first run only")
    root = roots(conditions)
    reductions, gathers = reducing(topology, conditions, root), gathering(topology, conditions, root)
    best = _best(Problem(topology, conditions, reductions, gathers, seed, report), order, routes)
    provenance = Provenance(str(best.strategy), seed, time.perf_counter() - begin)
    algorithm = Algorithm.build(
        topology, collectives, best.chunk, best.link, best.start, best.reduce, provenance=provenance,
        conditions=conditions,
    )  # fmt: skip
    if verify:
        report(len(conditions), len(conditions), "verifying")
        check(algorithm)
    return algorithm


def _best(problem: Problem, order: str | None, routes: str | None) -> Solution:
    """Try the cheapest strategy first, and more where the network has room for them."""
    best = _solve(problem, Strategy(order or "farthest-first", routes or "minimal"))
    if best.busy > BUSY:
        return best
    detours = problem.gathers.any_single or problem.reductions.any_single
    pieces = bool(np.any(problem.conditions.piece))
    for other_order in [order] if order else ["rounds", "farthest-first"] if pieces else ["farthest-first"]:
        for other_routes in [routes] if routes else ["any"] if detours else ["minimal"]:
            strategy = Strategy(other_order, other_routes)
            if strategy != best.strategy:
                other = _solve(problem, strategy)
                best = other if other.duration < best.duration else best
    return best


def _solve(problem: Problem, strategy: Strategy) -> Solution:
    topology, reductions, gathers = problem.topology, problem.reductions, problem.gathers
    total, done = len(reductions) + len(gathers), 0

    def progress(placed: int) -> None:
        nonlocal done
        done += placed
        problem.report(done, total, str(strategy))

    minimal = strategy.routes == "minimal"
    net = network(topology, gathers.sizes)
    ten = Ten.empty(topology, net)
    release = np.zeros(len(problem.conditions), np.int64)
    parts: list[tuple[Jobs, Placed, bool]] = []
    if len(reductions):
        mirror = network(reductions.topology, reductions.sizes)
        mirrored = place(reductions, mirror, Ten.empty(reductions.topology, mirror), strategy.order, minimal,
                         np.zeros(len(reductions), np.int64), problem.seed, progress)  # fmt: skip
        collected, complete, ten = turn_round(topology, reductions, mirrored, ten)
        release[reductions.chunk] = complete
        parts.append((reductions, collected, True))
    if len(gathers):
        parts.append((gathers, place(gathers, net, ten, strategy.order, minimal, release[gathers.chunk],
                                     problem.seed, progress), False))  # fmt: skip
    return _joined(problem, strategy, net.link, parts)


def _joined(problem: Problem, strategy: Strategy, link: Ints, parts: list[tuple[Jobs, Placed, bool]]) -> Solution:
    topology, (sizes, size_of) = problem.topology, problem.conditions.sizes
    duration = max((placed.end for _, placed, _ in parts), default=0)
    chunk = np.concatenate([jobs.chunk[placed.job] for jobs, placed, _ in parts])
    links = np.concatenate([link[placed.arc] for _, placed, _ in parts])
    net_rates, rate_of = topology.rates
    load = np.bincount(links, sizes[size_of[chunk]] / net_rates[rate_of[links]], topology.num_links) * 1e12
    return Solution(
        strategy,
        chunk,
        links,
        np.concatenate([placed.start for _, placed, _ in parts]),
        np.concatenate([np.full(len(placed.start), reduces) for _, placed, reduces in parts]),
        duration,
        float(load.mean() / max(duration, 1)) if topology.num_links else 1.0,
    )
