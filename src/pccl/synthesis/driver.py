"""``synthesize``: from a topology and collectives to a verified algorithm."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np
from numba.core.event import install_timer
from numpy.typing import NDArray

from pccl._kernels import kernels_are_cached
from pccl.algorithm import Algorithm, Provenance
from pccl.algorithm import verify as check
from pccl.algorithm.timing import move_up as move_up_within_limits
from pccl.collective import Collective, Conditions, compile_conditions
from pccl.errors import InternalError, PcclError, VerificationError
from pccl.synthesis import kernels
from pccl.synthesis.jobs import SMALL, Jobs, gathering, reducing, roots
from pccl.synthesis.kernels import Columns, Network
from pccl.synthesis.orders import ORDERS
from pccl.synthesis.placement import Part, Placed, move_up, place, turn_round
from pccl.synthesis.ten import Ten, network, steps_help
from pccl.topology import Topology
from pccl.units import whole

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
    steps: bool  # whether time is counted in steps, or exactly

    def __str__(self) -> str:
        return f"earliest arrival, {self.order}, {self.routes} routes{', in steps' if self.steps else ''}"


@dataclass
class Problem:
    """What every strategy starts from."""

    topology: Topology
    conditions: Conditions
    seed: int
    report: Report

    def __post_init__(self) -> None:
        self.root = roots(self.conditions)
        self.net = network(self.topology, self.conditions.sizes[0])
        self._jobs: dict[bool, tuple[Jobs, Jobs]] = {}

    def jobs(self, steps: bool) -> tuple[Jobs, Jobs]:
        """What is to be reduced, and what is to be spread."""
        if steps not in self._jobs:
            what = self.topology, self.conditions, self.root, steps
            self._jobs[steps] = reducing(*what), gathering(*what)
        return self._jobs[steps]


@dataclass(frozen=True)
class Solution:
    """What a strategy came to."""

    strategy: Strategy
    columns: Columns
    duration: int
    busy: float  # for how long a link is held, on average


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
        Breaks ties among equally distant chunks. The same input and seed give the same algorithm, bit for bit.
    progress
        Called with (chunks placed, chunks in all, what is going on) a few times a second.
    order
        ``"farthest-first"`` (the paper's) or ``"rounds"``; by default whichever turns out better.
    routes
        ``"minimal"`` to keep chunks with one destination on shortest routes, ``"any"`` to allow detours; by default
        detours are tried when shortest routes leave much of the network idle.
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
    if not isinstance(topology, Topology):
        raise PcclError(
            f"the topology is {topology!r}; make one with pccl.topology, for example parse_topology('mesh:8x8')"
        )
    if whole(seed) is None or seed < 0:
        raise PcclError(f"the seed must be a whole number from 0 on, not {seed!r}")
    report = progress or _silent
    conditions = compile_conditions(topology, collectives)
    if progress is not None and not kernels_are_cached():
        report(0, len(conditions), "compiling kernels, first run only")
    compiling: list[float] = []
    with install_timer("numba:compile", compiling.append):
        best = _best(Problem(topology, conditions, seed, report), order, routes)
    provenance = Provenance(str(best.strategy), seed, time.perf_counter() - begin - sum(compiling))
    algorithm = Algorithm.build(topology, collectives, *best.columns, provenance=provenance, conditions=conditions)
    if verify:
        report(len(conditions), len(conditions), "verifying")
        try:
            check(algorithm)
        except VerificationError as error:
            raise InternalError(f"the synthesizer made an algorithm that is wrong: {error}") from error
    return algorithm


def _silent(done: int, total: int, text: str) -> None:
    pass


def _best(problem: Problem, order: str | None, routes: str | None) -> Solution:
    """Try the cheapest strategy first, and others where that is cheap or the network has room for them."""
    steps = steps_help(problem.net)
    best = _solve(problem, Strategy(order or "farthest-first", routes or "minimal", steps))
    roomy = best.busy <= BUSY * best.duration
    if not roomy and len(problem.conditions) > SMALL:
        return best
    single = any(jobs.any_single for jobs in problem.jobs(steps))
    pieces = bool(np.any(problem.conditions.piece))
    orders = [order] if order else ["rounds", "farthest-first"] if roomy and pieces else ["farthest-first"]
    ways = [routes] if routes else ["any"] if roomy and single else ["minimal"]
    for strategy in (Strategy(*choice) for choice in product(orders, ways, (True, False) if steps else (False,))):
        if strategy != best.strategy:
            best = min(best, _solve(problem, strategy), key=lambda solution: solution.duration)
    return best


def _solve(problem: Problem, strategy: Strategy) -> Solution:
    topology, chunks = problem.topology, len(problem.conditions)
    reductions, gathers = problem.jobs(strategy.steps)
    total, done = len(reductions) + len(gathers), 0

    def progress(placed: int) -> None:
        nonlocal done
        done += placed
        problem.report(done, total, str(strategy))

    def placed(jobs: Jobs, ten: Ten, release: Ints) -> Placed:
        return place(jobs, ten, strategy.order, strategy.routes == "minimal", release, problem.seed, progress)

    net, ten = gathers.net, Ten.empty(topology, gathers.net)
    release, parts = np.zeros(chunks, np.int64), []
    if len(reductions):
        backwards = Ten.empty(reductions.topology, reductions.net)
        mirrored = placed(reductions, backwards, np.zeros(len(reductions), np.int64))
        collected, release, ten = turn_round(topology, net, reductions, mirrored, backwards, chunks)
        parts.append(Part(reductions, collected, reduces=True))
    parts.append(Part(gathers, placed(gathers, ten, release[gathers.chunk]), reduces=False))
    held = sum(part.placed.held for part in parts) * net.unit
    if strategy.steps:
        net = problem.net  # undo the rounding: everything moves up to when it can really start
        moved, _, _ = move_up(topology, net, parts, chunks)
        parts = [part._replace(placed=placed) for part, placed in zip(parts, moved, strict=True)]
    columns, duration = _assembled(net, chunks, parts), max(part.placed.end for part in parts) * net.unit
    if topology.limited:
        columns, duration = _moved_up(problem, columns)
    return Solution(strategy, columns, duration, busy=held / max(topology.num_links, 1))


def _moved_up(problem: Problem, columns: Columns) -> tuple[Columns, int]:
    """Where switches have limits, reductions are still as late as mirroring puts them: all moves up together."""
    plan = Algorithm.build(problem.topology, (), *columns, conditions=problem.conditions)
    t = move_up_within_limits(plan.transfers)
    return Columns(t.chunk, t.link, t.start, t.reduce), int(t.arrival.max(initial=0))


def _assembled(net: Network, chunks: int, parts: list[Part]) -> Columns:
    """All transfers by chunk, in picoseconds; those that reduce come first."""
    first = np.zeros(chunks + 1, np.int64)
    for jobs, placed, _ in parts:
        np.add.at(first, jobs.chunk[placed.job] + 1, np.diff(placed.first))
    position = np.cumsum(first)[:-1]
    total = sum(len(placed) for _, placed, _ in parts)
    columns = Columns(
        np.empty(total, np.int32), np.empty(total, np.int32), np.empty(total, np.int64), np.empty(total, np.bool_)
    )
    for jobs, placed, reduces in parts:
        kernels.assemble(
            net, jobs.chunk[placed.job], placed.first, placed.arc, placed.start, reduces, position, columns
        )
    return columns
