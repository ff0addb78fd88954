"""Fixed routes between devices: by dimensions on grids, otherwise the way that takes least time without traffic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Ints
from pccl.errors import InfeasibleError
from pccl.network import NEVER, network, unloaded_times
from pccl.topology import Topology

__all__ = ["Paths", "Router", "follow", "offsets", "ranges", "shortest"]


@dataclass(frozen=True)
class Paths:
    """Path `e` goes over the links ``link[first[e] : first[e + 1]]``."""

    first: Ints
    link: Ints

    @property
    def length(self) -> Ints:
        """Number of links of each path."""
        return np.diff(self.first)


@dataclass(frozen=True)
class Router:
    """Fixed routes to some devices: which row of `towards` belongs to each, and there the next link of every device."""

    topology: Topology
    towards: Ints
    row_of: Ints

    @classmethod
    def to(cls, topology: Topology, size: int, targets: Ints) -> Router:
        """Routes of chunks of this size to these devices."""
        row_of = np.full(topology.num_devices, -1, np.int64)
        row_of[targets] = np.arange(len(targets))
        towards = _dimension_order(topology, targets)
        return cls(
            topology, shortest(topology, size, targets)[0] if towards is None else towards, row_of
        )

    def paths(self, src: Ints, dst: Ints) -> tuple[Paths, Ints]:
        """Paths between pairs of devices, and for each pair which of them is its path."""
        pairs, of_pair = np.unique(src * self.topology.num_devices + dst, return_inverse=True)
        src, dst = np.divmod(pairs, self.topology.num_devices)
        return follow(self.topology, self.towards, self.row_of[dst], src, dst), of_pair.reshape(-1)


def follow(topology: Topology, towards: Ints, row: Ints, src: Ints, dst: Ints) -> Paths:
    """Walk from each source to its destination, where `towards[row]` has the next link for every device."""
    at, going = src.copy(), np.flatnonzero(src != dst)
    owners, links = [], []
    while len(going):
        link = towards[row[going], at[going]]
        if np.any(link < 0):
            pair = going[int(np.argmax(link < 0))]
            sender, receiver = (topology.device_text(int(ends[pair])) for ends in (src, dst))
            raise InfeasibleError(
                f"{sender} cannot send to {receiver}: no path of links joins them in {topology.name}"
            )
        owners.append(going)
        links.append(link)
        at[going] = topology.dst[link]
        going = going[at[going] != dst[going]]
    owner = np.concatenate([np.zeros(0, np.int64), *owners])
    by_owner = np.argsort(owner, kind="stable")
    return Paths(
        offsets(np.bincount(owner, minlength=len(src))),
        np.concatenate([owner[:0], *links])[by_owner],
    )


def shortest(topology: Topology, size: int, targets: Ints) -> tuple[Ints, Ints]:
    """Per destination and device the link to take so as to arrive first (or -1), and how long the way takes."""
    net = network(topology.transpose(), np.array([size]))
    remaining = unloaded_times(net, targets, np.zeros(len(targets), np.int64))
    towards = np.full((len(targets), topology.num_devices), -1, np.int64)
    travel = np.empty(topology.num_links, np.int64)
    travel[net.link] = net.travel[0, net.kind]
    for link in range(
        topology.num_links - 1, -1, -1
    ):  # of equally short ways, the link with the least number
        src, dst = topology.src[link], topology.dst[link]
        towards[remaining[:, src] == remaining[:, dst] + travel[link], src] = link
    return towards, np.where(remaining < NEVER, remaining, NEVER // net.unit) * net.unit


def _dimension_order(topology: Topology, targets: Ints) -> Ints | None:
    """On grids: along the last dimension first, then the one before it; None for other networks."""
    if (
        len(topology.shape) < 2
        or len(topology.switches)
        or topology.num_npus != topology.num_devices
    ):
        return None
    n = topology.num_devices
    link_of = np.full((n, n), -1, np.int64)
    link_of[topology.src[::-1], topology.dst[::-1]] = np.arange(topology.num_links)[::-1]
    npus, place = np.arange(n), np.indices(topology.shape).reshape(len(topology.shape), -1)
    towards = np.full((len(targets), n), -1, np.int64)
    for dimension, size in enumerate(topology.shape):  # the last dimension has the last word
        stride = int(np.prod(topology.shape[dimension + 1 :]))
        here, there = place[dimension], place[dimension][targets][:, None]
        first = npus[here == 0]
        wraps = bool(np.all(link_of[first, first + (size - 1) * stride] >= 0))
        ahead = np.sign(there - here)
        if wraps:
            ahead = np.where(2 * np.abs(there - here) > size, -ahead, ahead)
        link = link_of[npus, npus + ((here + ahead) % size - here) * stride]
        towards = np.where(there != here, link, towards)
    towards[np.arange(len(targets)), targets] = 0  # nothing is sent from there
    return towards if np.all(towards >= 0) else None


def offsets(widths: Ints) -> Ints:
    """Where each of several lists begins when they stand one after another, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(widths)])


def ranges(begin: Ints, widths: Ints) -> Ints:
    """All of begin[i], begin[i] + 1, …, widths[i] numbers each, one list after another."""
    first = offsets(widths)
    return np.repeat(begin - first[:-1], widths) + np.arange(first[-1])
