"""Placing jobs on the TEN, in slices, so that progress shows and Ctrl-C works; and turning reductions round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from pccl._arrays import Floats, Indices, Ints, compact
from pccl.errors import InternalError
from pccl.network import Network, Ten, arc_of_link
from pccl.synthesis import kernels
from pccl.synthesis.jobs import Jobs
from pccl.synthesis.kernels import Guide, Moves, Output, Work
from pccl.topology import Topology

__all__ = [
    "Part",
    "Placed",
    "Progress",
    "Wish",
    "move_up",
    "moves_of",
    "place",
    "turn_round",
    "work_for",
]

Progress: TypeAlias = Callable[[int], None]
DEAREST = 600.0  # the logarithm of the highest price
SLICE = 500_000  # relaxations between two looks at the world outside, about 50 ms


@dataclass(frozen=True)
class Placed:
    """Transfers of jobs, job by job in the order of placement; times are in units."""

    job: Ints  # rows of the jobs
    first: Ints  # transfers of the i-th of them are first[i] .. first[i + 1] - 1
    arc: Indices
    start: Ints
    end: int  # when the last of them arrives
    work: int = 0  # links looked at to find them

    def __len__(self) -> int:
        return len(self.arc)


class Part(NamedTuple):
    """Jobs, where they are placed, and whether they collect sums or spread chunks."""

    jobs: Jobs
    placed: Placed
    reduces: bool


@dataclass(frozen=True)
class Wish:
    """How jobs are to be placed.

    Prices grow with `steepness` and with what a link carries, relative to `scale`, in units of time; a way is scored by
    its price and `urgency` times its arrival. Without urgency, the arrival alone counts, which is the paper's method.
    """

    order: str | Ints
    minimal: bool
    seed: int
    steepness: float = 0.0
    urgency: float | None = None
    scale: int = 1


def place(
    jobs: Jobs, ten: Ten, wish: Wish, release: Ints, load: Floats, progress: Progress
) -> Placed:
    """Find a tree of links for every job, one after another; the TEN then has them taken out.

    `load` says how prices of links have grown so far (their logarithm), and is brought up to date.
    """
    net = jobs.net
    permutation, tasks = jobs.in_order(wish.order, wish.minimal, release, wish.seed)
    guide = _guide(net, wish, load)
    # Chunks with one destination take about as many links as their distance has typical hops.
    hops = (
        int(jobs.distance[jobs.row > 0].sum() / max(net.travel.mean(), 1) * 1.02)
        if jobs.any_single
        else 0
    )
    out = _output(len(jobs), hops + len(jobs.destination) + len(net.first))
    work = work_for(net)
    task, status = 0, kernels.PAUSED
    while status != kernels.DONE:
        reached, status = kernels.place(
            net, ten.lanes, ten.stores, tasks, work, guide, out, task, SLICE
        )
        progress(reached - task)
        task = reached
        if status == kernels.OUTPUT_FULL:
            out = _grown(out, task, jobs.topology.num_devices)
        elif status == kernels.LANE_FULL:
            ten.grow_lanes()
        elif status == kernels.STORE_FULL:
            ten.grow_stores()
        elif status == kernels.STUCK:
            raise InternalError(
                f"the search did not reach all destinations of chunk {jobs.chunk[permutation[task]]}"
            )
    load[net.link] = np.log(guide.price)
    count, end = out.count.tolist()
    return Placed(
        permutation, out.first, out.arc[:count], out.start[:count], end, int(work.search[1])
    )


def turn_round(
    topology: Topology, net: Network, jobs: Jobs, mirrored: Placed, ten: Ten, chunks: int
) -> tuple[Placed, Ints, Ten]:
    """Play mirrored jobs backwards: the reductions, when each chunk is complete, and the TEN they leave.

    Backwards, everything happens as late as it can; so transfers then move up again. Where switches have limits they do
    so in the end, all together: what is placed around them until then moves up with them.
    """
    arc = arc_of_link(net)[jobs.net.link[mirrored.arc]]
    job = np.repeat(mirrored.job, np.diff(mirrored.first))
    arrival = mirrored.end - mirrored.start
    turned = replace(mirrored, arc=arc, start=arrival - net.travel[jobs.size[job], net.kind[arc]])
    if topology.limited:
        complete = np.zeros(chunks, np.int64)
        np.maximum.at(complete, jobs.chunk[job], arrival)
        return turned, complete, ten.reversed(mirrored.end, topology, net.unit)
    (turned,), complete, ten = move_up(topology, net, [Part(jobs, turned, reduces=True)], chunks)
    return turned, complete, ten


def move_up(
    topology: Topology, net: Network, parts: Sequence[Part], chunks: int
) -> tuple[list[Placed], Ints, Ten]:
    """Start all transfers as early as their links and inputs allow, in the order they have.

    Returns them, when each chunk is ready at its root, and the TEN they leave. Nothing gets later: what comes before a
    transfer, on its link or as its input, has moved up as well.
    """
    columns = moves_of(topology, net, parts)
    order = np.argsort(compact(columns.start), kind="stable")
    arc, size, sender, receiver, start = columns
    moves = Moves(arc[order], size[order], sender[order], receiver[order], np.empty_like(start))
    ready = np.zeros(len(order) + chunks, np.int64)
    ten, done = Ten.empty(topology, net), 0
    while (done := kernels.replay(net, ten.lanes, moves, ready, done)) < len(order):
        ten.grow_lanes()
    start[order] = moves.start
    bounds = np.cumsum([0, *(len(part.placed) for part in parts)])
    end = int(ready.max(initial=0))
    moved = [
        replace(part.placed, start=start[low:high], end=end)
        for part, low, high in zip(parts, bounds[:-1], bounds[1:], strict=True)
    ]
    return moved, ready[len(order) :], ten


def moves_of(topology: Topology, net: Network, parts: Sequence[Part]) -> Moves:
    """All transfers of the parts, each between two slots."""
    total = sum(len(part.placed) for part in parts)
    moves = Moves(
        np.empty(total, np.int32), np.empty(total, np.int32), *np.empty((3, total), np.int64)
    )
    slot, low = np.empty(topology.num_devices, np.int64), 0
    for jobs, placed, reduces in parts:
        rows = slice(low, low + len(placed))
        moves.arc[rows], moves.start[rows] = placed.arc, placed.start
        moves.size[rows] = np.repeat(jobs.size[placed.job], np.diff(placed.first))
        kernels.number_slots(
            net, jobs.chunk[placed.job], placed.first, placed.arc, reduces, low, total, slot,
            moves.sender[rows], moves.receiver[rows],
        )  # fmt: skip
        low += len(placed)
    return moves


def _guide(net: Network, wish: Wish, load: Floats) -> Guide:
    devices, arcs = len(net.first) - 1, len(net.dst)
    price, urgency = np.exp(np.minimum(load[net.link], DEAREST)), wish.urgency or 0.0
    # No way is cheaper than holding its links at the least price there is.
    least = float((net.hold / net.travel).min(initial=1.0)) * float(price.min(initial=1.0))
    room = 2 * arcs + 2 * devices + 2
    return Guide(
        wish.urgency is not None, price, wish.steepness / max(wish.scale, 1), urgency, urgency + least,
        np.empty(devices), np.empty(devices), np.empty(room), np.empty(room, np.int64),
    )  # fmt: skip


def _output(jobs: int, capacity: int) -> Output:
    columns = np.empty(capacity, np.int32), np.empty(capacity, np.int64)
    return Output(np.zeros(2, np.int64), np.zeros(jobs + 1, np.int64), *columns)


def _grown(out: Output, task: int, devices: int) -> Output:
    """Room for what the remaining tasks will need if they are like those placed so far, and for any one of them."""
    count, jobs = int(out.count[0]), len(out.first) - 1
    forecast = int(count / max(task, 1) * jobs * 1.02)
    wider = _output(jobs, max(forecast, len(out.arc) * 5 // 4, count + devices))
    wider.count[:], wider.first[:] = out.count, out.first
    wider.arc[:count], wider.start[:count] = out.arc[:count], out.start[:count]
    return wider


def work_for(net: Network) -> Work:
    """Scratch space for searches on a network."""
    devices, arcs = len(net.first) - 1, len(net.dst)
    state, wanted, in_tree, not_before, port = np.zeros((5, devices), np.int64)
    label, heap = np.empty((devices, 4), np.int64), np.empty((arcs + 2, 3), np.int64)
    pending, tree = np.empty((devices, 2), np.int64), np.empty(devices, np.int64)
    return Work(
        state, label, wanted, in_tree, not_before, port, heap, pending, tree, np.zeros(2, np.int64)
    )
