"""Placing jobs on the TEN, in slices, so that progress shows and Ctrl-C works; and turning reductions round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pccl.errors import InternalError
from pccl.synthesis import kernels
from pccl.synthesis.jobs import Jobs
from pccl.synthesis.kernels import Moves, Network, Output, Tasks, Work
from pccl.synthesis.ten import Ten, network
from pccl.topology import Topology

__all__ = ["Placed", "Progress", "place", "turn_round"]

Ints = NDArray[np.int64]
Progress: TypeAlias = Callable[[int], None]
SLICE = 2_000_000  # relaxations between two looks at the world outside, about 50 ms


@dataclass(frozen=True)
class Placed:
    """Transfers of jobs, grouped by job."""

    job: Ints  # row of the jobs
    arc: NDArray[np.int32]
    start: Ints
    end: int  # when the last of them arrives


def place(jobs: Jobs, net: Network, ten: Ten, order: str, minimal: bool, release: Ints, seed: int,
          progress: Progress) -> Placed:  # fmt: skip
    """Find a tree of links for every job, one after another; the TEN then has them taken out."""
    permutation, tasks = jobs.in_order(order, minimal, release, seed)
    out = _output(int(jobs.distance.size + len(jobs.destination)) * 4)
    work = _work(net)
    task = 0
    while True:
        reached, status = kernels.place(net, ten.lanes, ten.stores, tasks, work, out, task, SLICE)
        progress(reached - task)
        task = reached
        if status == kernels.DONE:
            break
        if status == kernels.OUTPUT_FULL:
            out = _grown(out, tasks, task)
        elif status == kernels.LANE_FULL:
            ten.grow_lanes()
        elif status == kernels.STORE_FULL:
            ten.grow_stores()
    count = int(out.count[0])
    arc, start = out.arc[:count], out.start[:count]
    size = tasks.size[out.task[:count]]
    end = start + net.latency[arc] + net.durations[size, net.rate[arc]] if count else start
    return Placed(permutation[out.task[:count]], arc, start, int(end.max(initial=0)))


def turn_round(topology: Topology, jobs: Jobs, mirrored: Placed, ten: Ten) -> tuple[Placed, Ints, Ten]:
    """Play mirrored jobs backwards: the reductions, when each of them is complete, and the TEN they leave.

    Backwards, everything happens as late as it can; so unless switches have limits, transfers then move up again.
    """
    net = network(topology, jobs.sizes)
    arc_of_link = np.empty(topology.num_links, np.int64)
    arc_of_link[net.link] = np.arange(topology.num_links)
    mirror = network(jobs.topology, jobs.sizes)
    arc = arc_of_link[mirror.link[mirrored.arc]]
    size = jobs.size[mirrored.job]
    travel = net.latency[arc] + net.durations[size, net.rate[arc]]
    start = mirrored.end - (mirrored.start + travel)
    complete = np.zeros(len(jobs), np.int64)
    if topology.limited:
        np.maximum.at(complete, mirrored.job, start + travel)
        return (
            Placed(mirrored.job, arc.astype(np.int32), start, mirrored.end),
            complete,
            ten.reversed(mirrored.end, topology),
        )
    sender, receiver = np.empty(len(arc), np.int64), np.empty(len(arc), np.int64)
    slot = np.empty(topology.num_devices, np.int64)
    kernels.tree_slots(mirrored.job, net.dst[arc], net.src[arc], slot, sender, receiver)
    order = np.argsort(start, kind="stable")
    moves = Moves(arc[order], size[order], sender[order], receiver[order], start[order])
    ready = np.zeros(len(arc) + len(jobs), np.int64)
    ten = Ten.empty(topology, net)
    done = 0
    while (done := kernels.replay(net, ten.lanes, moves, ready, done)) < len(arc):
        ten.grow_lanes()
    complete = ready[len(arc) :]
    end = int(complete.max(initial=0))
    if end > mirrored.end:
        raise InternalError("moving reductions up made them later")
    return Placed(mirrored.job[order], moves.arc.astype(np.int32), moves.start, end), complete, ten


def _output(capacity: int) -> Output:
    columns = (np.empty(capacity, np.int32), np.empty(capacity, np.int32), np.empty(capacity, np.int64))
    return Output(np.zeros(1, np.int64), *columns)


def _grown(out: Output, tasks: Tasks, task: int) -> Output:
    """Room for what the remaining tasks will need if they are like those placed so far."""
    count = int(out.count[0])
    forecast = int(count / max(task, 1) * len(tasks.source) * 1.02)
    wider = _output(max(forecast, 2 * len(out.task)) if task < 1000 else max(forecast, count * 5 // 4))
    wider.count[0] = count
    for old, new in zip(out[1:], wider[1:], strict=True):
        new[:count] = old[:count]
    return wider


def _work(net: Network) -> Work:
    devices, arcs = len(net.first) - 1, len(net.dst)
    state, wanted, in_tree, not_before, port = np.zeros((5, devices), np.int64)
    label, heap = np.empty((devices, 4), np.int64), np.empty((arcs + 2, 4), np.int64)
    pending, tree = np.empty((devices, 2), np.int64), np.empty(devices, np.int64)
    return Work(state, label, wanted, in_tree, not_before, port, heap, pending, tree, np.zeros(2, np.int64))
