"""The simulator: what an algorithm does when it runs, from what depends on what and nothing else.

Planned starts are not trusted: they only say which input a transfer uses and in which order a link was meant to serve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pccl._arrays import Floats, Indices, Ints
from pccl.algorithm import Algorithm
from pccl.algorithm.apart import kept_apart
from pccl.algorithm.core import check_algorithm
from pccl.algorithm.holding import held_time
from pccl.algorithm.queues import first_come_starts
from pccl.algorithm.timing import find_inputs, planned_starts, times_of
from pccl.errors import PcclError, TopologyError
from pccl.network import LONGEST
from pccl.topology import Topology
from pccl.units import Picoseconds, whole

# When transfers start, by the name of the order in which links serve.
DISCIPLINES = {"planned": planned_starts, "fifo": first_come_starts}


class SimulatedTransfers(NamedTuple):
    """Some of the transfers of a simulation, in the order in which they start; times are in picoseconds."""

    transfer: Ints  #: rows of ``algorithm.transfers``
    chunk: Indices
    link: Indices
    start: Ints  #: when the first byte enters the link
    free: Ints  #: when the link is free again
    arrival: Ints  #: when the receiver has the whole chunk


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
    def utilization(self) -> Floats:
        """Per link: the share of the time for which it is held."""
        return self.link_busy / max(int(self.finish), 1)

    def chunk_timeline(self, chunk: int) -> SimulatedTransfers:
        """The transfers of a chunk, wherever it goes.

        Examples
        --------
        >>> import pccl
        >>> line = pccl.topology.line(3, bandwidth="1GB/s", latency="500ns")
        >>> simulation = pccl.simulate(pccl.synthesize(line, pccl.Broadcast(size="1kB", chunks=1)))
        >>> way = simulation.chunk_timeline(0)
        >>> [line.link_text(link) for link in way.link]
        ['link 0 (NPU 0 -> NPU 1)', 'link 2 (NPU 1 -> NPU 2)']
        >>> way.start.tolist(), way.arrival.tolist()
        ([0, 1500000], [1500000, 3000000])
        """
        return self._timeline("chunk", chunk, len(self.algorithm.conditions), "the algorithm")

    def link_timeline(self, link: int) -> SimulatedTransfers:
        """The transfers over a link: it is held from each ``start`` until it is ``free``, and idle in between.

        Examples
        --------
        >>> import pccl
        >>> ring = pccl.topology.ring(3, unidirectional=True, bandwidth="1GB/s", latency="0ns")
        >>> simulation = pccl.simulate(pccl.synthesize(ring, pccl.AllGather(size="3kB")))
        >>> timeline = simulation.link_timeline(1)
        >>> timeline.chunk.tolist(), timeline.start.tolist(), timeline.free.tolist()
        ([1, 0], [0, 1000000], [1000000, 2000000])
        """
        topology = self.algorithm.topology
        return self._timeline("link", link, topology.num_links, topology.name)

    def _timeline(self, name: str, number: int, count: int, where: str) -> SimulatedTransfers:
        """The transfers that have this number in a column."""
        transfers = self.algorithm.transfers
        free = self.start + self.hold
        columns: Any = (transfers.chunk, transfers.link, self.start, free, self.arrival)
        rows = np.flatnonzero(getattr(transfers, name) == _known(number, count, name, where))
        rows = rows[np.argsort(self.start[rows], kind="stable")]
        return SimulatedTransfers(rows, *(column[rows] for column in columns))

    def utilization_over_time(self, intervals: int = 100, *, link: int | None = None) -> Floats:
        """Share of all links that are held, in each of so many equal intervals until the finish.

        With `link`, the share of each interval for which that link is held.

        Examples
        --------
        >>> import pccl
        >>> ring = pccl.topology.ring(4, unidirectional=True, latency="0ns", bandwidth="1GB/s")
        >>> pccl.simulate(pccl.synthesize(ring, pccl.AllGather(size="4kB"))).utilization_over_time(3).tolist()
        [1.0, 1.0, 1.0]
        """
        if whole(intervals) is None or intervals < 1:
            raise PcclError(
                f"the number of intervals must be a whole number from 1 on, not {intervals!r}"
            )
        if not int(self.finish):
            return np.zeros(intervals)
        transfers = np.arange(len(self.start))
        links = self.algorithm.topology.num_links
        if link is not None:
            transfers = self.link_timeline(link).transfer
            links = 1
        width = int(self.finish) / intervals
        # All links count as one row, which several transfers hold at the same time.
        held = held_time(
            np.zeros_like(transfers),
            self.start[transfers],
            self.hold[transfers],
            rows=1,
            intervals=intervals,
            width=width,
        )
        return np.clip(held.ravel() / (width * links), 0.0, 1.0)

    def to_algorithm(self) -> Algorithm:
        """The algorithm with the simulated starts as its plan."""
        made = self.algorithm.provenance
        return replace(
            self.algorithm,
            transfers=self.algorithm.transfers.timed(self.start),
            provenance=replace(made, method=f"{made.method}, timed by {self.discipline}"),
            bound=None,
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
        ``"planned"``: each link serves its transfers in the planned order. ``"fifo"``: as they become ready. Either way
        switches keep within their limits. In the planned order chunks take each other's places in a finite buffer as
        planned. With ``"fifo"`` a chunk is only sent to a switch where it has been given a place, which it keeps until
        the switch has sent it on; chunks that wait for each other in this way forever are an error.
    slowdown
        Per link, how many times longer a transmission takes: a mapping from link numbers, or one number per link.
    jitter
        Every transmission takes up to this share longer, at random: ``0.1`` for up to 10 %.
    seed
        For the jitter.
    topology
        Another network with the same links, whose bandwidths, latencies, exclusive links and limits count instead.

    Examples
    --------
    >>> import pccl
    >>> algorithm = pccl.synthesize(pccl.topology.mesh(3, 3), pccl.AllToAll(size="9MiB"))
    >>> pccl.simulate(algorithm).finish == algorithm.duration
    True
    >>> pccl.simulate(algorithm, slowdown={0: 2.0}).finish > algorithm.duration
    True
    """
    check_algorithm(algorithm, "simulate runs")
    if discipline not in DISCIPLINES:
        raise PcclError(
            f"there is no discipline {discipline!r}; there are {', '.join(DISCIPLINES)}"
        )
    own = algorithm.topology
    world = topology or own
    for name in ("kind", "src", "dst"):
        if not np.array_equal(getattr(world, name), getattr(own, name)):
            raise TopologyError(
                f"{world.name} does not have the links of {own.name}, on which the algorithm runs"
            )
    for name, verb in (("multicast", "multiply"), ("reduce", "add")):
        lost = getattr(own, name) & ~getattr(world, name)
        if np.any(lost):
            switch = world.device_text(int(np.argmax(lost)))
            raise TopologyError(f"{world.name}: {switch} cannot {verb}, which the plan may rely on")
    transfers = algorithm.transfers
    transmission = replace(transfers, topology=world).transmission
    if slowdown is not None or jitter:
        slower = _slowdown(world, slowdown)[transfers.link] - 1
        varied = _jitter(len(transfers), jitter, seed)
        # Times stay exact where they are by no share longer.
        more = transmission * (slower + varied + slower * varied)
        if np.any(more > LONGEST):
            raise PcclError("with these slowdowns and this jitter, a transmission would take weeks")
        # Faster links may round to nothing, but whatever waits for a transfer must come after it.
        transmission = np.maximum(transmission + np.rint(more).astype(np.int64), 1)
    return play(algorithm, discipline, world, transmission)


def play(algorithm: Algorithm, discipline: str, world: Topology, transmission: Ints) -> Simulation:
    """Run an algorithm in a world with the same links, where its transmissions take so long."""
    transfers = algorithm.transfers
    times = times_of(transfers, world, transmission)
    start = DISCIPLINES[discipline](transfers, world, times)
    # Where everyone ends with a sum, partial sums may be exchanged; none is added to what has yet to be sent.
    conditions = algorithm.conditions
    if np.any(conditions.reduces & (conditions.num_destinations > 1)) and not world.limited:
        inputs = find_inputs(transfers, world)
        apart = kept_apart(transfers, inputs, times, start, transfers.arrival)
        start = start if apart is None else apart
    return Simulation(algorithm, discipline, start, start + times.travel, times.hold)


def _jitter(count: int, jitter: float, seed: int) -> Floats:
    """By which share each transmission takes longer."""
    if isinstance(jitter, bool) or not isinstance(jitter, int | float) or not 0 <= jitter < 1e6:
        raise PcclError(f"jitter must be a share from 0 on, such as 0.1, not {jitter!r}")
    if whole(seed) is None or seed < 0:
        raise PcclError(f"the seed must be a whole number from 0 on, not {seed!r}")
    return jitter * np.random.default_rng(seed).random(count)


def _slowdown(world: Topology, slowdown: Mapping[int, float] | ArrayLike | None) -> Floats:
    """How many times longer a transmission takes on each link."""
    factors = np.ones(world.num_links)
    if slowdown is None:
        return factors
    given: Any = slowdown
    if not isinstance(slowdown, Mapping):
        if np.shape(given) != factors.shape:
            raise PcclError(f"slowdown has {np.size(given)} entries for {world.num_links} links")
        given = dict(enumerate(given))
    try:
        for link, factor in given.items():
            known = _known(link, world.num_links, "link", f"slowdown: {world.name}")
            factors[known] = factor
    except (TypeError, ValueError):
        raise PcclError("slowdown: factors must be numbers, such as 1.5") from None
    if not np.all((factors > 0) & (factors < 1e9)):
        raise PcclError("slowdown: factors must be positive, and less than a billion")
    return factors


def _known(number: object, count: int, what: str, where: str) -> int:
    known = whole(number)
    if known is None or not 0 <= known < count:
        raise PcclError(f"{where} has no {what} {number!r}; it has {count}")
    return known
