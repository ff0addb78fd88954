"""One problem, from its number to its verdict; it runs in a worker, which tells what it is about to do."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from numba.core.event import install_timer

import pccl
from benchmarks.stress.checks import CHECKS, Case, Fault
from benchmarks.stress.dice import Dice
from benchmarks.stress.problems import Problem, problem_of

# How long a search may take on an idle machine of two cores, by effort and up to so many NPUs.
_WAITS = {
    "fast": {64: 10.0, 512: 30.0, 1024: 60.0},
    "balanced": {64: 20.0, 512: 60.0, 1024: 120.0},
    "thorough": {64: 120.0, 512: 360.0, 1024: 720.0},
}
# A machine may be busy with other things. How many times longer than foreseen, and than it was at work, a search that
# has time to sleep may take.
_BUSY = 3.0
_CROWDED = 10.0
# How many times longer than foreseen nothing is done before a worker counts as hanging.
_PATIENCE = 6.0
_THREADS = 2
# Seconds for a check, none of which searches for long.
_CHECK = 120.0

# Tells the watchdog what comes next, for how many seconds at most, and of which problem it is.
Say = Callable[[str, float, Problem | None], None]


class Outcome(Enum):
    """What came of a problem."""

    PLANNED = "planned"
    REFUSED = "refused"
    HUNG = "hung"
    CRASHED = "crashed"
    INCORRECT = "incorrect"
    LATE = "late"
    SKIPPED = "skipped"

    @property
    def failed(self) -> bool:
        """Whether it falls short."""
        return self in (Outcome.HUNG, Outcome.CRASHED, Outcome.INCORRECT, Outcome.LATE)


@dataclass(frozen=True)
class Task:
    """Which problem to judge, if it is of the kind that is given."""

    seed: int
    number: int
    effort: str = "mixed"
    only: str = ""
    samples: Path | None = None

    @property
    def options(self) -> str:
        """The flags without which a number stands for another problem."""
        effort = f" --effort {self.effort}" if self.effort != "mixed" else ""
        return effort + (f" --samples {self.samples}" if self.samples else "")


@dataclass(frozen=True)
class Verdict:
    """What came of a problem.

    Attributes
    ----------
    stage
        Where it ended.
    text
        What was refused, or what is wrong.
    details
        A traceback.
    wait, wall, foreseen
        Seconds: what the search would take on an idle machine by its CPU time, what it took here, and what it may take.
    gap
        By which share the plan exceeds its bound.
    checked
        The checks that were made.
    """

    problem: Problem
    outcome: Outcome
    stage: str = ""
    text: str = ""
    details: str = ""
    wait: float = 0.0
    wall: float = 0.0
    foreseen: float = 0.0
    gap: float | None = None
    checked: tuple[str, ...] = ()


class Clock:
    """What something takes here, and what it would on an idle machine; compiling does not count."""

    def __enter__(self) -> Clock:
        self._compiling: list[float] = []
        self._timer = install_timer("numba:compile", self._compiling.append)
        self._timer.__enter__()
        self._wall = time.perf_counter()
        self._own = time.thread_time()
        self._all = time.process_time()
        return self

    def __exit__(self, *error: object) -> None:
        own = time.thread_time() - self._own
        others = time.process_time() - self._all - own
        wall = time.perf_counter() - self._wall
        self._timer.__exit__(*error)
        compiling = sum(self._compiling)
        self.wall = max(wall - compiling, 0.0)
        # This thread waits while others search.
        self.idle = max(own + others / _THREADS - compiling, 0.0)

    def late(self, foreseen: float) -> bool:
        """Whether it took longer than foreseen, as far as one can tell on a machine that does other things as well."""
        sleeps = self.wall > _BUSY * foreseen and self.wall > _CROWDED * self.idle
        return self.idle > foreseen or sleeps


def foreseen_wait(problem: Problem, effort: str) -> float:
    """For how many seconds people expect to wait for a plan."""
    waits = _WAITS[effort]
    return next((wait for npus, wait in waits.items() if problem.npus <= npus), waits[1024])


def judge(task: Task, say: Say) -> Verdict:
    """Pose a problem, plan it, and look at the plan from all sides."""
    say("posing", _CHECK, None)
    problem = problem_of(task.seed, task.number, task.effort, task.samples)
    if task.only and task.only not in problem.kinds:
        return Verdict(problem, Outcome.SKIPPED)
    stage = "network"
    clock = Clock()
    foreseen = foreseen_wait(problem, problem.options["effort"])
    limit = problem.options.get("time_limit")
    try:
        say(stage, _CHECK, problem)
        topology = problem.topology()
        asked = problem.asked()
        stage = "synthesize"
        say(stage, foreseen * _PATIENCE, problem)
        with clock:
            plan = pccl.synthesize(topology, *asked, **problem.options)
        if limit is not None:
            foreseen = _with_limit(problem, topology, asked, limit, clock, say)
    except pccl.PcclError as error:
        return _refused(problem, stage, error)
    except BaseException as error:
        return _broken(problem, stage, error)
    took = {"wait": clock.idle, "wall": clock.wall, "foreseen": foreseen, "gap": plan.gap}
    with tempfile.TemporaryDirectory() as folder:
        case = Case(
            topology,
            asked,
            problem.options,
            plan,
            Path(folder),
            Dice(problem.seed, problem.number, 1),
        )
        for stage in problem.checks:
            say(stage, foreseen * _PATIENCE + _CHECK, problem)
            try:
                CHECKS[stage].run(case)
            except (Fault, pccl.VerificationError) as error:
                return Verdict(problem, Outcome.INCORRECT, stage, str(error), **took)
            except BaseException as error:
                return _broken(problem, stage, error, **took)
    if clock.late(foreseen):
        text = f"{clock.idle:.1f} s of work, {clock.wall:.1f} s here, {foreseen:.1f} s foreseen"
        return Verdict(problem, Outcome.LATE, "synthesize", text, **took)
    return Verdict(problem, Outcome.PLANNED, checked=problem.checks, **took)


def _with_limit(
    problem: Problem, topology: Any, asked: Any, limit: float, clock: Clock, say: Say
) -> float:
    """What to expect where time is limited: a second more than the limit, or as long as the first pass takes."""
    if not clock.late(limit + 1):
        return limit + 1
    usual = foreseen_wait(problem, "fast")
    say("first pass", usual * _PATIENCE, problem)
    first = Clock()
    with first:
        pccl.synthesize(
            topology, *asked, **problem.options | {"effort": "fast", "time_limit": None}
        )
    return limit + 1 + min(first.idle, usual)


def _refused(problem: Problem, stage: str, error: pccl.PcclError) -> Verdict:
    text = str(error)
    if not text.strip() or "\n" in text:
        return _broken(problem, stage, error)
    return Verdict(problem, Outcome.REFUSED, stage, text)


def _broken(problem: Problem, stage: str, error: BaseException, **took: Any) -> Verdict:
    # What the verifier said of our own plan is no crash.
    wrong = isinstance(error.__cause__, pccl.VerificationError)
    outcome = Outcome.INCORRECT if wrong else Outcome.CRASHED
    text = f"{type(error).__name__}: {error}"
    return Verdict(problem, outcome, stage, text, traceback.format_exc(), **took)


def warm_up() -> None:
    """Have kernels compiled before any clock starts."""
    switch = pccl.topology.switch(4)
    for topology in (pccl.topology.mesh(2, 2), switch):
        for make in (pccl.AllGather, pccl.AllReduce, pccl.AllToAll, pccl.ReduceScatter):
            plan = pccl.synthesize(topology, make("1MiB"))
            pccl.simulate(plan, "fifo")
            pccl.lower_bound(topology, make("1MiB"))
    pccl.synthesize(switch, pccl.AllToAllV([[0, 9, 5, 1]] * 4))
