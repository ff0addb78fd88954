"""The state of a plan that runs: its lines of execution, and the counters by which they wait for each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from pccl.formats.machine import Clock, Line
from pccl.formats.mscclpp.resolver import Step


class Signal(NamedTuple):
    """What a signal carries: what is ordered before it (nothing, if it is relaxed), and the ranks known to run."""

    clock: Clock | None
    met: int


class Thread(Line):
    """A threadblock, or a port channel; `met` has a bit for each rank that is known to run."""

    __slots__ = ("_met_soon", "met", "next", "rank", "steps")

    def __init__(self, index: int, lines: int, rank: int, steps: list[Step]) -> None:
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


class Counter:
    """A counter that goes up with every signal and down with every wait: that of a channel, or a semaphore."""

    def __init__(self, initial: int = 0) -> None:
        self.initial = initial
        self.value = initial
        self._taken = 0
        self._total = 0
        self._givers: set[int] = set()
        # Those that no wait has taken; the clocks of others need no more memory.
        self._given: deque[Signal] = deque()

    def expect(self, giver: int) -> None:
        """Note that a threadblock will give a signal."""
        self._total += 1
        self._givers.add(giver)

    def give(self, signal: Signal) -> None:
        """Go up."""
        self.value += 1
        self._given.append(signal)

    def take(self) -> Iterable[Signal]:
        """Wait, and learn what is certain to have happened.

        The k-th wait knows that k signals came. It knows which if one threadblock gives them all, or if it is the last.
        """
        self.value -= 1
        self._taken += 1
        nth = self._taken - self.initial
        if nth > 0 and len(self._givers) == 1:
            return (self._given.popleft(),)
        return self._given if nth == self._total else ()
