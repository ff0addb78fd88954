"""Runs Chakra execution traces on a topology with our simulator, from what waits for what and nothing else.

Links serve first come, first served, and a message that takes several links is stored and forwarded whole, as in
ASTRA-sim's backend that knows congestion.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from pccl._arrays import Bools, Ints, offsets_of
from pccl.algorithm import Algorithm, Provenance
from pccl.algorithm.timing import Times
from pccl.analysis.queues import serve
from pccl.collective import collective_from_dict, compile_conditions
from pccl.errors import FormatError, InfeasibleError, PcclError, TopologyError
from pccl.formats.chakra import writer as chakra
from pccl.formats.chakra_files import ABSENT
from pccl.formats.chakra_reader import Trace, read
from pccl.topology import Topology
from pccl.topology.core import transmission_time
from pccl.units import Picoseconds

__all__ = ["Replay", "replay"]

SENDS_END = ("arrival", "departure")


@dataclass(frozen=True, eq=False)
class Replay:
    """When everything happened.

    Attributes
    ----------
    hop_message, hop_link, hop_start, hop_arrival
        One row per message and link that it takes: its place in ``trace.sends``, the link, and when.
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
        sends = self.trace.sends[self.hop_message]
        chunk, reduce = (
            self.trace.nodes.attributes[name][sends] for name in ("pccl_chunk", "pccl_reduce")
        )
        noted = self.trace.about.get("collectives")
        if not isinstance(noted, list) or np.any(chunk == ABSENT):
            raise FormatError(
                "the trace does not say which chunks its messages are; only those that pccl wrote do"
            )
        collectives = [collective_from_dict(data) for data in noted]
        sums = np.flatnonzero(compile_conditions(self.topology, collectives).reduces)
        if np.any(
            np.isin(chunk, sums) & np.isin(self.topology.dst[self.hop_link], self.topology.switches)
        ):
            raise FormatError(
                "a trace sends what a switch adds up one by one, which no algorithm over links does"
            )
        made = Provenance("replay of a Chakra trace")
        return Algorithm.build(
            self.topology,
            collectives,
            chunk,
            self.hop_link,
            self.hop_start,
            reduce == 1,
            provenance=made,
        )


def replay(trace: Trace | str | Path, topology: Topology, *, sends_end: str = "arrival") -> Replay:
    """Run the traces of a folder.

    Parameters
    ----------
    trace
        The folder, or what :func:`pccl.formats.chakra_reader.read` has read.
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
        raise TopologyError(
            f"the trace has {trace.num_ranks} ranks, {topology.name} has {topology.num_npus} NPUs"
        )
    message, link = _hops(trace, topology)
    program = _Program(trace, topology, message, link, sends_end == "departure")
    start, end = program.run()
    hops = len(link)
    return Replay(
        trace,
        topology,
        message,
        link,
        start[:hops],
        end[hops : 2 * hops],
        Picoseconds(end.max(initial=0)),
    )


def _hops(trace: Trace, topology: Topology) -> tuple[Ints, Ints]:
    """The messages and links of all hops: planned, or found."""
    place = np.full(len(trace.nodes), -1, np.int64)
    place[trace.sends] = np.arange(len(trace.sends))
    planned, size = trace.nodes.route, trace.nodes.attributes["comm_size"]
    is_send = place[planned.node] >= 0
    message, link = place[planned.node[is_send]], planned.value[is_send]
    unplanned = np.setdiff1d(np.arange(len(trace.sends)), message)
    rows, ways = trace.sends[unplanned], list[tuple[int, ...]]()
    find = lru_cache(maxsize=None)(lambda src, dst, size: _fastest(topology, src, dst, size))
    for src, dst, bytes_ in zip(
        trace.nodes.rank[rows].tolist(), trace.peer[rows].tolist(), size[rows].tolist(), strict=True
    ):
        ways.append(find(int(topology.npus[src]), int(topology.npus[dst]), bytes_))
    message = np.concatenate([message, np.repeat(unplanned, [len(way) for way in ways])])
    link = np.concatenate([link, np.array([link for way in ways for link in way], np.int64)])
    order = np.argsort(message, kind="stable")
    message, link = message[order], link[order]
    _check_routes(trace, topology, message, link)
    return message, link


def _check_routes(trace: Trace, topology: Topology, message: Ints, link: Ints) -> None:
    """Raise unless the links of each message lead from its sender to its receiver."""
    unknown = (link < 0) | (link >= topology.num_links)
    known = np.where(unknown, 0, link)
    first, last = np.ones((2, len(link)), np.bool_)
    first[1:] = last[:-1] = message[1:] != message[:-1]
    rows = trace.sends[message]
    begin = np.where(
        first, topology.npus[trace.nodes.rank[rows]], np.append(-1, topology.dst[known][:-1])
    )
    astray = unknown | (topology.src[known] != begin)
    astray |= last & (topology.dst[known] != topology.npus[trace.peer[rows]])
    if np.any(astray):
        k = int(np.argmax(astray))
        text = f"takes link {link[k]}, which does not lead from its sender to its receiver in {topology.name}"
        raise TopologyError(
            f"{trace.nodes.text(int(rows[k]))} {text}; the trace was made for another network"
        )


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
    raise InfeasibleError(
        f"{topology.device_text(dst)} cannot be reached from {topology.device_text(src)}"
    )


class _Program:
    """All that happens, as steps that wait for one another, for the simulator to run.

    First come the steps in which a hop holds its link, then those in which it travels on, then one for every node: a
    computation, the end of a reception, or nothing for a send. Only the first are served by links; each of the others
    has one of its own.
    """

    def __init__(
        self, trace: Trace, topology: Topology, message: Ints, link: Ints, departure: bool
    ) -> None:
        self.trace, self.hops, self.links = trace, len(link), topology.num_links
        own, hop = 2 * self.hops + np.arange(len(trace.nodes)), np.arange(self.hops)
        first = np.searchsorted(message, np.arange(len(trace.sends)))
        last = np.searchsorted(message, np.arange(len(trace.sends)), side="right") - 1
        onward = hop[:-1][message[:-1] == message[1:]] if self.hops else hop
        self.begins, self.ends = (
            own.copy(),
            own.copy(),
        )  # per node: the step that waits, and the one waited for
        self.begins[trace.sends], self.ends[trace.sends] = (
            first,
            first if departure else last + self.hops,
        )
        self.before = np.concatenate(
            [hop, onward + self.hops, last + self.hops, self.ends[trace.before]]
        )
        self.after = np.concatenate(
            [hop + self.hops, onward + 1, own[trace.receptions], self.begins[trace.after]]
        )
        self.link = np.arange(2 * self.hops + len(trace.nodes)) + topology.num_links
        self.link[: self.hops] = link
        self.time = self._times(topology, message, link)

    def _times(self, topology: Topology, message: Ints, link: Ints) -> Ints:
        nodes, latency = self.trace.nodes, np.where(topology.exclusive, 0, topology.latency)[link]
        size = nodes.attributes["comm_size"][self.trace.sends[message]]
        hold = transmission_time(size, topology.bandwidth[link]) + topology.latency[link] - latency
        return np.concatenate(
            [hold, latency, np.where(nodes.kind == chakra.COMPUTE, nodes.duration, 0)]
        )

    def run(self) -> tuple[Ints, Ints]:
        """When each step begins and ends."""
        count, gates = len(self.time), len(self.time) + self.links
        missing = np.bincount(self.after, minlength=count)
        offsets = offsets_of(np.bincount(self.before, minlength=count))
        followers = self.after[np.argsort(self.before, kind="stable")]
        steps = Times(self.time, self.time, self.time)
        links = self.link.astype(np.int32)
        start = serve(np.arange(count), (offsets, followers, missing), steps, links, gates)
        if np.any(start < 0):
            raise FormatError(f"the trace never ends: {self._cycle(start < 0)}")
        return start, start + self.time

    def _cycle(self, stuck: Bools) -> str:
        """Nodes that wait for one another, found by asking again and again for whom one waits."""
        node_of = {
            int(step): i for steps in (self.begins, self.ends) for i, step in enumerate(steps)
        }
        step, way = int(np.argmax(stuck)), list[int]()
        while step not in way:
            way.append(step)
            step = int(self.before[(self.after == step) & stuck[self.before]][0])
        nodes = dict.fromkeys(node_of[one] for one in way[way.index(step) :] if one in node_of)
        return " waits for ".join(self.trace.nodes.text(i) for i in (*nodes, next(iter(nodes))))
