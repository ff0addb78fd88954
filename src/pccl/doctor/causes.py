"""``explain``: which faults explain what was measured, and how well each of them does.

Under every hypothesis a run takes what our model says, a little longer throughout, plus a fixed cost to start it. How
far measured times are from that, in units of what measurements scatter, is its score. A fault must beat "nothing is
wrong" by enough to be believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pccl._arrays import Floats
from pccl.doctor.expectation import FACTORS, Expectation, Progress, Run
from pccl.doctor.faults import Fault, faults_of

# Measurements scatter by about this share, and machines are slower than the model by about that.
SCATTER = 0.03
SLOWER = 0.08
# Of starting a collective, in seconds: more than that is no such cost.
LONGEST_START = 50e-6
# By how much a fault must explain more than none does: it has two parameters, which place and how bad.
CONVINCING = 8.0
# Explanations within this of the best are as good.
AS_GOOD = 5.0
# Faults that look different to the run of the longest plans, of which it is tried what happens if they are gone.
GONE = 8
# Fine steps between what is simulated.
_STEPS = np.geomspace(1.15, FACTORS[-1], 40)


@dataclass(frozen=True)
class Cause:
    """A fault that may explain what was measured.

    Attributes
    ----------
    faults
        Those that look alike in these logs; one of them.
    factor
        How many times slower; infinite if it is gone.
    score
        How far what was measured is from what this fault would make of it; the lower, the better.
    """

    faults: tuple[Fault, ...]
    factor: float
    score: float

    @property
    def gone(self) -> bool:
        """Whether links are gone, and not slow."""
        return bool(np.isinf(self.factor))

    @property
    def rank(self) -> float:
        """The score, and more for what is less likely before anything is measured.

        That many links fail at once is, and so is any one of all factors: it is fitted to what was measured.
        """
        fitted = 0.0 if self.gone else 2.0
        return self.score + fitted + 2 * float(np.log(len(self.faults[0].links)))

    def __str__(self) -> str:
        """In a few words."""
        how = "down" if self.gone else f"at {100 / self.factor:.0f} % of the speed"
        if len(self.faults) == 1:
            return f"{self.faults[0].where}, {how}"
        kind = _KINDS[self.faults[0].what]
        places = ", ".join(fault.where for fault in self.faults[:3])
        more = len(self.faults) - 3
        if more > 0:
            places += f" and {more} more"
        return f"{kind}, {how}; one of {len(self.faults)}: {places}"


_KINDS = {
    "nic": "one NIC",
    "nvlink": "the NVLinks of one NPU",
    "cable": "one link",
    "box": "all links inside one box",
    "box-nics": "all NICs of one box",
}


@dataclass(frozen=True)
class Measured:
    """Seconds that runs took, one run after another, each at its sizes.

    Attributes
    ----------
    runs
        What ran.
    times
        All seconds in one row.
    families
        Per run a number. Runs of one collective on as many NPUs of as many boxes share it: they should start alike,
        and be slower than the model by the same share.
    """

    runs: tuple[Run, ...]
    times: Floats
    families: tuple[int, ...]

    @cached_property
    def ends(self) -> list[int]:
        """Where in the row the next run begins."""
        return [int(end) for end in np.cumsum([len(run.sizes) for run in self.runs])]

    def split(self, row: Floats) -> tuple[Floats, ...]:
        """A row of all times, run by run."""
        return tuple(np.split(row, self.ends[:-1]))

    def scores(self, expected: Floats) -> Floats:
        """How far this is from each row of what may be expected, in squares of what measurements scatter."""
        total = np.zeros(len(expected))
        starts = np.array([0, *self.ends[:-1]])
        family_of = np.repeat(self.families, [len(run.sizes) for run in self.runs])
        for family in set(self.families):
            here = family_of == family
            firsts = starts[np.array(self.families) == family]
            total += _family_scores(
                self.times[here], expected[:, here], self.times[firsts], expected[:, firsts]
            )
        return total


def _family_scores(
    measured: Floats, expected: Floats, smallest: Floats, expected_smallest: Floats
) -> Floats:
    """The scores of runs that start alike; also given are their times at the smallest size of each."""
    start = np.zeros((len(expected), 1))
    if len(measured) > len(smallest):
        # What starting costs shows at the smallest size: as much of it as does not hide a difference at larger ones.
        extra = np.median(smallest - expected_smallest, axis=1, keepdims=True)
        start = np.clip(extra, 0.0, min(LONGEST_START, 0.9 * float(smallest.min())))
    apart = np.log(np.maximum(measured - start, 1e-9) / expected)
    weight = 1 / SCATTER**2
    usual = apart.sum(1, keepdims=True) * weight / (apart.shape[1] * weight + 1 / SLOWER**2)
    scores: Floats = ((apart - usual) ** 2).sum(1) * weight + (usual[:, 0] / SLOWER) ** 2
    return scores


def explain(
    expected: Expectation, seen: Measured, report: Progress
) -> tuple[list[Cause], float, Floats]:
    """The faults that explain what was measured, if any does; the score of none; and what the best makes of it."""
    healthy = np.concatenate([expected.healthy(run) for run in seen.runs])
    none = float(seen.scores(healthy[None])[0])
    classes: dict[int, list[Fault]] = {}
    for fault in faults_of(expected.topology, dict.fromkeys(run.group for run in seen.runs)):
        classes.setdefault(fault.colour, []).append(fault)
    found = []
    for done, alike in enumerate(classes.values()):
        report(done, len(classes), f"fault {done + 1}")
        found.append(_if_slow(expected, seen, alike))
    found.sort(key=lambda one: one[0].score)
    if not found:
        return [], none, healthy
    found += _if_gone(expected, seen, [cause for cause, _ in found], report)
    found.sort(key=lambda one: one[0].rank)
    least = min(cause.score for cause, _ in found)
    if none - least < CONVINCING:
        return [], none, healthy
    as_good = [(cause, times) for cause, times in found if cause.score <= least + AS_GOOD]
    return _joined([cause for cause, _ in as_good]), none, as_good[0][1]


def _if_slow(expected: Expectation, seen: Measured, alike: Sequence[Fault]) -> tuple[Cause, Floats]:
    """What explains best, if one of these faults makes links slower; and what all runs take then."""
    rows = [
        slowed(expected, seen.runs, fault, _STEPS)
        for fault in _different(expected, seen.runs, alike, gone=False)
    ]
    times = np.concatenate(rows)
    scores = seen.scores(times)
    best = int(np.argmin(scores))
    factor = float(_STEPS[best % len(_STEPS)])
    return Cause(tuple(alike), factor, float(scores[best])), times[best]


def _different(
    expected: Expectation, runs: Sequence[Run], alike: Sequence[Fault], *, gone: bool
) -> Iterable[Fault]:
    """Those of the faults for which not all the same others are simulated."""
    stand_ins = {
        tuple(expected.stand_in(run, fault, gone=gone) for run in runs): fault for fault in alike
    }
    return stand_ins.values()


def slowed(expected: Expectation, runs: Sequence[Run], fault: Fault, factors: Floats) -> Floats:
    """Seconds of all runs, one row for each factor by which a fault makes links slower.

    Time grows evenly between the factors that are simulated, once the fault is what limits it.
    """
    known = [
        np.concatenate([expected.slow(run, fault, factor) for run in runs]) for factor in FACTORS
    ]
    shares = [np.interp(factors, FACTORS, one) for one in np.eye(len(FACTORS))]
    rows: Floats = np.stack(shares, axis=1) @ np.stack(known)
    return rows


def _if_gone(
    expected: Expectation, seen: Measured, hopeful: Sequence[Cause], report: Progress
) -> list[tuple[Cause, Floats]]:
    """How well it explains, and what all runs take, if what may be slow is gone instead; the most hopeful first."""
    found = []
    planned: set[Fault | None] = set()
    longest = max(seen.runs, key=expected.length)
    for done, cause in enumerate(hopeful):
        report(done, len(hopeful), "what may be gone")
        # NCCL plans anew, which takes long; where that is, what is slow tells as well.
        planned.add(expected.stand_in(longest, cause.faults[0], gone=True))
        if len(planned) > GONE:
            continue
        for fault in _different(expected, seen.runs, cause.faults, gone=True):
            curves = [expected.missing(run, fault) for run in seen.runs]
            known = [curve for curve in curves if curve is not None]
            if len(known) == len(curves):
                times = np.concatenate(known)
                score = float(seen.scores(times[None])[0])
                found.append((replace(cause, factor=np.inf, score=score), times))
    return found


def _joined(causes: Sequence[Cause]) -> list[Cause]:
    """Causes as people tell them apart: places of one kind where the same may have happened are one."""
    kinds: dict[tuple[str, bool], list[Cause]] = {}
    for cause in causes:
        kinds.setdefault((cause.faults[0].what, cause.gone), []).append(cause)
    return [
        replace(
            same[0], faults=tuple(dict.fromkeys(fault for cause in same for fault in cause.faults))
        )
        for same in kinds.values()
    ]
