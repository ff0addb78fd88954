"""What may be wrong with a network: one cable, or one box, that is slow or gone; and which of them look alike.

Faults that a symmetry of the network and of what was measured maps onto each other cannot be told apart. They are
found by colours: devices begin with their kind and with the runs that they took part in, and are told apart as long as
their neighbours, and the links to them, differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pccl._arrays import Ints
from pccl.topology import Topology

# Two kinds of links this far apart are those inside of boxes, and those between them.
_FAR_APART = 1.2


@dataclass(frozen=True)
class Fault:
    """One thing that may be wrong.

    Attributes
    ----------
    what
        ``"nic"``, ``"nvlink"``, ``"cable"``, ``"box"`` or ``"box-nics"``.
    where
        What it is, for people.
    links
        The links that suffer.
    colour
        Faults of one colour look alike in what was measured.
    """

    what: str
    where: str
    links: tuple[int, ...]
    colour: int

    def slowed(self, topology: Topology, factor: float) -> Topology:
        """The network, with these links so many times slower."""
        bandwidth = topology.bandwidth.copy()
        links = list(self.links)
        bandwidth[links] = np.maximum(bandwidth[links] / factor, 1).astype(np.int64)
        return replace(topology, bandwidth=bandwidth)


def boxes_of(topology: Topology) -> list[list[int]]:
    """The devices of each box: what fast links alone join, if that leaves parts of about one size; else one box.

    Examples
    --------
    >>> from pccl.topology import parse_topology
    >>> boxes = boxes_of(parse_topology("h100:2"))
    >>> [(len(box), box[-1]) for box in boxes]
    [(9, 16), (9, 17)]
    >>> len(boxes_of(parse_topology("ring:8")))
    1
    """
    rates = np.unique(topology.bandwidth)
    npus = set(topology.npus.tolist())
    # The slowest links may be slower than all NICs: one that is known to be slow.
    for rate in rates[_FAR_APART * rates <= rates[-1:]]:
        fast = topology.bandwidth > rate
        parts = _joined(topology.num_devices, topology.src[fast], topology.dst[fast])
        boxes = [part for part in parts if npus & set(part)]
        counts = [len(npus & set(box)) for box in boxes]
        # Some NPUs may be gone, but not most of a box.
        if len(boxes) > 1 and 1 < max(counts) <= 2 * min(counts):
            return boxes
    return [np.flatnonzero(topology.kind >= 0).tolist()]


def _joined(count: int, src: Ints, dst: Ints) -> list[list[int]]:
    """Devices that links join, directly or not."""
    parent = list(range(count))

    def root(device: int) -> int:
        while parent[device] != device:
            parent[device] = parent[parent[device]]
            device = parent[device]
        return device

    for a, b in zip(src.tolist(), dst.tolist(), strict=True):
        parent[root(a)] = root(b)
    parts: dict[int, list[int]] = {}
    for device in range(count):
        parts.setdefault(root(device), []).append(device)
    return sorted(parts.values())


def faults_of(topology: Topology, groups: Iterable[Sequence[int]]) -> list[Fault]:
    """Everything that may be wrong, as seen by runs in these groups.

    Examples
    --------
    >>> from pccl.topology import parse_topology
    >>> h100 = parse_topology("h100:2")
    >>> faults = faults_of(h100, [range(16)])
    >>> len(faults), len({fault.colour for fault in faults}), faults[0].where
    (36, 4, 'the NVLinks of npu0')
    """
    colours = _colours(topology, list(groups))
    boxes = boxes_of(topology)
    several = len(boxes) > 1
    box_of = {device: number for number, box in enumerate(boxes) for device in box}
    # What looks the same has the same number.
    numbers: dict[tuple[object, ...], int] = {}
    found: list[Fault] = []

    def add(what: str, where: str, links: Sequence[int], looks: tuple[object, ...]) -> None:
        colour = numbers.setdefault((what, *looks), len(numbers))
        found.append(Fault(what, where, tuple(links), colour))

    for (a, b), links in _cables(topology).items():
        what, where = _named(topology, box_of, a, b, several)
        ends = tuple(sorted((colours[a], colours[b])))
        add(what, where, links, (ends, tuple(_speeds(topology, links))))
    for number, box in enumerate(boxes if several else []):
        devices = tuple(sorted(colours[device] for device in box))
        if inside := _links_with_ends_in(topology, box, ends=2):
            add("box", f"all links inside box {number}", inside, devices)
        if nics := _links_with_ends_in(topology, box, ends=1):
            add("box-nics", f"all NICs of box {number}", nics, devices)
    return found


def _links_with_ends_in(topology: Topology, box: Sequence[int], *, ends: int) -> list[int]:
    """The links of which so many ends are in a box."""
    there = np.isin(topology.src, box).astype(np.int64) + np.isin(topology.dst, box)
    links: list[int] = np.flatnonzero(there == ends).tolist()
    return links


def _cables(topology: Topology) -> dict[tuple[int, int], list[int]]:
    """The links between any two devices, both ways, by their ends; NPUs go before switches."""
    cables: dict[tuple[int, int], list[int]] = {}
    for link, (a, b) in enumerate(zip(topology.src.tolist(), topology.dst.tolist(), strict=True)):
        cables.setdefault((min(a, b), max(a, b)), []).append(link)
    return cables


def _speeds(topology: Topology, links: Sequence[int]) -> list[tuple[int, int]]:
    return sorted((int(topology.bandwidth[i]), int(topology.latency[i])) for i in links)


def _named(
    topology: Topology, box_of: dict[int, int], a: int, b: int, boxes: bool
) -> tuple[str, str]:
    labels = topology.labels
    switch = next((end for end in (a, b) if topology.is_switch(end)), None)
    if switch is None or all(topology.is_switch(end) for end in (a, b)):
        between = boxes and box_of.get(a) != box_of.get(b)
        return ("nic" if between else "cable"), f"the link between {labels[a]} and {labels[b]}"
    npu = b if switch == a else a
    if boxes and box_of.get(switch) != box_of.get(npu):
        return "nic", f"the NIC of {labels[npu]} (to {labels[switch]})"
    return "nvlink", f"the NVLinks of {labels[npu]}"


def _colours(topology: Topology, groups: Sequence[Sequence[int]]) -> list[int]:
    """Per device a number; those that look alike from all sides have the same."""
    takes_part = np.zeros((topology.num_devices, len(groups)), np.bool_)
    for number, group in enumerate(groups):
        takes_part[list(group), number] = True
    colours = _numbered(
        [(int(kind), *row) for kind, row in zip(topology.kind, takes_part.tolist(), strict=True)]
    )
    links = list(
        zip(
            topology.src.tolist(),
            topology.dst.tolist(),
            topology.bandwidth.tolist(),
            topology.latency.tolist(),
            strict=True,
        )
    )
    while True:
        around: list[list[tuple[int, ...]]] = [[] for _ in colours]
        for src, dst, bandwidth, latency in links:
            around[src].append((0, bandwidth, latency, colours[dst]))
            around[dst].append((1, bandwidth, latency, colours[src]))
        finer = _numbered([(own, *sorted(near)) for own, near in zip(colours, around, strict=True)])
        if len(set(finer)) == len(set(colours)):
            return colours
        colours = finer


def _numbered(keys: Sequence[tuple[object, ...]]) -> list[int]:
    numbers: dict[tuple[object, ...], int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]
