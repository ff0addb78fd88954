"""An MSCCL-IR file as an algorithm on a topology, so that what people run today can be simulated and judged.

Every message becomes transfers over the shortest way between its ranks, as early as the file and the links allow.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from pathlib import Path

import numpy as np

from pccl.algorithm import Algorithm, Provenance, verify
from pccl.collective import COLLECTIVES as KINDS
from pccl.collective import Collective
from pccl.errors import FormatError, TopologyError, VerificationError
from pccl.formats.msccl.contents import Content, carried
from pccl.formats.msccl.execution import Execution, connect
from pccl.formats.msccl.file import Algo, read
from pccl.formats.msccl.rules import broken_parts
from pccl.formats.msccl.targets import COLLECTIVES, DEPTHS
from pccl.formats.msccl.task import Task
from pccl.topology import Topology
from pccl.topology.core import transmission_time
from pccl.units import Bytes, Size, parse

__all__ = ["import_msccl"]

_MENDED = ("'outofplace'", "'minBytes'", "'maxBytes'")  # older files lack these


def import_msccl(
    path: str | Path,
    topology: Topology,
    *,
    size: Size,
    group: Iterable[int] | None = None,
    members: Iterable[int] | None = None,
) -> Algorithm:
    """Read an MSCCL-IR file as an algorithm.

    Parameters
    ----------
    path
        The file.
    topology
        The network that it is to run on. Messages between NPUs that are not adjacent take the shortest way.
    size
        Buffer of one rank, as nccl-tests counts it.
    group
        The NPU of each rank; by default all NPUs in their order.
    members
        The ranks that take part in the collective, where others only relay; by default those that our files name, or
        all.

    Returns
    -------
    Algorithm
        What the file does, which the verifier has accepted.
    """
    algo = _readable(path)
    npus = topology.npus.tolist() if group is None else list(group)
    if len(npus) != algo.ngpus:
        raise FormatError(
            f"{path} is for {algo.ngpus} ranks, not for {len(npus)} NPUs; say which NPUs with group"
        )
    ranks = tuple(algo.promise.members or range(algo.ngpus)) if members is None else tuple(members)
    if not set(ranks) <= set(range(algo.ngpus)):
        raise FormatError(f"{path} has ranks 0 to {algo.ngpus - 1}; the members are {list(ranks)}")
    task = Task(algo, ranks, in_place=not algo.outofplace)
    execution, problems = connect(algo, DEPTHS.get(algo.proto, 2))
    problems = problems or (execution.blocked() if execution else [])
    if problems or execution is None:
        raise FormatError(f"{path}: {problems[0]}; 'pccl check' says more")
    collective, pieces = _collective(task, npus, parse(Bytes, size, "size"))
    plan = _Plan(topology, npus, int(collective.conditions(topology).bytes.max(initial=1)), pieces)
    plan.place(execution, carried(task, execution))
    return _algorithm(plan, collective, str(path))


def _readable(path: str | Path) -> Algo:
    algo, problems = read(path)
    problems = [line for line in problems if not any(name in line for name in _MENDED)]
    if algo is None or problems:
        raise FormatError(
            f"{path}: {problems[0] if problems else 'there is nothing in it'}; 'pccl check' says more"
        )
    if algo.coll not in COLLECTIVES:
        raise FormatError(f"{path}: {algo.coll!r} cannot be imported; {', '.join(COLLECTIVES)} can")
    if algo.promise.shares:
        raise FormatError(
            f"{path}: it is padded, and sends parts of its shares only; such files cannot be imported"
        )
    if broken := broken_parts(algo):
        raise FormatError(f"{path}: {broken[0]}; 'pccl check' says more")
    algo.outofplace = algo.outofplace or int(not algo.inplace)
    return algo


def _collective(task: Task, npus: list[int], size: Bytes) -> tuple[Collective, int]:
    """The collective, and into how many chunks of it one chunk of the file is cut."""
    whole, ranks = task.algo.nchunksperloop, len(task.group)
    shares = ranks if task.kind == "all-reduce" else task.algo.ngpus
    pieces = shares // math.gcd(whole, shares)
    if pieces > 1 and task.kind != "all-reduce":
        raise FormatError(f"{whole} chunks are not shares of {shares} ranks")
    chunks = whole * pieces // shares
    if int(size) % (whole * pieces):
        near = Bytes(max(1, round(int(size) / (whole * pieces))) * whole * pieces)
        raise FormatError(f"size {size} does not divide into {whole * pieces} chunks; try {near}")
    buffer = Bytes(
        int(size) // shares * ranks
    )  # where others only relay, they have room in the buffers as well
    group = [npus[rank] for rank in task.group]
    return KINDS[task.kind](buffer, group=group, chunks=chunks), pieces


def _algorithm(plan: _Plan, collective: Collective, path: str) -> Algorithm:
    chunk, link, start = (
        np.array(column, np.int64) for column in (plan.chunk, plan.link, plan.start)
    )
    draft = Algorithm.build(plan.topology, [collective], chunk, link, start)
    algorithm = Algorithm.build(
        plan.topology, [collective], draft.transfers.chunk, draft.transfers.link, draft.transfers.start, _adds(draft),
        provenance=Provenance(f"imported from {Path(path).name}"),
    )  # fmt: skip
    try:
        verify(algorithm)
    except VerificationError as error:
        raise FormatError(f"{path} does not map onto {plan.topology.name}: {error}") from None
    return algorithm


def _adds(draft: Algorithm) -> list[bool]:
    """Per transfer of a sum: whether its receiver has other contributions, which it is added to."""
    t, c = draft.transfers, draft.conditions
    adds = [False] * len(t)
    if not c.reduces.any():
        return adds
    arrival = t.arrival
    bounds = np.searchsorted(t.chunk, np.arange(len(c) + 1)).tolist()
    for chunk in range(len(c)):
        rows = range(bounds[chunk], bounds[chunk + 1])
        held = defaultdict(int, {npu: 1 << i for i, npu in enumerate(c.sources(chunk).tolist())})
        events = sorted(
            [(int(arrival[i]), 0, i) for i in rows] + [(int(t.start[i]), 1, i) for i in rows]
        )
        flying: dict[int, int] = {}
        for _, leaves, i in events:
            device = int(t.src[i] if leaves else t.dst[i])
            if leaves:
                flying[i] = held[device]
                continue
            new, old = flying[i], held[device]
            adds[i] = bool(old) and not new & old
            if new & old and old & ~new:
                raise FormatError(
                    f"chunk {chunk}: partial sums meet in {draft.topology.device_text(device)}, which cannot keep them "
                    "apart" + _advice(draft.topology, device)
                )
            if adds[i] and draft.topology.is_switch(device):
                raise FormatError(
                    f"chunk {chunk}: partial sums meet in {draft.topology.device_text(device)}, which would add them"
                    + _advice(draft.topology, device)
                )
            held[device] = new | old
    return adds


def _advice(topology: Topology, device: int) -> str:
    return (
        "; import it on the topology with its switches unrolled (--unroll)"
        if topology.is_switch(device)
        else ""
    )


class _Plan:
    """Transfers with their times: every message starts when the file lets it and its links are free."""

    def __init__(self, topology: Topology, npus: list[int], size: int, pieces: int) -> None:
        self.topology, self.npus, self.pieces = topology, npus, pieces
        self.travel = transmission_time(size, topology.bandwidth)
        self.hold = self.travel + np.where(topology.exclusive, topology.latency, 0)
        self.free = [0] * topology.num_links
        self.ways: dict[tuple[int, int], list[list[int]]] = {}
        self.chunk: list[int] = []
        self.link: list[int] = []
        self.start: list[int] = []

    def place(self, execution: Execution, contents: dict[int, list[Content]]) -> None:
        """Take the steps as they become ready, and give times to what they send."""
        followers: list[list[int]] = [[] for _ in execution.nodes]
        missing = (execution.waits >= 0).sum(axis=1).tolist()
        for number, reason in np.argwhere(execution.waits >= 0).tolist():
            followers[execution.waits[number, reason]].append(number)
        ready = [(0, number) for number, count in enumerate(missing) if not count]
        heapify(ready)
        since = [0] * len(execution.nodes)
        landed: dict[object, int] = {}
        while ready:
            now, number = heappop(ready)
            node = execution.nodes[number]
            if node.receives:
                now = max(now, landed[node.receives])
            if node.sends:
                left, landed[node.sends] = self._send(node.sends[0], contents[number], now)
                now = max(now, left)
            for other in followers[number]:
                since[other] = max(since[other], now)
                missing[other] -= 1
                if not missing[other]:
                    heappush(ready, (since[other], other))

    def _send(
        self, connection: tuple[int, int, int], contents: list[Content], now: int
    ) -> tuple[int, int]:
        """Send the chunks of a message; returns when the sender is done and when the last of them has arrived."""
        left = arrived = now
        src, dst = self.npus[connection[0]], self.npus[connection[1]]
        for content in contents:
            if content.chunk < 0:
                raise FormatError(f"NPU {src} sends NPU {dst} what is not part of the collective")
            for piece in range(self.pieces):
                time = now
                for hop, links in enumerate(self._way(src, dst)):
                    link = min(links, key=lambda link: (max(self.free[link], time), link))
                    start = max(self.free[link], time)
                    self.chunk.append(content.chunk * self.pieces + piece)
                    self.link.append(link)
                    self.start.append(start)
                    self.free[link] = start + int(self.hold[link])
                    time = start + int(self.travel[link] + self.topology.latency[link])
                    left = max(left, self.free[link]) if hop == 0 else left
                arrived = max(arrived, time)
        return left, arrived

    def _way(self, src: int, dst: int) -> list[list[int]]:
        """The shortest way: for each hop, the parallel links that it may take."""
        if (src, dst) not in self.ways:
            self.ways[src, dst] = self._shortest(src, dst)
        return self.ways[src, dst]

    def _shortest(self, src: int, dst: int) -> list[list[int]]:
        """Dijkstra's algorithm: over as few NPUs as possible, since relays keep what they pass on, and then by time."""
        first, out = self.topology.out_links
        best: dict[int, tuple[int, int]] = {src: (0, 0)}
        came: dict[int, int] = {}
        heap = [(0, 0, src)]
        while heap:
            npus, time, device = heappop(heap)
            if device == dst:
                break
            if best[device] < (npus, time):
                continue
            for link in out[first[device] : first[device + 1]].tolist():
                ahead = int(self.topology.dst[link])
                cost = (npus + (not self.topology.is_switch(ahead)),
                        time + int(self.travel[link] + self.topology.latency[link]))  # fmt: skip
                if ahead not in best or cost < best[ahead]:
                    best[ahead], came[ahead] = cost, device
                    heappush(heap, (*cost, ahead))
        if dst not in came:
            raise TopologyError(f"{self.topology.name} has no way from NPU {src} to NPU {dst}")
        way, device = [], dst
        while device != src:
            before = came[device]
            links = out[first[before] : first[before + 1]]
            way.append(links[self.topology.dst[links] == device].tolist())
            device = before
        return way[::-1]
