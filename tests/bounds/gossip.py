"""Algorithms that nobody would design: devices send whatever may help, in a random order, until all is done.

Partial sums go both ways, meet, and are copied on, so that these are algorithms of a kind that no synthesizer finds.
"""

from __future__ import annotations

import random
from typing import Any

import pccl
from pccl.topology import Topology
from pccl.topology.core import transmission_time

MOST_MESSAGES = 500
MOST_TRIES = 8
LONGEST_ROUTE = 4  # links that a message takes through plain switches


def routes_of(topology: Topology) -> list[list[int]]:
    """Ways from one device that keeps chunks to another, through switches that only pass them on."""
    keeps = topology.multicast & topology.reduce
    src, dst = topology.src.tolist(), topology.dst.tolist()
    routes = [[link] for link in range(topology.num_links) if keeps[src[link]]]
    found = []
    while routes:
        route = routes.pop()
        end = dst[route[-1]]
        if keeps[end]:
            found.append(route)
        elif len(route) < LONGEST_ROUTE:
            passed = {dst[link] for link in route}
            routes += [
                [*route, link]
                for link in range(topology.num_links)
                if src[link] == end and dst[link] not in passed
            ]
    return sorted(found)


def gossip(
    topology: Topology, collectives: list[pccl.Collective], seed: int
) -> pccl.Algorithm | None:
    """The first algorithm from a random order of sends that leads anywhere; None if there is none in many tries."""
    tries = (_gossip(topology, collectives, random.Random(seed + i)) for i in range(MOST_TRIES))
    return next(filter(None, tries), None)


def _gossip(
    topology: Topology, collectives: list[pccl.Collective], chance: random.Random
) -> pccl.Algorithm | None:
    idle = chance.choice([0.0, 0.1, 0.5])
    conditions = pccl.collective.compile_conditions(topology, collectives)
    chunks = range(len(conditions))
    src, dst = topology.src.tolist(), topology.dst.tolist()
    # What each device has of each chunk: a set of contributions; and what is on its way to it.
    held = {(d, c): frozenset() for d in range(topology.num_devices) for c in chunks}
    coming = dict.fromkeys(held, frozenset())
    copied: set[tuple[int, int]] = set()  # to which a copy is on its way
    full = [frozenset(conditions.sources(c).tolist()) for c in chunks]
    missing = set()
    for c in chunks:
        for device in full[c]:
            held[device, c] = frozenset([device])
        for device in conditions.destinations(c).tolist():
            if held[device, c] != full[c]:
                missing.add((device, c))
    routes = routes_of(topology)
    free = [0] * topology.num_links
    # Chunk, link, start, whether it adds, the row that brought the message, and when the message is through.
    rows: list[tuple[Any, ...]] = []
    landing: list[tuple[int, int, int, frozenset[int], bool]] = []
    now = 0
    while missing and len(rows) < MOST_MESSAGES:
        for land in [land for land in landing if land[0] <= now]:
            landing.remove(land)
            _, device, c, content, adds = land
            held[device, c] = held[device, c] | content if adds else content
            coming[device, c] -= content
            if not adds:
                copied.discard((device, c))
            if held[device, c] == full[c]:
                missing.discard((device, c))
        chance.shuffle(routes)
        for route in routes:
            sender, receiver = src[route[0]], dst[route[-1]]
            if free[route[0]] > now:
                continue
            options = [
                c
                for c in chunks
                if held[sender, c]
                and (receiver, c) not in copied
                and not (held[sender, c] <= held[receiver, c])
                and not (coming[receiver, c] & held[sender, c])
                and (
                    not (held[sender, c] & held[receiver, c])
                    or (held[receiver, c] <= held[sender, c] and not coming[receiver, c])
                )
            ]
            if not options or chance.random() < idle:
                continue
            needed = [c for c in options if (receiver, c) in missing]
            c = chance.choice(needed or options)
            content = held[sender, c]
            sums = bool(conditions.reduces[c])
            # A copy on top of something needs that nothing else comes in between.
            adds = sums and not (content & held[receiver, c])
            if sums and not adds and coming[receiver, c]:
                continue
            size = int(conditions.bytes[c])
            time = now
            before = None
            through = [0]
            for link in route:
                start = max(time, free[link])
                taken = int(transmission_time(size, int(topology.bandwidth[link])))
                free[link] = start + taken + int(topology.overhead[link])
                time = start + taken + int(topology.latency[link])
                before = (c, link, start, adds, before, through)
                rows.append(before)
            through[0] = time
            # So that sets that meet at the receiver stay disjoint until then.
            coming[receiver, c] |= content
            if not adds:
                copied.add((receiver, c))
            landing.append((time, receiver, c, content, adds))
        moments = [land[0] for land in landing] + [time for time in free if time > now]
        if not moments:
            if idle == 0:
                return None
            idle = 0.0
            continue
        now = min(moments)
    if missing:
        return None
    # What is still on its way when all is done was of no use.
    landed = [row for row in rows if row[5][0] <= now]
    number = {id(row): i for i, row in enumerate(landed)}
    chunk, link, start, adds = ([row[column] for row in landed] for column in range(4))
    follows = [-1 if row[4] is None else number[id(row[4])] for row in landed]
    plain = follows if topology.plain else None
    return pccl.Algorithm.build(topology, collectives, chunk, link, start, adds, follows=plain)
