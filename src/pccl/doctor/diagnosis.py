"""``diagnose``: measured times beside what should be, and the fault that explains best what is missing.

Under every hypothesis a run takes what our model says, a little longer throughout, plus a fixed cost to start it. How
far measured times are from that, in units of what measurements scatter, is its score. A fault must beat "nothing is
wrong" by enough to be believed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pccl._arrays import Floats
from pccl.analysis import bandwidths
from pccl.bounds import Bound
from pccl.collective import COLLECTIVES, format_group
from pccl.doctor.expectation import FACTORS, Expectation, Progress, Run, spread
from pccl.doctor.faults import Fault, boxes_of, faults_of
from pccl.doctor.logs import Log
from pccl.errors import PcclError
from pccl.topology import Topology
from pccl.units import Bytes, Picoseconds, counted

# Measurements scatter by about this share, and machines are slower than the model by about that.
SCATTER = 0.03
SLOWER = 0.08
# Of starting a collective, in seconds: more than that is no such cost.
LONGEST_START = 50e-6
# By how much a fault must explain more than none does: it has two parameters, which place and how bad.
CONVINCING = 8.0
# Explanations within this of the best are as good.
AS_GOOD = 5.0
# NCCL does not treat all NPUs alike, even where the network does: so many of those that look alike are tried.
REPRESENTATIVES = 4
# Places of which it is tried what happens if they are gone.
GONE = 6
# Sizes at which faults are tried.
TRIED_SIZES = 6


@dataclass(frozen=True)
class Row:
    """One size of one log; times are in picoseconds, bandwidths are bus bandwidths in bytes per second."""

    log: str
    kind: str
    size: Bytes
    measured: Picoseconds
    nccl: Picoseconds
    bound: Picoseconds
    cut: str
    bandwidth: float

    @property
    def of_bound(self) -> float:
        """The share of what the network allows that was reached."""
        return int(self.bound) / int(self.measured)

    @property
    def of_nccl(self) -> float:
        """The share of what NCCL should reach that was reached."""
        return int(self.nccl) / int(self.measured)


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

    def __str__(self) -> str:
        """In a few words."""
        how = "down" if np.isinf(self.factor) else f"at {100 / self.factor:.0f} % of the speed"
        if len(self.faults) == 1:
            return f"{self.faults[0].where}, {how}"
        kind = _KINDS[self.faults[0].what]
        places = ", ".join(fault.where for fault in self.faults[:3])
        more = len(self.faults) - 3
        return f"{kind}, {how}; one of {len(self.faults)}: {places}{f' and {more} more' if more > 0 else ''}"


_KINDS = {
    "nic": "one NIC",
    "nvlink": "the NVLinks of one NPU",
    "cable": "one link",
    "box": "all links inside one box",
    "box-nics": "all NICs of one box",
}


@dataclass(frozen=True)
class Diagnosis:
    """What logs say about a network.

    Attributes
    ----------
    topology
        The network as it should be.
    rows
        Every size of every log.
    causes
        The faults that explain what was measured, the best first; those that explain it as well come with it.
    healthy_score
        The score of "nothing is wrong".
    runs, explained
        Per log: what ran, at some of its sizes, and seconds at each of them under the best explanation.
    advice
        Which further runs would tell more, if several faults look alike.
    """

    topology: Topology
    rows: tuple[Row, ...]
    causes: tuple[Cause, ...]
    healthy_score: float
    runs: tuple[Run, ...]
    explained: tuple[Floats, ...]
    advice: str = ""

    @property
    def healthy(self) -> bool:
        """Whether no fault explains enough to be believed."""
        return not self.causes

    @cached_property
    def share(self) -> float:
        """The share of what the network allows that was reached at the largest size, at worst over all logs."""
        last = {row.log: row for row in self.rows}
        return min(row.of_bound for row in last.values())

    @property
    def verdict(self) -> str:
        """What to think of it, in a sentence."""
        reached = f"{self.share:.0%} of what this network allows"
        if self.healthy:
            last = {row.log: row.of_nccl for row in self.rows}
            usual = f"{min(last.values()):.0%} of what NCCL reaches in our model"
            return f"{reached} and {usual}; no single fault explains it better than none"
        said = f"{reached}; it looks like {self.causes[0]}"
        for other in self.causes[1:3]:
            said += f"; or {other}"
        more = len(self.causes) - 3
        return f"{said}; or one of {more} others" if more > 0 else said

    def facts(self) -> dict[str, str]:
        """What there is to say, by name, for people."""
        facts = {"topology": repr(self.topology), "verdict": self.verdict}
        if self.advice:
            facts["to tell more"] = self.advice
        return facts


def diagnose(
    topology: Topology,
    *logs: Log,
    kind: str | None = None,
    groups: Sequence[Sequence[int] | None] = (),
    hosts: Sequence[str] = (),
    expectation: Expectation | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Say how good the measured times are, and which single fault would explain them.

    Parameters
    ----------
    topology
        The network as it should be.
    *logs
        Runs of nccl-tests on it, see :func:`read_logs`: several collectives, or groups, tell more than one.
    kind
        The collective, where logs do not tell.
    groups
        Per log the NPUs that took part, in the order of their ranks; without, they follow from hosts and devices, or
        are all NPUs.
    hosts
        The names of hosts, in the order of the boxes; without, in the order of their names.
    expectation
        What is known of the network already: several diagnoses may share it.
    progress
        Called with (done, of how much, what is going on).

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(4, latency="0ns", bandwidth="1GB/s")
    >>> log = Log("log", "all-gather", (4000, 4_000_000), (3e-6, 3e-3))
    >>> diagnosis = diagnose(ring, log)
    >>> diagnosis.healthy, f"{diagnosis.share:.0%}", diagnosis.rows[0].cut
    (False, '50%', 'what must leave NPUs 1-3')
    """
    if not logs:
        raise PcclError("there is no log to look at")
    expected = expectation or Expectation(topology)
    report = progress or (lambda *_: None)
    given = [*groups, *([None] * len(logs))][: len(logs)]
    runs = [
        _run(topology, log, kind, group, hosts, logs)
        for log, group in zip(logs, given, strict=True)
    ]
    rows: list[Row] = []
    total = sum(len(run.sizes) for run in runs)
    for log, run in zip(logs, runs, strict=True):
        for size, time in zip(run.sizes, log.times, strict=True):
            report(len(rows), total, f"{run.kind} {Bytes(size)}")
            rows.append(_row(topology, log, run, size, time, expected))
    causes, score, explained, tried = _explain(expected, logs, runs, report)
    advice = _advice(topology, runs, causes[0]) if causes else ""
    return Diagnosis(topology, tuple(rows), tuple(causes), score, tuple(tried), explained, advice)


def _run(
    topology: Topology,
    log: Log,
    kind: str | None,
    group: Sequence[int] | None,
    hosts: Sequence[str],
    logs: Sequence[Log],
) -> Run:
    name = kind or log.kind
    if name not in COLLECTIVES:
        hint = "say which with --collective" if not name else f"there is no collective {name!r}"
        raise PcclError(f"{log.name} does not tell which collective ran; {hint}")
    if not COLLECTIVES[name].has_one_size:
        raise PcclError(f"{name} is no collective of nccl-tests")
    members = tuple(group) if group is not None else _members(topology, log, hosts, logs)
    return Run(name, members, log.sizes)


def _members(
    topology: Topology, log: Log, hosts: Sequence[str], logs: Sequence[Log]
) -> tuple[int, ...]:
    """The NPUs of the ranks: hosts are boxes, in this order, and devices the NPUs in them."""
    everyone = tuple(topology.npus.tolist())
    if len(log.devices) in (0, len(everyone)):
        return everyone
    boxes = boxes_of(topology)
    named = list(hosts) or sorted({host for one in logs for host, _ in one.devices}, key=_natural)
    if len(named) > len(boxes):
        raise PcclError(
            f"{log.name} ran on {counted(len(named), 'host')}, but {topology.name} has {counted(len(boxes), 'box')}"
        )
    npus = set(everyone)
    found = []
    for host, device in log.devices:
        own = [npu for npu in boxes[named.index(host)] if npu in npus] if host in named else []
        if device >= len(own):
            raise PcclError(f"{log.name}: {topology.name} has no NPU for device {device} of {host}")
        found.append(own[device])
    if len(set(found)) < len(found):
        raise PcclError(f"{log.name}: two ranks are on one device")
    return tuple(found)


def _natural(host: str) -> list[tuple[int, str]]:
    """For names such as node2 and node10, in the order in which people count."""
    parts = re.split(r"(\d+)", host)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _row(
    topology: Topology, log: Log, run: Run, size: int, seconds: float, expected: Expectation
) -> Row:
    bound = expected.bound(run, size)
    measured = Picoseconds(max(round(seconds * 1e12), 1))
    _, bus = bandwidths(run.collective(size), len(run.group), int(measured))
    nccl = expected.plan(run, size).duration
    cut = in_words(topology, bound)
    return Row(log.name, run.kind, Bytes(size), measured, nccl, bound.value, cut, bus)


def in_words(topology: Topology, bound: Bound) -> str:
    """Why nobody can be faster, with boxes and NPUs by name.

    Examples
    --------
    >>> import pccl
    >>> from pccl.bounds import lower_bound
    >>> h100 = pccl.topology.parse_topology("h100:2")
    >>> in_words(h100, lower_bound(h100, pccl.AllToAll("64MiB")))
    'what must leave box 0'
    """
    if bound.kind != "cut":
        return bound.reason
    inside = set(bound.certificate["devices"])
    npus = sorted(inside & set(topology.npus.tolist()))
    boxes = boxes_of(topology)
    within = [
        number
        for number, box in enumerate(boxes)
        if set(box) & set(topology.npus.tolist()) <= inside
    ]
    covered = {npu for number in within for npu in boxes[number]}
    if len(boxes) > 1 and within and set(npus) <= covered:
        return f"what must leave box{'es' * (len(within) > 1)} {format_group(within)}"
    return f"what must leave NPU{'s' * (len(npus) > 1)} {format_group(npus)}"


def _explain(
    expected: Expectation, logs: Sequence[Log], runs: Sequence[Run], report: Progress
) -> tuple[list[Cause], float, tuple[Floats, ...], list[Run]]:
    """The faults that explain what was measured, if any does; the score of none; and what the best makes of it."""
    topology = expected.topology
    tried = [Run(run.kind, run.group, spread(run.sizes, TRIED_SIZES)) for run in runs]
    times = [
        np.array([dict(zip(log.sizes, log.times, strict=True))[size] for size in run.sizes])
        for log, run in zip(logs, tried, strict=True)
    ]
    healthy = [expected.healthy(run) for run in tried]
    none = sum(map(_score, times, healthy))
    classes: dict[int, list[Fault]] = {}
    for fault in faults_of(topology, dict.fromkeys(run.group for run in runs)):
        classes.setdefault(fault.colour, []).append(fault)
    options: dict[int, list[tuple[float, list[Floats]]]] = {}
    for done, (colour, alike) in enumerate(classes.items()):
        report(done, len(classes), f"fault {done + 1}")
        options[colour] = [
            option
            for fault in spread(alike, REPRESENTATIVES)
            for option in _slowed(expected, tried, fault)
        ]

    def best_of(colour: int) -> tuple[float, float, list[Floats]]:
        scored = [
            (sum(map(_score, times, curves)), factor, curves) for factor, curves in options[colour]
        ]
        return min(scored, key=lambda one: one[0])

    # What is gone makes NCCL plan anew, which takes long; where that is, what is slow tells as well.
    hopeful = sorted(classes, key=lambda colour: best_of(colour)[0])[:GONE]
    for done, colour in enumerate(hopeful):
        report(done, len(hopeful), "what may be gone")
        gone = [expected.missing(run, classes[colour][0]) for run in tried]
        known = [curve for curve in gone if curve is not None]
        if len(known) == len(gone):
            options[colour].append((np.inf, known))
    found = {colour: best_of(colour) for colour in classes}
    causes = [Cause(tuple(classes[colour]), one[1], one[0]) for colour, one in found.items()]
    causes.sort(key=lambda cause: cause.score)
    if not causes or none - causes[0].score < CONVINCING:
        return [], none, tuple(healthy), tried
    best = causes[0]
    as_good = [cause for cause in causes if cause.score <= best.score + AS_GOOD]
    # Of those that explain as much, the smallest fault goes first: it takes the least to happen.
    as_good.sort(key=lambda cause: (len(cause.faults[0].links), len(cause.faults)))
    return as_good, none, tuple(found[best.faults[0].colour][2]), tried


def _slowed(
    expected: Expectation, runs: Sequence[Run], fault: Fault
) -> list[tuple[float, list[Floats]]]:
    """What runs take, if the fault makes links slower by this or that."""
    known = np.stack(
        [np.concatenate([expected.slow(run, fault, factor) for run in runs]) for factor in FACTORS]
    )
    ends = np.cumsum([len(run.sizes) for run in runs])[:-1]
    options = []
    # Fine steps between what was tried: time grows evenly with the factor, once the fault is what limits it.
    for factor in np.geomspace(1.15, FACTORS[-1], 40).tolist():
        times = np.array([np.interp(factor, FACTORS, column) for column in known.T])
        options.append((factor, np.split(times, ends)))
    return options


def _score(measured: Floats, expected: Floats) -> float:
    """How far what was measured is from what was expected, in squares of what measurements scatter."""
    # What starting costs shows at the smallest size.
    start = float(np.clip(measured[0] - expected[0], 0.0, LONGEST_START))
    # As much of it as does not hide a difference at larger sizes.
    start = min(start, 0.9 * float(measured[0])) if len(measured) > 1 else 0.0
    apart = np.log(np.maximum(measured - start, 1e-9) / expected)
    weight = 1 / SCATTER**2
    usual = float(apart.sum()) * weight / (len(apart) * weight + 1 / SLOWER**2)
    return float(((apart - usual) ** 2).sum() * weight + (usual / SLOWER) ** 2)


def _advice(topology: Topology, runs: Sequence[Run], best: Cause) -> str:
    """Which further runs would tell more, if several faults look alike."""
    if len(best.faults) == 1:
        return ""
    npus = set(topology.npus.tolist())
    boxes = [[device for device in box if device in npus] for box in boxes_of(topology)]
    width = min(map(len, boxes))
    pairs = [a + b for a, b in zip(boxes, boxes[1:] + boxes[:1], strict=True)]
    places = [[box[place] for box in boxes] for place in range(width)]
    halves = [
        [npu for place, npu in enumerate(box) if place >> bit & 1 == side]
        for box in boxes
        for bit in range((width - 1).bit_length())
        for side in (0, 1)
    ]
    # What leaves no box does not see a NIC.
    if best.faults[0].what in ("nic", "box-nics"):
        options = {"on the same NPU of all boxes, one NPU after another": places}
        if len(boxes) > 2:
            options["on each pair of neighbouring boxes"] = pairs
    else:
        options = {
            "inside each box alone": boxes,
            "in halves of each box (the first and the second NPUs, the even and the odd, and so on)": halves,
        }
    known = [run.group for run in runs]
    links = {fault.links for fault in best.faults}
    left = {}
    for text, groups in options.items():
        faults = faults_of(topology, [*known, *(tuple(group) for group in groups)])
        colours = [fault.colour for fault in faults if fault.links in links]
        left[text] = max(colours.count(colour) for colour in set(colours))
    best_text = min(left, key=lambda text: left[text], default="")
    if not best_text or left[best_text] >= len(best.faults):
        return "by symmetry, no run of nccl-tests tells them apart; look at the counters of each"
    return f"run the test {best_text} and give all logs together: that leaves {left[best_text]} of {len(best.faults)}"
