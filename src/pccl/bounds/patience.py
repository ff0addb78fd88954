"""How long the search for a bound may take: what it has found by then is a bound as well, but perhaps not the best."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass


@dataclass
class Patience:
    """A moment to stop at, and whether a search was cut short there.

    Attributes
    ----------
    deadline
        By the clock of ``time.perf_counter``.
    is_over
        Whether somebody who would have gone on has stopped for it.
    """

    deadline: float = math.inf
    is_over: bool = False

    @classmethod
    def of(cls, seconds: float | None) -> Patience:
        """As much as so many seconds from now; None for as long as it takes."""
        return cls() if seconds is None else cls(time.perf_counter() + max(seconds, 0.0))

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.perf_counter()

    def ends(self) -> bool:
        """Whether whoever asks, since he would go on, is to stop."""
        self.is_over = self.is_over or self.left <= 0
        return self.is_over
