"""Runs our Chakra traces on a topology, node by node, from what waits for what and nothing else.

As in ASTRA-sim, links serve first come, first served, a message that takes several links is stored and forwarded whole,
and a send ends when it has arrived. Computations take no time.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import pccl
from pccl.algorithm import Algorithm
from pccl.collective import collective_from_dict
from pccl.topology.core import transmission_time
from tests.formats.chakra_schema import attributes, read_trace

COMPUTE, SEND, RECEIVE = 4, 5, 6
Key = tuple[int, int]  # of a node: its rank and its number


@dataclass
class Folder:
    """The nodes of all ranks; those that send, by the key of the node that receives."""

    nodes: dict[Key, Any] = field(default_factory=dict)
    values: dict[Key, dict[str, Any]] = field(default_factory=dict)
    ends: dict[Key, Key] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ends)


def read(path: Path) -> Folder:
    """Read the files of all ranks; every message has two ends that agree."""
    folder = Folder()
    ends: dict[tuple[int, ...], dict[int, Key]] = defaultdict(dict)
    for rank in range(len(list(path.glob("collective.*.et")))):
        metadata, nodes = read_trace(path / f"collective.{rank}.et")
        folder.about = json.loads(metadata.attr[0].string_val)
        assert nodes
        for node in nodes:
            key = rank, node.id
            assert key not in folder.nodes
            folder.nodes[key] = node
            folder.values[key] = values = attributes(node)
            if node.type != COMPUTE:
                pair = (
                    (rank, values["comm_dst"]) if node.type == SEND else (values["comm_src"], rank)
                )
                both = ends[*pair, values["comm_tag"], values["comm_size"]]
                assert node.type not in both
                both[node.type] = key
    assert all(set(both) == {SEND, RECEIVE} for both in ends.values())
    folder.ends = {both[SEND]: both[RECEIVE] for both in ends.values()}
    return folder


@dataclass
class Replay:
    """When everything happened: rows are (chunk, link, start, arrival, reduce), one for every link of a message."""

    folder: Folder
    topology: pccl.Topology
    hops: list[tuple[int, int, int, int, bool]] = field(default_factory=list)
    finish: int = 0

    def to_algorithm(self) -> Algorithm:
        """The algorithm that the trace came from, timed as it was replayed."""
        collectives = [collective_from_dict(one) for one in self.folder.about["collectives"]]
        chunk, link, start, _, reduce = zip(*self.hops, strict=True) if self.hops else [()] * 5
        columns = (np.array(column, np.int64) for column in (chunk, link, start))
        return Algorithm.build(self.topology, collectives, *columns, np.array(reduce, np.bool_))


def replay(path: Path, topology: pccl.Topology, *, planned_links: bool = True) -> Replay:
    """Run all traces; messages take the planned links, or the one link between their ends."""
    folder = read(path)
    result = Replay(folder, topology)
    links = {
        (int(src), int(dst)): link
        for link, (src, dst) in enumerate(zip(topology.src, topology.dst, strict=True))
    }
    followers: dict[Key, list[Key]] = defaultdict(list)
    missing: dict[Key, int] = {}
    for (rank, number), node in folder.nodes.items():
        waits = [(rank, other) for other in (*node.ctrl_deps, *node.data_deps)]
        missing[rank, number] = len(waits) + (node.type == RECEIVE)
        for other in waits:
            followers[other].append((rank, number))
    free: dict[int, int] = defaultdict(int)
    numbers = count()
    # Of a node that sends, how many links it has taken; all others are done at once.
    events = [(0, next(numbers), key, 0) for key, waits in missing.items() if not waits]
    heapq.heapify(events)
    done = set()
    while events:
        time, _, key, taken = heapq.heappop(events)
        values = folder.values[key]
        result.finish = max(result.finish, time)
        if folder.nodes[key].type == SEND:
            ends = int(topology.npus[key[0]]), int(topology.npus[values["comm_dst"]])
            route = values["pccl_route"] if planned_links else (links[ends],)
            if taken < len(route):
                link = route[taken]
                size = values["comm_size"]
                # For a stand-in messages may be larger.
                if planned_links:
                    size = values.get("pccl_bytes", size)
                travel = int(transmission_time(size, topology.bandwidth[link]))
                latency = int(topology.latency[link])
                start = max(time, free[link])
                arrival = start + travel + latency
                free[link] = arrival if topology.exclusive[link] else arrival - latency
                what = values["pccl_chunk"], values["pccl_reduce"]
                result.hops.append((what[0], link, start, arrival, what[1]))
                heapq.heappush(events, (arrival, next(numbers), key, taken + 1))
                continue
            followers[key].append(folder.ends[key])
        done.add(key)
        for other in followers[key]:
            missing[other] -= 1
            if not missing[other]:
                heapq.heappush(events, (time, next(numbers), other, 0))
    assert len(done) == len(folder.nodes), "the trace never ends"
    return result
