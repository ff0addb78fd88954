"""Sets of devices that much must leave over little: the search for narrow cuts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from pccl._arrays import Bools, Column, Floats, Ints
from pccl.bounds.case import Case
from pccl.network import network, unloaded_times
from pccl.topology import Topology
from pccl.topology.parts import NPU

MOST_PAIRS = 256
# Candidates looked at in one go; each costs about the square of the number of devices.
MOST_CUTS = 2048
# Process groups that are candidates: of many, each one alone tells little.
MOST_GROUPS = 64
# Sets that are looked at more closely; and of each family, those that differ in how narrow they are.
MOST_FOUND = 16
DIFFERENT = 2


def best_cuts(case: Case) -> list[Bools]:
    """The narrowest sets that we find, the narrowest of all first; of each family of sets at least one."""
    topology = case.topology
    demand = case.demand
    # The empty set proves nothing, but gives a certificate where nothing has to be sent.
    found = [(0.0, np.zeros(topology.num_devices, np.bool_))]
    for masks in _batches(case):
        if len(found) > 1 and case.patience.ends():
            break
        masks = _with_switches(topology, masks)
        values = demand.time(masks)
        found += [(float(values[i]), masks[i]) for i in _different(values)]
    found.sort(key=lambda entry: -entry[0])
    # Families have sets in common.
    different = {mask.tobytes(): mask for _, mask in found}
    return [_improved(demand, *found[0]), *list(different.values())[:MOST_FOUND]]


def _different(values: Floats) -> list[int]:
    """Where a few of the largest values are; of equal ones the first and the last, as sets that are alike are many."""
    order = np.argsort(-values, kind="stable")
    order = order[values[order] > 0]
    _, first = np.unique(-np.round(values[order], 3), return_index=True)
    last = np.append(first[1:], len(order))[: len(first)] - 1
    chosen = np.unique(np.concatenate([first[:DIFFERENT], last[:1]]))
    return [int(i) for i in order[chosen]]


def _improved(demand: Demand, value: float, best: Bools) -> Bools:
    """Move one device at a time while that helps."""
    while value > 0:
        # Row i: the set without device i if it has it, and otherwise with it.
        near = best ^ np.eye(len(best), dtype=np.bool_)
        values = demand.time(near)
        # By more than rounding errors, or two sets that are equally narrow could take turns
        # forever.
        if values.max() <= value * (1 + 1e-12):
            break
        best = near[values.argmax()]
        value = float(values.max())
    return best


class Demand:
    """Conditions summed up so that many cuts can be judged at once."""

    def __init__(self, case: Case) -> None:
        # Floats of 32 bits are enough, as this only ranks candidates: whatever is claimed in the
        # end is proven from the set itself, in whole numbers.
        topology = case.topology
        n = topology.num_devices
        self.pairs: Column = case.single_ends.astype(np.float32)
        self.any_pairs = bool(self.pairs.any())
        shares = list(case.several_ends())
        self.bytes = np.array([share.bytes for share in shares], np.float64)
        self.sources, self.targets = np.zeros((2, len(shares), n), np.float32)
        for row, share in enumerate(shares):
            self.sources[row, share.sources] = 1
            self.targets[row, share.destinations] = 1
        self.rate = np.zeros((n, n), np.float32)
        np.add.at(self.rate, (topology.src, topology.dst), case.link_rates)

    def time(self, masks: Bools) -> Floats:
        """Picoseconds that what must leave each set needs at least."""
        inside = masks.astype(np.float32)
        outside = 1 - inside
        # Per set and device: the rate from the set to the device. Only devices outside count.
        rate = ((inside @ self.rate) * outside).sum(axis=1, dtype=np.float64)
        size = self.leaving(inside)
        return np.asarray(np.divide(size, rate, out=np.zeros(len(masks)), where=rate > 0))

    def leaving(self, inside: Column) -> Floats:
        """Bytes that must leave each set."""
        outside = 1 - inside
        size = np.zeros(len(inside))
        if self.any_pairs:
            size += ((inside @ self.pairs) * outside).sum(axis=1, dtype=np.float64)
        # Data with several ends count once, however many of these are outside: a copy can be
        # multiplied after it has left, and sums can be added up before they do.
        leaves = (inside @ self.sources.T > 0) & (outside @ self.targets.T > 0)
        size += leaves @ self.bytes
        return size

    @cached_property
    def from_one_to_one(self) -> Floats:
        """[from, to]: bytes of which the one device is a source and the other a destination."""
        shared = self.sources.T @ (self.targets * self.bytes[:, None].astype(np.float32))
        return np.asarray(self.pairs + shared, np.float64)

    def to_each(self, inside: Bools) -> Floats:
        """Per device: bytes that it must get from a set."""
        leaves = (self.sources @ inside.astype(np.float32) > 0) * self.bytes
        return np.asarray(leaves @ self.targets + inside @ self.pairs, np.float64)

    def from_each(self, outside: Bools) -> Floats:
        """Per device: bytes that a set must get from it."""
        leaves = (self.targets @ outside.astype(np.float32) > 0) * self.bytes
        return np.asarray(leaves @ self.sources + self.pairs @ outside, np.float64)


def _batches(case: Case) -> Iterator[Bools]:
    """Sets of NPUs that are likely to be the narrow ones, family by family, and their complements."""
    topology = case.topology
    is_npu = topology.kind == NPU
    for family in (
        topology.npus[:, None],
        _joined_pairs(topology),
        _grid_prefixes(topology),
        _boxes(topology),
        _sweeps(topology),
        _groups(case),
    ):
        sets = list(family)
        for low in range(0, len(sets), MOST_CUTS):
            some = sets[low : low + MOST_CUTS]
            masks = np.zeros((len(some), len(is_npu)), np.bool_)
            for row, devices in zip(masks, some, strict=True):
                row[devices] = True
            # What must enter a set must leave its complement, so both are candidates.
            yield masks & is_npu
            yield ~masks & is_npu


def _joined_pairs(topology: Topology) -> Column:
    """Pairs of NPUs that a link joins."""
    ends = np.stack([topology.src, topology.dst], axis=1)
    joined = np.all(topology.kind[ends] == NPU, axis=1) & (topology.src < topology.dst)
    # Each only once, in the order of their first links.
    _, first = np.unique(ends[joined], axis=0, return_index=True)
    pairs: Column = ends[joined][np.sort(first)]
    return pairs[:: -(-len(pairs) // MOST_PAIRS) or 1]


def _grid_prefixes(topology: Topology) -> Iterator[Column]:
    """NPUs before each place along each dimension of the grid, and each slice."""
    grid = np.indices(topology.shape).reshape(len(topology.shape), -1)
    for coordinate, size in zip(grid, topology.shape, strict=True):
        for place in range(size):
            yield np.flatnonzero(coordinate <= place)
            yield np.flatnonzero(coordinate == place)


def _boxes(topology: Topology) -> Iterator[Column]:
    """What hangs together by links faster than each bandwidth there is."""
    for label in box_labels(topology):
        for box in np.unique(label[topology.npus])[:256]:
            yield np.flatnonzero(label == box)


def box_labels(topology: Topology) -> Iterator[Ints]:
    """Per device, for each bandwidth there is: which box it is in, if what hangs together by faster links is a box."""
    for threshold in topology.rates[0][:16].tolist():
        label = np.arange(topology.num_devices)
        fast = topology.bandwidth > threshold
        src = topology.src[fast]
        dst = topology.dst[fast]
        # Both ends of a link take the smaller label, until all that hangs together has the smallest of all.
        for _ in range(topology.num_devices):
            before = label.copy()
            np.minimum.at(label, src, label[dst])
            np.minimum.at(label, dst, label[src])
            if np.array_equal(label, before):
                break
        yield label


def _sweeps(topology: Topology) -> Iterator[Column]:
    """NPUs by distance from a few of them."""
    net = network(topology, np.array([1]))
    npus = topology.npus
    starts = np.unique(npus[[0, len(npus) // 2, -1]])
    for times in unloaded_times(net, starts, np.zeros_like(starts))[:, npus]:
        order = npus[np.argsort(times, kind="stable")]
        for count in np.unique(np.linspace(1, len(npus), 64).astype(int)):
            yield order[:count]


def _groups(case: Case) -> Iterator[Column]:
    """Who has something to send in each collective."""
    conditions = case.conditions
    owner = np.repeat(conditions.collective, np.diff(conditions.source_offsets))
    for collective in range(min(int(owner.max(initial=-1)) + 1, MOST_GROUPS)):
        yield conditions.source_ids[owner == collective]


def _with_switches(topology: Topology, masks: Bools) -> Bools:
    """Put every switch on the side with which it shares more bandwidth; a few rounds, as switches share it too.

    Those that share as much with both sides are put on either side, all of them.
    """
    if not len(topology.switches):
        return masks
    n = topology.num_devices
    shared = np.zeros((n, n), np.float32)
    np.add.at(shared, (topology.src, topology.dst), topology.bandwidth.astype(np.float32))
    shared += shared.T
    side = np.where(masks, 1, -1).astype(np.float32)
    # Undecided at first.
    side[:, topology.switches] = 0
    for _ in range(4):
        side[:, topology.switches] = np.sign((side @ shared)[:, topology.switches])
    undecided = np.any(side[:, topology.switches] == 0, axis=1)
    return np.concatenate([side > 0, side[undecided] >= 0])
