"""Methods: ways to find an algorithm, each with its knobs, and the polish that any result gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.algorithm import Algorithm
from pccl.algorithm.timing import move_up as move_up_within_limits
from pccl.network import Network, Ten
from pccl.synthesis import kernels
from pccl.synthesis.flooding import flooded
from pccl.synthesis.jobs import Jobs
from pccl.synthesis.kernels import Columns
from pccl.synthesis.placement import Part, Placed, Wish, move_up, place, turn_round
from pccl.synthesis.problem import Problem
from pccl.synthesis.retiming import RANKS, Timetable

__all__ = ["METHODS", "POLISH", "Method", "Orders", "Solution", "assembled", "attempt", "polished"]

Orders = dict[
    bool, Ints
]  # for jobs that reduce and for those that spread: in which order to place them
JUSTIFIED = 2  # of all ways to time routes, that many of the best are justified, besides the first and the last
POLISH = 60  # links looked at take as long as polishing a transfer
HEAD_START = 1.0  # the logarithm of the price that the dearest link of a bound starts with
METHODS = ("earliest-arrival", "price-guided", "flooding")


@dataclass(frozen=True)
class Method:
    """One way to find an algorithm."""

    name: str
    order: str = "rounds"
    routes: str = "any"
    steps: bool = False  # whether time is counted in steps while placing, or exactly
    steepness: float = 0.0
    urgency: float = 0.0
    root: str = "spread"
    apart: bool = False  # whether what is spread forgets the prices of what was collected before
    dual: bool = False  # whether prices start from those that prove the bound
    seed: int = 0

    def __str__(self) -> str:
        knobs = {
            "earliest-arrival": f"{self.order}, {self.routes} routes",
            "price-guided": f"steepness {self.steepness:g}, urgency {self.urgency:g}, {self.order}, "
            f"{self.routes} routes",
            "flooding": "",
        }[self.name]
        parts = [self.name.replace("-", " ") if self.name != "price-guided" else self.name, knobs]
        parts += ["in steps"] * self.steps + ["sums collected midway"] * (self.root == "center")
        parts += ["phases apart"] * self.apart + ["prices of the bound"] * self.dual
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, eq=False)
class Solution:
    """What a method came to; times are in units of the network."""

    method: Method
    net: Network
    parts: list[Part]
    duration: int  # picoseconds
    columns: Columns | None = (
        None  # if they do not follow from the parts, as where switches have limits
    )
    polish: str = ""  # in which way it was timed in the end
    rerouted: bool = False
    work: int = 0  # what it took to find, in links looked at

    def __str__(self) -> str:
        return ", ".join(filter(None, (str(self.method), self.polish, "re-routed" * self.rerouted)))

    def __len__(self) -> int:
        return sum(len(part.placed) for part in self.parts)


def attempt(problem: Problem, method: Method, orders: Orders | None = None) -> Solution:
    """Let a method have a try; `orders` take the place of its own."""
    topology, chunks = problem.topology, len(problem.conditions)
    reductions, gathers = problem.jobs(method.root, method.steps)
    total, done = len(reductions) + len(gathers), 0

    def progress(placed: int) -> None:
        nonlocal done
        done += placed
        problem.report(min(done, total), total, str(method))

    load = _first_load(problem, method)

    def placed(jobs: Jobs, ten: Ten, release: Ints, reduces: bool) -> Placed:
        if method.name == "flooding":
            return flooded(jobs, method.seed, progress)
        return place(
            jobs, ten, _wish(problem, method, jobs, orders, reduces), release, load, progress
        )

    net, ten = gathers.net, Ten.empty(topology, gathers.net)
    release, parts = np.zeros(chunks, np.int64), []
    if len(reductions):
        backwards = Ten.empty(reductions.topology, reductions.net)
        mirrored = placed(reductions, backwards, np.zeros(len(reductions), np.int64), True)
        collected, release, ten = turn_round(topology, net, reductions, mirrored, backwards, chunks)
        parts.append(Part(reductions, collected, reduces=True))
    if len(gathers):
        if method.apart:
            load = _first_load(problem, method)
        spread = placed(gathers, ten, release[gathers.chunk], False)
        if (
            method.name == "flooding" and parts
        ):  # which knows nothing of the sums: it begins when they are there
            late = parts[0].placed.end
            spread = replace(spread, start=spread.start + late, end=spread.end + late)
        parts.append(Part(gathers, spread, reduces=False))
    duration = max((part.placed.end for part in parts), default=0) * net.unit
    # That times are polished counts too.
    work = sum(part.placed.work + POLISH * len(part.placed) * len(parts) for part in parts)
    return _exact(problem, Solution(method, net, parts, duration, work=work))


def _first_load(problem: Problem, method: Method) -> Floats:
    """The logarithm of the price that each link starts with."""
    prices = np.array(problem.bound.prices if method.dual else (), np.float64)
    return (
        HEAD_START * prices / prices.max()
        if np.any(prices)
        else np.zeros(problem.topology.num_links)
    )


def _wish(
    problem: Problem, method: Method, jobs: Jobs, orders: Orders | None, reduces: bool
) -> Wish:
    order = orders[reduces] if orders else method.order
    wish = Wish(order, method.routes == "minimal", method.seed)
    if method.name == "earliest-arrival":
        return wish
    scale = int(problem.quick_bound.value) // jobs.net.unit
    return replace(wish, steepness=method.steepness, urgency=method.urgency, scale=scale)


def _exact(problem: Problem, solution: Solution) -> Solution:
    """Undo the rounding to steps, and what mirroring did where switches have limits: everything moves up.

    So it does after flooding, where transfers that fed nobody leave gaps.
    """
    topology, chunks = problem.topology, len(problem.conditions)
    if topology.limited:
        plan = Algorithm.build(
            topology, (), *assembled(solution, chunks), conditions=problem.conditions
        )
        t = move_up_within_limits(plan.transfers)
        columns = Columns(t.chunk, t.link, t.start, t.reduce)
        return replace(solution, columns=columns, duration=int(t.arrival.max(initial=0)))
    if not solution.method.steps and solution.method.name != "flooding":
        return solution
    moved, _, _ = move_up(topology, problem.net, solution.parts, chunks)
    parts = [
        part._replace(placed=placed) for part, placed in zip(solution.parts, moved, strict=True)
    ]
    end = max((placed.end for placed in moved), default=0)
    return replace(solution, net=problem.net, parts=parts, duration=end * problem.net.unit)


def polished(
    problem: Problem,
    solution: Solution,
    passes: int,
    enough: int,
    like: str | None = None,
    over: Callable[[], bool] = lambda: False,
) -> Solution:
    """Time the routes of a solution anew in all the ways we know, until it takes no longer than is enough.

    With `like`, only in the way that was best for a solution of that kind. No other way is begun once it is `over`.
    """
    if problem.topology.limited or not len(solution) or solution.duration <= enough:
        return solution
    table = Timetable.of(problem.topology, solution.net, solution.parts, len(problem.conditions))
    starts = {"": table.moves.start}
    for name, retimed in _ways(problem, solution, table).items():
        if like in (None, name) and not over():
            starts[name] = retimed()
            if table.end(starts[name]) * solution.net.unit <= enough:
                break
    ends = {name: table.end(start) for name, start in starts.items()}
    ranked = sorted(ends, key=lambda name: ends[name])
    how, best, end = ranked[0], starts[ranked[0]], ends[ranked[0]]
    for name in dict.fromkeys([*ranked[:JUSTIFIED], "", *list(ends)[-1:]]):
        if end * solution.net.unit <= enough or over():
            break
        moved = table.justified(starts[name], passes)
        if table.end(moved) < end:
            best, end, how = moved, table.end(moved), name or "justified"
    if how == "":
        return solution
    parts = table.parts(solution.parts, table.moved_up(best))
    return replace(
        solution, parts=parts, duration=parts[0].placed.end * solution.net.unit, polish=how
    )


def _ways(problem: Problem, solution: Solution, table: Timetable) -> dict[str, Callable[[], Ints]]:
    """Ways to time routes, by name."""
    ways: dict[str, Callable[[], Ints]] = {}
    for rank in RANKS:
        ways[f"re-timed by {rank}"] = partial(table.by_rank, rank)
        ways[f"re-timed backwards by {rank}"] = partial(table.by_rank_backwards, rank)
    if len(solution.parts) == 2:
        ways["phase by phase"] = partial(_phase_by_phase, problem, solution)
    return ways


def _phase_by_phase(problem: Problem, solution: Solution) -> Ints:
    """Sums first, then what is spread, each by itself as well as it can be."""
    starts, late = [], 0
    for part in solution.parts:
        alone = Timetable.of(problem.topology, solution.net, [part], len(problem.conditions))
        tries = [alone.moved_up(alone.moves.start)]
        tries += [time(rank) for rank in RANKS for time in (alone.by_rank, alone.by_rank_backwards)]
        start = alone.justified(min(tries, key=alone.end), 4)
        starts.append(start + late)
        late += alone.end(start)
    return np.concatenate(starts)


def assembled(solution: Solution, chunks: int) -> Columns:
    """All transfers by chunk, in picoseconds; those that reduce come first."""
    if solution.columns is not None:
        return solution.columns
    first = np.zeros(chunks + 1, np.int64)
    for jobs, placed, _ in solution.parts:
        np.add.at(first, jobs.chunk[placed.job] + 1, np.diff(placed.first))
    position = np.cumsum(first)[:-1]
    total = len(solution)
    columns = Columns(
        np.empty(total, np.int32),
        np.empty(total, np.int32),
        np.empty(total, np.int64),
        np.empty(total, np.bool_),
    )
    for jobs, placed, reduces in solution.parts:
        kernels.assemble(
            solution.net,
            jobs.chunk[placed.job],
            placed.first,
            placed.arc,
            placed.start,
            reduces,
            position,
            columns,
        )
    return columns
