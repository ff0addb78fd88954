"""Fixed routes between devices: by dimensions on grids, otherwise the way that takes least time without traffic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Ints, offsets_by_owner
from pccl.errors import InfeasibleError
from pccl.network import NEVER, arc_of_link, network, unloaded_times
from pccl.topology import Topology

__all__ = ["Paths", "dimension_order", "follow", "shortest"]


@dataclass(frozen=True)
class Paths:
    """Path `i` goes over the links ``link[first[i] : first[i + 1]]``."""

    first: Ints
    link: Ints


def follow(topology: Topology, towards: Ints, row: Ints, src: Ints, dst: Ints) -> Paths:
    """Walk from each source to its destination, where `towards[row]` has the next link for every device."""
    at = src.copy()
    going = np.flatnonzero(src != dst)
    owners = [going[:0]]
    links = [going[:0]]
    while len(going):
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
    owner = np.concatenate(owners)
    by_owner = np.argsort(owner, kind="stable")
    return Paths(offsets_by_owner(owner, len(src)), np.concatenate(links)[by_owner])


def shortest(topology: Topology, size: int, targets: Ints) -> tuple[Ints, Ints]:
    """Return by target and device the link to take so as to arrive first (or -1), and how long the way takes."""
    net = network(topology.transpose(), np.array([size]))
    remaining = unloaded_times(net, targets, np.zeros(len(targets), np.int64))
    travel = net.travel[0, net.kind[arc_of_link(net)]]
    towards = np.full(remaining.shape, -1, np.int64)
    # Of equally short ways, the link with the least number has the last word.
    for link in range(topology.num_links - 1, -1, -1):
        src = topology.src[link]
        leads_there = remaining[:, src] == remaining[:, topology.dst[link]] + travel[link]
        towards[leads_there, src] = link
    return towards, np.where(remaining < NEVER, remaining * net.unit, NEVER)


def dimension_order(topology: Topology, targets: Ints) -> Ints | None:
    """Like the links of `shortest` on grids: along the last dimension first, then the one before it.

    Returns None for other networks.
    """
    n = topology.num_devices
    if len(topology.shape) < 2 or topology.num_npus != n:
        return None
    link_of = np.full((n, n), -1, np.int64)
    link_of[topology.src[::-1], topology.dst[::-1]] = np.arange(topology.num_links)[::-1]
    npus = np.arange(n)
    towards = np.full((len(targets), n), -1, np.int64)
    # The last dimension has the last word.
    for dimension, size in enumerate(topology.shape):
        stride = int(np.prod(topology.shape[dimension + 1 :]))
        here = npus // stride % size
        there = here[targets][:, None]
        first = npus[here == 0]
        wraps = np.all(link_of[first, first + (size - 1) * stride] >= 0)
        ahead = np.sign(there - here)
        if wraps:
            ahead = np.where(2 * np.abs(there - here) > size, -ahead, ahead)
        link = link_of[npus, npus + ((here + ahead) % size - here) * stride]
        towards = np.where(there != here, link, towards)
    # Nothing is sent from the target itself.
    towards[np.arange(len(targets)), targets] = 0
    return towards if np.all(towards >= 0) else None
