"""From logical sends to timed transfers: routed over the links, repeated for all pieces, and timed by contention.

A transfer waits for the one that brings its chunk by the way the scheme intends, even where the chunk happens to pass
by earlier: a ring through a switch stays a ring. Links serve first come, first served.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pccl._arrays import Bools, Indices, Ints, offsets_of, take_rows
from pccl.algorithm import Algorithm, Transfers
from pccl.algorithm.apart import kept_apart
from pccl.algorithm.timing import Times, times_of
from pccl.algorithm.timing_kernels import Inputs, serve_as_planned
from pccl.collective import Collective, compile_conditions
from pccl.errors import InfeasibleError
from pccl.network import LONGEST
from pccl.schemes import tree_kernels as kernels
from pccl.schemes.workload import Paths, UnsupportedError, Workload
from pccl.topology import Topology

# When transfers start, given what each waits for.
Service: TypeAlias = Callable[[Transfers, Topology, Times, Inputs], Ints]


class Sends(NamedTuple):
    """Transfers in columns, in the order in which they are served if they are ready at the same time.

    `newest` and `previous` say what each waits for, as the `Inputs` of the timing do, but count back from the transfer
    itself, with 0 for nothing: so they stay true when rows are repeated for another chunk.
    """

    chunk: Ints
    link: Indices
    newest: Ints
    previous: Ints
    reduce: Bools


class Trees(NamedTuple):
    """One tree per row, over the members of a group by their places in it.

    Attributes
    ----------
    parent
        By tree and member: its parent, or -1 for the root.
    step
        By tree and member: larger than that of its parent; those with the same parent are served in this order.
    path
        By tree and member: its path from or to the parent among `paths`; None for the usual route.
    """

    parent: Ints
    step: Ints
    path: Ints | None = None
    paths: Paths | None = None


@dataclass(frozen=True)
class Laid:
    """Transfers of all collectives before they are timed, in the order of the list; and what each waits for."""

    collectives: tuple[Collective, ...]
    transfers: Transfers
    inputs: Inputs

    def __len__(self) -> int:
        return len(self.transfers)

    def least(self, any_cut: bool = False) -> int:
        """What all of it takes at least: the busiest link, or the longest way, as if nothing else were under way.

        With `any_cut`, however small the pieces are that data are cut into: then only latency counts.
        """
        t = self.transfers
        travel = t.topology.latency[t.link]
        if not any_cut:
            travel = travel + t.transmission
        held, free, start, arrival = np.zeros((4, len(t)), np.int64)
        # As if each had a link of its own, which is always free.
        own_link = t.start.astype(np.int32)
        serve_as_planned(t.start, own_link, self.inputs, held, travel, free, start, arrival)
        # Small pieces may be shared out among more links.
        busiest = 0 if any_cut else int(t.link_busy.max(initial=0))
        return max(busiest, int(arrival.max(initial=0)))

    def timed(self, *services: Service, exchanges: bool = False) -> Algorithm:
        """All contend for the links; of several ways to serve them, the best counts.

        Where sums are exchanged, each waits until what was held before has been sent.
        """
        t = self.transfers
        times = times_of(t, t.topology, t.transmission)
        starts = [serve(t, t.topology, times, self.inputs) for serve in services]
        if exchanges:
            apart = (kept_apart(t, self.inputs, times, start, t.start) for start in starts)
            starts = [start for start in apart if start is not None]
        if not starts:
            raise UnsupportedError("finds no order in which no sum comes in too early")
        start = min(starts, key=lambda start: int((start + times.travel).max(initial=0)))
        return Algorithm.build(
            t.topology, self.collectives, t.chunk, t.link, start, t.reduce,
            follows=t.follows, conditions=t.conditions,
        )  # fmt: skip


def lay(
    plans: Sequence[Callable[[Workload], Sends]],
    topology: Topology,
    collectives: Sequence[Collective],
    turn: Sequence[int] | None = None,
) -> Laid:
    """Plan each collective by its plan; in the list they stand in their own order, or in that of their turns."""
    conditions = compile_conditions(topology, collectives)
    parts = []
    longest = 0.0
    for number in range(len(collectives)) if turn is None else turn:
        workload = Workload.of(topology, collectives[number])
        part = plans[number](workload)
        first_chunk = int(np.searchsorted(conditions.collective, number))
        parts.append(part._replace(chunk=part.chunk + first_chunk))
        # At worst, all transfers come one after another.
        longest += workload.link_times[1][part.link].sum(dtype=np.float64)
    if longest > LONGEST:
        raise InfeasibleError(f"the transfers may take longer than two weeks on {topology.name}")
    chunk, link, newest, previous, reduce = map(np.concatenate, zip(*parts, strict=True))
    # Places in the list stand for planned starts: of what is ready at the same time, the first in
    # the list is served first.
    order = np.arange(len(chunk))
    inputs = Inputs(*(np.where(back > 0, order - back, -1) for back in (newest, previous)))
    columns = (chunk.astype(np.int32), link, order, reduce)
    transfers = Transfers(topology, conditions, *columns, np.full(len(order), -1, np.int32))
    follows = np.where(transfers.passes_on, inputs.newest, -1)
    transfers = Transfers(topology, conditions, *columns, follows.astype(np.int32))
    return Laid(tuple(collectives), transfers, inputs)


def lay_walks(workload: Workload, stops: Ints, chunk: Ints, walk: Ints) -> Sends:
    """Send chunks from device to device by themselves.

    Row w of `stops` has the devices that walk w visits, some of them perhaps several times in a row; `chunk` has the
    chunks in the order in which they are served, and `walk` the walk of each.
    """
    src = stops[:, :-1]
    dst = stops[:, 1:]
    moves = src != dst
    paths, path = workload.paths(src[moves], dst[moves])
    taken, link = take_rows(*paths, path)
    # Of walk w, the moves before it end where its own begin.
    first = taken[offsets_of(np.count_nonzero(moves, axis=1))]
    # Each waits for the one just before it, and the first of a walk for nothing.
    newest = np.ones(len(link), np.int64)
    newest[first[:-1][np.diff(first) > 0]] = 0
    nothing = np.zeros(len(link), np.int64)
    pattern = kernels.Pattern(first, link.astype(np.int32), newest, nothing, nothing > 0)
    return lay_pattern(pattern, chunk, walk)


def lay_trees(
    workload: Workload,
    make: Callable[[bool], Trees],
    tree_of_chunk: Ints | None = None,
    *,
    once: bool = False,
) -> Sends:
    """Add chunks up along one tree, or spread them down another, or both, as the collective asks.

    `make` is called with whether trees lead inwards, to the root. Every share has a tree of its own, unless
    `tree_of_chunk` says otherwise. With `once`, switches that multiply get a chunk once for all to whom they send it;
    otherwise everyone is sent a copy of its own.

    A sum goes along the routes of its tree as it is. Where that cannot be, because different partial sums would pass
    through one device that adds (an NPU or a switch that can; it holds one sum of a chunk, and adds its own
    contribution), the routes are cut down to a tree, along which every such device adds up what comes in and sends it
    on once. Other switches pass the sums on one by one.
    """
    up = _table(workload, make(True), True) if workload.collects else None
    down = _table(workload, make(False), False) if workload.spreads else None
    tables = [table for table in (up, down) if table is not None]
    trees = len(tables[0].order)
    nothing = np.empty((trees, 0), np.int64)
    absent = kernels.TreeTable(nothing, nothing, nothing, nothing[0], nothing[0])
    most = sum(int(np.diff(table.first)[table.path[table.parent >= 0]].sum()) for table in tables)
    newest, previous = np.empty((2, most), np.int64)
    pattern = kernels.Pattern(
        np.zeros(trees + 1, np.int64),
        np.empty(most, np.int32),
        newest,
        previous,
        np.empty(most, np.bool_),
    )
    topology = workload.topology
    token, last = np.empty((2, topology.num_devices), np.int64)
    ground = kernels.Ground(
        member=workload.members,
        contributes=workload.place >= 0,
        multicast=topology.multicast,
        reduce=topology.reduce,
        src=topology.src,
        dst=topology.dst,
        token=token,
        last=last,
        chosen=np.empty(most, np.int64),
        pattern=pattern,
    )
    kernels.lay_trees(up or absent, down or absent, ground, once)
    chunk = workload.by_piece
    tree_of_chunk = workload.conditions.share if tree_of_chunk is None else tree_of_chunk
    return lay_pattern(pattern, chunk, tree_of_chunk[chunk])


def _table(workload: Workload, trees: Trees, inward: bool) -> kernels.TreeTable:
    """The trees with a path for every member, as the kernel wants them."""
    path = trees.path
    paths = trees.paths
    if path is None or paths is None:
        child = np.broadcast_to(workload.members, trees.parent.shape)
        parent = np.where(trees.parent >= 0, workload.members[trees.parent], child)
        ends = (child, parent) if inward else (parent, child)
        paths, path = workload.paths(*(end.ravel() for end in ends))
    return kernels.TreeTable(
        order=np.argsort(trees.step, axis=1, kind="stable"),
        parent=np.ascontiguousarray(trees.parent),
        path=path.reshape(trees.parent.shape),
        first=paths.first,
        link=paths.link,
    )


def lay_pattern(pattern: kernels.Pattern, chunk: Ints, row_of_chunk: Ints) -> Sends:
    """The transfers of each chunk, as its row of the pattern has them, one chunk after another."""
    rows = np.arange(len(pattern.link))
    first, taken = take_rows(pattern.first, rows, row_of_chunk)
    columns: list[Any] = [column[taken] for column in pattern[1:]]
    return Sends(np.repeat(chunk, np.diff(first)), *columns)
