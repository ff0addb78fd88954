"""The simulator: what an algorithm does when it runs, from what depends on what and nothing else.

Planned starts are not trusted: they only say which input a transfer uses and in which order a link was meant to serve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pccl.algorithm import Algorithm, Provenance
from pccl.analysis import kernels
from pccl.analysis.kernels import Inputs, Service
from pccl.errors import PcclError, TopologyError
from pccl.topology import Topology
from pccl.topology.core import transmission_time
from pccl.units import Picoseconds

__all__ = ["Simulation", "simulate"]

Ints = NDArray[np.int64]
DISCIPLINES = ("planned", "fifo")


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """When every transfer really started and arrived; rows are those of ``algorithm.transfers``."""

    algorithm: Algorithm
    discipline: str
    start: Ints
    arrival: Ints
    hold: Ints

    def __repr__(self) -> str:
        return f"Simulation({self.discipline}, {self.algorithm!r}: {self.finish})"

    @cached_property
    def finish(self) -> Picoseconds:
        """When the last chunk has arrived."""
        return Picoseconds(self.arrival.max(initial=0))

    @cached_property
    def chunk_finish(self) -> Ints:
        """Per chunk: when its last transfer has arrived."""
        finish = np.zeros(len(self.algorithm.conditions), np.int64)
        np.maximum.at(finish, self.algorithm.transfers.chunk, self.arrival)
        return finish

    @cached_property
    def link_busy(self) -> Ints:
        """Per link: for how long it is held, in picoseconds."""
        links = self.algorithm.topology.num_links
        return np.bincount(self.algorithm.transfers.link, self.hold, links).astype(np.int64)

    @property
    def utilization(self) -> NDArray[np.float64]:
        """Per link: the share of the time for which it is held."""
        return self.link_busy / max(int(self.finish), 1)

    def utilization_over_time(self, intervals: int = 100) -> NDArray[np.float64]:
        """Share of all links that are held, in each of so many equal intervals until the finish.

        Examples
        --------
        >>> import pccl
        >>> ring = pccl.topology.ring(4, unidirectional=True, latency="0ns", bandwidth="1GB/s")
        >>> pccl.simulate(pccl.synthesize(ring, pccl.AllGather(size="4kB"))).utilization_over_time(3).tolist()
        [1.0, 1.0, 1.0]
        """
        if not int(self.finish):
            return np.zeros(intervals)
        width = int(self.finish) / intervals
        # The time for which links have been held grows along ramps; what it grows by in an interval is its share.
        edges = np.arange(intervals + 1) * width
        begun, ended = np.sort(self.start), np.sort(self.start + self.hold)
        held = np.zeros(intervals + 1)
        for moments, sign in ((begun, 1), (ended, -1)):
            sums = np.concatenate([[0.0], np.cumsum(moments, dtype=np.float64)])
            before = np.searchsorted(moments, edges, side="right")
            held += sign * (before * edges - sums[before])
        return np.clip(np.diff(held) / width / max(self.algorithm.topology.num_links, 1), 0.0, 1.0)

    def to_algorithm(self) -> Algorithm:
        """The algorithm with the simulated starts as its plan."""
        t, old = self.algorithm.transfers, self.algorithm.provenance
        return Algorithm.build(
            self.algorithm.topology,
            self.algorithm.collectives,
            t.chunk,
            t.link,
            self.start,
            t.reduce,
            conditions=self.algorithm.conditions,
            provenance=Provenance(f"{old.method}, timed by {self.discipline}", old.seed, old.seconds, old.version),
        )


def simulate(
    algorithm: Algorithm,
    discipline: str = "planned",
    *,
    slowdown: Mapping[int, float] | ArrayLike | None = None,
    jitter: float = 0.0,
    seed: int = 0,
    topology: Topology | None = None,
) -> Simulation:
    """Run an algorithm, if need be in a world that differs from the one it was made for.

    Parameters
    ----------
    algorithm
        Any algorithm, ours or not.
    discipline
        ``"planned"``: each link serves its transfers in the planned order. ``"fifo"``: as they become ready.
    slowdown
        Per link, how many times longer a transmission takes: a mapping from link numbers, or one number per link.
    jitter
        Every transmission takes up to this share longer, at random: ``0.1`` for up to 10 %.
    seed
        For the jitter.
    topology
        Another network with the same links, whose bandwidths, latencies and exclusive links count instead.

    Examples
    --------
    >>> import pccl
    >>> algorithm = pccl.synthesize(pccl.topology.mesh(3, 3), pccl.AllToAll(size="9MiB"))
    >>> pccl.simulate(algorithm).finish == algorithm.duration
    True
    >>> pccl.simulate(algorithm, slowdown={0: 2.0}).finish > algorithm.duration
    True
    """
    if discipline not in DISCIPLINES:
        raise PcclError(f"there is no discipline {discipline!r}; there are {', '.join(DISCIPLINES)}")
    world = _world(algorithm, topology)
    hold, travel = _times(algorithm, world, slowdown, jitter, seed)
    inputs, order = _inputs(algorithm), np.lexsort((algorithm.transfers.link, algorithm.transfers.start))
    start, arrival = np.zeros((2, len(order)), np.int64)
    link = algorithm.transfers.link
    if discipline == "planned":
        free = np.zeros(world.num_links, np.int64)
        kernels.serve_as_planned(order, link, inputs, hold, travel, free, start, arrival)
    else:
        _first_come(order, link, inputs, world.num_links, (hold, travel, start, arrival))
    return Simulation(algorithm, discipline, start, arrival, hold)


def _world(algorithm: Algorithm, topology: Topology | None) -> Topology:
    own = algorithm.topology
    if topology is None:
        return own
    if not (np.array_equal(topology.src, own.src) and np.array_equal(topology.dst, own.dst)):
        raise TopologyError(f"{topology.name} does not have the links of {own.name}, on which the algorithm runs")
    return topology


def _times(
    algorithm: Algorithm, world: Topology, slowdown: Mapping[int, float] | ArrayLike | None, jitter: float, seed: int
) -> tuple[Ints, Ints]:
    """Per transfer: how long it holds its link, and how long it travels."""
    t = algorithm.transfers
    duration = transmission_time(t.bytes, world.bandwidth[t.link])
    factor = _factors(world, slowdown)[t.link]
    if jitter:
        if not 0 <= jitter < 1e6:
            raise PcclError(f"jitter must be a share from 0 on, such as 0.1, not {jitter!r}")
        factor = factor * (1 + jitter * np.random.default_rng(seed).random(len(t)))
    if np.any(factor != 1.0):
        duration = np.ceil(duration * factor).astype(np.int64)
    latency = world.latency[t.link]
    return duration + np.where(world.exclusive[t.link], latency, 0), duration + latency


def _factors(world: Topology, slowdown: Mapping[int, float] | ArrayLike | None) -> NDArray[np.float64]:
    factors = np.ones(world.num_links)
    if isinstance(slowdown, Mapping):
        for link, factor in slowdown.items():
            if not 0 <= link < world.num_links:
                raise TopologyError(f"slowdown: {world.name} has no link {link}; it has {world.num_links}")
            factors[link] = factor
    elif slowdown is not None:
        given = np.asarray(slowdown, np.float64)
        if given.shape != factors.shape:
            raise PcclError(f"slowdown has {given.size} entries for {world.num_links} links")
        factors = given
    if not np.all((factors > 0) & (factors < 1e9)):
        raise PcclError("slowdown: factors must be positive")
    return factors


def _inputs(algorithm: Algorithm) -> Inputs:
    t = algorithm.transfers
    first = np.concatenate([[0], np.cumsum(np.bincount(t.chunk, minlength=len(algorithm.conditions)))])
    newest_at, chunk_at = np.full((2, algorithm.topology.num_devices), -1, np.int64)
    inputs = Inputs(np.full(len(t), -1, np.int64), np.full(len(t), -1, np.int64))
    arrival = t.arrival
    by_arrival = np.lexsort((arrival, t.chunk))
    sums = algorithm.conditions.reduces
    kernels.find_inputs(first, by_arrival, t.src, t.dst, t.start, arrival, sums, newest_at, chunk_at, inputs)
    return inputs


def _first_come(
    order: Ints, link: NDArray[np.int32], inputs: Inputs, links: int, times: tuple[Ints, Ints, Ints, Ints]
) -> None:
    count = len(order)
    first, missing = np.zeros(count + 2, np.int64), np.zeros(count, np.int64)
    kernels.list_followers(inputs, first, np.empty(0, np.int64), missing)
    np.cumsum(first, out=first)
    followers = np.empty(first[-1], np.int64)
    if len(followers):
        kernels.list_followers(inputs, first, followers, missing)
    hold, travel, start, arrival = times
    service = Service(
        first=np.full(links, -1, np.int64),
        last=np.full(links, -1, np.int64),
        busy=np.zeros(links, np.bool_),
        following=np.full(count, -1, np.int64),
        hold=hold,
        travel=travel,
        start=start,
        arrival=arrival,
    )
    heap = np.empty((count + links + 2, 3), np.int64)
    kernels.serve_first_come(order, link, first[:-1], followers, missing, service, heap)
