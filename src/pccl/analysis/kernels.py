"""Compiled loops of the simulator: transfers that are served first come, first served.

A transfer passes gates, one after another: the stay that it begins must have a place in the switch it goes to, then
come the ports of switches without multicast, and last its link; when it has them all, it starts. A gate lets one
transfer through at a time, and has a queue. No gate but a full buffer waits for anything except time, so nothing but
full buffers can block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Bools, Indices, Ints
from pccl._heap_kernels import pop, push
from pccl._kernels import kernel

__all__ = ["Gates", "Rooms", "Service", "serve_first_come"]


NONE = np.int64(-1)


class Service(NamedTuple):
    """Transfers under way, and what happens next."""

    hold: Ints
    transmission: Ints
    travel: Ints
    start: Ints
    heap: Ints  # [slot, (time, sequence, event)]
    events: Ints  # [0]: how many wait in the heap, [1]: how many there ever were


class Gates(NamedTuple):
    """Links, and behind them the ports of switches that handle a chunk over one link at a time."""

    of: Indices  # [transfer, (sending port, receiving port, link)]: or -1; the link alone if there are no ports
    busy: Bools
    first: Ints  # per gate: the head of its queue
    last: Ints
    following: Ints  # per transfer: the next in its queue


class Rooms(NamedTuple):
    """Finite buffers, and the stays that queue for a place in them."""

    begins: Indices  # per transfer: the stay that it brings a chunk for, or -1; empty without finite buffers
    leaves: Indices  # per transfer: the stay that it sends a chunk on from, or -1
    switch: Ints  # per stay
    left: Ints  # per stay: transfers that are not over
    previous: Ints  # per stay: that of the same chunk before, which must be over
    next: Ints
    wanted: Bools  # per stay: whether a transfer has asked for it
    granted: Bools
    first_transfer: Ints  # per stay: the first in the list of transfers that wait for it
    first: Ints  # per device: the head of its queue of stays
    last: Ints
    following: Ints  # per stay
    places: Ints  # per device: how many are free


@kernel
def serve_first_come(
    order: Ints,
    first: Ints,
    followers: Ints,
    missing: Ints,
    service: Service,
    gates: Gates,
    rooms: Rooms,
) -> int:
    """Serve all transfers as they become ready; events at the same time happen in the order of their causes.

    Events are arrivals, then for each transfer the moment when it is sent, then links that become free. Returns how
    many transfers have arrived: not all of them if full buffers block.
    """
    count, arrived = len(order), np.int64(0)
    for k in range(count):
        if missing[order[k]] == 0:
            enter(service, gates, rooms, order[k], 0)
    while service.events[0] > 0:
        service.events[0] = pop(service.heap, service.events[0])
        time, event = service.heap[service.events[0], 0], service.heap[service.events[0], 2]
        if event >= 2 * count:
            open_gate(service, gates, event - 2 * count, time)
            continue
        if event >= count:
            transfer = event - count
            if gates.of[transfer, 0] >= 0:
                open_gate(service, gates, gates.of[transfer, 0], time)
            if len(rooms.leaves) > 0 and rooms.leaves[transfer] >= 0:
                count_off(service, gates, rooms, rooms.leaves[transfer], time)
            continue
        arrived += 1
        if gates.of.shape[1] > 1 and gates.of[event, 1] >= 0:
            open_gate(service, gates, gates.of[event, 1], time)
        for k in range(first[event], first[event + 1]):
            missing[followers[k]] -= 1
            if missing[followers[k]] == 0:
                enter(service, gates, rooms, followers[k], time)
        if len(rooms.begins) > 0 and rooms.begins[event] >= 0:
            count_off(service, gates, rooms, rooms.begins[event], time)
    return arrived


@kernel
def enter(service: Service, gates: Gates, rooms: Rooms, transfer: int, time: int) -> None:
    """A transfer is ready: it goes to its gates, or waits for the stay that it begins to have a place."""
    stay = np.int64(rooms.begins[transfer]) if len(rooms.begins) > 0 else NONE
    if stay < 0 or rooms.granted[stay]:
        pass_gates(service, gates, transfer, 0, time)
        return
    gates.following[transfer] = rooms.first_transfer[stay]
    rooms.first_transfer[stay] = transfer
    if not rooms.wanted[stay]:
        rooms.wanted[stay] = True
        if rooms.previous[stay] < 0 or rooms.left[rooms.previous[stay]] == 0:
            ask(rooms, stay)
            grant(service, gates, rooms, rooms.switch[stay], time)


@kernel
def ask(rooms: Rooms, stay: int) -> None:
    """Put a stay at the end of the queue of its switch."""
    switch = rooms.switch[stay]
    rooms.following[stay] = NONE
    if rooms.first[switch] < 0:
        rooms.first[switch] = stay
    else:
        rooms.following[rooms.last[switch]] = stay
    rooms.last[switch] = stay


@kernel
def grant(service: Service, gates: Gates, rooms: Rooms, switch: int, time: int) -> None:
    """Give free places of a switch to the stays that asked first."""
    while rooms.places[switch] > 0 and rooms.first[switch] >= 0:
        stay = rooms.first[switch]
        rooms.first[switch] = rooms.following[stay]
        rooms.places[switch] -= 1
        rooms.granted[stay] = True
        transfer = rooms.first_transfer[stay]
        while transfer >= 0:
            after = gates.following[transfer]
            pass_gates(service, gates, transfer, 0, time)
            transfer = after


@kernel
def count_off(service: Service, gates: Gates, rooms: Rooms, stay: int, time: int) -> None:
    """One transfer less; with the last one the stay is over, and its place is free."""
    rooms.left[stay] -= 1
    if rooms.left[stay] == 0:
        rooms.places[rooms.switch[stay]] += 1
        again = rooms.next[stay]
        if again >= 0 and rooms.wanted[again]:
            ask(rooms, again)
        grant(service, gates, rooms, rooms.switch[stay], time)


@kernel
def pass_gates(service: Service, gates: Gates, transfer: int, begin: int, time: int) -> None:
    """Take gate after gate, from number `begin` on, until one is busy; behind the last one the transfer starts."""
    for k in range(begin, gates.of.shape[1]):
        gate = gates.of[transfer, k]
        if gate >= 0:
            if gates.busy[gate]:
                join(gates, gate, transfer)
                return
            gates.busy[gate] = True
    count = len(service.start)
    service.start[transfer] = time
    schedule(
        service,
        time + service.hold[transfer],
        2 * count + gates.of[transfer, gates.of.shape[1] - 1],
    )
    schedule(service, time + service.travel[transfer], transfer)
    if gates.of.shape[1] > 1:
        schedule(service, time + service.transmission[transfer], count + transfer)


@kernel
def schedule(service: Service, time: int, event: int) -> None:
    """Something will happen."""
    service.events[0] = push(service.heap, service.events[0], time, service.events[1], event)
    service.events[1] += 1


@kernel
def join(gates: Gates, gate: int, transfer: int) -> None:
    """Put a transfer at the end of the queue of a gate."""
    gates.following[transfer] = NONE
    if gates.first[gate] < 0:
        gates.first[gate] = transfer
    else:
        gates.following[gates.last[gate]] = transfer
    gates.last[gate] = transfer


@kernel
def open_gate(service: Service, gates: Gates, gate: int, time: int) -> None:
    """Let the next one through."""
    gates.busy[gate] = False
    transfer = gates.first[gate]
    if transfer < 0:
        return
    gates.first[gate] = gates.following[transfer]
    place = 0
    while gates.of[transfer, place] != gate:
        place += 1
    pass_gates(service, gates, transfer, place, time)
