"""An MSCCL-IR file as an algorithm on a topology, so that what people run today can be simulated and judged.

Every message becomes transfers over the shortest way between its ranks, as early as the file and the links allow.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any

import numpy as np

from pccl._arrays import Column
from pccl.algorithm import Algorithm, Provenance, verify
from pccl.collective import Collective
from pccl.errors import FormatError, InternalError, TopologyError, VerificationError
from pccl.formats.machine import BY_NAME, Kind, Line, Memory, Problem
from pccl.formats.msccl.execution import SENDER, Execution, connect
from pccl.formats.msccl.file import Step, XmlAlgorithm, read
from pccl.formats.msccl.interpreter import Machine, buffer_sizes
from pccl.formats.msccl.rules import beyond_buffers, broken_parts
from pccl.formats.msccl.targets import CHOSEN, DEPTHS, plain_name
from pccl.network import NEVER, network, price_table
from pccl.topology import Topology
from pccl.topology.parts import SWITCH
from pccl.units import Bytes, Size, counted, parse

# Older files lack these.
_LATER = ("outofplace", "minBytes", "maxBytes")


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
    file = _readable(path)
    npus = topology.npus.tolist() if group is None else list(group)
    if len(npus) != file.ngpus:
        raise FormatError(
            f"{path} is for {counted(file.ngpus, 'rank')}, not for {counted(len(npus), 'NPU')}; "
            "say which NPUs with group"
        )
    ranks = list(file.purpose.members or range(file.ngpus)) if members is None else list(members)
    if not {*ranks} <= {*range(file.ngpus)}:
        raise FormatError(f"{path} has ranks 0 to {file.ngpus - 1}; the members are {ranks}")
    # Limits and sizes do not matter here, only what the file does: it need not be one that a runtime accepts.
    execution, problems = connect(file, DEPTHS.get(file.proto, 2))
    _refuse(path, problems)
    size = parse(Bytes, size, "size")
    collective, pieces = _collective(file, [npus[rank] for rank in ranks], size)
    unit = int(size) // file.nchunksperloop
    memory = _memory(file, collective, topology, npus, unit)
    _refuse(path, beyond_buffers(file, memory.sizes))
    contents = _Follower(execution, memory, "")
    contents.run()
    chunk = int(collective.conditions(topology).bytes.max(initial=1))
    schedule = _Schedule(topology, npus, chunk, pieces)
    schedule.place(execution, contents.messages)
    return _algorithm(schedule, collective, str(path))


def _readable(path: str | Path) -> XmlAlgorithm:
    file, problems = read(path, may_lack=_LATER)
    _refuse(path, problems)
    if file is None:
        raise FormatError(f"{path}: there is nothing in it")
    if plain_name(file.coll) not in CHOSEN:
        raise FormatError(f"{path}: {file.coll!r} cannot be imported; {', '.join(CHOSEN)} can")
    if file.purpose.shares:
        raise FormatError(
            f"{path}: it is padded, and sends parts of its shares only; such files cannot be imported"
        )
    _refuse(path, broken_parts(file))
    file.outofplace = file.outofplace or int(not file.inplace)
    return file


def _refuse(path: str | Path, problems: list[Problem]) -> None:
    if problems:
        raise FormatError(f"{path}: {problems[0]}; 'pccl check' says more")


def _collective(file: XmlAlgorithm, group: list[int], size: Bytes) -> tuple[Collective, int]:
    """The collective, and into how many chunks of it one chunk of the file is cut."""
    kind = BY_NAME[plain_name(file.coll)]
    whole = file.nchunksperloop
    # Members have shares of a sum that all end with; otherwise all ranks have shares in the buffers of the file.
    sums_everywhere = kind.collects and kind.spreads
    shares = len(group) if sums_everywhere else file.ngpus
    # A sum may be one chunk in the file, and still has a share for every member.
    pieces = shares // math.gcd(whole, shares)
    if pieces > 1 and not sums_everywhere:
        raise FormatError(
            f"{counted(whole, 'chunk')} cannot be shares of {counted(shares, 'rank')}"
        )
    if int(size) % (whole * pieces):
        near = Bytes(max(1, round(int(size) / (whole * pieces))) * whole * pieces)
        raise FormatError(
            f"size {size} does not divide into {counted(whole * pieces, 'chunk')}; try {near}"
        )
    buffer = Bytes(int(size) // shares * len(group))
    return kind(buffer, group=group, chunks=whole * pieces // shares), pieces


@dataclass(frozen=True, slots=True)
class Content:
    """A chunk of the collective (or -1 if it is not part of it), and who has contributed to it, one bit each."""

    chunk: int
    bits: int

    def __add__(self, other: Content) -> Content:
        # A contribution counted twice would make a wrong sum.
        if self.chunk != other.chunk or self.bits & other.bits:
            raise ArithmeticError
        return Content(self.chunk, self.bits | other.bits)


def _memory(
    file: XmlAlgorithm, collective: Collective, topology: Topology, npus: list[int], unit: int
) -> Memory:
    """Buffers whose inputs hold the chunks of the collective, of which each has so many bytes in the file."""
    rank_of = np.full(topology.num_devices, -1, np.int64)
    rank_of[npus] = np.arange(len(npus))
    promise = collective.promise(rank_of, len(npus))
    memory = Memory(buffer_sizes(file, promise, unit), not file.outofplace, dtype=object)
    for rank, sizes in enumerate(memory.sizes):
        cells = memory.cells(rank, "i", 0, sizes["i"])
        memory.values[cells] = Content(-1, 0)
        memory.know(cells)
    for chunk in range(len(collective.conditions(topology))):
        place, inside = divmod(int(promise.input_offset[chunk]), unit)
        # A chunk of the file that is cut into several is known by its first.
        for k, rank in enumerate(promise.contributors(chunk).tolist() if not inside else ()):
            memory.values[memory.cells(rank, "i", place, 1)] = Content(chunk, 1 << k)
    return memory


class _Follower(Machine):
    """Runs a file on contents instead of numbers, to find out what its messages carry."""

    def report(self, problem: Problem) -> None:
        """Refuse a file that has nothing to send; which of two things it sends in a race is left to the order."""
        if problem.kind is Kind.UNWRITTEN:
            raise FormatError(str(problem))

    def _execute(self, step: Step, line: Line, values: Any) -> Any:
        try:
            return super()._execute(step, line, values)
        except ArithmeticError:
            raise FormatError(
                f"{step}: it adds what does not belong together, or the same contribution twice"
            ) from None


def _algorithm(schedule: _Schedule, collective: Collective, path: str) -> Algorithm:
    columns = (schedule.chunk, schedule.link, schedule.start)
    # Which transfers add can be seen only once all are there, in the order in which the algorithm keeps them.
    draft = Algorithm.build(
        schedule.topology, [collective], *map(np.array, columns), follows=np.array(schedule.before)
    )
    t = draft.transfers
    adds = np.array(_adds(draft), np.bool_)
    follows = None
    if schedule.topology.plain:
        follows = np.where(replace(t, reduce=adds).passes_on, t.follows, -1)
    algorithm = Algorithm.build(
        schedule.topology,
        [collective],
        t.chunk,
        t.link,
        t.start,
        adds,
        follows=follows,
        provenance=Provenance(f"imported from {Path(path).name}"),
    )
    try:
        verify(algorithm)
    except VerificationError as error:
        raise FormatError(f"{path} does not map onto {schedule.topology.name}: {error}") from None
    return algorithm


def _adds(draft: Algorithm) -> list[bool]:
    """Per transfer of a sum: whether its receiver has other contributions, which it is added to.

    What a switch only passes on is added if it is where its message ends.
    """
    t = draft.transfers
    c = draft.conditions
    topology = draft.topology
    count = len(t)
    adds = [False] * count
    if not c.reduces.any():
        return adds
    # Per chunk and device: whose contributions it has, one bit each. What arrives is there for all that leaves then.
    held: dict[tuple[int, int], int] = defaultdict(int)
    for chunk in range(len(c)):
        for k, npu in enumerate(c.sources(chunk).tolist()):
            held[chunk, npu] = 1 << k
    passes = (topology.kind == SWITCH) & ~topology.multicast & ~topology.reduce
    flying: dict[int, int] = {}
    events = np.lexsort((np.concatenate([t.arrival, t.start]), np.tile(t.chunk, 2)))
    for leaves, i in zip(*(part.tolist() for part in np.divmod(events, count)), strict=True):
        chunk = int(t.chunk[i])
        if leaves:
            passed = passes[t.src[i]]
            flying[i] = flying[int(t.follows[i])] if passed else held[chunk, int(t.src[i])]
            continue
        device = int(t.dst[i])
        if passes[device]:
            continue
        new = flying[i]
        old = held[chunk, device]
        adds[i] = bool(old) and not new & old
        trouble = ""
        if new & old and old & ~new:
            trouble = "cannot keep them apart"
        elif adds[i] and topology.is_switch(device):
            trouble = "would add them"
        if trouble:
            if topology.is_switch(device):
                trouble += "; import it on the network with plain switches, or unrolled (--unroll)"
            raise FormatError(
                f"chunk {chunk}: partial sums meet in {topology.device_text(device)}, which {trouble}"
            )
        held[chunk, device] = new | old
    # From the end of every message back to its beginning.
    for i in np.argsort(-t.start, kind="stable")[: count if topology.plain else 0].tolist():
        if passes[t.src[i]]:
            adds[t.follows[i]] = adds[i]
    return adds


class _Schedule:
    """Transfers with their times: every message starts when the file lets it and its links are free."""

    def __init__(self, topology: Topology, npus: list[int], size: int, pieces: int) -> None:
        self.topology = topology
        self.npus = npus
        self.pieces = pieces
        net = network(topology, np.array([size]))
        travel, hold = np.empty((2, topology.num_links), np.int64)
        travel[net.link] = net.travel[0][net.kind] * net.unit
        hold[net.link] = net.hold[0][net.kind] * net.unit
        self.travel = travel.tolist()
        self.hold = hold.tolist()
        self.free = [0] * topology.num_links
        # As few NPUs as possible, since relays keep what they pass on, and then as little time as possible.
        more_than_any_way = int(travel.max(initial=0)) * topology.num_devices + 1
        relays = ~np.isin(topology.dst, topology.switches)
        self.price = travel + relays * more_than_any_way
        self.distance = price_table(topology, self.price)
        self.ways: dict[tuple[int, int], list[list[int]]] = {}
        self.chunk: list[int] = []
        self.link: list[int] = []
        self.start: list[int] = []
        self.before: list[
            int
        ] = []  # of the same message, the row before; -1 where a switch is not the sender

    def place(self, execution: Execution, messages: Mapping[int, Column]) -> None:
        """Take the steps as they become ready, and give times to what they send."""
        followers: list[list[int]] = [[] for _ in execution.steps]
        missing = (execution.waits >= 0).sum(axis=1).tolist()
        for number, reason in np.argwhere(execution.waits >= 0).tolist():
            followers[execution.waits[number, reason]].append(number)
        ready = [(0, number) for number, count in enumerate(missing) if not count]
        heapify(ready)
        since = [0] * len(missing)
        landed: dict[int, int] = {}
        while ready:
            now, number = heappop(ready)
            now = max(now, landed.get(int(execution.waits[number, SENDER]), 0))
            if number in messages:
                src, dst, _ = execution.steps[number].around.sends_on
                chunks = [content.chunk for content in messages[number]]
                left, landed[number] = self._send(self.npus[src], self.npus[dst], chunks, now)
                now = max(now, left)
            # Later steps begin when all that they wait for is done.
            for other in followers[number]:
                since[other] = max(since[other], now)
                missing[other] -= 1
                if not missing[other]:
                    heappush(ready, (since[other], other))

    def _send(self, src: int, dst: int, chunks: list[int], now: int) -> tuple[int, int]:
        """Send the chunks of a message; returns when the sender is done and when the last of them has arrived."""
        left = arrived = now
        for first in chunks:
            if first < 0:
                raise FormatError(f"NPU {src} sends NPU {dst} what is not part of the collective")
            for chunk in range(first, first + self.pieces):
                time = now
                for hop, links in enumerate(self._way(src, dst)):
                    # Of parallel links, the one that is free first.
                    start, link = min((max(self.free[link], time), link) for link in links)
                    self.chunk.append(chunk)
                    self.link.append(link)
                    self.start.append(start)
                    passes = self.topology.kind[self.topology.src[link]] == SWITCH
                    self.before.append(len(self.before) - 1 if passes else -1)
                    self.free[link] = start + self.hold[link]
                    time = start + self.travel[link]
                    # The sender is done when its own link has taken everything; the rest of the way is up to others.
                    if hop == 0:
                        left = max(left, self.free[link])
                arrived = max(arrived, time)
        return left, arrived

    def _way(self, src: int, dst: int) -> list[list[int]]:
        """The shortest way: for each hop, the parallel links that it may take."""
        if (src, dst) in self.ways:
            return self.ways[src, dst]
        if self.distance[src, dst] >= NEVER:
            raise TopologyError(f"{self.topology.name} has no way from NPU {src} to NPU {dst}")
        first, out = self.topology.out_links
        way = []
        device = src
        for _ in range(self.topology.num_devices):
            if device == dst:
                break
            links = out[first[device] : first[device + 1]]
            ahead = self.topology.dst[links]
            on_way = self.price[links] + self.distance[ahead, dst] == self.distance[device, dst]
            # Any device that is as near as can be will do; the first is as good as others.
            device = int(ahead[on_way][0])
            way.append(links[ahead == device].tolist())
        else:
            raise InternalError(f"a shortest way from NPU {src} does not end at NPU {dst}")
        self.ways[src, dst] = way
        return way
