"""The verifier once more, slow and obvious: sets and dictionaries, event by event. It shares no code with ours."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from pccl import Algorithm


class Move(NamedTuple):
    chunk: int
    link: int
    src: int
    dst: int
    reduce: bool
    start: int  # the first byte enters the link
    sent: int  # the last byte has entered the link
    first_byte: int  # the first byte comes out
    arrival: int  # the last byte comes out
    held: int  # the link is free again


def is_correct(algorithm: Algorithm) -> bool:
    moves = moves_of(algorithm)
    return (
        all(move.start >= 0 for move in moves)
        and links_are_free(moves)
        and all(
            chunk_is_right(algorithm, chunk, moves) for chunk in range(len(algorithm.conditions))
        )
        and multicast_is_respected(algorithm, moves)
        and buffers_are_respected(algorithm, moves)
    )


def moves_of(algorithm: Algorithm) -> list[Move]:
    topology, transfers, moves = algorithm.topology, algorithm.transfers, []
    for chunk, link, start, reduce in zip(
        *(
            column.tolist()
            for column in (transfers.chunk, transfers.link, transfers.start, transfers.reduce)
        ),
        strict=True,
    ):
        size, bandwidth = int(algorithm.conditions.bytes[chunk]), int(topology.bandwidth[link])
        duration = -(-size * 10**12 // bandwidth)  # rounded up
        latency = int(topology.latency[link])
        moves.append(
            Move(
                chunk, link, int(topology.src[link]), int(topology.dst[link]), reduce,
                start=start, sent=start + duration, first_byte=start + latency, arrival=start + latency + duration,
                held=start + duration + (latency if topology.exclusive[link] else 0),
            )
        )  # fmt: skip
    return moves


def links_are_free(moves: list[Move]) -> bool:
    return not any(
        a.link == b.link and a.start < b.held and b.start < a.held
        for i, a in enumerate(moves)
        for b in moves[:i]
    )


def chunk_is_right(algorithm: Algorithm, chunk: int, moves: list[Move]) -> bool:
    """Follow a chunk through time. What a device holds is a set of contributions, just one for a plain chunk."""
    conditions = algorithm.conditions
    own = [move for move in moves if move.chunk == chunk]
    if any(move.reduce for move in own) and not conditions.reduces[chunk]:
        return False
    sources = set(conditions.sources(chunk).tolist())
    holds: dict[int, set[int]] = defaultdict(set)
    for source in sources:
        holds[source] = {source}
    in_flight: dict[int, set[int]] = {}
    # At the same moment, what arrives can be sent on at once; arrivals happen in the order of their starts and links.
    events = [(move.arrival, 0, move.start, move.link, i) for i, move in enumerate(own)]
    events += [(move.start, 1, move.start, move.link, i) for i, move in enumerate(own)]
    for _, leaves, _, _, i in sorted(events):
        move = own[i]
        if leaves:
            if not holds[move.src]:
                return False
            in_flight[i] = set(holds[move.src])
        elif move.reduce:
            if holds[move.dst] & in_flight[i]:
                return False
            holds[move.dst] |= in_flight[i]
        else:
            if holds[move.dst] - in_flight[i]:
                return False
            holds[move.dst] = in_flight[i]
    return all(holds[device] == sources for device in conditions.destinations(chunk).tolist())


def multicast_is_respected(algorithm: Algorithm, moves: list[Move]) -> bool:
    for i, a in enumerate(moves):
        for b in moves[:i]:
            if a.chunk != b.chunk:
                continue
            if (
                a.src == b.src
                and not algorithm.topology.multicast[a.src]
                and a.start < b.sent
                and b.start < a.sent
            ):
                return False
            together = a.first_byte < b.arrival and b.first_byte < a.arrival
            if (
                a.dst == b.dst
                and not algorithm.topology.multicast[a.dst]
                and a.reduce
                and b.reduce
                and together
            ):
                return False
    return True


def buffers_are_respected(algorithm: Algorithm, moves: list[Move]) -> bool:
    for switch in algorithm.topology.switches.tolist():
        capacity = int(algorithm.topology.buffer[switch])
        if capacity == 0:
            continue
        stays = [
            stay
            for chunk in range(len(algorithm.conditions))
            for stay in stays_of(switch, chunk, moves)
        ]
        for begin, _ in stays:
            if sum(other_begin <= begin < other_end for other_begin, other_end in stays) > capacity:
                return False
    return True


def stays_of(switch: int, chunk: int, moves: list[Move]) -> list[tuple[int, int]]:
    """When the chunk is in the switch: from its first byte received to its last byte sent, once per time it comes."""
    events = [(m.start, 0, m.sent, False) for m in moves if m.chunk == chunk and m.src == switch]
    events += [
        (m.first_byte, 1, m.arrival, not m.reduce)
        for m in moves
        if m.chunk == chunk and m.dst == switch
    ]
    events.sort(key=lambda event: event[:2])
    stays: list[tuple[int, int]] = []
    for i, (begin, comes_in, end, is_copy) in enumerate(events):
        after_a_sending = i > 0 and not events[i - 1][1]
        completes_first = i + 1 == len(events) or end <= events[i + 1][0]
        if i == 0 or (comes_in and is_copy and after_a_sending and completes_first):
            stays.append((begin, end))
        else:
            stays[-1] = (stays[-1][0], max(stays[-1][1], end))
    return stays
