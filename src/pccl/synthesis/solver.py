"""The solver: tries methods, keeps the best, learns from it, and stops when it is proven to be good enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeAlias

from pccl.bounds import Bound, lower_bound
from pccl.collective import Collective, compile_conditions
from pccl.errors import InternalError
from pccl.synthesis.chunking import choices, cut
from pccl.synthesis.learning import learned_orders
from pccl.synthesis.methods import POLISH, Method, Orders, Solution, attempt, polished
from pccl.synthesis.problem import Problem, Report
from pccl.synthesis.rerouting import rerouted
from pccl.synthesis.strategies import Asked, grid, opening
from pccl.topology import Topology
from pccl.units import Picoseconds

__all__ = ["Best", "Entry", "Log", "Solver"]

Trial: TypeAlias = Callable[[], Solution]
WORKERS = 2  # attempts made at the same time; the same on all machines, so that all find the same
WORTHWHILE = 0.98  # more chunks are worth their while if they take that share of the time
WORTHWHILE_AT_LAST = 0.999  # likewise when both have been improved, which tells more
REROUTING = 1_000  # links that one rerouting looks at for every transfer
MOST_REROUTING = 5_000_000  # and for all of them, in each of one or two phases
SHARE_OF_CUTS = 0.4  # of the effort, for the number of chunks
SHARE = 0.6  # of the effort, for that and other methods; the rest is for improving what they find
HOPELESS = (
    1.5  # a method that takes so many times as long as the best is not tried with more chunks
)
CHEAP = 6  # attempts that modest work pays for, at least, if each takes next to no time
CONTENDERS = 6  # of what other methods find, that many of the best are re-routed
FEWEST_GAINED = 0.0005  # a share of the duration: what gains less has stalled
STALLED = 2  # reroutings without a gain before other methods have a try
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


def _cost(problem: Problem) -> int:
    """About what one attempt takes, in links looked at: mostly the polish, which is twice the work for two phases."""
    return POLISH * problem.transfers * (2 if problem.collects_and_spreads else 1)


def _alike(one: Solution, other: Solution) -> bool:
    """Whether two solutions are equally good and found in the same way."""
    return one.duration == other.duration and str(one) == str(other)


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
    varied: int = 0  # how many variations of the best there have been
    stalled: bool = False  # whether the last of them gained nothing
    worthwhile: float = WORTHWHILE
    hopeless: set[Method] = field(default_factory=set)

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
        options = self._options
        if len(options) > 1:
            self.free = lower_bound(self.topology, *self.collectives, quick=True)
        worse, before = 0, None
        for chunks in options:
            problem, collectives = self._cut(chunks)
            if self.best is not None and self.spent + 4 * _cost(
                problem
            ) > SHARE_OF_CUTS * self._budget(problem):
                return
            yield problem, collectives
            duration = self.best.solution.duration if self.best else None
            worse = worse + 1 if duration == before else 0
            before = duration
            if worse == 2:
                return

    @cached_property
    def _options(self) -> list[int]:
        """Numbers of chunks that are worth a try."""
        return choices(self.topology, self.collectives) if self.asked.effort.work else [1]

    def _cut(self, chunks: int) -> tuple[Problem, tuple[Collective, ...]]:
        collectives = cut(self.collectives, chunks)
        conditions = compile_conditions(self.topology, collectives)
        return Problem(self.topology, conditions, self.seed, self._report), collectives

    def _open(self, problem: Problem, collectives: tuple[Collective, ...]) -> None:
        methods = opening(problem, self.asked)
        if self.asked.effort.work == 0:
            methods = methods[:1]
        for method in [method for method in methods if method not in self.hopeless]:
            (found,) = self._try(problem, collectives, [self._attempt(problem, method)])
            if self._good_enough():
                return
            if self.best is not None and found.duration > HOPELESS * self.best.solution.duration:
                self.hopeless.add(method)
        if problem.collects_and_spreads and self.asked.effort.work and self.best is not None:
            method = self.best.solution.method
            if (
                method.name == "flooding"
            ):  # which does not mind that all sums are collected in one place
                method = next((other for other in methods if other.name == "price-guided"), method)
            self._try(
                problem, collectives, [self._attempt(problem, replace(method, root="center"))]
            )

    def _improve(self, best: Best) -> None:
        """Other routes for what is late, then other methods and routes for what is late there, then variations."""
        limited = best.problem.topology.limited
        if not limited:
            self._try_all(best, [self._rerouting(best.problem) for _ in range(WORKERS)])
            best = self._finer()
            self._repeat(best, self._rerouting, STALLED, MOST_REROUTING)
        problem = best.problem
        untried = [
            method
            for method in grid(problem, self.asked, best.solution.method)
            if method not in self.tried
        ]
        found = self._try_all(best, [self._attempt(problem, method) for method in untried], SHARE)
        if not limited:
            contenders = sorted(found, key=lambda solution: solution.duration)[:CONTENDERS]
            self._try_all(best, [self._rerouting(problem, solution) for solution in contenders])
        self._repeat(best, self._variation, self.asked.effort.patience, _cost(problem))

    def _finer(self) -> Best:
        """The best, or what the same method finds with more chunks, if that is better when re-routed as well."""
        assert self.best is not None
        self.worthwhile = WORTHWHILE_AT_LAST
        pairs = zip(self.collectives, self.best.collectives, strict=True)
        chunks = max((cut.pieces for given, cut in pairs if given.chunks is None), default=1)
        more = next((option for option in self._options if option > chunks), None)
        if more is None or self._good_enough():
            return self.best
        problem, collectives = self._cut(more)
        if self._affordable(problem, _cost(problem)):
            (found,) = self._try(
                problem, collectives, [self._attempt(problem, self.best.solution.method)]
            )
            self._try(
                problem, collectives, [self._rerouting(problem, found) for _ in range(WORKERS)]
            )
        return self.best

    def _try_all(self, best: Best, trials: list[Trial], share: float = 1.0) -> list[Solution]:
        """Make attempts as long as there is something to gain, with a share of the effort; returns what they found."""
        found: list[Solution] = []
        for low in range(0, len(trials), WORKERS):
            if self._good_enough() or not self._affordable(
                best.problem, _cost(best.problem), share
            ):
                break
            found += self._try(best.problem, best.collectives, trials[low : low + WORKERS])
        return found

    def _repeat(
        self, best: Best, variation: Callable[[Problem], Trial], patience: int, cost: int
    ) -> None:
        """Vary the best again and again until that gains nothing any more; `cost` is about what a variation takes."""
        failures = 0
        while (
            failures < patience and not self._good_enough() and self._affordable(best.problem, cost)
        ):
            before = self.best.solution.duration if self.best else 0
            self._try(
                best.problem, best.collectives, [variation(best.problem) for _ in range(WORKERS)]
            )
            self.stalled = (
                self.best is not None and self.best.solution.duration > (1 - FEWEST_GAINED) * before
            )
            failures = failures + WORKERS if self.stalled else 0

    def _attempt(
        self,
        problem: Problem,
        method: Method,
        orders: Orders | None = None,
        like: str | None = None,
    ) -> Trial:
        """A method's try, polished."""
        effort = self.asked.effort
        if orders is None:
            self.tried.add(method)

        def attempted() -> Solution:
            solution = attempt(problem, method, orders)
            if effort.passes == 0:
                return solution
            try:
                return polished(
                    problem, solution, effort.passes, self._enough(problem), like, self._over
                )
            except KeyboardInterrupt:
                self.stopped = True
                return solution  # which may be the first there is

        return attempted

    def _variation(self, problem: Problem) -> Trial:
        """Something like the best so far: other routes for what is late, or all again in an order that it teaches."""
        assert self.best is not None
        if not problem.topology.limited and self.varied // WORKERS % 2:
            return self._rerouting(problem)
        self.varied += 1
        solution, seed = self.best.solution, self.seed + self.varied
        method = replace(solution.method, seed=seed)
        if method.name == "flooding" or problem.topology.limited or self.asked.order is not None:
            return self._attempt(problem, method)
        orders = learned_orders(problem, solution, NOISES[seed % len(NOISES)], seed)
        return self._attempt(problem, method, orders, solution.polish)

    def _rerouting(self, problem: Problem, solution: Solution | None = None) -> Trial:
        """Other routes for what is late in a solution, or in the best."""
        assert self.best is not None
        self.varied += 1
        enough, seed, minimal = (
            self._enough(problem),
            self.seed + self.varied,
            self.asked.routes == "minimal",
        )
        solution = solution or self.best.solution
        budget = min(MOST_REROUTING * len(solution.parts), REROUTING * len(solution))
        return partial(rerouted, problem, solution, enough, budget, seed, minimal, self._over)

    def _enough(self, problem: Problem) -> int:
        """What is so short that trying to make it shorter is a waste."""
        gap = 0.0 if self._cheap(problem) else self.asked.effort.gap
        return int((self.free or problem.known_bound).value * (1 + gap))

    def _cheap(self, problem: Problem) -> bool:
        """Whether one more attempt takes next to no time; then it is made even if there is little to gain."""
        return _cost(problem) * CHEAP <= self.asked.effort.modest

    def _affordable(self, problem: Problem, cost: int, share: float = 1.0) -> bool:
        """Whether there is effort left for attempts of that cost."""
        return self.spent + WORKERS * cost <= share * self._budget(problem)

    def _budget(self, problem: Problem) -> float:
        """The work that the effort allows: more for two phases."""
        return self.asked.effort.work * (1.5 if problem.collects_and_spreads else 1.0)

    def _try(
        self, problem: Problem, collectives: tuple[Collective, ...], trials: list[Trial]
    ) -> list[Solution]:
        """Make attempts, at the same time if there are several, and keep the best; returns all."""
        self._look_up()
        found, stop = self._run(trials)
        self.spent += sum(solution.work for solution in found)
        for solution in found:
            if self.best is None or solution.duration < self._to_beat(problem):
                self.best = Best(problem, collectives, solution)
                if self.log is not None:
                    self.log(self._entry())
            elif problem is self.best.problem and _alike(solution, self.best.solution):
                self.best = Best(problem, collectives, solution)  # new ground to go on from
        if stop is not None:
            raise stop
        return found

    def _run(self, trials: list[Trial]) -> tuple[list[Solution], BaseException | None]:
        """What attempts come to, and what stopped some of them."""
        if len(trials) == 1 or self.best is None:
            return [trial() for trial in trials], None
        found: list[Solution] = []
        stop: BaseException | None = None
        with ThreadPoolExecutor(WORKERS) as pool:
            for attempted in [pool.submit(trial) for trial in trials]:
                try:
                    found.append(attempted.result())
                except (_Enough, KeyboardInterrupt) as reason:
                    self.stopped = True  # so that those at work see it when they next report
                    stop = reason
        return found, stop

    def _to_beat(self, problem: Problem) -> float:
        """The duration of the best; more chunks, of which runtimes like few, must be worth their while."""
        assert self.best is not None
        return self.best.solution.duration * (
            1.0 if problem is self.best.problem else self.worthwhile
        )

    def _entry(self) -> Entry:
        assert self.best is not None
        solution, bound = self.best.solution, self.free or self.best.problem.known_bound
        elapsed = time.perf_counter() - self.begin
        return Entry(elapsed, str(solution), Picoseconds(solution.duration), bound.value)

    def _good_enough(self) -> bool:
        if self.best is None or not self.asked.effort.work:
            return False
        problem, duration = self.best.problem, self.best.solution.duration
        if self.free is not None:
            return duration <= self.free.value * (1 + self.asked.effort.gap)
        if self._within(problem, int(problem.quick_bound.value), duration):
            return True
        self._look_up()  # as the bound may take seconds
        return self._within(problem, int(problem.bound.value), duration)

    def _within(self, problem: Problem, bound: int, duration: int) -> bool:
        """Whether there is nothing to gain, or little and enough has been tried to gain it."""
        little = duration <= bound * (1 + self.asked.effort.gap)
        tried = self.stalled or self.spent >= self.asked.effort.modest or not self._cheap(problem)
        return duration <= bound or (little and tried)

    def _report(self, done: int, total: int, text: str) -> None:
        self._look_up()
        self.report(done, total, text)

    def _look_up(self) -> None:
        if self.best is not None and self._over():
            raise _Enough

    def _over(self) -> bool:
        limit = self.asked.time_limit
        return self.stopped or (limit is not None and time.perf_counter() - self.begin > limit)
