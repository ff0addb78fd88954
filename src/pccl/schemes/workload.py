"""What a scheme starts from: one collective, the members of its group, and fixed routes between them.

Routes go by dimensions on grids, otherwise the way that takes least time without traffic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pccl._arrays import Indices, Ints, offsets_by_owner
from pccl.collective import Collective, Conditions
from pccl.errors import InfeasibleError, InternalError, PcclError
from pccl.network import LONGEST, NEVER, network, unloaded_times
from pccl.topology import Topology
from pccl.topology.core import transmission_time


class UnsupportedError(PcclError):
    """A scheme cannot do this; `reason` says why, in words that follow its name."""

    def __init__(self, reason: str, name: str = "") -> None:
        super().__init__(f"the baseline {name!r} {reason}" if name else reason)
        self.reason = reason


class Paths(NamedTuple):
    """Path `i` goes over the links ``link[first[i] : first[i + 1]]``."""

    first: Ints
    link: Ints


@dataclass(frozen=True)
class Workload:
    """One collective on a topology. Members of its group are counted by their places in it."""

    topology: Topology
    collective: Collective
    members: Ints
    conditions: Conditions

    @classmethod
    def of(cls, topology: Topology, collective: Collective) -> Workload:
        """Look up who takes part, and what the collective asks for."""
        members = collective.members(topology.npus)
        return cls(topology, collective, members, collective.conditions(topology))

    # --- what is to be sent ---

    @cached_property
    def collects(self) -> bool:
        """Whether contributions are added up."""
        return bool(np.any(self.conditions.reduces))

    @cached_property
    def spreads(self) -> bool:
        """Whether shares, or their sums, go to everyone."""
        return not self.collects or bool(np.any(self.conditions.num_destinations > 1))

    @cached_property
    def by_piece(self) -> Ints:
        """All chunks, the first piece of every share before the second of any."""
        return np.argsort(self.conditions.piece, kind="stable")

    @cached_property
    def roots(self) -> Ints:
        """Per share: the member at which it begins or ends; members take turns to add up what goes to everyone."""
        conditions = self.conditions
        first = np.flatnonzero(conditions.piece == 0)
        if not self.collects:
            return self.place[conditions.source_ids[conditions.source_offsets[first]]]
        if not self.spreads:
            return self.place[conditions.destination_ids[conditions.destination_offsets[first]]]
        return np.arange(len(first)) % len(self.members)

    @cached_property
    def pairs(self) -> tuple[Ints, Ints, Ints]:
        """Between which devices chunks go, and for each chunk and destination which of these pairs is its own."""
        conditions = self.conditions
        source = conditions.source_ids[conditions.source_offsets[:-1]].astype(np.int64)
        return self._different(
            np.repeat(source, conditions.num_destinations), conditions.destination_ids
        )

    # --- the ways between members ---

    @cached_property
    def place(self) -> Ints:
        """Per device: which member it is, or -1."""
        place = np.full(self.topology.num_devices, -1, np.int64)
        place[self.members] = np.arange(len(self.members))
        return place

    @cached_property
    def size(self) -> int:
        """Bytes of the largest chunk, for which routes are chosen."""
        return int(self.conditions.bytes.max(initial=1))

    @cached_property
    def link_times(self) -> tuple[Ints, Ints]:
        """Per link: for how long the largest chunk holds it, and until when it has arrived; in picoseconds."""
        transmission = transmission_time(self.size, self.topology.bandwidth)
        return transmission + self.topology.overhead, transmission + self.topology.latency

    @cached_property
    def times(self) -> Ints:
        """From member to member without traffic; very long, but not infinitely, where there is no way."""
        _, remaining = self._shortest
        times = np.ascontiguousarray(remaining[:, self.members].T)
        # Bounded so that the sum round a tour of all members still fits an int64.
        return np.minimum(times, LONGEST // len(self.members))

    @cached_property
    def towards(self) -> Ints:
        """By member and device: the link that the device sends over so as to get to the member, or -1."""
        towards = dimension_order(self.topology, self.members)
        return self._shortest[0] if towards is None else towards

    @cached_property
    def _shortest(self) -> tuple[Ints, Ints]:
        return shortest(self.topology, self.size, self.members)

    def paths(self, src: Ints, dst: Ints) -> tuple[Paths, Ints]:
        """Return the paths between pairs of devices, and for each pair which of them is its path."""
        src, dst, path = self._different(src, dst)
        return follow(self.topology, self.towards, self.place[dst], src, dst), path

    def _different(self, src: Ints, dst: Ints | Indices) -> tuple[Ints, Ints, Ints]:
        """The different pairs among these, and which of them each one is."""
        devices = self.topology.num_devices
        pairs, number = np.unique(src * devices + dst, return_inverse=True)
        return *np.divmod(pairs, devices), number.reshape(-1)


def follow(topology: Topology, towards: Ints, row: Ints, src: Ints, dst: Ints) -> Paths:
    """Walk from each source to its destination, where `towards[row]` has the next link for every device."""
    at = src.copy()
    going = np.flatnonzero(src != dst)
    owners = [going[:0]]
    links = [going[:0]]
    for _ in range(topology.num_devices):
        if not len(going):
            break
        link = towards[row[going], at[going]]
        if np.any(link < 0):
            pair = going[np.argmax(link < 0)]
            raise InfeasibleError(
                f"{topology.device_text(int(src[pair]))} cannot send to {topology.device_text(int(dst[pair]))}: "
                f"no path of links joins them in {topology.name}"
            )
        owners.append(going)
        links.append(link)
        at[going] = topology.dst[link]
        going = going[at[going] != dst[going]]
    if len(going):
        raise InternalError("a path of next links does not come to its destination")
    owner = np.concatenate(owners)
    by_owner = np.argsort(owner, kind="stable")
    return Paths(offsets_by_owner(owner, len(src)), np.concatenate(links)[by_owner])


def shortest(topology: Topology, size: int, targets: Ints) -> tuple[Ints, Ints]:
    """Return by target and device the link to take so as to arrive first (or -1), and how long the way takes."""
    net = network(topology.transpose(), np.array([size]))
    remaining = unloaded_times(net, targets, np.zeros(len(targets), np.int64))
    remaining = np.where(remaining < NEVER, remaining * net.unit, NEVER)
    travel = transmission_time(size, topology.bandwidth) + topology.latency
    towards = np.full(remaining.shape, -1, np.int64)
    # Of equally short ways, the one over the fastest link, to the device nearest to the target's own place in its box.
    # So messages change over to the NIC of the target's place before they leave the box, and all NICs are used alike;
    # NCCL calls it PXN. Of parallel links, the least number.
    width = topology.shape[-1]
    nearness = (targets[:, None] - np.arange(topology.num_devices)) % width
    nearness[:, topology.switches] = 0
    _, slowness = np.unique(-topology.bandwidth, return_inverse=True)
    least = np.full(remaining.shape, NEVER)
    for link in range(topology.num_links):
        src = topology.src[link]
        dst = topology.dst[link]
        leads_there = remaining[:, src] == remaining[:, dst] + travel[link]
        cost = slowness[link] * width + nearness[:, dst]
        better = leads_there & (cost < least[:, src])
        towards[better, src] = link
        least[better, src] = cost[better]
    return towards, remaining


def dimension_order(topology: Topology, targets: Ints) -> Ints | None:
    """Like the links of `shortest` on grids: along the last dimension first, then the one before it.

    Returns None for other networks.
    """
    n = topology.num_devices
    if len(topology.shape) < 2 or topology.num_npus != n:
        return None
    link_of = np.full((n, n), -1, np.int64)
    # Of parallel links the least number is written last, and stays.
    link_of[topology.src[::-1], topology.dst[::-1]] = np.arange(topology.num_links)[::-1]
    numbers = np.arange(n).reshape(topology.shape)
    # Nothing is sent from the target itself; everyone else differs from it in some dimension.
    towards = np.zeros((len(targets), n), np.int64)
    # The last dimension has the last word.
    for dimension, size in enumerate(topology.shape):
        here = np.indices(topology.shape)[dimension].ravel()
        there = here[targets][:, None]
        ahead, back = (
            link_of[numbers.ravel(), np.roll(numbers, by, dimension).ravel()] for by in (-1, 1)
        )
        forwards = there > here
        # Where the first has a link back to the last, the shorter way round is taken.
        if np.all(back[here == 0] >= 0):
            forwards ^= 2 * np.abs(there - here) > size
        towards = np.where(there != here, np.where(forwards, ahead, back), towards)
    return towards if np.all(towards >= 0) else None
