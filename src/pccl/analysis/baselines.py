"""Baselines: what people have today, so that everyone can ask "faster than what I have?".

They are the schemes as they are, and our own synthesis for each group alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pccl.algorithm import Algorithm, Provenance, verify
from pccl.analysis.simulator import simulate
from pccl.collective import COLLECTIVES, Collective
from pccl.errors import FormatError, PcclError, VerificationError
from pccl.schemes import SCHEMES, Scheme, UnsupportedError
from pccl.schemes.nccl_graph import graph_schemes
from pccl.schemes.registry import COPIES, ROOTED, SHARED, check_support, side_by_side
from pccl.synthesis import synthesize
from pccl.synthesis.chunking import cut
from pccl.topology import Topology
from pccl.topology.importers import read_nccl_graph
from pccl.topology.parts import ABSENT, SWITCH

__all__ = [
    "Baseline",
    "UnsupportedError",
    "baseline",
    "baselines",
    "find_baseline",
    "nccl_graph_baselines",
]


@dataclass(frozen=True)
class Baseline:
    """One way in which collectives are run today.

    Attributes
    ----------
    name, description
        What to ask for, and what it does.
    kinds
        The collectives that it supports.
    scheme
        How it is done; None for what is made of several, and for our own synthesis.
    needs
        What it asks of groups or networks; empty if any will do.
    today
        The collectives that NCCL runs this way.
    on_request
        Whether a comparison leaves it out unless it is named.
    synthesizes
        Whether it searches for an algorithm, which takes longer.
    """

    name: str
    description: str
    kinds: frozenset[str]
    scheme: Scheme | None = field(default=None, repr=False)
    needs: str = ""
    today: frozenset[str] = frozenset()
    on_request: bool = False
    synthesizes: bool = False

    @property
    def mixes(self) -> bool:
        """Whether each of several collectives goes by a scheme of its own."""
        return self.scheme is None and not self.synthesizes

    @property
    def pipelined(self) -> bool:
        """Whether it chooses a number of chunks by itself where that is left open."""
        return self.mixes if self.scheme is None else self.scheme.pipelined

    def check(self, topology: Topology, collectives: Sequence[Collective]) -> None:
        """Refuse collectives of another kind, and switches with limits."""
        check_support(self.name, self.kinds, topology, collectives)

    def run(self, topology: Topology, collectives: Sequence[Collective]) -> Algorithm:
        """Run the collectives this way; raises `UnsupportedError` where that is not possible."""
        self.check(topology, collectives)
        if self.scheme is not None:
            algorithm = self.scheme.run(topology, collectives)
        elif self.synthesizes:
            algorithm = _confined(topology, collectives)
        else:
            algorithm = _each_by_its_best(topology, collectives)
        order = "fifo or oldest first" if self.pipelined else "fifo"
        return replace(algorithm, provenance=Provenance(f"baseline {self.name}, timed by {order}"))


# NCCL has no algorithms for these but sends and receives.
_PAIRWISE = COPIES - {"all-gather", "broadcast"}
# What NCCL runs, and for which collectives.
_TODAY = {
    "nccl-ring": SHARED | ROOTED,
    "nccl-tree": frozenset({"all-reduce"}),
    "nvls": SHARED,
    "direct": _PAIRWISE,
}
_ON_REQUEST = {"direct-ascending"}


def _of_scheme(scheme: Scheme) -> Baseline:
    today = _TODAY.get(scheme.name, frozenset())
    asked = scheme.name in _ON_REQUEST
    about = (scheme.name, scheme.description, scheme.kinds, scheme, scheme.needs)
    return Baseline(*about, today, asked)


_ALL_KINDS = frozenset[str]().union(*_TODAY.values())
_BASELINES = (
    *map(_of_scheme, SCHEMES),
    Baseline(
        "nccl-each",
        "each collective by what is quickest for it alone of what NCCL does, all at the same time",
        _ALL_KINDS,
        today=_ALL_KINDS,
    ),
    Baseline(
        "confined",
        "our synthesis on the devices of each group alone",
        frozenset(COLLECTIVES),
        needs="groups that are connected by themselves",
        synthesizes=True,
    ),
)


def baselines() -> tuple[Baseline, ...]:
    """All baselines, with the kinds of collectives and the groups that each supports.

    Examples
    --------
    >>> [baseline.name for baseline in baselines()]  # doctest: +NORMALIZE_WHITESPACE
    ['nccl-ring', 'nccl-tree', 'nvls', 'direct', 'direct-ascending', 'ring', 'best-ring', 'one-shot', 'two-shot',
     'recursive-doubling', 'exchange', 'scattered-exchange', 'halving-doubling', 'double-tree', 'bruck', 'hierarchical',
     'multitree', 'nccl-each', 'confined']
    >>> [baseline.needs for baseline in baselines() if baseline.name == "halving-doubling"]
    ['a power of two NPUs per group']
    """
    return _BASELINES


def nccl_graph_baselines(path: str | Path) -> tuple[Baseline, ...]:
    """What NCCL does on a machine: the rings and trees that it wrote to a graph file (``NCCL_GRAPH_DUMP_FILE``).

    Set them beside an algorithm with ``compare(algorithm, others=...)``. Sums in switches (NVLS) are the baseline
    ``nvls``, and are among them if NCCL has chosen channels for that; CollNet is left out.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "graph.xml"
    >>> ring = '<graph id="0" pattern="4"><channel><gpu dev="1"/><gpu dev="0"/></channel></graph>'
    >>> _ = file.write_text(f"<graphs>{ring}</graphs>")
    >>> [baseline.name for baseline in nccl_graph_baselines(file)]
    ['nccl-graph-ring']
    """
    graphs = read_nccl_graph(path)
    found = [
        Baseline(scheme.name, scheme.description, scheme.kinds, scheme, today=scheme.kinds)
        for scheme in graph_schemes(graphs, Path(path).name)
    ]
    if any(graph.algorithm == "NVLS" and graph.channels for graph in graphs):
        found.append(find_baseline("nvls"))
    if not found:
        raise FormatError(f"{path}: no ring and no tree has a channel in it")
    return tuple(found)


def find_baseline(name: str) -> Baseline:
    """Return the baseline of that name."""
    known = {entry.name: entry for entry in _BASELINES}
    if name not in known:
        raise PcclError(f"there is no baseline {name!r}; there are {', '.join(known)}")
    return known[name]


def baseline(name: str, topology: Topology, *collectives: Collective) -> Algorithm:
    """Run the collectives the way a baseline would.

    Examples
    --------
    >>> import pccl
    >>> mesh = pccl.topology.mesh(4, 4, bandwidth="50GiB/s", latency="500ns")
    >>> pccl.baseline("best-ring", mesh, pccl.AllGather(size="16MiB"))
    Algorithm(all-gather on mesh:4x4: 240 transfers, 300.47 us)
    """
    return find_baseline(name).run(topology, collectives)


def _each_by_its_best(topology: Topology, collectives: Sequence[Collective]) -> Algorithm:
    """Each collective by the scheme of NCCL that is quickest for it alone; then all contend for the links."""
    known: dict[tuple[object, ...], tuple[Scheme, int]] = {}
    schemes = []
    parts: list[Collective] = []
    for one in collectives:
        # Groups that are alike mostly do best in the same way.
        key = (one.kind, one.size, one.chunks, len(one.members(topology.npus)))
        if key not in known:
            known[key] = _quickest_of_nccl(topology, one)
        scheme, pieces = known[key]
        schemes.append(scheme)
        parts += cut([one], pieces)
    return side_by_side(schemes, topology, parts)


def _quickest_of_nccl(topology: Topology, collective: Collective) -> tuple[Scheme, int]:
    """What NCCL does for a collective that takes least time, and into how many chunks it cuts the data."""
    found = []
    problem: PcclError | None = None
    for scheme in SCHEMES:
        if collective.kind not in _TODAY.get(scheme.name, ()):
            continue
        asked = [collective] if scheme.pipelined else cut([collective], 1)
        try:
            algorithm = scheme.run(topology, asked)
        except UnsupportedError as error:
            problem = UnsupportedError(error.reason, "nccl-each")
            continue
        except PcclError as error:
            problem = error
            continue
        found.append((int(algorithm.duration), scheme, algorithm.collectives[0].pieces))
    if not found:
        raise problem or UnsupportedError(f"does not support {collective.kind}", "nccl-each")
    _, scheme, pieces = min(found, key=lambda one: one[0])
    return scheme, pieces


def _alone(topology: Topology, collective: Collective) -> Algorithm:
    """Our synthesis for one group; switches belong to no group and serve all of them."""
    network = topology.restrict([*collective.members(topology.npus), *topology.switches])
    return synthesize(network, collective, verify=False)


def _as_able(one: Topology, other: Topology) -> bool:
    """Whether switches can do the same in both."""
    return np.array_equal(one.multicast, other.multicast) and np.array_equal(
        one.reduce, other.reduce
    )


def _confined(topology: Topology, collectives: Sequence[Collective]) -> Algorithm:
    """Synthesize for each group on its own devices alone; then all contend for the links, first come, first served."""
    # Left open, synthesis would choose a number of chunks for each group, and the conditions of all
    # would not be those of this list.
    collectives = cut(collectives, 1)
    plans = [_alone(topology, collective) for collective in collectives]
    if any(plan.topology.plain and not _as_able(plan.topology, topology) for plan in plans):
        # Some do without what switches can do, so that every runtime takes them; then all have to.
        by_itself = topology.kind != SWITCH
        topology = topology.derived(multicast=by_itself, reduce=by_itself)
        plans = [_alone(topology, collective) for collective in collectives]
    columns = []
    chunks = 0
    rows = 0
    for plan in plans:
        inside = plan.topology.kind != ABSENT
        # The restricted network counts only the links that it has.
        links = np.flatnonzero(inside[topology.src] & inside[topology.dst])
        own = plan.transfers
        chunk = own.chunk.astype(np.int64) + chunks
        follows = np.where(own.follows >= 0, own.follows + rows, -1)
        columns.append((chunk, links[own.link], own.start, own.reduce, follows))
        chunks += len(own.conditions)
        rows += len(own)
    *joined, follows = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    algorithm = Algorithm.build(topology, collectives, *joined, follows=follows)
    # One alone contends with nobody, and goes as planned.
    if len(plans) == 1:
        return algorithm
    # What exchanges partial sums may be held up by others in such a way that no order of arrival is right.
    for discipline in ("fifo", "planned"):
        played = simulate(algorithm, discipline).to_algorithm()
        with suppress(VerificationError):
            verify(played)
            return played
    raise UnsupportedError("finds no order in which no sum comes in too early", "confined")
