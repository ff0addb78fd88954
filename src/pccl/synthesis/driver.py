"""``synthesize``: a solver that tries, learns, proves how far it can be from the best, and stops."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TypeAlias

from numba.core.event import install_timer

from pccl._kernels import kernels_are_cached
from pccl.algorithm import Algorithm, Provenance
from pccl.algorithm import verify as check
from pccl.collective import Collective, compile_conditions
from pccl.errors import InternalError, PcclError, VerificationError
from pccl.synthesis.bounds import Bound, lower_bound
from pccl.synthesis.chunking import choices, cut
from pccl.synthesis.jobs import SMALL
from pccl.synthesis.learning import learned_orders
from pccl.synthesis.methods import METHODS, POLISH, Method, Orders, Solution, assembled, attempt, polished
from pccl.synthesis.orders import ORDERS
from pccl.synthesis.problem import Problem, Report
from pccl.topology import Topology
from pccl.units import Picoseconds, whole

__all__ = ["EFFORTS", "Entry", "Log", "Report", "synthesize"]

ROUTES = ("minimal", "any")
WORKERS = 2  # attempts made at the same time; the same on all machines, so that all find the same
# Steepness and urgency. Where links differ, what matters most is to use the slow ones evenly; else also when.
KNOBS = ((3.0, 1.0), (3.0, 0.3), (12.0, 0.1), (6.0, 0.3), (20.0, 0.0), (1.0, 3.0), (40.0, 0.0), (0.0, 10.0))
STEEP_KNOBS = ((40.0, 0.0), (20.0, 0.0), (12.0, 0.1), (6.0, 0.3), (3.0, 1.0), (3.0, 0.3))
WORTHWHILE = 0.99  # more chunks are worth their while if they take that share of the time
NOISES = (0.02, 0.05, 0.1, 0.05)  # of learned orders, as a share of the duration, in turn


@dataclass(frozen=True)
class Effort:
    """How much to try."""

    work: int  # in links looked at: no new attempt after that many, which take 50 ns each
    gap: float  # good enough
    modest: int  # work to spend before that counts
    patience: int  # learned attempts without a gain before giving up
    passes: int  # of justification


EFFORTS = {
    "fast": Effort(work=0, gap=1.0, modest=0, patience=0, passes=0),
    "balanced": Effort(work=80_000_000, gap=0.01, modest=5_000_000, patience=40, passes=6),
    "thorough": Effort(work=2_000_000_000, gap=0.0, modest=0, patience=400, passes=20),
}


@dataclass(frozen=True)
class Entry:
    """A line of the solver's log: who found the best so far, and how good it can be at most."""

    elapsed: float  # seconds
    method: str
    best: Picoseconds
    bound: Picoseconds

    @property
    def gap(self) -> float:
        """By how much the best exceeds the bound."""
        return int(self.best) / int(self.bound) - 1 if self.bound else 0.0


Log: TypeAlias = Callable[[Entry], None]


def synthesize(
    topology: Topology,
    *collectives: Collective,
    effort: str = "balanced",
    time_limit: float | None = None,
    gap: float | None = None,
    seed: int = 0,
    method: str | None = None,
    order: str | None = None,
    routes: str | None = None,
    verify: bool = True,
    progress: Report | None = None,
    log: Log | None = None,
) -> Algorithm:
    """Find a congestion-free algorithm for all collectives running at the same time.

    Parameters
    ----------
    topology
        The network.
    *collectives
        What runs on it, each in its own process group. Devices outside a group relay its chunks where that helps. Where
        a collective does not say into how many ``chunks`` to cut its shares, that is searched for too.
    effort
        ``"fast"``: one pass of the method that promises most. ``"balanced"``: other methods, knobs and orders as well,
        until the gap to the bound is below 1 % or nothing more is gained. ``"thorough"``: many more of them.
    time_limit
        Seconds after which the best so far is returned; the first pass is always completed. With a limit, the result
        depends on the speed of the machine.
    gap
        Stop when the duration exceeds the lower bound by no more than this share: ``0.05`` for 5 %.
    seed
        Breaks ties among equally distant chunks. The same input, seed and effort give the same algorithm, bit for bit.
    method
        ``"earliest-arrival"`` (the paper's), ``"price-guided"`` or ``"flooding"``; by default whichever does best.
    order
        In which chunks are placed: ``"farthest-first"`` (the paper's), ``"rounds"`` or ``"random"``.
    routes
        ``"minimal"`` to keep chunks with one destination on shortest routes, ``"any"`` to allow detours.
    verify
        Whether to have the verifier check the result.
    progress
        Called with (chunks placed, chunks in all, what is going on) a few times a second.
    log
        Called with an :class:`Entry` whenever something better is found. On Ctrl-C the best so far is returned.

    Returns
    -------
    Algorithm

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(4, latency="0ns", bandwidth="1GB/s")
    >>> pccl.synthesize(ring, pccl.AllGather(size="4kB", chunks=1))
    Algorithm(all-gather on ring:4: 12 transfers, 2.00 us)
    """
    begin = time.perf_counter()
    asked = Asked(_effort(effort, gap), method, order, routes, _deadline(begin, time_limit))
    if not isinstance(topology, Topology):
        raise PcclError(
            f"the topology is {topology!r}; make one with pccl.topology, for example parse_topology('mesh:8x8')"
        )
    if whole(seed) is None or seed < 0:
        raise PcclError(f"the seed must be a whole number from 0 on, not {seed!r}")
    report = progress or _silent
    compile_conditions(topology, collectives)  # refuses what cannot be done
    if progress is not None and not kernels_are_cached():
        report(0, 1, "compiling kernels, first run only")
    compiling: list[float] = []
    with install_timer("numba:compile", compiling.append):
        run = _Run(topology, collectives, seed, report, asked, log, begin)
        best = run.solve()
    seconds = time.perf_counter() - begin - sum(compiling)
    return _built(topology, best, Provenance(f"{effort}: {best.solution}", seed, max(seconds, 0.0)), verify, report)


def _built(topology: Topology, best: Best, provenance: Provenance, verify: bool, report: Report) -> Algorithm:
    conditions = best.problem.conditions
    columns = assembled(best.solution, len(conditions))
    algorithm = Algorithm.build(topology, best.collectives, *columns, provenance=provenance, conditions=conditions)
    if verify:
        report(len(conditions), len(conditions), "verifying")
        try:
            check(algorithm)
        except VerificationError as error:
            raise InternalError(f"the synthesizer made an algorithm that is wrong: {error}") from error
    return algorithm


# --- what is asked ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What the caller leaves open, and what not."""

    effort: Effort
    method: str | None
    order: str | None
    routes: str | None
    deadline: float | None

    def __post_init__(self) -> None:
        for value, known, what in (
            (self.method, METHODS, "method"),
            (self.order, tuple(ORDERS), "order"),
            (self.routes, ROUTES, "routes"),
        ):
            if value is not None and value not in known:
                raise PcclError(f"there is no {what} {value!r}; there are {', '.join(known)}")
        if self.method == "flooding" and (self.order or self.routes):
            raise PcclError("flooding has no order and no routes to choose")

    def allows(self, method: Method) -> bool:
        """Whether the method is one of those asked for."""
        if method.name == "flooding" and (self.order or self.routes):
            return False
        return self.method in (None, method.name)

    def applied(self, method: Method) -> Method:
        """The method with the order and routes asked for."""
        if method.name == "flooding":
            return method
        return replace(method, order=self.order or method.order, routes=self.routes or method.routes)


def _effort(name: str, gap: float | None) -> Effort:
    if name not in EFFORTS:
        raise PcclError(f"there is no effort {name!r}; there are {', '.join(EFFORTS)}")
    if gap is None:
        return EFFORTS[name]
    if not isinstance(gap, int | float) or not 0 <= gap < 1e6:
        raise PcclError(f"the gap must be a share from 0 on, such as 0.05, not {gap!r}")
    return replace(EFFORTS[name], gap=float(gap), modest=0)


def _deadline(begin: float, time_limit: float | None) -> float | None:
    if time_limit is None:
        return None
    if not isinstance(time_limit, int | float) or not time_limit > 0:
        raise PcclError(f"the time limit must be a positive number of seconds, not {time_limit!r}")
    return begin + time_limit


def _silent(done: int, total: int, text: str) -> None:
    pass


# --- what is tried ---------------------------------------------------------------------------------------------------


def opening(problem: Problem, asked: Asked) -> list[Method]:
    """The cheapest methods that promise something for this input, the most promising first."""
    limited, steps, seed, sums = problem.topology.limited, problem.steps, problem.seed, problem.collects_and_spreads
    many = len(problem.conditions) > SMALL
    flooding = Method("flooding", seed=seed)
    steepness, urgency = (KNOBS if problem.even else STEEP_KNOBS)[0]
    guided = Method("price-guided", "rounds", "any", steps, steepness, urgency, apart=sums, seed=seed)
    paper = Method("earliest-arrival", order="farthest-first", routes="minimal", steps=steps, seed=seed)
    detours = replace(paper, order="rounds", routes="any")
    if problem.any_several and not problem.any_single and not limited:
        methods = [flooding, guided, detours] if problem.dense and problem.even else [guided, flooding, detours]
        if not problem.dense and problem.even:
            methods = [detours, guided, flooding]
    elif (problem.dense and problem.even) or many:
        methods = [paper, detours]
    else:
        methods = [detours, paper]
    if not problem.floods:
        methods = [method for method in methods if method.name != "flooding"]
    if asked.method == "flooding" and (limited or not problem.floods):
        why = "knows no limits of switches" if limited else "would spread too many chunks all over the network"
        raise PcclError(f"flooding {why}; choose another method")
    allowed = [asked.applied(method) for method in methods if asked.allows(method)]
    fallback = replace(guided if asked.method == "price-guided" else flooding, name=asked.method or flooding.name)
    return allowed or [asked.applied(fallback)]


def grid(problem: Problem, asked: Asked, best: Method) -> list[Method]:
    """Methods and knobs that are worth a try when the opening was not good enough."""
    steps, seed = problem.steps, problem.seed
    routes = ("any", "minimal") if problem.any_single and problem.dense else ("any",)
    guided = product(KNOBS if problem.even else STEEP_KNOBS, routes)
    methods = [Method("price-guided", "rounds", way, steps, *knobs, seed=seed) for knobs, way in guided]
    earliest = product(("rounds", "farthest-first"), routes, (True, False) if steps else (False,))
    methods += [Method("earliest-arrival", order, way, step, seed=seed) for order, way, step in earliest]
    if problem.any_several and not problem.any_single and not problem.topology.limited and problem.floods:
        methods += [Method("flooding", seed=seed + number) for number in range(4)]
    if problem.collects_and_spreads:
        methods = [replace(method, root=best.root, apart=apart) for method in methods for apart in (True, False)]
    return list(dict.fromkeys(asked.applied(method) for method in methods if asked.allows(method)))


# --- the search ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Best:
    """The best so far, and what it solves."""

    problem: Problem
    collectives: tuple[Collective, ...]
    solution: Solution


class _Enough(Exception):  # noqa: N818
    """The deadline has passed, or the user has had enough."""


@dataclass
class _Run:
    """One call of synthesize."""

    topology: Topology
    collectives: Sequence[Collective]
    seed: int
    report: Report
    asked: Asked
    log: Log | None
    begin: float
    best: Best | None = None
    free: Bound | None = None  # of data that may be cut as we like
    spent: int = 0  # work
    stopped: bool = False
    tried: set[Method] = field(default_factory=set)

    def solve(self) -> Best:
        """The best that the effort allows."""
        try:
            for problem, collectives in self._cuts():
                self._open(problem, collectives)
                if self.asked.effort.work == 0 or self._good_enough():
                    break
            self.free = None  # from now on the chunks are what they are
            if self.best is not None and self.asked.effort.work and not self._good_enough():
                self._improve(self.best)
        except (_Enough, KeyboardInterrupt):
            self.stopped = True
            if self.best is None:
                raise KeyboardInterrupt from None
        if self.best is None:
            raise InternalError("no method was tried")
        return self.best

    def _cuts(self) -> Iterator[tuple[Problem, tuple[Collective, ...]]]:
        """The problem for each promising number of chunks, as long as more chunks gain time."""
        options = choices(self.topology, self.collectives) if self.asked.effort.work else [1]
        if len(options) > 1:
            self.free = lower_bound(self.topology, *self.collectives, quick=True)
        worse, before = 0, None
        for chunks in options:
            collectives = cut(self.collectives, chunks)
            conditions = compile_conditions(self.topology, collectives)
            problem = Problem(self.topology, conditions, self.seed, self._report)
            if self.best is not None and self.spent + 4 * POLISH * problem.transfers > self.asked.effort.work:
                return
            yield problem, collectives
            duration = self.best.solution.duration if self.best else None
            worse = worse + 1 if duration == before else 0
            before = duration
            if worse == 2:
                return

    def _open(self, problem: Problem, collectives: tuple[Collective, ...]) -> None:
        methods = opening(problem, self.asked)
        if self.asked.effort.work == 0:
            methods = methods[:1]
        for method in methods:
            self._try(problem, collectives, [(method, None)])
            if self._good_enough():
                return
        if problem.collects_and_spreads and self.asked.effort.work and self.best is not None:
            method = self.best.solution.method
            if method.name == "flooding":  # which does not mind that all sums are collected in one place
                method = next(iter(grid(problem, self.asked, method)), method)
            self._try(problem, collectives, [(replace(method, root="center"), None)])

    def _improve(self, best: Best) -> None:
        problem, collectives = best.problem, best.collectives
        untried = [method for method in grid(problem, self.asked, best.solution.method) if method not in self.tried]
        for low in range(0, len(untried), WORKERS):
            self._try(problem, collectives, [(method, None) for method in untried[low : low + WORKERS]])
            if self._good_enough() or not self._affordable(problem):
                return
        failures, number = 0, 0
        while failures < self.asked.effort.patience and not self._good_enough() and self._affordable(problem):
            before = self.best.solution if self.best else None
            self._try(problem, collectives, [self._variation(problem, number + k) for k in range(WORKERS)])
            number += WORKERS
            failures = 0 if self.best and self.best.solution is not before else failures + WORKERS

    def _variation(self, problem: Problem, number: int) -> tuple[Method, Orders | None]:
        """Something like the best so far."""
        assert self.best is not None
        solution = self.best.solution
        seed = self.seed + 1 + number
        if solution.method.name == "flooding" or problem.topology.limited:
            return replace(solution.method, seed=seed), None
        noise = NOISES[number % len(NOISES)]
        return replace(solution.method, seed=seed), learned_orders(problem, solution, noise, seed)

    def _affordable(self, problem: Problem) -> bool:
        return self.spent + WORKERS * POLISH * problem.transfers <= self.asked.effort.work

    def _try(
        self, problem: Problem, collectives: tuple[Collective, ...], trials: list[tuple[Method, Orders | None]]
    ) -> None:
        """Make attempts, at the same time if there are several, and keep the best."""
        self._look_up()
        effort = self.asked.effort
        cheap = POLISH * problem.transfers < effort.modest  # then time is polished as far as it gets
        enough = int((self.free or problem.quick_bound).value * (1 + effort.gap * (not cheap))) if effort.passes else 0

        learned = self.best is not None and any(orders is not None for _, orders in trials)
        like = self.best.solution.polish if self.best is not None and learned else None

        def run(trial: tuple[Method, Orders | None]) -> Solution:
            solution = attempt(problem, *trial)
            return polished(problem, solution, effort.passes, enough, like) if effort.passes else solution

        if len(trials) == 1 or self.best is None:
            found = [run(trial) for trial in trials]
        else:
            with ThreadPoolExecutor(WORKERS) as pool:
                found = list(pool.map(run, trials))
        self.tried.update(method for method, orders in trials if orders is None)
        self.spent += sum(solution.work for solution in found)
        for solution in found:
            if self.best is None or solution.duration < self._to_beat(problem, solution.duration):
                self.best = Best(problem, collectives, solution)
                if self.log is not None:
                    self.log(self._entry())

    def _to_beat(self, problem: Problem, duration: int) -> float:
        """The duration of the best; more chunks must be worth their while, or all that is missing."""
        assert self.best is not None
        last = self.free is not None and duration <= self.free.value * (1 + self.asked.effort.gap)
        return self.best.solution.duration * (1.0 if last or problem is self.best.problem else WORTHWHILE)

    def _entry(self) -> Entry:
        assert self.best is not None
        solution, bound = self.best.solution, self.best.problem.quick_bound
        if self.free is not None:
            bound = self.free
        elif "bound" in vars(self.best.problem):
            bound = self.best.problem.bound
        elapsed = time.perf_counter() - self.begin
        return Entry(elapsed, str(solution), Picoseconds(solution.duration), bound.value)

    def _good_enough(self) -> bool:
        if self.best is None or not self.asked.effort.work:
            return False
        problem, duration = self.best.problem, self.best.solution.duration
        if self.free is not None:
            return duration <= self.free.value * (1 + self.asked.effort.gap)
        if self._within(int(problem.quick_bound.value), duration):
            return True
        return self._within(int(problem.bound.value), duration)

    def _within(self, bound: int, duration: int) -> bool:
        """Whether there is nothing to gain, or little and enough has been tried to gain it."""
        little = duration <= bound * (1 + self.asked.effort.gap)
        return duration <= bound or (little and self.spent >= self.asked.effort.modest)

    def _report(self, done: int, total: int, text: str) -> None:
        if self.best is not None:
            self._look_up()
        self.report(done, total, text)

    def _look_up(self) -> None:
        if self.best is None:
            return
        if self.stopped or (self.asked.deadline is not None and time.perf_counter() > self.asked.deadline):
            raise _Enough
