"""Starting transfers anew, as early as the planned order lets them.

A transfer waits for what is planned to be at its sender when it starts, and for its link, which serves in the planned
order. Where switches have limits it also waits

- for a place in a finite buffer: places are handed on from stay to stay in the planned order, so that a switch never
  holds more chunks than it has places;
- for the beginning of every sending of an earlier stay of the same chunk, so that stays remain what they are: all
  transfers of a stay then still come before those of the next, the last of them being one that sends.

A plan that keeps the limits keeps all these waits, so on its own network nothing starts later than planned, and nothing
waits forever; what keeps the waits keeps the limits, so the result is as correct as the plan. In a slower world a plan
may prove impossible: two full switches can swap chunks only if each has sent its own before that of the other arrives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Indices, Ints, offsets_by_owner, stable_order
from pccl.algorithm import timing_kernels as kernels
from pccl.algorithm.core import Transfers
from pccl.algorithm.stays import Stays, find_stays
from pccl.algorithm.timing_kernels import Inputs, Waits
from pccl.errors import InfeasibleError, InternalError, VerificationError
from pccl.topology import Topology
from pccl.topology.parts import UNLIMITED
from pccl.units import Picoseconds

# Who is waited for, who waits, and how long after the moment of the former that of the latter may be.
Edges = tuple[Ints, Ints, Ints]


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
    hold = transmission + world.overhead[transfers.link]
    return Times(hold, transmission, transmission + latency)


def planned_starts(transfers: Transfers, world: Topology, times: Times) -> Ints:
    """When transfers start in that world, in the planned order and as early as that lets them."""
    inputs = find_inputs(transfers, world)
    if world.limited:
        return _within_limits(transfers, world, times, inputs)
    # Every transfer takes some time, so what one waits for started before it and is served before it.
    order = np.lexsort((transfers.link, transfers.start))
    start = np.zeros(len(order), np.int64)
    arrival = np.zeros(len(order), np.int64)
    free = np.zeros(world.num_links, np.int64)
    kernels.serve_as_planned(
        order, transfers.link, inputs, times.hold, times.travel, free, start, arrival
    )
    return start


def move_up(transfers: Transfers) -> Transfers:
    """Start everything as early as the planned order lets it; the order that comes of it may let it start earlier yet.

    So this goes on until nothing moves any more: then the plan is what comes of playing it. Nothing ever gets later.
    """
    topology = transfers.topology
    # Starts are whole, never negative, and only get smaller: so this ends.
    while True:
        t = transfers
        start = planned_starts(t, topology, times_of(t, topology, t.transmission))
        if np.array_equal(start, t.start):
            return transfers
        if np.any(start > t.start):
            raise InternalError("transfers that are moved up get later")
        transfers = t.timed(start)


def find_inputs(transfers: Transfers, world: Topology) -> Inputs:
    """What is planned to be at the sender of each transfer when it starts."""
    t = transfers
    sums = t.conditions.reduces
    first = offsets_by_owner(t.chunk, len(sums))
    by_arrival = np.lexsort((t.arrival, t.chunk))
    # A switch with a finite buffer forgets what it has sent on.
    forgets = world.buffer != UNLIMITED
    newest_at = np.full(world.num_devices, -1, np.int64)
    chunk_at = np.full(world.num_devices, -1, np.int64)
    inputs = Inputs(np.full(len(t), -1, np.int64), np.full(len(t), -1, np.int64))
    passing = t.comes_to_pass if len(t.follows) else np.empty(0, np.bool_)
    kernels.find_inputs(
        first, by_arrival, t.src, t.dst, t.start, t.arrival, sums, forgets, ~t.topology.multicast,
        t.follows, passing, newest_at, chunk_at, inputs,
    )  # fmt: skip
    _check_senders(t, np.flatnonzero(inputs.newest < 0))
    return inputs


def _check_senders(transfers: Transfers, rows: Ints) -> None:
    """Raise unless the transfers of these rows, which wait for nothing, start where their chunk does."""
    t = transfers
    c = transfers.conditions
    # The usual case first: the sender is the only source, or the first of several.
    rows = rows[c.source_ids[c.source_offsets[t.chunk[rows]]] != t.src[rows]]
    if not len(rows):
        return
    devices = t.topology.num_devices
    owner = np.repeat(np.arange(len(c)), np.diff(c.source_offsets))
    sent = t.chunk[rows].astype(np.int64) * devices + t.src[rows]
    known = np.isin(sent, owner * devices + c.source_ids)
    if not np.all(known):
        i = int(rows[np.argmin(known)])
        sender = t.topology.device_text(int(t.src[i]))
        raise VerificationError(
            f"transfer {i}: {sender} is not planned to have chunk {t.chunk[i]} at {Picoseconds(t.start[i])}; "
            "verify the algorithm"
        )


def find_followers(inputs: Inputs) -> tuple[Ints, Ints, Ints]:
    """Who waits for transfer i, followers[first[i]:first[i + 1]], and for how many each one waits."""
    count = len(inputs.newest)
    first = np.zeros(count + 2, np.int64)
    missing = np.zeros(count, np.int64)
    kernels.list_followers(inputs, first, np.empty(0, np.int64), missing)
    np.cumsum(first, out=first)
    followers = np.empty(first[-1], np.int64)
    if len(followers):
        kernels.list_followers(inputs, first, followers, missing)
    return first[:-1], followers, missing


def _within_limits(transfers: Transfers, world: Topology, times: Times, inputs: Inputs) -> Ints:
    """The same where switches have limits: everything waits for whatever comes before it, and lags behind it."""
    count = len(transfers)
    stays = find_stays(transfers, world)
    first, fed, _ = find_followers(inputs)
    feeding = np.repeat(np.arange(count), np.diff(first))
    by_link = np.lexsort((transfers.start, transfers.link))
    held, next_held = _neighbours(by_link, transfers.link)
    # An edge says that the moment of one node is at least that of another plus a lag. All waits are of this form, so
    # the earliest moments are the longest ways through them.
    edges = [
        (feeding, fed, times.travel[feeding]),
        (held, next_held, times.hold[held]),
        *_stay_edges(stays, world, times, count),
    ]
    before, after, lag = (np.concatenate(column) for column in zip(*edges, strict=True))
    # Transfers come first, whose moment is their start; then stays, whose moment is their end.
    nodes = count + len(stays)
    order = stable_order(before.astype(np.int32), nodes)
    waits = Waits(offsets_by_owner(before, nodes), after[order], lag[order])
    missing = np.bincount(after, minlength=nodes)
    moment = np.zeros(nodes, np.int64)
    scratch = np.zeros(nodes, np.int64)
    if kernels.settle(waits, missing, moment, scratch) < nodes:
        cause = np.empty(nodes, np.int64)
        blocked = int(kernels.relax(waits, missing, moment, cause, scratch))
        if blocked >= 0:
            switch = _on_the_way_round(cause, blocked, transfers, stays)
            raise InfeasibleError(
                f"in the planned order, the chunks block each other in {world.device_text(switch)}: transfers take "
                "longer, or its limits are tighter, than the plan was made for; try the discipline fifo, or a larger "
                "buffer"
            )
    return moment[:count]


def _on_the_way_round(cause: Ints, blocked: int, transfers: Transfers, stays: Stays) -> int:
    """A switch on the way from a node that waits for itself back to it."""
    count = len(transfers)
    node = blocked
    for _ in range(len(cause)):
        if node >= count:
            break
        node = int(cause[node])
        if node == blocked:
            break
    return int(transfers.dst[node] if node < count else stays.switch[node - count])


def _stay_edges(stays: Stays, world: Topology, times: Times, count: int) -> list[Edges]:
    """A stay ends with its last transfer; then the chunk that takes its place may begin to come in."""
    into, in_stay = stays.into
    out, out_stay = stays.out
    # Each takes the place that is planned to be free first; if the plan keeps within the buffer, that is so by then.
    leavers = np.empty(len(stays), np.int64)
    queue = np.empty(len(stays), np.int64)
    kernels.take_places(stays.switch, stays.until, world.buffer, queue, leavers)
    leaver = leavers[in_stay]
    waiting = leaver >= 0
    newcomer = into[waiting]
    # Of several that bring a chunk, the first is written last.
    first_in = np.empty(len(stays), np.int64)
    first_in[in_stay[::-1]] = into[::-1]
    again = stays.next[out_stay] >= 0
    comes_back = first_in[stays.next[out_stay[again]]]
    return [
        (into, count + in_stay, times.travel[into]),
        (out, count + out_stay, times.transmission[out]),
        # The first byte, a latency after the start, needs the place.
        (count + leaver[waiting], newcomer, -times.latency[newcomer]),
        (out[again], comes_back, -times.latency[comes_back]),
    ]


def _neighbours(order: Ints, *keys: Indices) -> tuple[Ints, Ints]:
    """Pairs that follow each other in the order and agree in all keys."""
    pairs = np.stack([order[:-1], order[1:]])
    for key in keys:
        pairs = pairs[:, key[pairs[0]] == key[pairs[1]]]
    return pairs[0], pairs[1]
