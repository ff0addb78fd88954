"""Cuts: what must leave a set of devices takes the time that the links out of it need.

The certificate is the set. The search looks for sets of devices that much must leave over little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pccl._arrays import Bools, Column, Floats, Ints, take_rows
from pccl.algorithm.bound import Certificate
from pccl.bounds.case import Case
from pccl.collective import format_group
from pccl.network import network, unloaded_times
from pccl.topology import Topology
from pccl.topology.core import transmission_time
from pccl.topology.parts import NPU

QUICK = True

MOST_PAIRS = 256
# Candidates looked at in one go; each costs about the square of the number of devices.
MOST_CUTS = 2048
# Process groups that are candidates: of many, each one alone tells little.
MOST_GROUPS = 64


def find(case: Case) -> Iterator[tuple[Certificate, bool]]:
    """Yield the narrowest set, and for whole chunks several: that of the fewest bytes need not be the best."""
    sets = [tuple(np.flatnonzero(inside).tolist()) for inside in case.cuts]
    yield {"devices": sets[0]}, False
    if case.whole_chunks:
        for devices in sets:
            yield {"devices": devices}, True


def prove(case: Case, certificate: Certificate, whole_chunks: bool) -> int:
    """Picoseconds that what must leave the set needs at least."""
    topology = case.topology
    inside = np.zeros(topology.num_devices, np.bool_)
    inside[list(certificate["devices"])] = True
    crosses = inside[topology.src] & ~inside[topology.dst]
    leaves = case.going(inside, ~inside)
    if not np.any(crosses) or not np.any(leaves):
        return 0
    if whole_chunks:
        return _time_of_chunks(case, inside, crosses, leaves)
    # With a price of one on every link out of the set, what links earn is what they carry away.
    return math.ceil(int(case.conditions.bytes[leaves].sum()) / case.earnings(crosses))


def explain(certificate: Certificate) -> str:
    """Which set it is."""
    devices = format_group(certificate["devices"])
    if len(devices) >= 60:
        devices = devices[:57] + "..."
    return f"what must leave devices {devices}"


def _time_of_chunks(case: Case, inside: Bools, crosses: Bools, leaves: Bools) -> int:
    """Picoseconds that whole chunks need, if all are as small as the smallest.

    A link out of the set starts no earlier than a chunk can be there, sends whole chunks, and is done so early that
    the last can still reach one of its destinations.
    """
    topology = case.topology
    c = case.conditions
    # No chunk takes less time than the smallest, so counting all as that small proves nothing
    # wrong.
    smallest = int(c.bytes[leaves].min())
    chunks = np.flatnonzero(leaves)
    _, sources = take_rows(c.source_offsets, c.source_ids, chunks)
    _, targets = take_rows(c.destination_offsets, c.destination_ids, chunks)
    before, after, useful = case.ways(smallest, sources[inside[sources]], targets[~inside[targets]])
    out = np.flatnonzero(crosses & useful)
    if not len(out):
        return 0
    transmission = transmission_time(smallest, topology.bandwidth[out])
    hold = transmission + topology.overhead[out]
    # The k-th chunk of a link is where it must be at `fixed + k * hold`.
    fixed = before[out] + transmission + topology.latency[out] + after[out] - hold
    return _time_for(len(chunks), fixed, hold)


def _time_for(chunks: int, fixed: Ints, hold: Ints) -> int:
    """The least time by which links that need `fixed + k * hold` for k chunks have carried all chunks."""
    low = 0
    high = int(fixed.max()) + chunks * int(hold.max())
    while low < high:
        middle = (low + high) // 2
        carried = np.maximum((middle - fixed) // hold, 0)
        if int(carried.sum()) >= chunks:
            high = middle
        else:
            low = middle + 1
    return low


def best_cuts(case: Case, count: int = 8) -> list[Bools]:
    """The narrowest sets that we find, the narrowest of all first."""
    topology = case.topology
    demand = _Demand(case)
    # The empty set proves nothing, but gives a certificate where nothing has to be sent.
    found = [(0.0, np.zeros(topology.num_devices, np.bool_))]
    for masks in _batches(case):
        masks = _with_switches(topology, masks)
        values = demand.time(masks)
        top = np.argsort(-values, kind="stable")[:count]
        found += [(float(values[i]), masks[i]) for i in top if values[i] > 0]
    found.sort(key=lambda entry: -entry[0])
    return [_improved(demand, *found[0]), *(mask for _, mask in found[:count])]


def _improved(demand: _Demand, value: float, best: Bools) -> Bools:
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


class _Demand:
    """Conditions summed up so that many cuts can be judged at once."""

    def __init__(self, case: Case) -> None:
        # Floats of 32 bits are enough, as this only ranks candidates: whatever is claimed in the
        # end is proven from the set itself, in whole numbers.
        topology = case.topology
        n = topology.num_devices
        self.pairs = case.single_ends.astype(np.float32)
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
        size = np.zeros(len(masks))
        if self.any_pairs:
            size += ((inside @ self.pairs) * outside).sum(axis=1, dtype=np.float64)
        # Data with several ends count once, however many of these are outside: a copy can be
        # multiplied after it has left, and sums can be added up before they do.
        leaves = (inside @ self.sources.T > 0) & (outside @ self.targets.T > 0)
        size += leaves @ self.bytes
        return np.asarray(np.divide(size, rate, out=np.zeros(len(masks)), where=rate > 0))


def _batches(case: Case) -> Iterator[Bools]:
    """Sets of NPUs that are likely to be the narrow ones, in batches, each with its complement."""
    topology = case.topology
    is_npu = topology.kind == NPU
    sets = [
        *topology.npus[:, None],
        *_joined_pairs(topology),
        *_grid_prefixes(topology),
        *_boxes(topology),
        *_sweeps(topology),
        *_groups(case),
    ]
    for low in range(0, len(sets), MOST_CUTS // 2):
        some = sets[low : low + MOST_CUTS // 2]
        masks = np.zeros((len(some), len(is_npu)), np.bool_)
        for row, devices in zip(masks, some, strict=True):
            row[devices] = True
        # What must enter a set must leave its complement, so both are candidates.
        yield np.concatenate([masks & is_npu, ~masks & is_npu])


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
        for box in np.unique(label[topology.npus])[:256]:
            yield np.flatnonzero(label == box)


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
    """Put every switch on the side with which it shares more bandwidth; a few rounds, as switches share it too."""
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
    return side > 0
