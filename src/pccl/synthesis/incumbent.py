"""The best schedule so far, and the log of how it got better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from pccl.algorithm import Algorithm
from pccl.bounds import Bound
from pccl.errors import InternalError
from pccl.network import NEVER
from pccl.synthesis.clock import Clock
from pccl.synthesis.schedule import Schedule
from pccl.units import Picoseconds

# More chunks, of which runtimes like few, are worth their while if they take that share of the time.
WORTHWHILE = 0.98


@dataclass(frozen=True)
class Entry:
    """A line of the log: who found the best so far, and how good it can be at most."""

    elapsed: float  # seconds
    method: str
    best: Picoseconds
    bound: Picoseconds
    interrupted: bool = False  # by the user, so that this is the last line
    # Makes the algorithm that this line tells of, which nobody has verified yet; while the search goes on, too.
    algorithm: Callable[[], Algorithm] | None = field(default=None, compare=False, repr=False)

    @property
    def gap(self) -> float:
        """By how much the best exceeds the bound."""
        return int(self.best) / int(self.bound) - 1 if self.bound else 0.0


Log: TypeAlias = Callable[[Entry], None]


@dataclass
class Incumbent:
    """The best schedule so far, and what is known of how good it can be."""

    clock: Clock
    log: Log | None
    any_number_of_chunks: bool = False  # whether it is left open
    schedule: Schedule | None = None
    first_pass: float = 0.0  # seconds until there was any
    # What the shortest takes, which may have been given up for one of fewer chunks.
    shortest: int = int(NEVER)
    bound_of_any_cut: Bound | None = None  # while the number of chunks is still open
    # What holds for all that was asked for: however data are cut, where that is left open. It never falls.
    bound: Bound | None = None

    @property
    def best(self) -> Schedule:
        """The best so far; there must be one."""
        if self.schedule is None:
            raise InternalError("no method was tried")
        return self.schedule

    def raise_bound(self, found: Bound) -> Bound:
        """Take what was proven if it proves more; returns the best so far."""
        if self.bound is None or found.value > self.bound.value:
            self.bound = found
        elif found.cut_short:
            self.bound = replace(self.bound, cut_short=True)
        return self.bound

    def offer(self, found: Schedule) -> None:
        """Take what was found if it is better, or as good and new ground to go on from."""
        best = self.schedule
        self.shortest = min(self.shortest, found.duration)
        if best is None:
            self.first_pass = self.clock.now()
        if best is None or found.duration < best.duration:
            self.schedule = found
            self.tell()
        # As good, and found in the same way: variations then go on from other ground.
        elif _are_alike(found, best):
            self.schedule = found

    def is_near(self, duration: int) -> bool:
        """Whether that is hardly longer than the shortest takes."""
        return duration * WORTHWHILE <= self.shortest

    def settle(self, found: Schedule) -> None:
        """Take what was found, whatever it is better in."""
        if found is not self.schedule:
            self.schedule = found
            self.tell()

    def tell(self) -> None:
        """Write a line of the log."""
        if self.log is None:
            return
        bound = self.bound
        if bound is None or not self.any_number_of_chunks:
            bound = self.raise_bound(self.best.problem.known_bound)
        elapsed = self.clock.elapsed
        best = Picoseconds(self.best.duration)
        make = partial(self.best.algorithm, bound=bound)
        self.log(Entry(elapsed, str(self.best.origin), best, bound.value, algorithm=make))


def _are_alike(one: Schedule, other: Schedule) -> bool:
    """Whether two schedules for the same chunks are equally good and found in the same way."""
    if one.problem is not other.problem:
        return False
    return one.duration == other.duration and one.origin == other.origin
