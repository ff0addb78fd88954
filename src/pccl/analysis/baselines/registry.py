"""What people have today, as algorithms on the real links: routed without regard to each other, timed by contention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pccl.algorithm import Algorithm, Provenance
from pccl.analysis.baselines.dimensions import hierarchical
from pccl.analysis.baselines.multitree import multitree
from pccl.analysis.baselines.nccl import nccl_ring, nccl_tree, nvls
from pccl.analysis.baselines.rings import best_ring, ring
from pccl.analysis.baselines.sends import Sends, contend
from pccl.analysis.baselines.textbook import (
    bruck,
    direct,
    direct_ascending,
    double_tree,
    halving_doubling,
)
from pccl.analysis.baselines.workload import UnsupportedError, Workload
from pccl.analysis.queues import first_come_starts, oldest_first_starts
from pccl.analysis.simulator import simulate
from pccl.collective import COLLECTIVES, Collective
from pccl.errors import PcclError
from pccl.synthesis import synthesize
from pccl.synthesis.chunking import cut
from pccl.topology import Topology
from pccl.topology.parts import ABSENT


@dataclass(frozen=True)
class Baseline:
    """One way in which collectives are run today.

    Attributes
    ----------
    name, description
        What to ask for, and what it does.
    kinds
        The collectives that it supports.
    needs
        What it asks of groups or networks; empty if any will do.
    plan
        How one collective is sent; None for our own synthesis.
    today
        The collectives that NCCL runs this way.
    pipelined
        Whether it chooses a number of chunks by itself where that is left open.
    on_request
        Whether a comparison leaves it out unless it is named.
    """

    name: str
    description: str
    kinds: frozenset[str]
    plan: Callable[[Workload], Sends] | None = field(repr=False)
    needs: str = ""
    today: frozenset[str] = frozenset()
    pipelined: bool = False
    on_request: bool = False

    @property
    def synthesizes(self) -> bool:
        """Whether it searches for an algorithm, which takes longer."""
        return self.plan is None

    def check(self, topology: Topology, collectives: Sequence[Collective]) -> None:
        """Refuse collectives of another kind, and switches with limits."""
        for collective in collectives:
            if isinstance(collective, Collective) and collective.kind not in self.kinds:
                raise UnsupportedError(f"does not support {collective.kind}", self.name)
        if topology.limited:
            reason = "ignores the limits of switches; unroll_switches() does without"
            raise UnsupportedError(reason, self.name)

    def run(self, topology: Topology, collectives: Sequence[Collective]) -> Algorithm:
        """Run the collectives this way; raises `UnsupportedError` where that is not possible."""
        self.check(topology, collectives)
        try:
            if self.plan is None:
                algorithm = _confined(topology, collectives)
            elif self.pipelined:
                algorithm = _in_pieces(self.plan, topology, collectives)
            else:
                algorithm = contend(self.plan, topology, collectives)
        except UnsupportedError as error:
            raise UnsupportedError(error.reason, self.name) from None
        order = "fifo or oldest first" if self.pipelined else "fifo"
        return replace(algorithm, provenance=Provenance(f"baseline {self.name}, timed by {order}"))


# Where the number of chunks is left open it is doubled for as long as that saves at least this share of the time.
LEAST_GAIN = 0.005
# More transfers than this are not tried; that keeps a baseline below a second.
MOST_TRANSFERS = 150_000

_SHARED = frozenset({"all-gather", "reduce-scatter", "all-reduce"})
_ROOTED = frozenset({"broadcast", "reduce"})
_EXCHANGES = frozenset({"all-to-all", "all-to-all-v"})
_COPIES = frozenset(COLLECTIVES) - {"reduce-scatter", "all-reduce", "reduce"}
# NCCL has no algorithms for these but sends and receives.
_PAIRWISE = _COPIES - {"all-gather", "broadcast"}

# One line for each: its name, what it does, the kinds that it serves, how it is made, and what it needs.
_BASELINES = (
    Baseline("nccl-ring", "rings over all NICs and links at once, as NCCL builds them",
             _SHARED | _ROOTED, nccl_ring, today=_SHARED | _ROOTED, pipelined=True),
    Baseline("nccl-tree", "double binary trees across boxes over all NICs, chains inside, as NCCL builds them",
             frozenset({"all-reduce"}), nccl_tree, today=frozenset({"all-reduce"}), pipelined=True),
    Baseline("nvls", "sums and copies made in NVSwitches, rings and trees between boxes, as NCCL does",
             _SHARED, nvls, "a switch in every box that multiplies and adds", today=_SHARED, pipelined=True),
    Baseline("direct", "every NPU sends to every destination by itself, over a fixed route",
             _COPIES, direct, today=_PAIRWISE),
    Baseline("direct-ascending", "as direct, but all begin with the first destination, as in ASTRA-sim",
             _COPIES, direct_ascending, on_request=True),
    Baseline("confined", "our synthesis on the devices of each group alone",
             frozenset(COLLECTIVES), None, "groups that are connected by themselves"),
    Baseline("ring", "shares go round the group in its own order",
             _SHARED | _ROOTED, ring),
    Baseline("best-ring", "shares go round the best ring that a quick search finds",
             _SHARED | _ROOTED, best_ring),
    Baseline("halving-doubling", "shares are exchanged at doubling distances",
             _SHARED, halving_doubling, "a power of two NPUs per group"),
    Baseline("double-tree", "two complementary binary trees, each for every second chunk",
             _ROOTED | {"all-reduce"}, double_tree),
    Baseline("bruck", "chunks go on at doubling distances until they are there",
             _EXCHANGES, bruck),
    Baseline("hierarchical", "one dimension after another, in rings",
             _SHARED | _EXCHANGES, hierarchical,
             "a network with dimensions, and groups that are grids along them"),
    Baseline("multitree", "one tree per NPU, all grown together over free links",
             _SHARED, multitree),
)  # fmt: skip


def baselines() -> tuple[Baseline, ...]:
    """All baselines, with the kinds of collectives and the groups that each supports.

    Examples
    --------
    >>> [baseline.name for baseline in baselines()]  # doctest: +NORMALIZE_WHITESPACE
    ['nccl-ring', 'nccl-tree', 'nvls', 'direct', 'direct-ascending', 'confined', 'ring', 'best-ring',
     'halving-doubling', 'double-tree', 'bruck', 'hierarchical', 'multitree']
    >>> [baseline.needs for baseline in baselines() if baseline.name == "halving-doubling"]
    ['a power of two NPUs per group']
    """
    return _BASELINES


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


def _in_pieces(
    plan: Callable[[Workload], Sends], topology: Topology, collectives: Sequence[Collective]
) -> Algorithm:
    """Cut what is not cut yet into one, two, four, … pieces, for as long as that helps."""
    best = None
    pieces = 1
    vain = 0
    while True:
        cut = [one if one.chunks else replace(one, chunks=pieces) for one in collectives]
        # Senders that wait for room at the receiver let old pieces through before new ones, others serve in turn:
        # which of the two is more like NCCL depends on its buffers, so it gets the better one.
        found = contend(plan, topology, cut, first_come_starts, oldest_first_starts)
        if best is None or found.duration < best.duration * (1 - LEAST_GAIN):
            best = found
            vain = 0
        else:
            vain += 1
        # One doubling may be in vain where it takes two to fill all channels.
        too_many = 2 * len(found.transfers) > MOST_TRANSFERS
        if vain == 2 or too_many or all(one.chunks for one in collectives):
            return best
        pieces *= 2


def _confined(topology: Topology, collectives: Sequence[Collective]) -> Algorithm:
    """Synthesize for each group on its own devices alone; then all contend for the links, first come, first served."""
    # Left open, synthesis would choose a number of chunks for each group, and the conditions of all
    # would not be those of this list.
    collectives = cut(collectives, 1)
    columns = []
    chunks = 0
    rows = 0
    for collective in collectives:
        # Switches belong to no group and serve all of them.
        network = topology.restrict([*collective.members(topology.npus), *topology.switches])
        inside = network.kind != ABSENT
        # The restricted network counts only the links that it has.
        links = np.flatnonzero(inside[topology.src] & inside[topology.dst])
        own = synthesize(network, collective, verify=False).transfers
        chunk = own.chunk.astype(np.int64) + chunks
        follows = np.where(own.follows >= 0, own.follows + rows, -1)
        columns.append((chunk, links[own.link], own.start, own.reduce, follows))
        chunks += len(own.conditions)
        rows += len(own)
    *joined, follows = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    algorithm = Algorithm.build(topology, collectives, *joined, follows=follows)
    return simulate(algorithm, "fifo").to_algorithm()
