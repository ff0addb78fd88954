"""Runs Chakra execution traces on a topology with our simulator, from what waits for what and nothing else.

Links serve first come, first served, and a message that takes several links is stored and forwarded whole, as in
ASTRA-sim's backend that knows congestion.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pccl.algorithm import Algorithm, Provenance
from pccl.analysis import kernels
from pccl.analysis.kernels import Service
from pccl.collective import collective_from_dict, compile_conditions
from pccl.errors import FormatError, InfeasibleError, PcclError, TopologyError
from pccl.export import chakra
from pccl.export.chakra_reader import Trace, read
from pccl.topology import Topology
from pccl.topology.core import transmission_time
from pccl.units import Picoseconds

__all__ = ["Replay", "replay"]

Ints: TypeAlias = NDArray[np.int64]
SENDS_END = ("arrival", "departure")


@dataclass(frozen=True, eq=False)
class Replay:
    """When everything happened.

    Attributes
    ----------
    hop_message, hop_link, hop_start, hop_arrival
        One row per message and link that it takes: its place in ``trace.messages``, the link, and when.
    finish
        When the last node of the trace is done.
    """

    trace: Trace
    topology: Topology
    hop_message: Ints
    hop_link: Ints
    hop_start: Ints
    hop_arrival: Ints
    finish: Picoseconds

    def to_algorithm(self) -> Algorithm:
        """The algorithm that the trace came from, timed as it was replayed; only for traces that we wrote."""
        sends = [self.trace.nodes[send] for send, _ in self.trace.messages]
        noted = self.trace.about.get("collectives")
        if not isinstance(noted, list) or any(send.chunk is None for send in sends):
            raise FormatError("the trace does not say which chunks its messages are; only those that pccl wrote do")
        chunk = np.array([send.chunk for send in sends], np.int64)[self.hop_message]
        reduce = np.array([send.reduce for send in sends], np.bool_)[self.hop_message]
        collectives = [collective_from_dict(data) for data in noted]
        sums = np.flatnonzero(compile_conditions(self.topology, collectives).reduces)
        if np.any(np.isin(chunk, sums) & np.isin(self.topology.dst[self.hop_link], self.topology.switches)):
            raise FormatError("a trace sends what a switch adds up one by one, which no algorithm over links does")
        made = Provenance("replay of a Chakra trace")
        return Algorithm.build(
            self.topology, collectives, chunk, self.hop_link, self.hop_start, reduce, provenance=made
        )


def replay(trace: Trace | str | Path, topology: Topology, *, sends_end: str = "arrival") -> Replay:
    """Run the traces of a folder.

    Parameters
    ----------
    trace
        The folder, or what :func:`pccl.export.chakra_reader.read` has read.
    topology
        The network; its NPUs are the ranks, in their order. Messages of our own traces take the links that were
        planned, others the way that is fastest when nothing else is under way.
    sends_end
        ``"arrival"``: whoever waits for a send waits until it has arrived, as in ASTRA-sim. ``"departure"``: only until
        its last byte has left, so that the order on a link costs no time.

    Examples
    --------
    >>> import pccl, tempfile
    >>> folder, ring = tempfile.mkdtemp(), pccl.topology.ring(4)
    >>> algorithm = pccl.synthesize(ring, pccl.AllGather("4MiB", chunks=4))
    >>> _ = pccl.export(algorithm, folder, "chakra", chain=True)
    >>> replay(folder, ring, sends_end="departure").finish == algorithm.duration
    True
    >>> replay(folder, ring).finish > algorithm.duration
    True
    """
    if sends_end not in SENDS_END:
        raise PcclError(f"sends end with their {' or '.join(SENDS_END)}, not with {sends_end!r}")
    trace = trace if isinstance(trace, Trace) else read(trace)
    if trace.num_ranks != topology.num_npus:
        raise TopologyError(f"the trace has {trace.num_ranks} ranks, {topology.name} has {topology.num_npus} NPUs")
    message, link = _hops(trace, topology)
    program = _Program(trace, topology, message, link, sends_end == "departure")
    start, end = program.run()
    hops = len(link)
    return Replay(trace, topology, message, link, start[:hops], end[hops : 2 * hops], Picoseconds(end.max(initial=0)))


def _hops(trace: Trace, topology: Topology) -> tuple[Ints, Ints]:
    """The links of all messages: planned, or found."""
    npus, routes = topology.npus.tolist(), []
    find = lru_cache(maxsize=None)(lambda src, dst, size: _fastest(topology, src, dst, size))
    for send, _ in trace.messages:
        node = trace.nodes[send]
        src, dst = npus[node.rank], npus[node.peer]
        routes.append(node.route or find(src, dst, node.size))
        _check_route(topology, routes[-1], src, dst, str(node))
    counts = np.array([len(route) for route in routes], np.int64)
    return np.repeat(np.arange(len(routes)), counts), np.array([link for route in routes for link in route], np.int64)


def _check_route(topology: Topology, route: tuple[int, ...], src: int, dst: int, what: str) -> None:
    at = src
    for link in route:
        if not 0 <= link < topology.num_links or topology.src[link] != at:
            text = f"its route takes link {link}, which does not begin at {topology.device_text(at)}"
            raise TopologyError(f"{what}: {text} of {topology.name}; it was made for another network")
        at = int(topology.dst[link])
    if at != dst:
        text = f"its route ends at {topology.device_text(at)} instead of {topology.device_text(dst)}"
        raise TopologyError(f"{what}: {text} of {topology.name}; it was made for another network")


def _fastest(topology: Topology, src: int, dst: int, size: int) -> tuple[int, ...]:
    """The links of the way that takes the least time if nothing else is under way."""
    travel = topology.latency + transmission_time(size, topology.bandwidth)
    offsets, links = topology.out_links
    queue, came_by = [(0, src, -1)], dict[int, int]()
    while queue:
        time, device, link = heapq.heappop(queue)
        if device in came_by:
            continue
        came_by[device] = link
        if device == dst:
            way = []
            while device != src:
                way.append(came_by[device])
                device = int(topology.src[way[-1]])
            return tuple(reversed(way))
        for out in links[offsets[device] : offsets[device + 1]].tolist():
            heapq.heappush(queue, (time + int(travel[out]), int(topology.dst[out]), out))
    raise InfeasibleError(f"{topology.device_text(dst)} cannot be reached from {topology.device_text(src)}")


class _Program:
    """All that happens, as steps that wait for one another, for the simulator to run.

    First come the steps in which a hop holds its link, then those in which it travels on, then one for every node: a
    computation, the end of a reception, or nothing for a send. Only the first are served by links; each of the others
    has one of its own.
    """

    def __init__(self, trace: Trace, topology: Topology, message: Ints, link: Ints, departure: bool) -> None:
        self.trace, self.hops = trace, len(link)
        nodes, own = trace.nodes, 2 * self.hops + np.arange(len(trace.nodes))
        ends = np.array(trace.messages, np.int64).reshape(-1, 2)
        first = np.searchsorted(message, np.arange(len(ends)))
        last = np.searchsorted(message, np.arange(len(ends)), side="right") - 1
        hop = np.arange(self.hops)
        onward = hop[:-1][message[:-1] == message[1:]] if self.hops else hop
        self.begins, self.ends = own.copy(), own.copy()  # per node: the step that waits, and the one waited for
        self.begins[ends[:, 0]], self.ends[ends[:, 0]] = first, first if departure else last + self.hops
        place = {(node.rank, node.id): i for i, node in enumerate(nodes)}
        waits = [(place[node.rank, other], i) for i, node in enumerate(nodes) for other in node.waits_for]
        before, after = np.array(waits, np.int64).reshape(-1, 2).T
        self.before = np.concatenate([hop, onward + self.hops, last + self.hops, self.ends[before]])
        self.after = np.concatenate([hop + self.hops, onward + 1, own[ends[:, 1]], self.begins[after]])
        self.link = np.arange(2 * self.hops + len(nodes)) + topology.num_links
        self.link[: self.hops] = link
        self.time = self._times(topology, message, link)

    def _times(self, topology: Topology, message: Ints, link: Ints) -> Ints:
        nodes = self.trace.nodes
        size = np.array([nodes[send].size for send, _ in self.trace.messages], np.int64)[message]
        latency, exclusive = topology.latency[link], topology.exclusive[link]
        hold = transmission_time(size, topology.bandwidth[link]) + np.where(exclusive, latency, 0)
        compute = [node.duration if node.kind == chakra.COMPUTE else 0 for node in nodes]
        return np.concatenate([hold, np.where(exclusive, 0, latency), np.array(compute, np.int64)])

    def run(self) -> tuple[Ints, Ints]:
        """When each step begins and ends."""
        count, links = len(self.time), int(self.link.max(initial=0)) + 1
        missing = np.bincount(self.after, minlength=count)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(self.before, minlength=count))])
        followers = self.after[np.argsort(self.before, kind="stable")]
        start, end = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        service = Service(
            first=np.full(links, -1, np.int64), last=np.full(links, -1, np.int64), busy=np.zeros(links, np.bool_),
            following=np.full(count, -1, np.int64), hold=self.time, travel=self.time, start=start, arrival=end,
        )  # fmt: skip
        heap = np.empty((count + links + 2, 3), np.int64)
        link = self.link.astype(np.int32)
        kernels.serve_first_come(np.arange(count), link, offsets, followers, missing, service, heap)
        if np.any(start < 0):
            raise FormatError(f"the trace never ends: {self._cycle(start < 0)}")
        return start, end

    def _cycle(self, stuck: NDArray[np.bool_]) -> str:
        """Nodes that wait for one another, found by asking again and again for whom one waits."""
        node_of = {int(step): i for steps in (self.begins, self.ends) for i, step in enumerate(steps)}
        step, way = int(np.argmax(stuck)), list[int]()
        while step not in way:
            way.append(step)
            step = int(self.before[(self.after == step) & stuck[self.before]][0])
        nodes = dict.fromkeys(node_of[one] for one in way[way.index(step) :] if one in node_of)
        return " waits for ".join(str(self.trace.nodes[i]) for i in (*nodes, next(iter(nodes))))
