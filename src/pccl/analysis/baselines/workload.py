"""What a baseline starts from: one collective, the members of its group, and fixed routes between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pccl._arrays import Ints
from pccl.analysis.baselines.routes import Paths, dimension_order, follow, shortest
from pccl.collective import Collective, Conditions
from pccl.errors import PcclError
from pccl.network import LONGEST, arc_of_link, network
from pccl.topology import Topology

__all__ = ["UnsupportedError", "Workload"]


class UnsupportedError(PcclError):
    """A baseline cannot do this; `reason` says why, in words that follow its name."""

    def __init__(self, reason: str, name: str = "") -> None:
        super().__init__(f"the baseline {name!r} {reason}" if name else reason)
        self.reason = reason


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
        members = np.array(collective.ranks, np.int64) if collective.ranks else topology.npus
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
    def share(self) -> Ints:
        """Per chunk: the share that it is a piece of."""
        return np.cumsum(self.conditions.piece == 0) - 1

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
        net = network(self.topology, np.array([self.size]))
        kind = net.kind[arc_of_link(net)]
        return net.hold[0, kind] * net.unit, net.travel[0, kind] * net.unit

    @cached_property
    def times(self) -> Ints:
        """From member to member without traffic; very long, but not infinitely, where there is no way."""
        _, remaining = self._shortest
        times = np.ascontiguousarray(remaining[:, self.members].T)
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
        devices = self.topology.num_devices
        pairs, path = np.unique(src * devices + dst, return_inverse=True)
        src, dst = np.divmod(pairs, devices)
        return follow(self.topology, self.towards, self.place[dst], src, dst), path.reshape(-1)
