"""How much to try: efforts, and what is left of one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pccl.settings import Settings
from pccl.synthesis.clock import Clock

WORKERS = 2  # attempts made at the same time; the same on all machines, so that all find the same
TWO_PHASES = 1.5  # times as much work is allowed where sums are collected and spread
ALL_SEARCHES = 3.0  # times as much for all searches of a call together


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
    clock: Clock
    deadline: float | None  # seconds on the clock
    allowed: float = 0.0  # work in all
    spent: int = 0  # work so far
    stopped: bool = False  # one of several attempts has been: the others are to see it
    interrupted: bool = False  # by the user

    def affords(self, cost: int, share: float = 1.0) -> bool:
        """Whether attempts of that cost, made side by side, fit a share of what is allowed in all."""
        left = min(share * self.allowed - self.spent, self.clock.work)
        return WORKERS * cost <= left

    def spend(self, work: int) -> None:
        """Count work that was done, also on the clock that all searches share."""
        self.spent += work
        self.clock.work -= work

    def over(self) -> bool:
        """Whether to stop at once."""
        return self.stopped or self.interrupted or self.clock.is_past(self.deadline)


def clock_of(settings: Settings, npus: int) -> Clock:
    """The clock for a call with these settings, on a network with so many NPUs."""
    work = ALL_SEARCHES * effort_of(settings).work
    if settings.time_limit is not None:
        return Clock(settings.time_limit, work=work)
    return Clock(settings.usual_wait(npus), is_promised=True, work=work)
