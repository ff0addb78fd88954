"""What links are really like: latency, bandwidth and gap of every link of a network, measured between ranks.

One pair of ranks after another sends messages of different sizes to and fro, while all others are quiet. What pairs
measure is the way between them; links that only lead to switches get what the ways over them have in common.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pccl._arrays import Ints
from pccl.errors import RunError
from pccl.lab.box import in_box
from pccl.lab.ranks import WIRING, connect_neighbours
from pccl.lab.wiring import Wiring
from pccl.runtime.pool import Pool
from pccl.schemes.workload import follow, shortest
from pccl.topology import Topology

# A message of this many bytes shows latencies; from the second size on they are doubled to find the bandwidth.
_SMALL = 8
_FIRST_SIZE = 2**15
_LARGEST_SIZE = 2**26
# Seconds for which a message must be under way, so that timers and schedulers do not matter.
_LONG_ENOUGH = 0.08
# The best of so many counts, as nothing makes a message faster than its link.
_REPEATS = 5
# So many small ones in a row show what a message costs the link.
_MANY = 64
_TIMEOUT = 60.0


class Sample(NamedTuple):
    """What was measured between two ranks: seconds, bytes a second, and seconds a message."""

    latency: float
    bandwidth: float
    gap: float


class Ways(NamedTuple):
    """The pairs of ranks that are measured, and the links between each: ``links[first[i] : first[i + 1]]``."""

    pairs: list[tuple[int, int]]
    first: Ints
    links: Ints


def ways_over(topology: Topology) -> Ways:
    """Pairs of ranks with short ways between them, so that every link is on one of these ways.

    Examples
    --------
    >>> import pccl
    >>> ways_over(pccl.topology.switch(3)).pairs
    [(0, 1), (1, 0), (0, 2), (2, 0)]
    """
    npus = topology.npus
    if len(npus) < 2 or not topology.num_links:
        raise RunError(f"{topology.name} has no links between NPUs to measure")
    place = np.full(topology.num_devices, -1, np.int64)
    place[npus] = np.arange(len(npus))
    src, dst = (axis.ravel() for axis in np.meshgrid(npus, npus, indexing="ij"))
    src, dst = src[src != dst], dst[src != dst]
    towards, _ = shortest(topology, _FIRST_SIZE, npus)
    reached = np.array([bool(towards[place[b], a] >= 0) for a, b in zip(src, dst, strict=True)])
    src, dst = src[reached], dst[reached]
    first, links = follow(topology, towards, place[dst], src, dst)
    left = set(range(topology.num_links))
    # Of parallel links, routes take one.
    for twins in _parallel(topology).values():
        left -= set(twins[1:])
    chosen = []
    # The shortest ways say most about the links on them; at first those of which every link is new.
    by_length = np.argsort(np.diff(first), kind="stable").tolist()
    for only_new in (True, False):
        for way in by_length:
            mine = set(links[first[way] : first[way + 1]].tolist())
            if mine <= left if only_new else mine & left:
                chosen.append(way)
                left -= mine
    taken = [links[first[way] : first[way + 1]] for way in chosen]
    pairs = [(int(place[src[way]]), int(place[dst[way]])) for way in chosen]
    offsets = np.cumsum([0, *map(len, taken)])
    return Ways(pairs, offsets, np.concatenate(taken) if taken else links[:0])


def probe_rank(transport: Any, pairs: Sequence[tuple[int, int]]) -> dict[int, Sample]:
    """Measure one pair after another, on every rank; returns what this rank has measured."""
    found = {}
    for number, (src, dst) in enumerate(pairs):
        if transport.rank == src:
            found[number] = _ask(transport, dst)
        elif transport.rank == dst:
            _answer(transport, src)
        # Nobody else sends anything in the meantime.
        transport.exchange(b"")
    return found


def probed(topology: Topology, ways: Ways, samples: dict[int, Sample]) -> Topology:
    """The network with what was measured; links that no way leads over stay as they are."""
    columns = {
        name: getattr(topology, name).copy()
        for name in ("bandwidth", "latency", "gap", "exclusive")
    }
    columns["exclusive"][:] = False
    best = np.zeros(topology.num_links)
    width = {twins[0]: len(twins) for twins in _parallel(topology).values()}
    for way, sample in samples.items():
        links = ways.links[ways.first[way] : ways.first[way + 1]].tolist()
        for link in links:
            share = sample.bandwidth / width[link]
            # A way is as fast as its slowest link: every link is as fast as the fastest way over it, or faster.
            if share > best[link]:
                best[link] = share
                columns["bandwidth"][link] = max(round(share), 1)
                columns["latency"][link] = round(sample.latency / len(links) * 1e12)
                columns["gap"][link] = round(sample.gap * 1e12)
    for twins in _parallel(topology).values():
        for twin in twins[1:]:
            for column in columns.values():
                column[twin] = column[twins[0]]
    return topology.derived(name=f"{topology.name}, measured", **columns)


def probe_processes(topology: Topology) -> Topology:
    """Measure between processes of this machine, joined by sockets."""
    ways = ways_over(topology)
    with Pool(topology.num_npus, "pccl.runtime.pool:connect_sockets", _TIMEOUT) as pool:
        found = pool.run("pccl.lab.probe:probe_rank", ways.pairs)
    return probed(topology, ways, _joined(found))


def probe_box(wiring: Wiring) -> Topology:
    """Measure the network of a box, from inside."""
    ways = ways_over(wiring.topology)
    # A pair takes about ten times as long as its longest message.
    timeout = 60 + 5 * len(ways.pairs)
    found = in_box(wiring, _probe_inside, ways.pairs, timeout=timeout)
    return probed(wiring.topology, ways, _joined(found))


def probe_joined(transport: Any, topology: Topology) -> Topology | None:
    """Measure as one of the ranks that a launcher has started; rank 0 gets the network."""
    ways = ways_over(topology)
    mine = probe_rank(transport, ways.pairs)
    said = transport.exchange(pickle.dumps(mine))
    if transport.rank:
        return None
    return probed(topology, ways, _joined([pickle.loads(one) for one in said]))


def _probe_inside(wiring: Wiring, pairs: Sequence[tuple[int, int]]) -> list[dict[int, Sample]]:
    WIRING.write_bytes(pickle.dumps(wiring))
    way = f"{connect_neighbours.__module__}:{connect_neighbours.__name__}"
    with Pool(wiring.topology.num_npus, way, _TIMEOUT) as pool:
        found: list[dict[int, Sample]] = pool.run(f"{__name__}:probe_rank", pairs)
    return found


def _joined(found: Sequence[dict[int, Sample]]) -> dict[int, Sample]:
    return {way: sample for each in found for way, sample in each.items()}


def _ask(transport: Any, peer: int) -> Sample:
    """Send messages, and measure until each is acknowledged."""
    small = _best(transport, peer, _SMALL, 1)
    many = _best(transport, peer, _SMALL, _MANY)
    size = _FIRST_SIZE
    while size < _LARGEST_SIZE and _best(transport, peer, size, 1, 1) < _LONG_ENOUGH:
        size *= 2
    whole = _best(transport, peer, size, 1)
    half = _best(transport, peer, size // 2, 1)
    _tell(transport, peer, 0, 0)
    # What both have in common, such as the way back, is not counted.
    seconds = max(whole - half, 1e-9)
    return Sample(small / 2, (size - size // 2) / seconds, max(many - small, 0.0) / (_MANY - 1))


def _best(transport: Any, peer: int, size: int, count: int, repeats: int = _REPEATS) -> float:
    """Seconds until so many messages of this size were acknowledged, at best."""
    data = np.zeros(size, np.uint8)
    done = np.zeros(1, np.uint8)
    best = np.inf
    for _ in range(repeats):
        _tell(transport, peer, size, count)
        transport.receive(done, peer, 1).wait()
        begin = time.perf_counter()
        handles = [transport.send(data, peer, 2) for _ in range(count)]
        transport.receive(done, peer, 1).wait()
        best = min(best, time.perf_counter() - begin)
        for handle in handles:
            handle.wait()
    return float(best)


def _tell(transport: Any, peer: int, size: int, count: int) -> None:
    transport.send(np.array([size, count], np.int64), peer, 0).wait()


def _answer(transport: Any, peer: int) -> None:
    """Acknowledge what comes, until there is no more."""
    what = np.zeros(2, np.int64)
    done = np.zeros(1, np.uint8)
    while True:
        transport.receive(what, peer, 0).wait()
        size, count = what.tolist()
        if not count:
            return
        data = np.zeros(size, np.uint8)
        handles = [transport.receive(data, peer, 2) for _ in range(count)]
        transport.send(done, peer, 1).wait()
        for handle in handles:
            handle.wait()
        transport.send(done, peer, 1).wait()


def _parallel(topology: Topology) -> dict[tuple[int, int], list[int]]:
    """Links by their ends."""
    found: dict[tuple[int, int], list[int]] = {}
    ends = zip(topology.src.tolist(), topology.dst.tolist(), strict=True)
    for link, pair in enumerate(ends):
        found.setdefault(pair, []).append(link)
    return found
