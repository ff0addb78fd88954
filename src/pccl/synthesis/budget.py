"""How much to try: efforts, and what is left of one."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from pccl.settings import Settings

WORKERS = 2  # attempts made at the same time; the same on all machines, so that all find the same
TWO_PHASES = 1.5  # times as much work is allowed where sums are collected and spread


@dataclass(frozen=True)
class Effort:
    """How much to try. Work is counted in links looked at, which take about 50 ns each."""

    work: int  # no new attempt after that much
    gap: float  # good enough
    modest: int  # work to spend before that counts
    patience: int  # learned attempts without a gain before giving up
    passes: int  # of justification


_EFFORTS = {
    "fast": Effort(work=0, gap=1.0, modest=0, patience=0, passes=0),
    "balanced": Effort(work=120_000_000, gap=0.01, modest=30_000_000, patience=40, passes=6),
    "thorough": Effort(work=2_000_000_000, gap=0.0, modest=0, patience=400, passes=20),
}


def effort_of(settings: Settings) -> Effort:
    """The effort that the settings ask for; a gap of the caller's counts from the start."""
    effort = _EFFORTS[settings.effort]
    if settings.gap is None:
        return effort
    return replace(effort, gap=float(settings.gap), modest=0)


class Enough(Exception):  # noqa: N818
    """The deadline has passed, or the user has had enough."""


@dataclass
class Budget:
    """What is left of an effort."""

    effort: Effort
    deadline: float | None  # by the clock of time.perf_counter
    allowed: float = 0.0  # work in all
    spent: int = 0  # work so far
    stopped: bool = False  # one of several attempts has been: the others are to see it
    interrupted: bool = False  # by the user

    def affords(self, cost: int, share: float = 1.0) -> bool:
        """Whether attempts of that cost, made side by side, fit a share of what is allowed in all."""
        return self.spent + WORKERS * cost <= share * self.allowed

    def over(self) -> bool:
        """Whether to stop at once."""
        late = self.deadline is not None and time.perf_counter() > self.deadline
        return self.stopped or self.interrupted or late
