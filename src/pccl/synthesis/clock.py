"""The clock of a call: one for all of its searches, with the time, and the work, that they may take together."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from numba.core.event import Event, Listener, install_listener

# Seconds that a bound may take even if no time is left; and where the first pass took longer than all that it was to
# take, a share of the seconds that it was late.
LEAST_FOR_BOUND = 0.8
SHARE_OF_BOUND = 0.25


class Moment(NamedTuple):
    """What two clocks show, or how far they have gone on."""

    wall: float
    processor: float  # of all threads together

    @classmethod
    def now(cls) -> Moment:
        """What they show now."""
        return cls(time.perf_counter(), time.process_time())

    def since(self, begin: Moment) -> Moment:
        """How far they have gone on since a moment."""
        return Moment(self.wall - begin.wall, self.processor - begin.processor)


class Compiling(Listener):
    """How long kernels have been compiled so far, in any thread; a kernel that another one calls is part of that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        # Less than that of all compiling that is over: so the difference to now is what all of it took.
        self._begin = Moment(0.0, 0.0)
        self._spent = Moment(0.0, 0.0)

    @property
    def spent(self) -> Moment:
        """What it took so far, with the kernel that is being compiled now."""
        with self._lock:
            return Moment.now().since(self._begin) if self._depth else self._spent

    def on_start(self, event: Event) -> None:  # noqa: ARG002
        """A kernel begins to be compiled."""
        with self._lock:
            if self._depth == 0:
                self._begin = Moment.now().since(self._spent)
            self._depth += 1

    def on_end(self, event: Event) -> None:  # noqa: ARG002
        """It is compiled."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._spent = Moment.now().since(self._begin)


@dataclass
class Clock:
    """Seconds since a call began, without those for which kernels were compiled; and what the call may take.

    Attributes
    ----------
    limit
        Seconds after which the best so far is taken.
    is_promised
        Whether that is what we promise on a machine that does nothing else, and not what the caller asked for: then
        only as many of them count as the processor has worked for us.
    work
        Links that all searches may still look at: that ends them at the same point on every machine.
    is_cut_short
        Whether the limit has cut anything short: then another run, or another machine, may find something else.
    """

    limit: float | None = None
    is_promised: bool = False
    work: float = math.inf
    is_cut_short: bool = False
    begin: Moment = field(default_factory=Moment.now)
    _compiling: Compiling = field(default_factory=Compiling)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let it take note of what kernels take to be compiled."""
        with install_listener("numba:compile", self._compiling):
            yield

    @property
    def elapsed(self) -> float:
        """Seconds since the call began."""
        return self._spent.wall

    def now(self) -> float:
        """The same, of those that count for limits."""
        spent = self._spent
        return min(spent) if self.is_promised else spent.wall

    @property
    def _spent(self) -> Moment:
        return Moment.now().since(self.begin).since(self._compiling.spent)

    def is_past(self, deadline: float | None) -> bool:
        """Whether the deadline of somebody who would go on has passed; then that is cut short."""
        if deadline is None or self.now() <= deadline:
            return False
        self.is_cut_short = True
        return True

    @property
    def time_left(self) -> float | None:
        """Seconds until the limit; None if there is none."""
        return None if self.limit is None else max(self.limit - self.now(), 0.0)

    @property
    def time_for_bound(self) -> float | None:
        """Seconds for the bound of what was found: those that are left, or a part of those that it took too long."""
        if self.limit is None:
            return None
        left = self.limit - self.now()
        return max(left, LEAST_FOR_BOUND, -SHARE_OF_BOUND * left)

    def part_until(self, deadline: float | None, share: float) -> float | None:
        """The deadline after a share of the time that is left until another."""
        if deadline is None:
            return None
        now = self.now()
        return now + share * (deadline - now)
