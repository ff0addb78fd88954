"""``advise``: which further runs would tell faults apart that explain equally well what was measured.

Of what people can run (in boxes, in halves of them, on the same NPU of all boxes, in pairs of boxes or of NPUs) it is
simulated what each of the faults would make of it; what leaves the fewest that look alike is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.collective import format_group
from pccl.doctor.causes import SCATTER, Cause, slowed
from pccl.doctor.expectation import Expectation, Run, spread
from pccl.doctor.faults import Fault, boxes_of
from pccl.topology import Topology

# All NPUs send to all others, so that a slow link shows, wherever it is.
_KIND = "all-to-all"
_PROGRAM = "alltoall_perf"
# Two faults are told apart if what they make of the runs differs by so many times what measurements scatter.
_TELLING = 6.0
_SIZES = 3
# Halves take many runs, so they are asked for only if a fault is known to be in one of so few boxes;
# and so do pairs, asked for if it is known to be one of so few links.
_FEW_BOXES = 2
_FEW_LINKS = 8
_HALVES = "the first and the second NPUs, the even and the odd, and so on"
# Seconds of a run that never ends.
_FOREVER = 1e6


@dataclass(frozen=True)
class Advice:
    """Which further runs would tell more.

    Attributes
    ----------
    where
        On which NPUs, for people.
    runs
        What to run; empty if nothing tells more.
    left
        How many faults would still look alike, at most.
    faults
        How many there are now.
    """

    where: str
    runs: tuple[Run, ...]
    left: int
    faults: int

    def __str__(self) -> str:
        """In a sentence."""
        if not self.runs:
            return "no run in boxes, halves or pairs tells them apart; look at the counters of each"
        what = f"run {_PROGRAM} {self.where}, and give all logs together"
        return f"{what}: that leaves {self.left} of {self.faults}"


def advise(expected: Expectation, known: Sequence[Run], causes: Sequence[Cause]) -> Advice | None:
    """What to run to tell causes apart, and the places of each; None if there is but one."""
    faults = [(fault, cause.factor) for cause in causes for fault in cause.faults]
    # One place may be slow or gone, but is one place.
    places = [fault.links for fault, _ in faults]
    count = len(set(places))
    if count < 2:
        return None
    # At small sizes, what starting costs hides all else.
    sizes = spread(known[0].sizes[len(known[0].sizes) // 2 :], _SIZES)
    seen = {(run.kind, run.group) for run in known}
    best = Advice("", (), count, count)
    least = float(count)
    for where, groups in _options(expected.topology, [fault for fault, _ in faults]).items():
        runs = [Run(_KIND, group, sizes) for group in groups if (_KIND, group) not in seen]
        if not runs:
            continue
        parts = _parts(np.stack([_times(expected, runs, *one) for one in faults]))
        left = [len({places[other] for other in np.flatnonzero(parts == part)}) for part in parts]
        # Any of them may be the one, so what is left on average counts.
        if np.mean(left) < least:
            least = float(np.mean(left))
            best = Advice(where, tuple(runs), max(left), count)
    return best


def _options(topology: Topology, faults: Sequence[Fault]) -> dict[str, list[tuple[int, ...]]]:
    """Groups that people can run in, by how to say it; the simplest first."""
    npus = set(topology.npus.tolist())
    boxes = [tuple(device for device in box if device in npus) for box in boxes_of(topology)]
    places = [tuple(place) for place in zip(*boxes, strict=False)]
    options: dict[str, list[tuple[int, ...]]] = {}
    if len(boxes) > 1:
        options["inside each box alone"] = boxes
        options["on the same NPU of all boxes, one NPU after another"] = places
        options[f"in halves of all boxes ({_HALVES})"] = [
            tuple(sorted(npu for place in half for npu in places[place]))
            for half in _halves(range(len(places)))
        ]
    if len(boxes) > 2:
        around = zip(boxes, boxes[1:] + boxes[:1], strict=True)
        options["on each pair of neighbouring boxes"] = [a + b for a, b in around]
    ends = [_ends(topology, fault) & npus for fault in faults]
    touched = [number for number, box in enumerate(boxes) if not set().union(*ends).isdisjoint(box)]
    if len(touched) <= _FEW_BOXES:
        which = "each box" if len(touched) == len(boxes) else f"box {format_group(touched)}"
        options[f"in halves of {which} alone ({_HALVES})"] = [
            half for number in touched for half in _halves(boxes[number])
        ]
    joined = sorted({tuple(sorted(pair)) for pair in ends if len(pair) == 2})
    if 0 < len(joined) <= _FEW_LINKS:
        options["on the two NPUs at the ends of each of these links, one pair after another"] = (
            joined
        )
    return options


def _ends(topology: Topology, fault: Fault) -> set[int]:
    """The devices at the ends of links that suffer."""
    links = list(fault.links)
    return {*topology.src[links].tolist(), *topology.dst[links].tolist()}


def _halves(box: Sequence[int]) -> list[tuple[int, ...]]:
    """Halves of a box, cut in several ways; which of them an NPU is in tells which it is.

    Examples
    --------
    >>> _halves([4, 5, 6, 7])
    [(4, 6), (5, 7), (4, 5), (6, 7)]
    """
    halves = [
        tuple(npu for place, npu in enumerate(box) if place >> bit & 1 == side)
        for bit in range((len(box) - 1).bit_length())
        for side in (0, 1)
    ]
    return [half for half in halves if len(half) > 1]


def _times(expected: Expectation, runs: Sequence[Run], fault: Fault, factor: float) -> Floats:
    """Seconds of all runs under a fault, in one row."""
    if not np.isinf(factor):
        return slowed(expected, runs, fault, np.array([factor])).ravel()
    curves = []
    for run in runs:
        times = expected.missing(run, fault)
        curves.append(np.full(len(run.sizes), _FOREVER) if times is None else times)
    return np.concatenate(curves)


def _parts(times: Floats) -> Ints:
    """Per row the number of its part: rows that cannot be told from it, or from any of those, and so on.

    Examples
    --------
    >>> _parts(np.array([[1.0, 1.0], [1.0, 2.0], [1.01, 2.0]])).tolist()
    [0, 1, 1]
    """
    rows, which = np.unique(np.log(times) / SCATTER, axis=0, return_inverse=True)
    part = np.arange(len(rows))
    for number, row in enumerate(rows):
        near = part[np.linalg.norm(rows - row, axis=1) < _TELLING]
        part[np.isin(part, near)] = part[number]
    return part[which.ravel()]
