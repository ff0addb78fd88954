"""Vector clocks: what is certain to be complete before a line of execution goes on."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Indices

# Per line: all its events up to this number are complete.
Clock = Indices


class Line:
    """One line of execution, such as a threadblock.

    Attributes
    ----------
    index
        Which of the lines it is.
    clock
        What is ordered before whatever this line does next. It is never changed but replaced, so that others may keep
        it.
    """

    __slots__ = ("_heard", "clock", "index")

    def __init__(self, index: int, lines: int) -> None:
        self.index = index
        self.clock: Clock = np.full(lines, -1, np.int32)
        self._heard: Clock | None = None

    def hear(self, clock: Clock) -> None:
        """Learn what another line knew; it counts from the next synchronization on."""
        self._heard = clock if self._heard is None else np.maximum(self._heard, clock)

    def synchronize(self, until: int) -> None:
        """Put all events of its own up to `until`, and all that it has heard of, before what comes next."""
        if self._heard is None:
            self.clock = self.clock.copy()
        else:
            self.clock = np.maximum(self.clock, self._heard)
            self._heard = None
        self.clock[self.index] = until
