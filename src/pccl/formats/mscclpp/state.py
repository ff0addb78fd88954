"""The state of a plan that runs: its lines of execution, and the counters by which they wait for each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pccl.formats.machine import Clock, Line
from pccl.formats.mscclpp.resolver import Key, Step

__all__ = ["Counter", "Signal", "Thread", "counters_of"]


class Signal(NamedTuple):
    """What a signal carries: what is ordered before it (nothing, if it is relaxed), and the ranks known to run."""

    clock: Clock | None
    met: int


class Thread(Line):
    """A threadblock, or a port channel; `met` has a bit for each rank that is known to run."""

    __slots__ = ("_met_soon", "met", "next", "rank", "steps")

    def __init__(self, index: int, lines: int, rank: int, steps: Sequence[Step]) -> None:
        super().__init__(index, lines)
        self.rank = rank
        self.steps = steps
        self.next = 0
        self.met = self._met_soon = 1 << rank

    def take(self, signal: Signal) -> None:
        """Take in what a signal carries; it counts from the next ``nop`` on."""
        self._met_soon |= signal.met
        if signal.clock is not None:
            self.hear(signal.clock)

    def synchronize(self, until: int) -> None:
        """Let all threads meet: operations up to `until`, and all heard of, come before what follows."""
        super().synchronize(until)
        self.met |= self._met_soon


@dataclass
class Counter:
    """A counter that goes up with every signal and down with every wait: that of a channel, or a semaphore."""

    initial: int = 0
    total: int = 0
    givers: set[int] = field(default_factory=set)
    given: list[Signal] = field(default_factory=list)
    taken: int = 0

    @property
    def positive(self) -> bool:
        """Whether a wait goes through."""
        return self.initial + len(self.given) > self.taken

    @property
    def left(self) -> int:
        """How far it is from its initial value."""
        return len(self.given) - self.taken

    def take(self) -> Iterable[Signal]:
        """Wait, and learn what is certain to have happened.

        The k-th wait knows that k signals came. It knows which if one threadblock gives them all, or if it is the last.
        """
        self.taken += 1
        nth = self.taken - self.initial
        if nth <= 0:
            return ()
        if len(self.givers) == 1:
            return self.given[nth - 1 : nth]
        return self.given if nth == self.total else ()


def counters_of(semaphores: dict[Key, int], steps: Iterable[Step]) -> dict[Key, Counter]:
    """All counters, given what semaphores begin with and what there is to do."""
    found: dict[Key, Counter] = defaultdict(Counter)
    for key, initial in semaphores.items():
        found[key].initial = initial
    for step in steps:
        for key in step.gives:
            found[key].total += 1
            found[key].givers.add(step.threadblock)
    return found
