"""Random problems under a watchdog: ``python -m benchmarks.stress --seconds 60``; see docs/stress.md.

Exits with status 1 if anything falls short; the last line has the counts.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.stress.judge import Outcome, Task, Verdict
from benchmarks.stress.problems import EFFORTS, Problem, problem_of
from benchmarks.stress.tally import Tally
from benchmarks.stress.watchdog import Answered, Lost, Watchdog
from pccl.collective import COLLECTIVES

_EVERY = 10.0


def main() -> None:
    """Stress it for some time, or pose one problem."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stress", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="begin no problem after this")
    parser.add_argument("--seed", type=int, default=0, help="other problems")
    parser.add_argument("--effort", choices=EFFORTS, default="mixed")
    parser.add_argument(
        "--only", choices=sorted(COLLECTIVES), default="", help="a collective that must be in it"
    )
    parser.add_argument("--problems", type=int, default=10**9, help="at most so many")
    parser.add_argument("--jobs", type=int, default=2, help="processes at work")
    parser.add_argument("--samples", type=Path, help="a folder with files that describe machines")
    parser.add_argument("--one", metavar="SEED:NUMBER", help="this problem alone, with its checks")
    given = parser.parse_args()
    seed, number, count = given.seed, 0, given.problems
    if given.one:
        seed, number = map(int, given.one.split(":"))
        count = 1
        print(problem_of(seed, number, given.effort, given.samples).command(), flush=True)
    base = Task(seed, number, given.effort, given.only, given.samples)
    # One problem is no measurement, and should not wait for others.
    begin = "" if given.one else "benchmarks.stress.judge:warm_up"
    tally = stress(base, count, given.seconds, 1 if given.one else given.jobs, begin)
    print(tally.summary(), flush=True)
    sys.exit(1 if tally.failed else 0)


def stress(base: Task, count: int, seconds: float, jobs: int, begin: str = "") -> Tally:
    """Pose problems one after another until the time is over or there are so many."""
    tally = Tally(options=base.options)
    posing = _Posing(base, count, seconds)
    dog = Watchdog("benchmarks.stress.judge:judge", posing.tasks(), jobs=jobs, begin=begin)
    print("Workers begin, and compile kernels where that has not been done", flush=True)
    told = time.monotonic()
    for event in dog.run():
        if isinstance(event, Lost):
            tally.add(verdict_of(event))
        elif isinstance(event, Answered) and event.answer.outcome is not Outcome.SKIPPED:
            tally.add(event.answer)
        posing.done = len(tally.verdicts)
        if posing.seconds and time.monotonic() - told > _EVERY:
            told = time.monotonic()
            print(tally.progress(posing.seconds), flush=True)
    return tally


class _Posing:
    """The tasks, for as long as there is time; the clock starts with the first, when kernels are compiled."""

    def __init__(self, base: Task, count: int, seconds: float) -> None:
        self.base = base
        self.count = count
        self.limit = seconds
        self.done = 0
        self._begun = 0.0

    @property
    def seconds(self) -> float:
        """How long ago the first was posed."""
        return time.monotonic() - self._begun if self._begun else 0.0

    def tasks(self) -> Iterator[Task]:
        """The next problem."""
        self._begun = time.monotonic()
        number = self.base.number
        begun = 0
        while self.seconds < self.limit and begun < self.count:
            yield Task(self.base.seed, number, self.base.effort, self.base.only, self.base.samples)
            number += 1
            # Of those that are skipped, nobody knows before they are posed.
            begun = self.done + 1 if self.base.only else begun + 1


def verdict_of(lost: Lost) -> Verdict:
    """What to say of a problem that a worker hung on or died of."""
    task = lost.task
    if task is None:
        raise SystemExit(
            f"a worker ended before its first problem (status {lost.code}):\n{lost.stack}"
        )
    problem = lost.about
    if problem is None:
        problem = Problem(task.seed, task.number, "?", "?", 0, False, (), (), (), ())
    if lost.hung:
        text = f"nothing for {lost.seconds:.0f} s"
        return Verdict(problem, Outcome.HUNG, lost.stage, text, lost.stack)
    code = lost.code or 0
    text = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
    return Verdict(problem, Outcome.CRASHED, lost.stage, text, lost.stack)


if __name__ == "__main__":
    main()
