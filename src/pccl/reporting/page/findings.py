"""What was found, and how good it is: beside the bound, and beside what people have today."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pccl._arrays import Indices, Ints
from pccl.algorithm import Algorithm
from pccl.algorithm.core import time_text
from pccl.analysis import Baseline, bandwidths, baseline, baselines
from pccl.bounds import Bound, lower_bound
from pccl.errors import PcclError
from pccl.reporting.page.traffic import chunk_finish, latest_chunks
from pccl.units import BytesPerSecond, Picoseconds

__all__ = ["Findings", "Report", "Rival", "Row", "find", "late_chunks", "worst_links"]

# Baselines run by themselves only where they take about a second: what that means depends on who does the work.
MOST_TRANSFERS = 300_000
MOST_TO_SYNTHESIZE = 20_000
_SYNTHESIZED = ("confined",)

Report = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Rival:
    """A baseline, with its time in picoseconds, or why there is none."""

    name: str
    description: str
    time: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class Findings:
    """The bound and the baselines; `bound` and `rivals` may have been left out."""

    algorithm: Algorithm
    bound: Bound | None
    rivals: tuple[Rival, ...]

    @property
    def gap(self) -> float | None:
        """By which share the duration exceeds the bound."""
        if self.bound is None or not self.bound.value:
            return None
        return int(self.algorithm.duration) / int(self.bound.value) - 1

    @property
    def rates(self) -> tuple[float, float] | None:
        """Bandwidths of algorithm and bus in bytes per second, if there is one collective."""
        if len(self.algorithm.collectives) != 1 or not int(self.algorithm.duration):
            return None
        collective = self.algorithm.collectives[0]
        members = len(collective.ranks) or self.algorithm.topology.num_npus
        return bandwidths(collective, members, int(self.algorithm.duration))


@dataclass(frozen=True)
class Row:
    """A link or a chunk of a table, and what to say about it."""

    number: int
    cells: tuple[str, ...]


def find(
    algorithm: Algorithm,
    wanted: Sequence[str] | None = None,
    *,
    bound: bool = True,
    progress: Report | None = None,
) -> Findings:
    """Prove the bound and run baselines: those that are `wanted`, or those that take little time.

    Examples
    --------
    >>> import pccl
    >>> algorithm = pccl.synthesize(pccl.topology.mesh(3, 3), pccl.AllGather(size="9MiB", chunks=1))
    >>> {rival.name: rival.time for rival in find(algorithm, ["ring"]).rivals}
    {'ring': 300468750}
    """
    known = {entry.name: entry for entry in baselines()}
    for name in wanted or ():
        if name not in known:
            raise PcclError(f"there is no baseline {name!r}; there are {', '.join(known)}")
    say = progress or _silent
    names = list(known if wanted is None else dict.fromkeys(wanted))
    say(0, len(names) + 1, "bound")
    proven = lower_bound(algorithm.topology, *algorithm.collectives) if bound else None
    rivals = []
    for done, name in enumerate(names):
        say(done + 1, len(names) + 1, f"baseline {name}")
        rivals.append(_rival(algorithm, known[name], unasked=wanted is None))
    return Findings(algorithm, proven, tuple(rivals))


def _rival(algorithm: Algorithm, entry: Baseline, *, unasked: bool) -> Rival:
    name, what = entry.name, entry.description
    limit = MOST_TO_SYNTHESIZE if name in _SYNTHESIZED else MOST_TRANSFERS
    supported = all(collective.kind in entry.kinds for collective in algorithm.collectives)
    if unasked and supported and len(algorithm.transfers) > limit:
        return Rival(
            name, what, reason=f"beyond {limit:,} transfers only on request, with --baseline NAME"
        )
    try:
        return Rival(
            name, what, int(baseline(name, algorithm.topology, *algorithm.collectives).duration)
        )
    except PcclError as reason:
        return Rival(name, what, reason=str(reason).removeprefix(f"the baseline {name!r} "))


def _silent(done: int, total: int, text: str) -> None:
    pass


def worst_links(algorithm: Algorithm, busy: Ints, most: int) -> list[Row]:
    """The links that are held longest, given for how long each is: from, to, busy, bandwidth, latency."""
    topology, duration = algorithm.topology, max(int(algorithm.duration), 1)
    order = np.argsort(-busy, kind="stable")[:most]
    return [
        Row(
            int(link),
            (
                topology.device_text(topology.src[link]), topology.device_text(topology.dst[link]),
                f"{busy[link] / duration:.1%}", str(BytesPerSecond(topology.bandwidth[link])),
                str(Picoseconds(topology.latency[link])),
            ),
        )
        for link in order if busy[link]
    ]  # fmt: skip


def late_chunks(algorithm: Algorithm, most: int) -> list[Row]:
    """The chunks that are done last: collective, from, to, hops, done."""
    conditions, t, finish = algorithm.conditions, algorithm.transfers, chunk_finish(algorithm)
    rows = []
    for chunk in latest_chunks(algorithm, most).tolist():
        kind = algorithm.collectives[conditions.collective[chunk]].kind
        hops = int(np.diff(np.searchsorted(t.chunk, [chunk, chunk + 1]))[0])
        ends = (
            _ends(algorithm, devices)
            for devices in (conditions.sources(chunk), conditions.destinations(chunk))
        )
        rows.append(Row(chunk, (kind, *ends, str(hops), time_text(int(finish[chunk])))))
    return rows


def _ends(algorithm: Algorithm, devices: Indices) -> str:
    if len(devices) == 1:
        return algorithm.topology.device_text(int(devices[0]))
    return f"{len(devices)} NPUs" if len(devices) else "nobody else"
