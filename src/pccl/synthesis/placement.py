"""Placing jobs on the TEN, in slices, so that progress shows and Ctrl-C works; and turning reductions round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pccl.errors import InternalError
from pccl.synthesis import kernels
from pccl.synthesis.jobs import Jobs
from pccl.synthesis.kernels import Moves, Network, Output, Work
from pccl.synthesis.ten import Ten, network
from pccl.topology import Topology

__all__ = ["Placed", "Progress", "place", "turn_round"]

Ints = NDArray[np.int64]
Progress: TypeAlias = Callable[[int], None]
SLICE = 500_000  # relaxations between two looks at the world outside, about 50 ms


@dataclass(frozen=True)
class Placed:
    """Transfers of jobs, job by job in the order of placement; times are in units."""

    job: Ints  # rows of the jobs
    first: Ints  # transfers of the i-th of them are first[i] .. first[i + 1] - 1
    arc: NDArray[np.int32]
    start: Ints
    end: int  # when the last of them arrives
    held: int  # for how long they hold links, in all

    def __len__(self) -> int:
        return len(self.arc)


def place(
    jobs: Jobs, net: Network, ten: Ten, order: str, minimal: bool, release: Ints, seed: int, progress: Progress
) -> Placed:
    """Find a tree of links for every job, one after another; the TEN then has them taken out."""
    permutation, tasks = jobs.in_order(order, minimal, release, seed)
    # Chunks with one destination take about as many links as their distance has typical hops.
    hops = int(jobs.distance[jobs.row > 0].sum() / max(net.travel.mean(), 1) * 1.02) if jobs.any_single else 0
    out = _output(len(jobs), hops + len(jobs.destination) + len(net.first))
    work = _work(net)
    task, status = 0, kernels.PAUSED
    while status != kernels.DONE:
        reached, status = kernels.place(net, ten.lanes, ten.stores, tasks, work, out, task, SLICE)
        progress(reached - task)
        task = reached
        if status == kernels.OUTPUT_FULL:
            out = _grown(out, task)
        elif status == kernels.LANE_FULL:
            ten.grow_lanes()
        elif status == kernels.STORE_FULL:
            ten.grow_stores()
    count, end, held = out.count.tolist()
    return Placed(permutation, out.first, out.arc[:count], out.start[:count], end, held)


def turn_round(topology: Topology, jobs: Jobs, mirrored: Placed, ten: Ten) -> tuple[Placed, Ints, Ten]:
    """Play mirrored jobs backwards: the reductions, when each of them is complete, and the TEN they leave.

    Backwards, everything happens as late as it can; so unless switches have limits, transfers then move up again.
    """
    net, mirror = network(topology, jobs.sizes), network(jobs.topology, jobs.sizes)
    arc_of_link = np.empty(topology.num_links, np.int64)
    arc_of_link[net.link] = np.arange(topology.num_links)
    arc = arc_of_link[mirror.link[mirrored.arc]]
    size = np.repeat(jobs.size[mirrored.job], np.diff(mirrored.first))
    arrival = mirrored.end - mirrored.start
    start = arrival - net.travel[size, net.kind[arc]]
    complete = np.zeros(len(jobs), np.int64)
    if topology.limited:
        np.maximum.at(complete, np.repeat(mirrored.job, np.diff(mirrored.first)), arrival)
        ten = ten.reversed(mirrored.end, topology, net.unit)
    else:
        start, complete[mirrored.job], ten = _moved_up(topology, net, mirrored.first, arc, size, start)
        if complete.max(initial=0) > mirrored.end:
            raise InternalError("moving reductions up made them later")
    turned = replace(mirrored, arc=arc.astype(np.int32), start=start, end=int(complete.max(initial=0)))
    return turned, complete, ten


def _moved_up(
    topology: Topology, net: Network, first: Ints, arc: Ints, size: NDArray[np.int32], start: Ints
) -> tuple[Ints, Ints, Ten]:
    """Start reductions as early as links and inputs allow, in the order they have; also when each task is complete."""
    sender, receiver = np.empty((2, len(arc)), np.int64)
    kernels.tree_slots(net, first, arc, np.empty(topology.num_devices, np.int64), sender, receiver)
    order = np.argsort(start, kind="stable")
    moves = Moves(arc[order], size[order], sender[order], receiver[order], np.empty(len(arc), np.int64))
    ready = np.zeros(len(arc) + len(first) - 1, np.int64)
    ten, done = Ten.empty(topology, net), 0
    while (done := kernels.replay(net, ten.lanes, moves, ready, done)) < len(arc):
        ten.grow_lanes()
    earlier = np.empty(len(arc), np.int64)
    earlier[order] = moves.start
    return earlier, ready[len(arc) :], ten


def _output(jobs: int, capacity: int) -> Output:
    columns = np.empty(capacity, np.int32), np.empty(capacity, np.int64)
    return Output(np.zeros(3, np.int64), np.zeros(jobs + 1, np.int64), *columns)


def _grown(out: Output, task: int) -> Output:
    """Room for what the remaining tasks will need if they are like those placed so far, and then some."""
    count, jobs = int(out.count[0]), len(out.first) - 1
    wider = _output(jobs, max(count * 5 // 4, int(count / max(task, 1) * jobs * 1.02)) + 1000)
    wider.count[:], wider.first[:] = out.count, out.first
    wider.arc[:count], wider.start[:count] = out.arc[:count], out.start[:count]
    return wider


def _work(net: Network) -> Work:
    devices, arcs = len(net.first) - 1, len(net.dst)
    state, wanted, in_tree, not_before, port = np.zeros((5, devices), np.int64)
    label, heap = np.empty((devices, 4), np.int64), np.empty((arcs + 2, 3), np.int64)
    pending, tree = np.empty((devices, 2), np.int64), np.empty(devices, np.int64)
    return Work(state, label, wanted, in_tree, not_before, port, heap, pending, tree, np.zeros(2, np.int64))
