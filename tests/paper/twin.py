"""The paper's Algorithms 1 to 3, as slow and obvious as they can be written.

Time goes in steps: on a homogeneous network every link carries one chunk per step. The time-expanded network is a set
of links taken out, step by step.
"""

from __future__ import annotations

from collections import defaultdict

from pccl import Topology


class Ten:
    """Algorithm 1: which links are there at which time."""

    def __init__(self, topology: Topology) -> None:
        self.links = list(zip(topology.src.tolist(), topology.dst.tolist(), strict=True))
        self.leaving = defaultdict(list)
        for number, (src, _) in enumerate(self.links):
            self.leaving[src].append(number)
        self.taken: set[tuple[int, int]] = set()

    def next_links(self, device: int, time: int) -> list[int]:
        return [link for link in self.leaving[device] if (time, link) not in self.taken]


def bfs(ten: Ten, source: int, destinations: set[int]) -> list[tuple[int, int]]:
    """Algorithm 2: (time, link) of every transfer that brings the chunk to its destinations."""
    visited, parent, time = [source], {source: None}, 0
    while not destinations <= set(visited):
        for current in list(visited):  # those reached before this step
            for link in ten.next_links(current, time):
                following = ten.links[link][1]
                if following not in parent:
                    parent[following] = (time, link)
                    visited.append(following)
        time += 1
    useful = set()
    for device in destinations:
        while parent[device] is not None and parent[device] not in useful:
            useful.add(parent[device])
            device = ten.links[parent[device][1]][0]
    return sorted(useful)


def distance(ten: Ten, source: int, destination: int) -> int:
    return (
        max(time for time, _ in bfs(ten, source, {destination})) + 1 if source != destination else 0
    )


def synthesize(
    topology: Topology, conditions: list[tuple[int, set[int]]]
) -> list[tuple[int, int, int]]:
    """Algorithm 3: (chunk, time, link) of every transfer; chunks of equal distance keep their order."""
    empty, ten, algorithm = Ten(topology), Ten(topology), []
    far = [
        max((distance(empty, source, d) for d in targets), default=0)
        for source, targets in conditions
    ]
    for chunk in sorted(range(len(conditions)), key=lambda c: -far[c]):
        path = bfs(ten, *conditions[chunk])
        algorithm += [(chunk, time, link) for time, link in path]
        ten.taken |= set(path)
    return algorithm
