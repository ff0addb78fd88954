"""Starting transfers anew, as early as the planned order lets them.

A transfer waits for what is planned to be at its sender when it starts, and for its link, which serves in the planned
order. Where switches have limits it also waits

- for a place in a finite buffer: places are handed on from stay to stay in the planned order, so that a switch never
  holds more chunks than it has places;
- for the sending of the same chunk that is planned before it, from a switch that sends over one link at a time;
  and likewise for the partial sum that is planned to come in before it;
- for the beginning of every sending of an earlier stay of the same chunk, so that stays remain what they are: all
  transfers of a stay then still come before those of the next, the last of them being one that sends.

A plan that keeps the limits keeps all these waits, so on its own network nothing starts later than planned, and nothing
waits forever; what keeps the waits keeps the limits, so the result is as correct as the plan. In a slower world a plan
may prove impossible: two full switches can swap chunks only if each has sent its own before that of the other arrives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Indices, Ints, offsets_of, stable_order
from pccl.algorithm import timing_kernels as kernels
from pccl.algorithm.core import Transfers
from pccl.algorithm.stays import Stays, find_stays
from pccl.algorithm.timing_kernels import Inputs, Waits
from pccl.errors import InfeasibleError, VerificationError
from pccl.topology import Topology
from pccl.topology.core import UNLIMITED
from pccl.units import Picoseconds

__all__ = ["Times", "find_followers", "find_inputs", "move_up", "planned_starts", "times_of"]


class Times(NamedTuple):
    """Per transfer: how long it holds its link, from first byte to last, and until all of it has arrived."""

    hold: Ints
    transmission: Ints
    travel: Ints

    @property
    def latency(self) -> Ints:
        """How long the first byte takes."""
        return self.travel - self.transmission


def times_of(transfers: Transfers, world: Topology, transmission: Ints) -> Times:
    """What transfers take in a world where their transmissions take so long."""
    latency = world.latency[transfers.link]
    hold = transmission + world.held_latency[transfers.link]
    return Times(hold, transmission, transmission + latency)


def planned_starts(transfers: Transfers, world: Topology, times: Times) -> Ints:
    """When transfers start in that world, in the planned order and as early as that lets them."""
    inputs = find_inputs(transfers, world)
    if world.limited:
        return _within_limits(transfers, world, times, inputs)
    order = np.lexsort((transfers.link, transfers.start))
    start, arrival = np.zeros((2, len(order)), np.int64)
    free = np.zeros(world.num_links, np.int64)
    kernels.serve_as_planned(
        order, transfers.link, inputs, times.hold, times.travel, free, start, arrival
    )
    return start


def move_up(transfers: Transfers) -> Transfers:
    """Start everything as early as the planned order lets it; the order that comes of it may let it start earlier yet.

    So this goes on until nothing moves any more: then the plan is what comes of playing it. Nothing ever gets later.
    """
    topology, conditions = transfers.topology, transfers.conditions
    while True:
        t = transfers
        start = planned_starts(t, topology, times_of(t, topology, t.transmission))
        if np.array_equal(start, t.start):
            return transfers
        transfers = Transfers.of(topology, conditions, t.chunk, t.link, start, t.reduce)


def find_inputs(transfers: Transfers, world: Topology) -> Inputs:
    """What is planned to be at the sender of each transfer when it starts."""
    t, conditions = transfers, transfers.conditions
    first = offsets_of(np.bincount(t.chunk, minlength=len(conditions)))
    newest_at, chunk_at = np.full((2, world.num_devices), -1, np.int64)
    inputs = Inputs(np.full(len(t), -1, np.int64), np.full(len(t), -1, np.int64))
    arrival = t.arrival
    by_arrival = np.lexsort((arrival, t.chunk))
    kernels.find_inputs(
        first, by_arrival, t.src, t.dst, t.start, arrival, conditions.reduces, world.buffer != UNLIMITED,
        newest_at, chunk_at, inputs,
    )  # fmt: skip
    _check_senders(t, np.flatnonzero(inputs.newest < 0))
    return inputs


def _check_senders(transfers: Transfers, rows: Ints) -> None:
    """Transfers that wait for nothing must start where their chunk does."""
    conditions, devices = transfers.conditions, np.int64(transfers.topology.num_devices)
    chunk, src = transfers.chunk[rows], transfers.src[rows]
    rows = rows[conditions.source_ids[conditions.source_offsets[chunk]] != src]
    if not len(rows):
        return
    owner = np.repeat(np.arange(len(conditions)), np.diff(conditions.source_offsets))
    known = np.isin(
        transfers.chunk[rows] * devices + transfers.src[rows],
        owner * devices + conditions.source_ids,
    )
    if not np.all(known):
        i = int(rows[np.argmin(known)])
        sender, when = (
            transfers.topology.device_text(int(transfers.src[i])),
            Picoseconds(transfers.start[i]),
        )
        raise VerificationError(
            f"transfer {i}: {sender} is not planned to have chunk {transfers.chunk[i]} at {when}; verify the algorithm"
        )


def find_followers(inputs: Inputs) -> tuple[Ints, Ints, Ints]:
    """Who waits for transfer i, followers[first[i]:first[i + 1]], and for how many each one waits."""
    count = len(inputs.newest)
    first, missing = np.zeros(count + 2, np.int64), np.zeros(count, np.int64)
    kernels.list_followers(inputs, first, np.empty(0, np.int64), missing)
    np.cumsum(first, out=first)
    followers = np.empty(first[-1], np.int64)
    if len(followers):
        kernels.list_followers(inputs, first, followers, missing)
    return first[:-1], followers, missing


def _within_limits(transfers: Transfers, world: Topology, times: Times, inputs: Inputs) -> Ints:
    stays, count = find_stays(transfers, world), len(transfers)
    edges = [
        _input_edges(inputs, times),
        _link_edges(transfers, times),
        *_one_way_edges(transfers, world, times),
        *_stay_edges(stays, world, times, count),
    ]
    before, after, lag = (np.concatenate(column) for column in zip(*edges, strict=True))
    nodes = count + len(stays)  # the moment of a stay is its end
    order = stable_order(before.astype(np.int32), nodes)
    first = offsets_of(np.bincount(before, minlength=nodes))
    waits, missing = Waits(first, after[order], lag[order]), np.bincount(after, minlength=nodes)
    moment, scratch = np.zeros((2, nodes), np.int64)
    if kernels.settle(waits, missing, moment, scratch) < nodes:
        cause = np.empty(nodes, np.int64)
        blocked = kernels.relax(waits, missing, moment, cause, scratch)
        if blocked >= 0:
            raise InfeasibleError(_explain_blocked(transfers, world, stays, cause, int(blocked)))
    return moment[:count]


Edges = tuple[Ints, Ints, Ints]


def _input_edges(inputs: Inputs, times: Times) -> Edges:
    first, followers, _ = find_followers(inputs)
    before = np.repeat(np.arange(len(first) - 1), np.diff(first))
    return before, followers, times.travel[before]


def _link_edges(transfers: Transfers, times: Times) -> Edges:
    order = np.lexsort((transfers.start, transfers.link))
    before, after = _neighbours(order, transfers.link)
    return before, after, times.hold[before]


def _one_way_edges(transfers: Transfers, world: Topology, times: Times) -> list[Edges]:
    """Switches without multicast send a chunk to one receiver after another, and take in partial sums likewise."""
    t, one_way = transfers, ~world.multicast
    sends, takes = np.flatnonzero(one_way[t.src]), np.flatnonzero(one_way[t.dst] & t.reduce)
    sends = sends[np.lexsort((t.start[sends], t.chunk[sends], t.src[sends]))]
    begin = (t.arrival - t.transmission)[takes]
    takes = takes[np.lexsort((begin, t.chunk[takes], t.dst[takes]))]
    one, other = _neighbours(sends, t.src, t.chunk)
    first, second = _neighbours(takes, t.dst, t.chunk)
    return [
        (one, other, times.transmission[one]),
        (first, second, times.travel[first] - times.latency[second]),
    ]


def _stay_edges(stays: Stays, world: Topology, times: Times, count: int) -> list[Edges]:
    """A stay ends with its last transfer; then the chunk that takes its place may begin to come in."""
    (into, in_stay), (out, out_stay), latency = stays.into, stays.out, times.latency
    leaver = stays.leavers(world.buffer)
    waiting = leaver[in_stay] >= 0
    again = stays.next[out_stay] >= 0
    comes_back = stays.first_in[stays.next[out_stay[again]]]
    return [
        (into, count + in_stay, times.travel[into]),
        (out, count + out_stay, times.transmission[out]),
        (count + leaver[in_stay[waiting]], into[waiting], -latency[into[waiting]]),
        (out[again], comes_back, -latency[comes_back]),
    ]


def _neighbours(order: Ints, *keys: Indices) -> tuple[Ints, Ints]:
    """Pairs that follow each other in the order and agree in all keys."""
    before, after = order[:-1], order[1:]
    same = np.ones(len(before), np.bool_)
    for key in keys:
        same &= key[before] == key[after]
    return before[same], after[same]


def _explain_blocked(
    transfers: Transfers, world: Topology, stays: Stays, cause: Ints, blocked: int
) -> str:
    circle, node = [blocked], int(cause[blocked])
    while node != blocked:
        circle.append(node)
        node = int(cause[node])
    count = len(transfers)
    switches = [int(stays.switch[node - count]) for node in circle if node >= count]
    switch = switches[0] if switches else int(transfers.dst[blocked])
    return (
        f"in the planned order, the chunks block each other in {world.device_text(switch)}: transfers take longer, or "
        "its limits are tighter, than the plan was made for; try the discipline fifo, or a larger buffer"
    )
