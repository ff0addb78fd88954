"""Compiled loops of the simulator."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pccl._kernels import kernel
from pccl.synthesis.kernels.heap import pop, push

__all__ = ["Inputs", "Service", "find_inputs", "list_followers", "serve_as_planned", "serve_first_come"]

Ints = NDArray[np.int64]
Indices = NDArray[np.int32]

NONE = np.int64(-1)


class Inputs(NamedTuple):
    """What transfers wait for: `newest[i]`, and what came to the same device before it, by way of `previous`."""

    newest: Ints
    previous: Ints


class Service(NamedTuple):
    """Links that serve transfers first come, first served."""

    first: Ints  # per link: the head of its queue
    last: Ints  # per link: the end of its queue
    busy: NDArray[np.bool_]  # per link
    following: Ints  # per transfer: the next in the queue
    hold: Ints  # per transfer
    travel: Ints
    start: Ints
    arrival: Ints


@kernel
def find_inputs(
    first: Ints, by_arrival: Ints, src: Indices, dst: Indices, start: Ints, arrival: Ints, sums: NDArray[np.bool_],
    newest_at: Ints, chunk_at: Ints, inputs: Inputs,
) -> None:  # fmt: skip
    """Find what each transfer needs: all that is planned to be at its sender when it starts.

    Of a plain chunk the first arrival is enough. Transfers come by chunk and start, `by_arrival` by chunk and arrival.
    """
    for chunk in range(len(first) - 1):
        landed = first[chunk]
        for i in range(first[chunk], first[chunk + 1]):
            while landed < first[chunk + 1] and arrival[by_arrival[landed]] <= start[i]:
                j = by_arrival[landed]
                known = chunk_at[dst[j]] == chunk
                if sums[chunk] or not known:
                    inputs.previous[j] = newest_at[dst[j]] if known else NONE
                    newest_at[dst[j]], chunk_at[dst[j]] = j, chunk
                landed += 1
            inputs.newest[i] = newest_at[src[i]] if chunk_at[src[i]] == chunk else NONE


@kernel
def list_followers(inputs: Inputs, first: Ints, followers: Ints, missing: Ints) -> None:
    """Turn inputs round: those who wait for `i` are followers[first[i] : first[i + 1]].

    Called twice: with no room for followers it counts them (in `first`, shifted by two) and what each one waits for.
    """
    for i in range(len(inputs.newest)):
        j = inputs.newest[i]
        while j >= 0:
            if len(followers) == 0:
                first[j + 2] += 1
                missing[i] += 1
            else:
                followers[first[j + 1]] = i
                first[j + 1] += 1
            j = inputs.previous[j]


@kernel
def serve_as_planned(
    order: Ints, link: Indices, inputs: Inputs, hold: Ints, travel: Ints, free: Ints, start: Ints, arrival: Ints
) -> None:
    """Each link serves its transfers in the planned order, each as soon as its inputs are there."""
    for k in range(len(order)):
        i = order[k]
        begin, j = free[link[i]], inputs.newest[i]
        while j >= 0:
            begin = max(begin, arrival[j])
            j = inputs.previous[j]
        start[i], arrival[i] = begin, begin + travel[i]
        free[link[i]] = begin + hold[i]


@kernel
def serve_first_come(
    order: Ints, link: Indices, first: Ints, followers: Ints, missing: Ints, service: Service, heap: Ints
) -> None:
    """Each link serves transfers as they become ready; events at the same time happen in the order of their causes."""
    count, events = len(order), (np.int64(0), np.int64(0))
    for k in range(count):
        if missing[order[k]] == 0:
            enqueue(service, link[order[k]], order[k])
    for k in range(count):
        events = serve(service, link[order[k]], 0, heap, events)
    while events[0] > 0:
        waiting = pop(heap, events[0])
        events = waiting, events[1]
        time, event = heap[waiting, 0], heap[waiting, 2]
        if event >= count:  # a link becomes free
            service.busy[event - count] = False
            events = serve(service, event - count, time, heap, events)
            continue
        for k in range(first[event], first[event + 1]):  # a chunk arrives
            i = followers[k]
            missing[i] -= 1
            if missing[i] == 0:
                enqueue(service, link[i], i)
                events = serve(service, link[i], time, heap, events)


@kernel
def enqueue(service: Service, link: int, transfer: int) -> None:
    """Put a transfer at the end of the queue of its link."""
    service.following[transfer] = NONE
    if service.first[link] < 0:
        service.first[link] = transfer
    else:
        service.following[service.last[link]] = transfer
    service.last[link] = transfer


@kernel
def serve(service: Service, link: int, time: int, heap: Ints, events: tuple[int, int]) -> tuple[int, int]:
    """Start the next transfer of an idle link; `events` is how many wait in the heap and how many there ever were."""
    i, (waiting, sequence) = service.first[link], events
    if service.busy[link] or i < 0:
        return waiting, sequence
    service.first[link], service.busy[link] = service.following[i], True
    service.start[i], service.arrival[i] = time, time + service.travel[i]
    waiting = push(heap, waiting, time + service.hold[i], sequence, len(service.start) + link)
    waiting = push(heap, waiting, service.arrival[i], sequence + 1, i)
    return waiting, sequence + 2
