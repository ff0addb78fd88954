"""Placing tasks one after another: search, keep what is useful, take it out of the time-expanded network."""

from __future__ import annotations

import numpy as np

from pccl._kernels import kernel
from pccl.network.calendar_kernels import Lanes, Stores, full, occupy, stay
from pccl.network.graph_kernels import Network
from pccl.synthesis.kernels.guided import Guide, grow, raise_prices
from pccl.synthesis.kernels.search import keep_useful, respect_limits, search, stay_of
from pccl.synthesis.kernels.tables import (
    ARRIVAL,
    DONE,
    LANE_FULL,
    OUTPUT_FULL,
    PAUSED,
    SLOT,
    START,
    STORE_FULL,
    STUCK,
    Output,
    Tasks,
    Work,
)  # fmt: skip


@kernel
def commit(
    net: Network,
    lanes: Lanes,
    stores: Stores,
    tasks: Tasks,
    work: Work,
    out: Output,
    task: int,
    size: int,
) -> None:
    """Take the links of the tree out of the TEN and write its transfers down."""
    chunk_size, row = tasks.size[task], out.count[0]
    end = out.count[1]
    for i in range(size):
        arc = work.tree[i]
        receiver, kind = net.dst[arc], net.kind[arc]
        start, hold = work.label[receiver, START], net.hold[chunk_size, kind]
        occupy(lanes, net.lane[arc], work.label[receiver, SLOT], start, start + hold)
        out.arc[row + i], out.start[row + i] = arc, start
        end = max(end, work.label[receiver, ARRIVAL])
        if net.limited and net.store[receiver] >= 0:
            since, until = stay_of(net, work, arc, chunk_size)
            stay(stores, net.store[receiver], since, until)
    out.count[0], out.count[1] = row + size, end
    out.first[task + 1] = row + size


@kernel
def room(net: Network, lanes: Lanes, stores: Stores, work: Work, out: Output, size: int) -> int:
    """Whether everything the tree needs fits the arrays; the status to return to Python if not."""
    if out.count[0] + size > len(out.arc):
        return OUTPUT_FULL
    for i in range(size):
        arc = work.tree[i]
        if full(lanes, net.lane[arc], work.label[net.dst[arc], START]):
            return LANE_FULL
        store = net.store[net.dst[arc]] if net.limited else np.int64(-1)
        if store >= 0 and stores.count[store] + 2 >= stores.moment.shape[1]:
            return STORE_FULL
    return DONE


@kernel
def place(
    net: Network,
    lanes: Lanes,
    stores: Stores,
    tasks: Tasks,
    work: Work,
    guide: Guide,
    out: Output,
    begin: int,
    budget: int,
) -> tuple[int, int]:
    """Place tasks from `begin` on until done, out of room, or past the budget of relaxations.

    Returns the first task that is not placed yet, and why it stopped.
    """
    limit = work.search[1] + budget
    for task in range(begin, len(tasks.source)):
        if work.search[1] > limit:
            return task, PAUSED
        if net.limited:
            work.not_before[:] = 0
        tries, looked = 0, work.search[1]
        while True:
            work.search[0] += 1
            ident = work.search[0]
            if guide.on:
                missing = grow(net, lanes, stores, tasks, work, guide, task, ident)
            else:
                missing = search(net, lanes, stores, tasks, work, task, ident)
            if missing > 0:
                return task, STUCK
            size = keep_useful(net, tasks, work, task, ident)
            if not net.limited or respect_limits(
                net, lanes, stores, tasks, work, task, size, tries
            ):
                break
            tries += 1
        status = room(net, lanes, stores, work, out, size)
        if (
            status != DONE
        ):  # the task is searched for again, and counts once, however long arrays are
            work.search[1] = looked
            return task, status
        commit(net, lanes, stores, tasks, work, out, task, size)
        if guide.on:
            raise_prices(net, guide, work, tasks.size[task], size)
    return len(tasks.source), DONE
