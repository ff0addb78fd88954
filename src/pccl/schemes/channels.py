"""The channels of NCCL: rings that together use all NICs and links, each for its part of the data.

Every channel enters and leaves boxes by NICs of its own, and goes from the one to the other over the links inside.
Where there are no boxes, channels are tours that share as few links as a quick search finds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pccl._arrays import Floats, Ints, take_rows
from pccl.collective import Broadcast
from pccl.schemes.dimensions import Grid
from pccl.schemes.rings import best_tour, improved, nearest_first
from pccl.schemes.workload import Paths, UnsupportedError, Workload
from pccl.topology import Topology
from pccl.topology.parts import SWITCH

# Tours of a network without boxes: so many at most, each from so many starting points.
MOST_TOURS = 12
STARTS = 4
# Beyond this many members, the second tour is the first one backwards, and there are no more.
MOST_SEARCHED = 128
# Costs of hops are whole numbers; this is the cost of the fastest link while nothing uses it.
UNIT = 1_000


class Nic(NamedTuple):
    """How a channel gets from box to box: the place in a box that sends, and the one that receives in the next."""

    sends: int
    receives: int


class Boxes(NamedTuple):
    """A group by boxes, and ways between them; a network without boxes is one box without ways.

    Attributes
    ----------
    member
        By box and place in it.
    nics
        Ways from box to box that share no link and pass through no other NPU; the same between all of them.
    """

    member: Ints
    nics: list[Nic]


def boxes_of(workload: Workload) -> Boxes:
    """The boxes of the group of a workload."""
    return _find(workload.topology, tuple(workload.members.tolist()))[0]


def rings_of(workload: Workload) -> Ints:
    """By channel: the members of the group in the order of its ring."""
    return _find(workload.topology, tuple(workload.members.tolist()))[1]


@lru_cache(maxsize=32)
def _find(topology: Topology, members: tuple[int, ...]) -> tuple[Boxes, Ints]:
    # Channels are the same for all sizes and collectives: they are found for a message of this size.
    workload = Workload.of(topology, Broadcast("1MiB", members))
    boxes = _find_boxes(workload)
    return boxes, _find_rings(workload, boxes)


def _find_boxes(workload: Workload) -> Boxes:
    """The boxes of a group, if it takes the same places in each and there is a way from each to each."""
    everyone = np.arange(len(workload.members))
    alone = Boxes(everyone[None], [])
    try:
        grid = Grid.of(workload)
    except UnsupportedError:
        return alone
    member = grid.member.reshape(-1, grid.member.shape[-1])
    if len(member) == 1:
        return Boxes(member, [])
    nics = _nics(workload, member)
    first, second = np.nonzero(~np.eye(len(member), dtype=np.bool_))
    for nic in nics:
        paths, path = _paths(workload, member[first, nic.sends], member[second, nic.receives])
        if not all(_passes_no_npu(workload, _links(paths, one)) for one in path.tolist()):
            return alone
    return Boxes(member, nics) if nics else alone


def _nics(workload: Workload, member: Ints) -> list[Nic]:
    """Ways from the first box to the second, preferably between NPUs at the same place."""
    places = np.arange(member.shape[1])
    sends = np.tile(places, len(places))
    receives = (sends + np.repeat(places, len(places))) % len(places)
    paths, path = _paths(workload, member[0, sends], member[1, receives])
    nics = []
    used: set[int] = set()
    for ends in zip(path.tolist(), sends.tolist(), receives.tolist(), strict=True):
        links = _links(paths, ends[0])
        if _passes_no_npu(workload, links) and used.isdisjoint(links.tolist()):
            used.update(links.tolist())
            nics.append(Nic(*ends[1:]))
    return nics


def _links(paths: Paths, path: int) -> Ints:
    return paths.link[paths.first[path] : paths.first[path + 1]]


def _passes_no_npu(workload: Workload, links: Ints) -> bool:
    topology = workload.topology
    return bool(np.all(topology.kind[topology.dst[links[:-1]]] == SWITCH))


def _paths(workload: Workload, src: Ints, dst: Ints) -> tuple[Paths, Ints]:
    """The paths between members."""
    return workload.paths(workload.members[src], workload.members[dst])


# --- rings -----------------------------------------------------------------------------------------------------------


def _find_rings(workload: Workload, boxes: Boxes) -> Ints:
    tours = _through_boxes(workload, boxes) if boxes.nics else _tours(workload)
    # As many as are best together; of equally good numbers the smallest.
    slowest = [_slowest(workload, tours[: count + 1]) for count in range(len(tours))]
    return np.stack(tours[: int(np.argmin(slowest)) + 1])


def _through_boxes(workload: Workload, boxes: Boxes) -> list[Ints]:
    """One ring for each NIC: in by the NIC by which it left the box before, out by its own, then the next box."""
    count = len(boxes.member)
    turns = _turns(boxes)
    rings = []
    # What is used by earlier channels counts per kind of box, since equal kinds are passed alike.
    loads: dict[tuple[int, int], Load] = {}
    for channel in range(len(boxes.nics)):
        ring = []
        ways: dict[tuple[int, int], Ints] = {}
        for box in range(count):
            kind = turns[box - 1], turns[box]
            if kind not in ways:
                entry = boxes.nics[(channel + kind[0]) % len(boxes.nics)].receives
                leave = boxes.nics[(channel + kind[1]) % len(boxes.nics)].sends
                if kind not in loads:
                    loads[kind] = Load(workload, boxes.member[0])
                ways[kind] = loads[kind].way(entry, None if leave == entry else leave)
            ring.append(boxes.member[box, ways[kind]])
        rings.append(np.concatenate(ring))
    return rings


def _turns(boxes: Boxes) -> list[int]:
    """By how many NICs each box is left behind the channel's own.

    An NPU that receives for a channel is not the one that sends for it: NICs of one NPU are taken in turns, as NCCL
    does when it may cross them.
    """
    count = len(boxes.member)
    same = any(nic.sends == nic.receives for nic in boxes.nics)
    if not same or boxes.member.shape[1] == 1 or len(boxes.nics) < 2 + count % 2:
        return [0] * count
    turns = [box % 2 for box in range(count)]
    if count % 2:
        turns[-1] = 2
    return turns


def _tours(workload: Workload) -> list[Ints]:
    """Tours of the whole group, each over links that those before it use least, also backwards."""
    n = len(workload.members)
    load = Load(workload, np.arange(n))
    tours = [best_tour(workload)]
    load.add(tours[0])
    best_possible = _best_possible(workload)
    while n > 2 and len(tours) < (MOST_TOURS if n <= MOST_SEARCHED else 2):
        if _slowest(workload, tours) <= best_possible * 1.001:
            break
        candidates = [tour[::-1].copy() for tour in tours]
        cost = load.cost()
        if 3 < n <= MOST_SEARCHED:
            starts = range(0, n, max(1, n // STARTS))
            candidates += [improved(cost, nearest_first(cost, start)) for start in starts]
        costs = [int(cost[tour, np.roll(tour, -1)].sum()) for tour in candidates]
        tours.append(candidates[int(np.argmin(costs))])
        load.add(tours[-1])
    return tours


def _slowest(workload: Workload, tours: list[Ints]) -> float:
    """How long the busiest link takes for a byte that is spread over all channels."""
    here = np.concatenate(tours)
    there = np.concatenate([np.roll(tour, -1) for tour in tours])
    paths, path = _paths(workload, here, there)
    _, link = take_rows(*paths, path)
    uses = np.bincount(link, minlength=workload.topology.num_links)
    return float((uses / workload.topology.bandwidth).max(initial=0.0)) / len(tours)


def _best_possible(workload: Workload) -> float:
    """The same, if every member sends over all of its links."""
    topology = workload.topology
    out = np.bincount(topology.src, topology.bandwidth, topology.num_devices)[workload.members]
    return 1 / float(out.min()) if len(out) and out.min() > 0 else 0.0


class Load:
    """How much the links between some members are used, and good ways over those that are used little."""

    def __init__(self, workload: Workload, member: Ints) -> None:
        n = len(member)
        self._member = member
        self._paths, path = _paths(workload, np.repeat(member, n), np.tile(member, n))
        self._path = path.reshape(n, n)
        bandwidth = workload.topology.bandwidth
        self._weight: Floats = UNIT * (bandwidth.max(initial=1) / bandwidth)
        self._uses = np.zeros(len(bandwidth))

    def cost(self) -> Ints:
        """From place to place: what one more hop would cost; squared, so that what is used twice is dear."""
        each = (self._weight * (1 + self._uses))[self._paths.link] ** 2
        total = np.append(0.0, np.cumsum(each))[self._paths.first]
        return np.rint(np.diff(total)).astype(np.int64)[self._path]

    def add(self, tour: Ints, closed: bool = True) -> None:
        """Count the hops of a tour, or of a way, from place to place."""
        after = np.roll(tour, -1)
        hops = self._path[tour, after] if closed else self._path[tour[:-1], after[:-1]]
        _, link = take_rows(*self._paths, hops)
        np.add.at(self._uses, link, 1)

    def way(self, entry: int, leave: int | None) -> Ints:
        """All places, from the one where it enters to the one where it leaves, or to any; it is counted."""
        n = len(self._member)
        way = np.roll(np.arange(n), -entry)
        if leave is not None:
            way = np.append(way[way != leave], leave)
        if n > 3:
            cost = self.cost()
            # The way back is what the tour is closed by, at any price or at none.
            if leave is None:
                cost[:, entry] = 0
            else:
                cost[leave, entry] = -int(cost.max()) * n
            found = improved(cost, way.copy())
            found = np.roll(found, -int(np.argmax(found == entry)))
            if cost[found, np.roll(found, -1)].sum() < cost[way, np.roll(way, -1)].sum():
                way = found
        self.add(way, closed=False)
        return way
