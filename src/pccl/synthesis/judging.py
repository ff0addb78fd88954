"""What plans are judged by: how long they take in runtimes, and in how many chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pccl.algorithm import Algorithm, Bound
from pccl.collective import Collective
from pccl.errors import PcclError
from pccl.synthesis.chunking import pieces_of
from pccl.synthesis.incumbent import WORTHWHILE
from pccl.synthesis.neighbours import SAME
from pccl.synthesis.schedule import Schedule
from pccl.targets import Target

# Messages may take so many times as long as planned before fewer chunks are tried.
KEPT = 1.02
# A plan that suits all runtimes may take so many times as long as the best.
TOLERATED = 1.05


@dataclass(frozen=True)
class Plan:
    """What is returned: an algorithm, who found it, and a bound."""

    algorithm: Algorithm
    origin: str
    bound: Bound | None
    interrupted: bool = False  # by the user
    first_pass: float = 0.0  # seconds until there was any

    @classmethod
    def of(cls, schedule: Schedule, bound: Bound | None) -> Plan:
        """What a search has found."""
        return cls(schedule.algorithm(), str(schedule.origin), bound)


class Judgement(NamedTuple):
    """What is better than the plan so far, who found it, and the time for which it is."""

    algorithm: Algorithm
    origin: str
    time: int


class Answer(NamedTuple):
    """How long an algorithm takes, at worst, in all runtimes, and whether that was to be found quickly."""

    algorithm: Algorithm
    quick: bool
    time: float


@dataclass(frozen=True)
class Alternative:
    """A schedule, and how long it takes, at worst, in several runtimes."""

    schedule: Schedule
    algorithm: Algorithm  # the same
    time: float

    @property
    def content(self) -> bool:
        """Whether it takes about as long in all of them as planned."""
        return self.time <= KEPT * self.schedule.duration


@dataclass
class Judged:
    """Schedules that a runtime was asked about: the best of those that it can take, or why it cannot."""

    target: Target
    best: Schedule | None = None
    time: int = 0  # that the best takes in the runtime
    refusal: str = ""

    @property
    def content(self) -> bool:
        """Whether the best takes about as long in the runtime as planned."""
        return self.best is not None and self.time <= KEPT * self.best.duration

    def add(self, schedule: Schedule) -> None:
        """Ask about a schedule."""
        if self.is_better(schedule.algorithm()):
            self.best = schedule

    def is_better(self, algorithm: Algorithm) -> bool:
        """Whether an algorithm takes less time in the runtime than the best so far; then that is its time."""
        time = self._time_of(algorithm)
        if time is None or (self.best is not None and time >= self.time):
            return False
        self.time = time
        return True

    def is_as_good(self, algorithm: Algorithm) -> bool:
        """Whether it takes no longer there, but for what is the same to all; then that is its time."""
        time = self._time_of(algorithm)
        if time is None or time > (1 + SAME) * self.time:
            return False
        self.time = time
        return True

    def _time_of(self, algorithm: Algorithm) -> int | None:
        try:
            return int(self.target.time_of(algorithm))
        except PcclError as error:
            self.refusal = str(error)
            return None


def is_shorter(
    one: Algorithm, other: Algorithm, times: tuple[float, float], asked: Sequence[Collective]
) -> bool:
    """Whether one plan is to be preferred, where both take so long: more chunks must gain more than a little."""
    time, other_time = times
    pieces = pieces_of(asked, one.collectives)
    other_pieces = pieces_of(asked, other.collectives)
    if pieces > other_pieces:
        return time < WORTHWHILE * other_time
    if pieces < other_pieces:
        return WORTHWHILE * time <= other_time
    return time < other_time
