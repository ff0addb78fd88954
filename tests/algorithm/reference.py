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
    follows: int  # number of the move that brought the message that a switch passes on, or -1


def is_correct(algorithm: Algorithm) -> bool:
    moves = moves_of(algorithm)
    return (
        all(move.start >= 0 for move in moves)
        and links_are_free(moves)
        and all(
            chunk_is_right(algorithm, chunk, moves) for chunk in range(len(algorithm.conditions))
        )
        and buffers_are_respected(algorithm, moves)
    )


def moves_of(algorithm: Algorithm) -> list[Move]:
    topology, transfers, moves = algorithm.topology, algorithm.transfers, []
    follows = transfers.follows.tolist() or [-1] * len(transfers)
    given = (transfers.chunk, transfers.link, transfers.start, transfers.reduce)
    for (chunk, link, start, reduce), before in zip(
        zip(*(column.tolist() for column in given), strict=True), follows, strict=True
    ):
        size, bandwidth = int(algorithm.conditions.bytes[chunk]), int(topology.bandwidth[link])
        duration = -(-size * 10**12 // bandwidth)  # rounded up
        latency, gap = int(topology.latency[link]), int(topology.gap[link])
        moves.append(
            Move(
                chunk, link, int(topology.src[link]), int(topology.dst[link]), reduce,
                start=start, sent=start + duration, first_byte=start + latency, arrival=start + latency + duration,
                held=start + duration + gap + (latency if topology.exclusive[link] else 0),
                follows=before,
            )
        )  # fmt: skip
    return moves


def passes_on(algorithm: Algorithm, device: int, reduce: bool) -> bool:
    """Whether a device can only pass such a message on: partial sums, or anything else."""
    can = algorithm.topology.reduce if reduce else algorithm.topology.multicast
    return not can[device]


def links_are_free(moves: list[Move]) -> bool:
    return not any(
        a.link == b.link and a.start < b.held and b.start < a.held
        for i, a in enumerate(moves)
        for b in moves[:i]
    )


def chunk_is_right(algorithm: Algorithm, chunk: int, moves: list[Move]) -> bool:
    """Follow a chunk through time. What a device holds is a set of contributions, just one for a plain chunk."""
    conditions = algorithm.conditions
    own = {i: move for i, move in enumerate(moves) if move.chunk == chunk}
    if any(move.reduce for move in own.values()) and not conditions.reduces[chunk]:
        return False
    sources = set(conditions.sources(chunk).tolist())
    holds: dict[int, set[int]] = defaultdict(set)
    for source in sources:
        holds[source] = {source}
    in_flight: dict[int, set[int]] = {}
    waiting: dict[int, set[int]] = {}  # messages that are in a switch that will pass them on
    # At the same moment, what arrives can be sent on at once; arrivals happen in the order of their starts and links.
    events = [(move.arrival, 0, move.start, move.link, i) for i, move in own.items()]
    events += [(move.start, 1, move.start, move.link, i) for i, move in own.items()]
    for _, leaves, _, _, i in sorted(events):
        move = own[i]
        if leaves:
            passes = passes_on(algorithm, move.src, move.reduce)
            if passes != (move.follows >= 0):
                return False
            if passes:
                before = moves[move.follows]
                if (
                    move.follows not in waiting
                    or before.dst != move.src
                    or before.reduce != move.reduce
                ):
                    return False
                in_flight[i] = waiting.pop(move.follows)  # so it cannot be passed on again
                continue
            if not holds[move.src]:
                return False
            in_flight[i] = set(holds[move.src])
            if not algorithm.topology.multicast[move.src]:
                holds[move.src] = set()
        elif passes_on(algorithm, move.dst, move.reduce):
            waiting[i] = in_flight[i]
        elif move.reduce:
            if holds[move.dst] & in_flight[i]:
                return False
            holds[move.dst] |= in_flight[i]
        else:
            if holds[move.dst] - in_flight[i]:
                return False
            holds[move.dst] = in_flight[i]
    return all(holds[device] == sources for device in conditions.destinations(chunk).tolist())


def buffers_are_respected(algorithm: Algorithm, moves: list[Move]) -> bool:
    for switch in algorithm.topology.switches.tolist():
        capacity = int(algorithm.topology.buffer[switch])
        if capacity == 0:
            continue
        stays = [
            stay
            for chunk in range(len(algorithm.conditions))
            for stay in stays_of(algorithm, switch, chunk, moves)
        ]
        for begin, _ in stays:
            if sum(other_begin <= begin < other_end for other_begin, other_end in stays) > capacity:
                return False
    return True


def stays_of(
    algorithm: Algorithm, switch: int, chunk: int, moves: list[Move]
) -> list[tuple[int, int]]:
    """When the chunk is in the switch: from its first byte received to its last byte sent, once per time it comes."""
    own = {i: m for i, m in enumerate(moves) if m.chunk == chunk and switch in (m.src, m.dst)}
    passing = {
        i: m for i, m in own.items() if m.dst == switch and passes_on(algorithm, switch, m.reduce)
    }
    stays = []
    for i, brings in passing.items():
        ends = [m.sent for m in own.values() if m.follows == i]
        stays.append((brings.first_byte, max([brings.arrival, *ends])))
    kept = [
        m for i, m in own.items() if i not in passing and not (m.src == switch and m.follows >= 0)
    ]
    return stays + stays_of_kept(switch, kept)


def stays_of_kept(switch: int, moves: list[Move]) -> list[tuple[int, int]]:
    events = [(m.start, 0, m.sent, False) for m in moves if m.src == switch]
    events += [(m.first_byte, 1, m.arrival, not m.reduce) for m in moves if m.dst == switch]
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
