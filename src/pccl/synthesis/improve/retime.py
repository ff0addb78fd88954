"""Re-timing: other starts for the routes of a schedule, by rank, event by event, and by justification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pccl.synthesis.methods.messages import within_limits
from pccl.synthesis.schedule import Schedule
from pccl.synthesis.timetable import Rank, Timetable

# Of all ways to time routes, that many of the best are justified, besides the first and the last.
JUSTIFIED = 2
# A share of the duration: passes that gain less are the last.
FEWEST_GAINED = 1e-4
PASSES_OF_A_PHASE = 4


@dataclass(frozen=True)
class Timing:
    """One way to time routes: by rank, phase by phase, or (with neither) as they are; justified at last, or not."""

    rank: Rank | None = None
    backwards: bool = False  # from the end: what is sent last is chosen first
    by_phase: bool = False  # sums first, then what is spread, each by itself

    def __str__(self) -> str:
        if self.by_phase:
            return "phase by phase"
        if self.rank is None:
            return "justified"
        return f"re-timed {'backwards ' if self.backwards else ''}by {self.rank.value}"


AS_IT_IS = Timing()
BY_RANK = [Timing(rank, backwards) for rank in Rank for backwards in (False, True)]


def retimed(
    schedule: Schedule,
    passes: int,
    enough: int,
    like: Timing | None = None,
    over: Callable[[], bool] = lambda: False,
) -> Schedule:
    """Time the routes of a schedule anew in all the ways we know, until it takes no longer than is enough.

    With `like`, only in the way that was best for a schedule of that kind. No other way is begun once it is `over`.
    """
    if not len(schedule) or schedule.duration <= enough:
        return schedule
    if schedule.problem.topology.limited:
        return _retimed_within_limits(schedule, passes, enough, like, over)
    ways = [*BY_RANK, Timing(by_phase=True)] if len(schedule.phases) > 1 else BY_RANK
    found = {AS_IT_IS: schedule}
    table = Timetable(schedule, schedule.moves, schedule.start)
    for timing in ways:
        if like in (None, timing) and not over():
            found[timing] = timed_by(schedule, timing, table)
            if found[timing].duration <= enough:
                break
    ranked = sorted(found, key=lambda timing: found[timing].end)
    best = found[ranked[0]]
    how = None if ranked[0] == AS_IT_IS else ranked[0]
    # Justification takes longer than timing, so only the most promising get it, and the extremes:
    # what the method made itself, and what was tried last.
    for timing in dict.fromkeys([*ranked[:JUSTIFIED], AS_IT_IS, *list(found)[-1:]]):
        if best.duration <= enough or over():
            break
        moved = justified(found[timing], passes)
        if moved.end < best.end:
            best = moved
            how = timing
    if how is None:
        return schedule
    origin = replace(schedule.origin, timing=how)
    return replace(best.moved_up(), origin=origin)


def _retimed_within_limits(
    schedule: Schedule,
    passes: int,
    enough: int,
    like: Timing | None,
    over: Callable[[], bool],
) -> Schedule:
    """The same where buffers are finite: these ways to time know nothing of them, so what they find is placed anew."""
    ways = BY_RANK if len(schedule.phases) == 1 else [*BY_RANK, Timing(by_phase=True)]
    table = Timetable(schedule, schedule.moves, schedule.start)
    found = {timing: timed_by(schedule, timing, table) for timing in ways if like in (None, timing)}
    ranked = sorted(found, key=lambda timing: found[timing].end)[:JUSTIFIED]
    best = schedule
    work = schedule.work
    for timing in (AS_IT_IS, *ranked):
        if best.duration <= enough or over():
            break
        moved = within_limits(justified(found.get(timing, schedule), passes))
        work += moved.work
        if moved.end < best.end:
            best = replace(moved, origin=replace(schedule.origin, timing=timing))
    return replace(best, work=work)


def timed_by(schedule: Schedule, timing: Timing, table: Timetable | None = None) -> Schedule:
    """The same routes, timed in this way; a table spares work that several ways share."""
    if timing.by_phase:
        return _phase_by_phase(schedule)
    if timing.rank is None:
        return schedule
    table = table or Timetable(schedule, schedule.moves, schedule.start)
    if not timing.backwards:
        return schedule.timed(table.starts(timing.rank))
    late = table.mirrored.starts(timing.rank) + schedule.travel
    return schedule.timed(late.max(initial=0) - late)


def justified(schedule: Schedule, passes: int) -> Schedule:
    """Move everything as late as it can go, then as early, again and again while that gains time.

    Known from project scheduling: a pass never makes a schedule longer.
    """
    best = schedule
    for _ in range(passes):
        moved = best.moved_down().moved_up()
        gained = best.end - moved.end
        if gained > 0:
            best = moved
        if gained <= FEWEST_GAINED * best.end:
            break
    return best


def _phase_by_phase(schedule: Schedule) -> Schedule:
    """Sums first, then what is spread, each by itself as well as it can be."""
    start = np.empty_like(schedule.start)
    late = 0
    for phase in schedule.phases:
        rows = schedule.rows(phase)
        alone = schedule.only(phase)
        table = Timetable(alone, alone.moves, alone.start)
        tries = [alone.moved_up(), *(timed_by(alone, timing, table) for timing in BY_RANK)]
        best = justified(min(tries, key=lambda tried: tried.end), PASSES_OF_A_PHASE)
        start[rows] = best.start + late
        late += best.end
    return schedule.timed(start)
