"""Zones: which devices the chunks of a collective may pass through.

Usually that is all of them: others relay where it helps. A collective that is confined keeps to its own NPUs and to the
switches, which belong to everybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pccl._arrays import Bools, Ints
from pccl.collective import Collective, Conditions
from pccl.topology import Topology


@dataclass(frozen=True, eq=False)
class Zones:
    """Per collective its zone, and per zone the devices that belong to it. The first one is the whole network."""

    of_collective: Ints
    allowed: Bools  # [zone, device]

    def __len__(self) -> int:
        return len(self.allowed)

    def of_chunks(self, conditions: Conditions) -> Ints:
        """Per chunk: its zone."""
        return self.of_collective[conditions.collective]


def zones_of(topology: Topology, collectives: Sequence[Collective], confined: Bools) -> Zones:
    """The zones of collectives, some of which are confined."""
    allowed = [np.ones(topology.num_devices, np.bool_)]
    of_collective = np.zeros(len(collectives), np.int64)
    known: dict[bytes, int] = {}
    for number, collective in enumerate(collectives):
        inside = members_of(topology, collective)
        inside[topology.switches] = True
        # To be confined to everything is no limit.
        if not confined[number] or np.all(inside[topology.npus]):
            continue
        zone = known.setdefault(inside.tobytes(), len(allowed))
        of_collective[number] = zone
        if zone == len(allowed):
            allowed.append(inside)
    return Zones(of_collective, np.array(allowed))


def members_of(topology: Topology, collective: Collective) -> Bools:
    """Per device: whether it takes part in the collective."""
    inside = np.zeros(topology.num_devices, np.bool_)
    inside[collective.members(topology.npus)] = True
    return inside
