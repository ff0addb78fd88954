"""The comparison: ours beside what people have today, and beside what nobody can beat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pccl.algorithm import Algorithm
from pccl.analysis.baselines import Baseline, UnsupportedError, baselines, find_baseline
from pccl.analysis.metrics import bandwidths
from pccl.bounds import Bound, lower_bound
from pccl.collective import Collective
from pccl.errors import PcclError
from pccl.units import Picoseconds

__all__ = ["Comparison", "ComparisonRow", "compare"]

# A quick comparison leaves out baselines that would take more than about a second.
QUICK_TRANSFERS = 300_000
QUICK_TO_SYNTHESIZE = 20_000

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class ComparisonRow:
    """One line of a comparison: an algorithm, or the bound.

    Attributes
    ----------
    name, description
        The baseline and what it does; ``"pccl"`` and the method for ours; ``"bound"`` and its reason.
    duration
        Picoseconds; None if the baseline did not run.
    algorithm_bandwidth, bus_bandwidth
        Of the first collective, in bytes per second, as nccl-tests defines them.
    links_busy
        The share of the time for which a link is held, on average over links; None for the bound.
    speedup
        How many times faster ours is.
    of_bound
        How near it comes to the bound: 1.0 if it takes no longer; None if no bound was wanted.
    reason
        Why the baseline did not run; empty if it did.
    """

    name: str
    description: str
    duration: Picoseconds | None = None
    algorithm_bandwidth: float | None = None
    bus_bandwidth: float | None = None
    links_busy: float | None = None
    speedup: float | None = None
    of_bound: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Comparison:
    """An algorithm beside baselines and the bound.

    Attributes
    ----------
    algorithm
        Ours.
    ours
        Its row.
    baselines
        One row per baseline that was asked for, whether it ran or not.
    bound
        What no algorithm can beat; None if that was not wanted.
    bound_row
        The row of the bound, as if it were an algorithm.
    """

    algorithm: Algorithm
    ours: ComparisonRow
    baselines: tuple[ComparisonRow, ...]
    bound: Bound | None
    bound_row: ComparisonRow | None

    @property
    def rows(self) -> tuple[ComparisonRow, ...]:
        """All rows that have a duration: ours, the baselines that ran, the bound."""
        ran = [row for row in self.baselines if row.duration is not None]
        bound = [] if self.bound_row is None else [self.bound_row]
        return (self.ours, *ran, *bound)

    @property
    def left_out(self) -> tuple[ComparisonRow, ...]:
        """The baselines that did not run; their rows say why."""
        return tuple(row for row in self.baselines if row.duration is None)

    @property
    def best_baseline(self) -> ComparisonRow | None:
        """The baseline that takes least time, if any ran."""
        ran = [row for row in self.baselines if row.duration is not None]
        return min(ran, key=lambda row: int(row.duration or 0), default=None)

    @property
    def gap(self) -> float | None:
        """By which share our duration exceeds the bound; None without a bound, or if nothing takes any time."""
        if self.bound is None or not self.bound.value:
            return None
        return int(self.algorithm.duration) / int(self.bound.value) - 1


def compare(
    algorithm: Algorithm,
    baselines: Sequence[str] | None = None,
    *,
    bound: bool = True,
    quick: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Set an algorithm beside baselines and the lower bound.

    Parameters
    ----------
    algorithm
        Ours, or any other.
    baselines
        Names of baselines to run; None for all of them. Those that do not apply get a row that says why. Each is run
        with data cut as ours are and with data that are not cut at all, and the faster counts.
    bound
        Whether to prove a bound. The one that was proven when the algorithm was found is taken if there is one.
    quick
        Leave out baselines that would take more than about a second, unless they are named.
    progress
        Called with (done, total, what is going on).

    Examples
    --------
    >>> import pccl
    >>> algorithm = pccl.synthesize(pccl.topology.mesh(3, 3), pccl.AllGather(size="9MiB", chunks=1))
    >>> comparison = compare(algorithm, ["ring", "bruck"])
    >>> [(row.name, str(row.duration), f"{row.speedup:.2f}") for row in comparison.rows]
    [('pccl', '80.125us', '1.00'), ('ring', '300.46875us', '3.75'), ('bound', '80.125us', '1.00')]
    >>> [(row.name, row.reason) for row in comparison.left_out]
    [('bruck', 'does not support all-gather')]
    """
    chosen = _chosen(baselines)
    say = progress or _silent
    say(0, len(chosen) + 1, "bound")
    proven = _bound_of(algorithm) if bound else None
    measure = _Measure(algorithm, proven)
    ours = measure.row("pccl", algorithm.provenance.method, algorithm.duration, algorithm)
    rows = []
    for done, entry in enumerate(chosen):
        say(done + 1, len(chosen) + 1, f"baseline {entry.name}")
        rows.append(_baseline_row(measure, entry, quick=quick and baselines is None))
    bound_row = None
    if proven is not None:
        bound_row = measure.row("bound", proven.reason, proven.value)
    return Comparison(algorithm, ours, tuple(rows), proven, bound_row)


@dataclass(frozen=True)
class _Measure:
    """What all rows are measured against."""

    ours: Algorithm
    bound: Bound | None

    def row(
        self,
        name: str,
        description: str,
        duration: Picoseconds,
        algorithm: Algorithm | None = None,
    ) -> ComparisonRow:
        collective = self.ours.collectives[0]
        members = len(collective.ranks) or self.ours.topology.num_npus
        algorithm_bandwidth, bus_bandwidth = bandwidths(collective, members, int(duration))
        return ComparisonRow(
            name,
            description,
            duration,
            algorithm_bandwidth,
            bus_bandwidth,
            links_busy=None if algorithm is None else _links_busy(algorithm),
            speedup=_ratio(duration, self.ours.duration),
            of_bound=None if self.bound is None else _ratio(self.bound.value, duration),
        )


def _baseline_row(measure: _Measure, entry: Baseline, *, quick: bool) -> ComparisonRow:
    ours = measure.ours
    limit = QUICK_TO_SYNTHESIZE if entry.synthesizes else QUICK_TRANSFERS
    try:
        entry.check(ours.topology, ours.collectives)
        if quick and len(ours.transfers) > limit:
            reason = f"beyond {limit:,} transfers only on request"
            return ComparisonRow(entry.name, entry.description, reason=reason)
        best = _fastest(entry, ours)
    except UnsupportedError as error:
        return ComparisonRow(entry.name, entry.description, reason=error.reason)
    except PcclError as error:
        return ComparisonRow(entry.name, entry.description, reason=str(error))
    return measure.row(entry.name, entry.description, best.duration, best)


def _fastest(entry: Baseline, ours: Algorithm) -> Algorithm:
    """The baseline with the data cut as ours are, or not cut at all."""
    cuts = [ours.collectives]
    # A synthesis takes long, and has no reason to do better with fewer chunks.
    if not entry.synthesizes and any(collective.pieces > 1 for collective in ours.collectives):
        cuts.append(tuple(map(_uncut, ours.collectives)))
    found = (entry.run(ours.topology, collectives) for collectives in cuts)
    return min(found, key=lambda algorithm: algorithm.duration)


def _uncut(collective: Collective) -> Collective:
    return replace(collective, chunks=1) if collective.pieces > 1 else collective


def _chosen(names: Sequence[str] | None) -> list[Baseline]:
    if names is None:
        return list(baselines())
    return [find_baseline(name) for name in dict.fromkeys(names)]


def _bound_of(algorithm: Algorithm) -> Bound:
    """The bound that was proven with the algorithm, or else one that is proven now."""
    known: Bound | None = getattr(algorithm, "bound", None)
    return known or lower_bound(algorithm.topology, *algorithm.collectives)


def _links_busy(algorithm: Algorithm) -> float:
    shares = algorithm.utilization
    return float(shares.mean()) if len(shares) else 0.0


def _ratio(longer: int, shorter: int) -> float:
    """How many times longer, where nothing takes no time at all."""
    return int(longer) / int(shorter) if shorter else 1.0


def _silent(done: int, total: int, text: str) -> None:
    pass
