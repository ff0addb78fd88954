"""What people have today, as algorithms on the real links: routed without regard to each other, timed by contention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pccl.algorithm import Algorithm, Provenance
from pccl.analysis.simulator import simulate
from pccl.collective import COLLECTIVES, Collective, Conditions, compile_conditions
from pccl.errors import PcclError
from pccl.synthesis import synthesize
from pccl.synthesis.jobs import gathering, roots
from pccl.synthesis.ten import network, unloaded_times
from pccl.topology import Topology

__all__ = ["Baseline", "baseline", "baselines"]

Ints = NDArray[np.int64]
PLAIN = frozenset(COLLECTIVES) - {"reduce-scatter", "all-reduce", "reduce"}


@dataclass(frozen=True)
class Baseline:
    """One way in which collectives are run today."""

    name: str
    description: str
    kinds: frozenset[str]
    make: Callable[[Topology, Sequence[Collective]], Algorithm]


def baselines() -> tuple[Baseline, ...]:
    """All baselines, with the kinds of collectives that each supports.

    Examples
    --------
    >>> [baseline.name for baseline in baselines()]
    ['direct', 'confined']
    """
    return (
        Baseline("direct", "every NPU sends to every destination by itself, over a fixed route", PLAIN, _direct),
        Baseline("confined", "our synthesis on the devices of each group alone", frozenset(COLLECTIVES), _confined),
    )


def baseline(name: str, topology: Topology, *collectives: Collective) -> Algorithm:
    """Run the collectives the way a baseline would.

    Examples
    --------
    >>> import pccl
    >>> mesh = pccl.topology.mesh(3, 3, bandwidth="50GiB/s", latency="500ns")
    >>> pccl.baseline("direct", mesh, pccl.AllToAll(size="9MiB"))
    Algorithm(all-to-all on mesh:3x3: 144 transfers, 177.78 us)
    """
    known = {entry.name: entry for entry in baselines()}
    if name not in known:
        raise PcclError(f"there is no baseline {name!r}; there are {', '.join(known)}")
    for collective in collectives:
        if isinstance(collective, Collective) and collective.kind not in known[name].kinds:
            raise PcclError(f"the baseline {name!r} does not support {collective.kind}")
    return known[name].make(topology, collectives)


# --- direct ----------------------------------------------------------------------------------------------------------


def _direct(topology: Topology, collectives: Sequence[Collective]) -> Algorithm:
    conditions = compile_conditions(topology, collectives)
    if np.any(conditions.reduces):
        raise PcclError("the baseline 'direct' does not support conditions that reduce")
    chunk = np.repeat(np.arange(len(conditions)), conditions.num_destinations)
    at = conditions.source_ids[conditions.source_offsets[:-1]][chunk].astype(np.int64)
    target = conditions.destination_ids.astype(np.int64)
    towards, row_of = _next_links(topology, conditions, target)
    # Starts only put transfers in order, hop by hop and message by message; contention then times them.
    hops, message = [], np.arange(len(chunk))
    while len(message):
        link = towards[row_of[target[message]], at[message]]
        hops.append((chunk[message], link, message))
        at[message] = topology.dst[link]
        message = message[at[message] != target[message]]
    net = network(topology, conditions.sizes[0])
    apart = int(net.travel.max(initial=0)) * net.unit + len(chunk) + 1
    columns = [(c, link, hop * apart + m) for hop, (c, link, m) in enumerate(hops)]
    return _timed(topology, collectives, conditions, columns, "direct")


def _next_links(topology: Topology, conditions: Conditions, target: Ints) -> tuple[Ints, Ints]:
    """Per destination and device the link to take, and which row belongs to which destination."""
    used = np.unique(target)
    row_of = np.full(topology.num_devices, -1, np.int64)
    row_of[used] = np.arange(len(used))
    by_dimension = _dimension_order(topology, used)
    if by_dimension is not None:
        return by_dimension, row_of
    gathering(topology, conditions, roots(conditions), steps=False)  # refuses what cannot be reached, by name
    # The same route for all sizes: that of the largest chunk.
    net = network(topology.transpose(), conditions.bytes.max(initial=1, keepdims=True))
    remaining = unloaded_times(net, used, np.zeros(len(used), np.int64))
    towards = np.full((len(used), topology.num_devices), -1, np.int64)
    travel = np.empty(topology.num_links, np.int64)
    travel[net.link] = net.travel[0, net.kind]
    for link in range(topology.num_links - 1, -1, -1):  # of equally short ways, the link with the least number
        src, dst = topology.src[link], topology.dst[link]
        towards[remaining[:, src] == remaining[:, dst] + travel[link], src] = link
    return towards, row_of


def _dimension_order(topology: Topology, targets: Ints) -> Ints | None:
    """On grids: along the last dimension first, then the one before it; None for other networks."""
    if len(topology.shape) < 2 or len(topology.switches) or topology.num_npus != topology.num_devices:
        return None
    n = topology.num_devices
    link_of = np.full((n, n), -1, np.int64)
    link_of[topology.src[::-1], topology.dst[::-1]] = np.arange(topology.num_links)[::-1]
    npus, place = np.arange(n), np.indices(topology.shape).reshape(len(topology.shape), -1)
    towards = np.full((len(targets), n), -1, np.int64)
    for dimension, size in enumerate(topology.shape):  # the last dimension has the last word
        stride = int(np.prod(topology.shape[dimension + 1 :]))
        here, there = place[dimension], place[dimension][targets][:, None]
        first = npus[here == 0]
        wraps = bool(np.all(link_of[first, first + (size - 1) * stride] >= 0))
        ahead = np.sign(there - here)
        if wraps:
            ahead = np.where(2 * np.abs(there - here) > size, -ahead, ahead)
        link = link_of[npus, npus + ((here + ahead) % size - here) * stride]
        towards = np.where(there != here, link, towards)
    towards[np.arange(len(targets)), targets] = 0  # nothing is sent from there
    return towards if np.all(towards >= 0) else None


# --- confined --------------------------------------------------------------------------------------------------------


def _confined(topology: Topology, collectives: Sequence[Collective]) -> Algorithm:
    conditions = compile_conditions(topology, collectives)
    columns, reduce, before = [], [], 0
    for collective in collectives:
        members = topology.npus if collective.group is None else np.array(collective.ranks)
        inside = np.zeros(topology.num_devices, np.bool_)
        inside[members] = inside[topology.switches] = True
        own = synthesize(topology.restrict(np.flatnonzero(inside).tolist()), collective, verify=False)
        links = np.flatnonzero(inside[topology.src] & inside[topology.dst])
        t = own.transfers
        columns.append((t.chunk.astype(np.int64) + before, links[t.link], t.start))
        reduce.append(t.reduce)
        before += len(own.conditions)
    return _timed(topology, collectives, conditions, columns, "confined", np.concatenate(reduce))


def _timed(
    topology: Topology,
    collectives: Sequence[Collective],
    conditions: Conditions,
    columns: list[tuple[Ints, Ints, Ints]],
    name: str,
    reduce: NDArray[np.bool_] | bool = False,
) -> Algorithm:
    chunk, link, start = (
        (np.concatenate(parts) for parts in zip(*columns, strict=True)) if columns else np.empty((3, 0), np.int64)
    )
    if topology.limited:
        raise PcclError(f"the baseline {name!r} ignores the limits of switches; unroll_switches() does without")
    provenance = Provenance(f"baseline {name}")
    plan = Algorithm.build(
        topology, collectives, chunk, link, start, reduce, conditions=conditions, provenance=provenance
    )
    return simulate(plan, "fifo").to_algorithm()
