"""The solver: tries methods, keeps the best, learns from it, and stops when it is proven to be good enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pccl.collective import Collective, compile_conditions
from pccl.errors import InternalError
from pccl.synthesis.bounds import Bound, lower_bound
from pccl.synthesis.chunking import choices, cut
from pccl.synthesis.learning import learned_orders
from pccl.synthesis.methods import POLISH, Method, Orders, Solution, attempt, polished
from pccl.synthesis.problem import Problem, Report
from pccl.synthesis.strategies import Asked, grid, opening
from pccl.topology import Topology
from pccl.units import Picoseconds

__all__ = ["Best", "Entry", "Log", "Solver"]

Trial: TypeAlias = tuple[Method, Orders | None]
WORKERS = 2  # attempts made at the same time; the same on all machines, so that all find the same
WORTHWHILE = 0.98  # more chunks are worth their while if they take that share of the time
NOISES = (0.02, 0.05, 0.1, 0.05)  # of learned orders, as a share of the duration, in turn


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


@dataclass(frozen=True)
class Best:
    """The best so far, and what it solves."""

    problem: Problem
    collectives: tuple[Collective, ...]
    solution: Solution


class _Enough(Exception):  # noqa: N818
    """The deadline has passed, or the user has had enough."""


@dataclass
class Solver:
    """One call of :func:`synthesize`."""

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

    def _variation(self, problem: Problem, number: int) -> Trial:
        """Something like the best so far."""
        assert self.best is not None
        solution = self.best.solution
        seed = self.seed + 1 + number
        if solution.method.name == "flooding" or problem.topology.limited or self.asked.order is not None:
            return replace(solution.method, seed=seed), None
        noise = NOISES[number % len(NOISES)]
        return replace(solution.method, seed=seed), learned_orders(problem, solution, noise, seed)

    def _affordable(self, problem: Problem) -> bool:
        return self.spent + WORKERS * POLISH * problem.transfers <= self.asked.effort.work

    def _try(self, problem: Problem, collectives: tuple[Collective, ...], trials: list[Trial]) -> None:
        """Make attempts, at the same time if there are several, and keep the best."""
        self._look_up()
        effort = self.asked.effort
        cheap = POLISH * problem.transfers < effort.modest  # then time is polished as far as it gets
        enough = int((self.free or problem.quick_bound).value * (1 + effort.gap * (not cheap))) if effort.passes else 0

        learned = self.best is not None and any(orders is not None for _, orders in trials)
        like = self.best.solution.polish if self.best is not None and learned else None

        def run(trial: Trial) -> Solution:
            solution = attempt(problem, *trial)
            return polished(problem, solution, effort.passes, enough, like) if effort.passes else solution

        found, stop = self._run(run, trials)
        self.tried.update(method for method, orders in trials if orders is None)
        self.spent += sum(solution.work for solution in found)
        for solution in found:
            if self.best is None or solution.duration < self._to_beat(problem):
                self.best = Best(problem, collectives, solution)
                if self.log is not None:
                    self.log(self._entry())
        if stop is not None:
            raise stop

    def _run(
        self, run: Callable[[Trial], Solution], trials: list[Trial]
    ) -> tuple[list[Solution], BaseException | None]:
        """What attempts come to, and what stopped some of them."""
        if len(trials) == 1 or self.best is None:
            return [run(trial) for trial in trials], None
        found: list[Solution] = []
        stop: BaseException | None = None
        with ThreadPoolExecutor(WORKERS) as pool:
            for attempted in [pool.submit(run, trial) for trial in trials]:
                try:
                    found.append(attempted.result())
                except (_Enough, KeyboardInterrupt) as reason:
                    self.stopped = True  # so that those at work see it when they next report
                    stop = reason
        return found, stop

    def _to_beat(self, problem: Problem) -> float:
        """The duration of the best; more chunks, of which runtimes like few, must be worth their while."""
        assert self.best is not None
        return self.best.solution.duration * (1.0 if problem is self.best.problem else WORTHWHILE)

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
        if self.stopped or self._late():
            raise _Enough

    def _late(self) -> bool:
        limit = self.asked.time_limit
        return limit is not None and time.perf_counter() - self.begin > limit
