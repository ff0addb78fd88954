"""From logical sends to timed transfers: routed over the links, repeated for all pieces, and timed by contention.

A transfer waits for the one that brings its chunk by the way the baseline intends, even where the chunk happens to pass
by earlier: a ring through a switch stays a ring. Links serve first come, first served.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from pccl._arrays import Bools, Indices, Ints
from pccl.algorithm import Algorithm, Provenance, Transfers
from pccl.algorithm.timing import times_of
from pccl.algorithm.timing_kernels import Inputs
from pccl.analysis.baselines import kernels
from pccl.analysis.baselines.routes import Paths, Router, offsets, ranges
from pccl.analysis.queues import first_come_starts
from pccl.collective import Collective, Conditions
from pccl.errors import InfeasibleError, PcclError
from pccl.network import LONGEST, network, unloaded_times
from pccl.topology import Topology

__all__ = ["Plan", "Task", "Trees", "UnsupportedError", "lay_trees", "lay_walks", "tasks", "timed"]


class UnsupportedError(PcclError):
    """A baseline cannot do this; `reason` says why, in words that follow its name."""

    def __init__(self, reason: str, name: str = "") -> None:
        super().__init__(f"the baseline {name!r} {reason}" if name else reason)
        self.reason = reason


@dataclass(frozen=True)
class Task:
    """One collective on a topology: the devices of its group, and its conditions."""

    topology: Topology
    collective: Collective
    members: Ints
    conditions: Conditions

    @property
    def size(self) -> int:
        """Bytes of the largest chunk, for which routes are chosen."""
        return int(self.conditions.bytes.max(initial=1))

    @cached_property
    def router(self) -> Router:
        """Routes to the members of the group."""
        return Router.to(self.topology, self.size, self.members)

    @cached_property
    def times(self) -> Ints:
        """From member to member without traffic; very long, but not infinitely, where there is no way."""
        net = network(self.topology, np.array([self.size]))
        times = unloaded_times(net, self.members, np.zeros(len(self.members), np.int64))[
            :, self.members
        ]
        return np.minimum(times, LONGEST // net.unit // len(self.members)) * net.unit

    @cached_property
    def by_piece(self) -> Ints:
        """All chunks, the first piece of every share before the second of any."""
        return np.argsort(self.conditions.piece, kind="stable")


@dataclass(frozen=True)
class Plan:
    """Transfers in columns; `newest` and `previous` say what each waits for, as the simulator's `Inputs` does."""

    chunk: Ints
    link: Indices
    newest: Ints
    previous: Ints
    reduce: Bools

    @classmethod
    def join(cls, plans: Sequence[Plan], chunks: Sequence[int]) -> Plan:
        """The plans of several collectives, which have so many chunks each."""
        rows, before = (
            offsets(np.array([len(plan.chunk) for plan in plans])),
            offsets(np.array(chunks)),
        )
        columns = {f.name: [getattr(plan, f.name) for plan in plans] for f in fields(cls)}
        columns["chunk"] = [
            column + by for column, by in zip(columns["chunk"], before[:-1], strict=True)
        ]
        for name in ("newest", "previous"):
            columns[name] = [
                _shifted(column, by) for column, by in zip(columns[name], rows[:-1], strict=True)
            ]
        return cls(**{name: np.concatenate(parts) for name, parts in columns.items()})


@dataclass(frozen=True)
class Trees:
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


def tasks(topology: Topology, collectives: Sequence[Collective]) -> list[Task]:
    """Every collective with what its baseline needs to know."""
    members = [
        topology.npus if c.group is None else np.array(c.ranks, np.int64) for c in collectives
    ]
    return [
        Task(topology, c, m, c.conditions(topology))
        for c, m in zip(collectives, members, strict=True)
    ]


# --- layouts ---------------------------------------------------------------------------------------------------------


def lay_walks(task: Task, walk: Ints, src: Ints, dst: Ints, chunk: Ints, of_chunk: Ints) -> Plan:
    """Chunks that go from device to device: row by row, walk by walk; `of_chunk` says which walk each chunk takes."""
    paths, path = task.router.paths(src, dst)
    link = paths.link[ranges(paths.first[path], paths.length[path])]
    length = np.bincount(walk, paths.length[path], int(of_chunk.max(initial=-1)) + 1).astype(
        np.int64
    )
    newest = np.arange(-1, len(link) - 1)
    newest[offsets(length)[:-1][length > 0]] = -1
    none = np.full(len(link), -1, np.int64)
    rows = kernels.Rows(
        offsets(length), link.astype(np.int32), newest, none, np.zeros(len(link), np.bool_)
    )
    return _repeated(rows, chunk, of_chunk)


def lay_trees(
    task: Task, up: Trees | None, down: Trees | None, chunk: Ints, of_chunk: Ints
) -> Plan:
    """Chunks that are added up along one tree, or spread down another, or both; `of_chunk` says which row is theirs.

    A sum goes along the routes of its tree as it is. Where that cannot be, because different partial sums would pass
    through one device (which holds one sum of a chunk, and adds its own contribution), the routes are cut down to a
    tree of links, along which every device adds up what comes in and sends it on once.
    """
    topology, count = (
        task.topology,
        max(len(trees.parent) for trees in (up, down) if trees is not None),
    )
    (paths_up, table_up), (paths_down, table_down) = (
        _routed(task, up, True, count),
        _routed(task, down, False, count),
    )
    table_down = table_down._replace(path=table_down.path + len(paths_up.length))
    paths = Paths(
        offsets(np.append(paths_up.length, paths_down.length)),
        np.append(paths_up.link, paths_down.link),
    )
    most = sum(
        int(paths.length[table.path[table.parent >= 0]].sum()) for table in (table_up, table_down)
    )
    contributes = np.zeros(topology.num_devices, np.bool_)
    contributes[task.members] = True
    token, last, chosen = np.empty((3, topology.num_devices), np.int64)
    layout = kernels.Layout(
        task.members, paths.first, paths.link, topology.src, topology.dst, contributes, token, last,
        np.zeros_like(contributes), chosen,
    )  # fmt: skip
    newest, previous = np.empty((2, most), np.int64)
    rows = kernels.Rows(
        np.zeros(count + 1, np.int64),
        np.empty(most, np.int32),
        newest,
        previous,
        np.empty(most, np.bool_),
    )
    kernels.lay_trees(table_up, table_down, layout, rows)
    return _repeated(rows, chunk, of_chunk)


def _routed(
    task: Task, trees: Trees | None, inward: bool, count: int
) -> tuple[Paths, kernels.TreeTable]:
    """The paths of some trees, and their table as the kernel wants it."""
    if trees is None:
        none = np.empty((count, 0), np.int64)
        return Paths(np.zeros(1, np.int64), np.empty(0, np.int64)), kernels.TreeTable(
            none, none, none
        )
    order = np.argsort(trees.step, axis=1, kind="stable")
    path, paths = trees.path, trees.paths
    if path is None or paths is None:
        child, parent = (
            np.broadcast_to(task.members, trees.parent.shape),
            task.members[trees.parent],
        )
        parent = np.where(trees.parent >= 0, parent, child)
        ends = (child, parent) if inward else (parent, child)
        paths, of_pair = task.router.paths(*(end.ravel() for end in ends))
        path = of_pair.reshape(trees.parent.shape)
    return paths, kernels.TreeTable(order, np.ascontiguousarray(trees.parent), path)


def _repeated(rows: kernels.Rows, chunk: Ints, of_chunk: Ints) -> Plan:
    """The rows of each chunk, one chunk after another."""
    width = np.diff(rows.first)[of_chunk]
    first = offsets(width)
    index = ranges(rows.first[of_chunk], width)
    shift = np.repeat(first[:-1] - rows.first[of_chunk], width)
    return Plan(
        np.repeat(chunk, width), rows.link[index], _shifted(rows.newest[index], shift),
        _shifted(rows.previous[index], shift), rows.reduce[index],
    )  # fmt: skip


def _shifted(rows: Ints, by: Ints) -> Ints:
    return np.where(rows >= 0, rows + by, -1)


# --- times -----------------------------------------------------------------------------------------------------------


def timed(
    topology: Topology,
    collectives: Sequence[Collective],
    conditions: Conditions,
    plan: Plan,
    name: str,
) -> Algorithm:
    """The plan as an algorithm, each link serving first come, first served."""
    network(topology, conditions.sizes[0])  # refuses what takes too long
    # What can be sent at once is served in the order of the plan.
    order = np.arange(len(plan.chunk))
    transfers = Transfers(
        topology, conditions, plan.chunk.astype(np.int32), plan.link, order, plan.reduce
    )
    times = times_of(transfers, topology, transfers.transmission)
    if (
        float(times.travel.sum(dtype=np.float64)) > LONGEST
    ):  # one after another, as they are at worst
        raise InfeasibleError(
            f"{len(order)} transfers may take longer than two weeks on {topology.name}"
        )
    start = first_come_starts(transfers, topology, times, Inputs(plan.newest, plan.previous))
    return Algorithm.build(
        topology, collectives, plan.chunk, plan.link, start, plan.reduce, conditions=conditions,
        provenance=Provenance(f"baseline {name}, timed by fifo"),
    )  # fmt: skip
