"""The comparison: ours beside what people have today, and beside what nobody can beat.

Bandwidths are as nccl-tests defines them, so that figures can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pccl.algorithm import Algorithm
from pccl.algorithm.core import check_algorithm, needs_text
from pccl.analysis.baselines import Baseline, UnsupportedError, find_baseline
from pccl.analysis.baselines import baselines as all_baselines
from pccl.bounds import Bound, lower_bound
from pccl.collective import Collective
from pccl.errors import PcclError
from pccl.synthesis.known import relays_of
from pccl.topology import Topology
from pccl.units import Picoseconds

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
    today
        Whether this is how NCCL may run the collectives.
    needs
        What switches must do for it besides passing messages on: ``"multicast"``, ``"reduce"``, both or neither.
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
    today: bool = False
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """An algorithm beside baselines and the bound.

    Attributes
    ----------
    algorithm
        Ours, with the bound if one was wanted.
    ours
        Its row.
    baselines
        One row per baseline that was asked for, whether it ran or not.
    bound_row
        The row of the bound, as if it were an algorithm; None if no bound was wanted.
    """

    algorithm: Algorithm
    ours: ComparisonRow
    baselines: tuple[ComparisonRow, ...]
    bound_row: ComparisonRow | None

    @property
    def bound(self) -> Bound | None:
        """What no algorithm can beat; None if that was not wanted."""
        return self.algorithm.bound

    @property
    def gap(self) -> float | None:
        """By which share our duration exceeds the bound; None without a bound."""
        return self.algorithm.gap

    @property
    def rows(self) -> tuple[ComparisonRow, ...]:
        """All rows that have a duration: ours, the baselines that ran, the bound."""
        rows = (self.ours, *self.baselines, self.bound_row)
        return tuple(row for row in rows if row is not None and not row.reason)

    @property
    def left_out(self) -> tuple[ComparisonRow, ...]:
        """The baselines that did not run; their rows say why."""
        return tuple(row for row in self.baselines if row.reason)

    @property
    def today(self) -> ComparisonRow | None:
        """What people have today: the baseline shaped like NCCL that takes least time, if any ran."""
        ran = (row for row in self.baselines if row.today and not row.reason)
        return min(ran, key=lambda row: int(row.duration or 0), default=None)

    @property
    def best_baseline(self) -> ComparisonRow | None:
        """The baseline that takes least time, if any ran."""
        ran = (row for row in self.baselines if not row.reason)
        return min(ran, key=lambda row: int(row.duration or 0), default=None)


def compare(
    algorithm: Algorithm,
    baselines: Sequence[str] | None = None,
    *,
    others: Sequence[Baseline] = (),
    bound: bool = True,
    quick: bool = False,
    network: Topology | None = None,
    target: str | None = None,
    progress: Progress | None = None,
    log: Callable[[ComparisonRow], None] | None = None,
) -> Comparison:
    """Set an algorithm beside baselines and the lower bound.

    Parameters
    ----------
    algorithm
        Ours, or any other.
    baselines
        Names of baselines to run; None for all, but for those that are only run on request, and for our own synthesis
        on the devices of each group alone, if these are all. Those that do not apply
        get a row that says why. Those shaped like NCCL choose into how many chunks to cut the data; others are run
        with data cut as ours are and with data that are not cut at all, and the faster counts.
    others
        More baselines, such as those of :func:`pccl.analysis.nccl_graph_baselines`. Collectives that NCCL runs by these
        are not what people have today by any other.
    bound
        Whether to prove a bound. The one that was proven when the algorithm was found is taken if there is one, unless
        it only holds for data that are cut as ours are, and a baseline beats it that cuts them otherwise.
    quick
        Leave out baselines that would take more than about a second, unless they are named.
    network
        What was asked for, if that is not the topology of the algorithm: a plan may do without what switches can do.
        Baselines are run on both, and the faster counts.
    target
        The runtime that the algorithm was made for, if one was named. Baselines do without what it does not have
        switches do as well; one that cannot gets a row that says so.
    progress
        Called with (done, total, what is going on).
    log
        Called with the row of each baseline, as soon as there is one.

    Examples
    --------
    >>> import pccl
    >>> algorithm = pccl.synthesize(pccl.topology.mesh(3, 3), pccl.AllGather(size="9MiB", chunks=1))
    >>> comparison = compare(algorithm, ["ring", "bruck"])
    >>> [(row.name, str(row.duration), f"{row.speedup:.2f}") for row in comparison.rows]
    [('pccl', '80.125us', '1.00'), ('ring', '300.46875us', '3.75'), ('bound', '80.125us', '1.00')]
    >>> [(row.name, row.reason) for row in comparison.left_out]
    [('bruck', 'does not support all-gather')]
    >>> compare(algorithm, ["ring", "nccl-ring"]).today.name
    'nccl-ring'
    """
    check_algorithm(algorithm, "compare takes")
    chosen = tuple(entry for entry in all_baselines() if _is_of_interest(entry, algorithm))
    if baselines is not None:
        chosen = tuple(find_baseline(name) for name in dict.fromkeys(baselines))
        # Whoever names baselines wants them, however long they take.
        quick = False
    covered = frozenset[str]().union(*(entry.today for entry in others))
    chosen = (
        *others,
        *(replace(entry, today=entry.today - covered) for entry in chosen if entry not in others),
    )
    places = [algorithm.topology]
    if network is not None and network != algorithm.topology and target is None:
        places.append(network)
    lacking = network if target is not None else None
    report = progress or (lambda *_: None)
    report(0, len(chosen) + 1, "bound")
    proven = None
    if bound:
        proven = algorithm.bound or lower_bound(places[-1], *algorithm.collectives)
    ours = replace(algorithm, bound=proven)
    rows = []
    for done, entry in enumerate(chosen, 1):
        report(done, len(chosen) + 1, f"baseline {entry.name}")
        rows.append(_baseline_row(ours, entry, quick, places, lacking))
        if log is not None:
            log(rows[-1])
    if proven is not None and any((row.duration or proven.value) < proven.value for row in rows):
        # It holds for data that are cut as ours are; others cut them finer.
        proven = lower_bound(places[-1], *(one.uncut() for one in algorithm.collectives))
        ours = replace(algorithm, bound=proven)
        rows = [
            replace(row, of_bound=row.duration and _ratio(proven.value, row.duration))
            for row in rows
        ]
    bound_row = None
    if proven is not None:
        bound_row = _row(ours, "bound", proven.reason, proven.value)
    own_row = _row(ours, "pccl", ours.provenance.method, ours.duration, ours)
    return Comparison(ours, own_row, tuple(rows), bound_row)


def _is_of_interest(entry: Baseline, ours: Algorithm) -> bool:
    """Whether to run a baseline that nobody has named."""
    npus = ours.topology.npus
    # Our synthesis on the devices of each group alone is our synthesis, if these are all.
    is_ours = entry.synthesizes and all(
        len(one.members(npus)) == len(npus) for one in ours.collectives
    )
    # And of one kind of collective alone, all go by one scheme anyway.
    is_one = entry.mixes and len({one.kind for one in ours.collectives}) < 2
    return not (entry.on_request or is_ours or is_one)


def _baseline_row(
    ours: Algorithm,
    entry: Baseline,
    quick: bool,
    places: Sequence[Topology],
    lacking: Topology | None,
) -> ComparisonRow:
    """What becomes of a baseline on these networks; one that the runtime is lacking tells why it runs on none."""
    limit = QUICK_TO_SYNTHESIZE if entry.synthesizes else QUICK_TRANSFERS
    is_beyond = quick and len(ours.transfers) > limit
    ran = []
    reasons = []
    for topology in places:
        try:
            entry.check(topology, ours.collectives)
            if is_beyond:
                raise UnsupportedError(f"beyond {limit:,} transfers only on request")
            found = _fastest(entry, ours, topology)
            _check_confined(found)
            ran.append(found)
        except PcclError as error:
            reasons.append(error.reason if isinstance(error, UnsupportedError) else str(error))
    if ran:
        best = min(ran, key=lambda algorithm: algorithm.duration)
        row = _row(ours, entry.name, entry.description, best.duration, best)
        return replace(row, today=all(one.kind in entry.today for one in ours.collectives))
    reason = reasons[-1]
    if needs := _lost_needs(ours, entry, lacking):
        reason = f"needs {needs_text(needs)}, which the one asked for does not"
    return ComparisonRow(entry.name, entry.description, reason=reason)


def _check_confined(algorithm: Algorithm) -> None:
    """Refuse to relay through outsiders for collectives that are confined to their own NPUs."""
    if not any(one.confined for one in algorithm.collectives):
        return
    if any(algorithm.collectives[number].confined for number in relays_of(algorithm)):
        raise UnsupportedError("relays through NPUs outside a group that is confined")


def _lost_needs(ours: Algorithm, entry: Baseline, lacking: Topology | None) -> tuple[str, ...]:
    """What a baseline that does not run on our topology needs of switches that can do so on the network."""
    if lacking is None or lacking == ours.topology:
        return ()
    try:
        return _fastest(entry, ours, lacking).needs
    except PcclError:
        # It does not run there either.
        return ()


def _fastest(entry: Baseline, ours: Algorithm, topology: Topology) -> Algorithm:
    """The baseline with the data cut as ours are, or not cut at all, unless it chooses by itself."""
    own_cut = ours.collectives
    if entry.pipelined:
        return entry.run(topology, [one.uncut() for one in own_cut])
    cuts = [own_cut]
    # A synthesis takes long, and has no reason to do better with fewer chunks.
    if not entry.synthesizes:
        uncut = [one.uncut() for one in own_cut]
        cuts.append(tuple(one if one.chunks else replace(one, chunks=1) for one in uncut))
        cuts = list(dict.fromkeys(cuts))
    found = (entry.run(topology, collectives) for collectives in cuts)
    return min(found, key=lambda algorithm: algorithm.duration)


def _row(
    ours: Algorithm,
    name: str,
    description: str,
    duration: Picoseconds,
    algorithm: Algorithm | None = None,
) -> ComparisonRow:
    """Measure an algorithm, or a bound, that takes this long."""
    collective = ours.collectives[0]
    members = len(collective.members(ours.topology.npus))
    rates = bandwidths(collective, members, int(duration))
    busy = None
    needs: tuple[str, ...] = ()
    if algorithm is not None:
        needs = algorithm.needs
        busy = float(algorithm.utilization.mean()) if ours.topology.num_links else 0.0
    of_bound = None
    if ours.bound is not None:
        of_bound = _ratio(ours.bound.value, duration)
    speedup = _ratio(duration, ours.duration)
    return ComparisonRow(name, description, duration, *rates, busy, speedup, of_bound, needs=needs)


def _ratio(longer: int, shorter: int) -> float:
    """How many times longer, where nothing takes no time at all."""
    return int(longer) / int(shorter) if shorter else 1.0


def bandwidths(collective: Collective, members: int, duration: int) -> tuple[float, float]:
    """Algorithm and bus bandwidth, in bytes per second, of a collective that takes so many picoseconds.

    The first is size over time. The second says how busy that keeps the links of an NPU, whatever the collective, so
    that it can be held against the hardware.

    Examples
    --------
    >>> from pccl import AllReduce
    >>> bandwidths(AllReduce(size="8GB"), 4, 10**12)
    (8000000000.0, 12000000000.0)
    """
    seconds = duration / 1e12
    rate = int(collective.size) / seconds if seconds else 0.0
    return rate, rate * collective.bus_factor(members)
