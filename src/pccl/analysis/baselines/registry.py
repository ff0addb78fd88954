"""What people have today, as algorithms on the real links: routed without regard to each other, timed by contention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pccl.algorithm import Algorithm, Provenance
from pccl.analysis.baselines import multitree, trees, walks
from pccl.analysis.baselines.plan import Plan, Task, UnsupportedError, tasks, timed
from pccl.analysis.simulator import simulate
from pccl.collective import COLLECTIVES, Collective, compile_conditions
from pccl.errors import PcclError
from pccl.synthesis import synthesize
from pccl.synthesis.chunking import cut
from pccl.topology import Topology

__all__ = ["Baseline", "UnsupportedError", "baseline", "baselines", "find_baseline"]

GATHERS = frozenset({"all-gather", "reduce-scatter", "all-reduce"})
ROOTED = frozenset({"broadcast", "reduce"})
EXCHANGES = frozenset({"all-to-all", "all-to-all-v"})


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
    make
        Runs collectives this way; :func:`baseline` checks them first.
    synthesizes
        Whether it searches for an algorithm, which takes longer.
    """

    name: str
    description: str
    kinds: frozenset[str]
    needs: str
    make: Callable[[Topology, Sequence[Collective]], Algorithm] = field(repr=False)
    synthesizes: bool = False

    def check(self, topology: Topology, collectives: Sequence[Collective]) -> None:
        """Refuse collectives of another kind, and switches with limits."""
        for collective in collectives:
            if isinstance(collective, Collective) and collective.kind not in self.kinds:
                raise UnsupportedError(f"does not support {collective.kind}", self.name)
        if topology.limited:
            raise UnsupportedError(
                "ignores the limits of switches; unroll_switches() does without", self.name
            )


def baselines() -> tuple[Baseline, ...]:
    """All baselines, with the kinds of collectives and the groups that each supports.

    Examples
    --------
    >>> [baseline.name for baseline in baselines()]  # doctest: +NORMALIZE_WHITESPACE
    ['direct', 'confined', 'ring', 'best-ring', 'halving-doubling', 'double-tree', 'bruck', 'hierarchical', 'multitree']
    >>> [baseline.needs for baseline in baselines() if baseline.name == "halving-doubling"]
    ['a power of two NPUs per group']
    """
    plain = frozenset(COLLECTIVES) - GATHERS - ROOTED | {"all-gather", "broadcast"}
    grids = "a network with dimensions, and groups that are grids along them"
    return (
        _planned("direct", "every NPU sends to every destination by itself, over a fixed route", plain, walks.direct),
        Baseline("confined", "our synthesis on the devices of each group alone", frozenset(COLLECTIVES),
                 "groups that are connected by themselves", _confined, synthesizes=True),
        _planned("ring", "shares go round the group in its own order", GATHERS | ROOTED, trees.ring),
        _planned("best-ring", "shares go round the best ring that a quick search finds", GATHERS | ROOTED,
                 trees.best_ring),
        _planned("halving-doubling", "shares are exchanged at doubling distances", GATHERS, trees.halving_doubling,
                 "a power of two NPUs per group"),
        _planned("double-tree", "two complementary binary trees, each for every second chunk", ROOTED | {"all-reduce"},
                 trees.double_tree),
        _planned("bruck", "chunks go on at doubling distances until they are there", EXCHANGES, walks.bruck),
        _planned("hierarchical", "one dimension after another, in rings", GATHERS | EXCHANGES, _hierarchical, grids),
        _planned("multitree", "one tree per NPU, all grown together over free links", GATHERS, multitree.multitree),
    )  # fmt: skip


def baseline(name: str, topology: Topology, *collectives: Collective) -> Algorithm:
    """Run the collectives the way a baseline would.

    Examples
    --------
    >>> import pccl
    >>> mesh = pccl.topology.mesh(4, 4, bandwidth="50GiB/s", latency="500ns")
    >>> pccl.baseline("best-ring", mesh, pccl.AllGather(size="16MiB"))
    Algorithm(all-gather on mesh:4x4: 240 transfers, 300.47 us)
    """
    entry = find_baseline(name)
    entry.check(topology, collectives)
    return entry.make(topology, collectives)


def find_baseline(name: str) -> Baseline:
    """Return the baseline of that name."""
    known = {entry.name: entry for entry in baselines()}
    if name not in known:
        raise PcclError(f"there is no baseline {name!r}; there are {', '.join(known)}")
    return known[name]


def _planned(
    name: str,
    description: str,
    kinds: frozenset[str],
    plan: Callable[[Task], Plan],
    needs: str = "",
) -> Baseline:
    """A baseline that plans each collective by itself; all contend for the links."""

    def make(topology: Topology, collectives: Sequence[Collective]) -> Algorithm:
        conditions, parts = compile_conditions(topology, collectives), tasks(topology, collectives)
        try:
            plans = [plan(part) for part in parts]
        except UnsupportedError as reason:
            raise UnsupportedError(reason.reason, name) from None
        plan_of_all = Plan.join(plans, [len(part.conditions) for part in parts])
        return timed(topology, collectives, conditions, plan_of_all, name)

    return Baseline(name, description, kinds, needs, make)


def _hierarchical(task: Task) -> Plan:
    return (
        walks.by_dimension(task) if task.collective.kind in EXCHANGES else trees.hierarchical(task)
    )


def _confined(topology: Topology, collectives: Sequence[Collective]) -> Algorithm:
    collectives = cut(collectives, 1)
    conditions = compile_conditions(topology, collectives)
    columns, before = [], 0
    for collective in collectives:
        members = topology.npus if collective.group is None else np.array(collective.ranks)
        inside = np.zeros(topology.num_devices, np.bool_)
        inside[members] = inside[topology.switches] = True
        own = synthesize(
            topology.restrict(np.flatnonzero(inside).tolist()), collective, verify=False
        )
        links = np.flatnonzero(inside[topology.src] & inside[topology.dst])
        t = own.transfers
        columns.append((t.chunk.astype(np.int64) + before, links[t.link], t.start, t.reduce))
        before += len(own.conditions)
    chunk, link, start, reduce = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    provenance = Provenance("baseline confined")
    plan = Algorithm.build(
        topology,
        collectives,
        chunk,
        link,
        start,
        reduce,
        conditions=conditions,
        provenance=provenance,
    )
    return simulate(plan, "fifo").to_algorithm()
