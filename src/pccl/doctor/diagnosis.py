"""``diagnose``: measured times beside what should be, what explains the difference, and what to run to know more."""

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
from pccl.doctor.advice import Advice, advise
from pccl.doctor.causes import Cause, Measured, explain
from pccl.doctor.expectation import Expectation, Progress, Run, spread
from pccl.doctor.faults import boxes_of
from pccl.doctor.logs import Log
from pccl.errors import PcclError
from pccl.topology import Topology
from pccl.units import Bytes, Picoseconds, counted

# Sizes at which faults are tried.
TRIED_SIZES = 6


@dataclass(frozen=True)
class Row:
    """One size of one log; times are in picoseconds, bandwidths are bus bandwidths in bytes per second.

    Attributes
    ----------
    wrong
        Whether the results were wrong, as the log says.
    """

    log: str
    kind: str
    npus: int
    size: Bytes
    measured: Picoseconds
    nccl: Picoseconds
    bound: Picoseconds
    cut: str
    bandwidth: float
    wrong: bool = False

    @property
    def of_bound(self) -> float:
        """The share of what the network allows that was reached."""
        return int(self.bound) / int(self.measured)

    @property
    def of_nccl(self) -> float:
        """The share of what NCCL should reach that was reached."""
        return int(self.nccl) / int(self.measured)


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
        Which further runs would tell more, if several faults explain it; None if one does.
    """

    topology: Topology
    rows: tuple[Row, ...]
    causes: tuple[Cause, ...]
    healthy_score: float
    runs: tuple[Run, ...]
    explained: tuple[Floats, ...]
    advice: Advice | None = None

    @property
    def healthy(self) -> bool:
        """Whether no fault explains enough to be believed."""
        return not self.causes

    @cached_property
    def share(self) -> float:
        """The share of what the network allows that was reached at the largest size, at worst over logs of most NPUs.

        Fewer could be helped by all others, as NCCL never does.
        """
        most = max(row.npus for row in self.rows)
        last = {row.log: row for row in self.rows if row.npus == most}
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
        wrong = [f"{row.kind} of {row.size}" for row in self.rows if row.wrong]
        if wrong:
            few = ", ".join(wrong[:3]) + (", ..." if len(wrong) > 3 else "")
            facts["wrong results"] = f"{few}; find out why before you trust any time here"
        if self.advice:
            facts["to tell more"] = str(self.advice)
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
    seen = _seen(topology, logs, runs)
    causes, score, times = explain(expected, seen, report)
    advice = advise(expected, seen.runs, causes)
    explained = seen.split(times)
    return Diagnosis(topology, tuple(rows), tuple(causes), score, seen.runs, explained, advice)


def _seen(topology: Topology, logs: Sequence[Log], runs: Sequence[Run]) -> Measured:
    """What was measured, at some of the sizes of each log."""
    tried = [Run(run.kind, run.group, spread(run.sizes, TRIED_SIZES)) for run in runs]
    times = []
    for log, run in zip(logs, tried, strict=True):
        time_at = dict(zip(log.sizes, log.times, strict=True))
        times.append([time_at[size] for size in run.sizes])
    boxes = boxes_of(topology)
    keys = [
        (run.kind, len(run.group), sum(not set(box).isdisjoint(run.group) for box in boxes))
        for run in tried
    ]
    known = list(dict.fromkeys(keys))
    families = tuple(known.index(key) for key in keys)
    return Measured(tuple(tried), np.concatenate(times), families)


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
    npus = len(run.group)
    _, bus = bandwidths(run.collective(size), npus, int(measured))
    nccl = expected.plan(run, size).duration
    cut = in_words(topology, bound)
    return Row(
        log.name,
        run.kind,
        npus,
        Bytes(size),
        measured,
        nccl,
        bound.value,
        cut,
        bus,
        wrong=size in log.wrong,
    )


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
    everyone = set(topology.npus.tolist())
    npus = sorted(inside & everyone)
    boxes = boxes_of(topology)
    within = [number for number, box in enumerate(boxes) if set(box) & everyone <= inside]
    covered = {npu for number in within for npu in boxes[number]}
    if len(boxes) > 1 and within and set(npus) <= covered:
        boxes_text = "boxes" if len(within) > 1 else "box"
        return f"what must leave {boxes_text} {format_group(within)}"
    npus_text = "NPUs" if len(npus) > 1 else "NPU"
    return f"what must leave {npus_text} {format_group(npus)}"
