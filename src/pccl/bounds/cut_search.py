"""The search for cuts: sets of devices that much must leave over little."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pccl._arrays import Bools, Floats
from pccl.bounds.traffic import link_rates, several_ends, single_ends
from pccl.collective import Conditions
from pccl.network import network, unloaded_times
from pccl.topology import Topology
from pccl.topology.core import NPU

__all__ = ["best_cuts"]

MOST_PAIRS = 256
# Candidates looked at in one go; each costs about the square of the number of devices.
MOST_CUTS = 2048
# Process groups that are candidates: of many, each one alone tells little.
MOST_GROUPS = 64


def best_cuts(topology: Topology, conditions: Conditions, count: int = 8) -> list[Bools]:
    """The narrowest sets that we find, the narrowest of all first."""
    demand = _Demand(topology, conditions)
    found = [(0.0, np.zeros(topology.num_devices, np.bool_))]
    for masks in _candidates(topology, conditions):
        masks = _with_switches(topology, masks)
        values = demand.time(masks)
        top = np.argsort(-values, kind="stable")[:count]
        found += [(float(values[i]), masks[i]) for i in top if values[i] > 0]
    found.sort(key=lambda entry: -entry[0])
    return [_improved(topology, demand, *found[0]), *(mask for _, mask in found[:count])]


def _improved(topology: Topology, demand: _Demand, value: float, best: Bools) -> Bools:
    """Move one device at a time while that helps."""
    while value > 0:
        near = np.repeat(best[None], topology.num_devices, axis=0)
        near[np.diag_indices(topology.num_devices)] ^= True
        values = demand.time(near)
        if values.max() <= value * (1 + 1e-12):
            break
        best = near[values.argmax()]
        value = float(values.max())
    return best


class _Demand:
    """Conditions summed up so that many cuts can be judged at once."""

    def __init__(self, topology: Topology, conditions: Conditions) -> None:
        n = topology.num_devices
        self.pairs = single_ends(topology, conditions).astype(np.float32)
        self.any_pairs = bool(self.pairs.any())
        shares = list(several_ends(conditions))
        self.bytes = np.array([share.bytes for share in shares], np.float64)
        self.sources = np.zeros((len(shares), n), np.float32)
        self.targets = np.zeros((len(shares), n), np.float32)
        for row, share in enumerate(shares):
            self.sources[row, share.sources] = 1
            self.targets[row, share.destinations] = 1
        self.rate = np.zeros((n, n), np.float32)
        np.add.at(self.rate, (topology.src, topology.dst), link_rates(topology, conditions))

    def time(self, masks: Bools) -> Floats:
        """Picoseconds that what must leave each set needs at least."""
        inside = masks.astype(np.float32)
        outside = 1 - inside
        rate = ((inside @ self.rate) * outside).sum(axis=1, dtype=np.float64)
        size = np.zeros(len(masks))
        if self.any_pairs:
            size += ((inside @ self.pairs) * outside).sum(axis=1, dtype=np.float64)
        leaves = (inside @ self.sources.T > 0) & (outside @ self.targets.T > 0)
        size += leaves @ self.bytes
        return np.asarray(np.divide(size, rate, out=np.zeros(len(masks)), where=rate > 0))


def _candidates(topology: Topology, conditions: Conditions) -> Iterator[Bools]:
    """Sets of NPUs that are likely to be the narrow ones, in batches, each with its complement."""
    masks = [
        *(_mask(topology, npu) for npu in topology.npus),
        *_joined_pairs(topology),
        *_grid_prefixes(topology),
        *_boxes(topology),
        *_sweeps(topology),
    ]
    for collective in range(min(int(conditions.collective.max(initial=-1)) + 1, MOST_GROUPS)):
        mine = np.repeat(conditions.collective == collective, np.diff(conditions.source_offsets))
        masks.append(_mask(topology, conditions.source_ids[mine]))
    is_npu = topology.kind == NPU
    for low in range(0, len(masks), MOST_CUTS // 2):
        some = np.array(masks[low : low + MOST_CUTS // 2])
        yield np.concatenate([some, ~some & is_npu])


def _joined_pairs(topology: Topology) -> Iterator[Bools]:
    """Pairs of NPUs that a link joins."""
    is_npu = topology.kind == NPU
    joined = is_npu[topology.src] & is_npu[topology.dst] & (topology.src < topology.dst)
    ends = zip(topology.src[joined].tolist(), topology.dst[joined].tolist(), strict=True)
    pairs = list(dict.fromkeys(ends))
    every = -(-len(pairs) // MOST_PAIRS) or 1
    for pair in pairs[::every]:
        yield _mask(topology, list(pair))


def _grid_prefixes(topology: Topology) -> Iterator[Bools]:
    """NPUs before each place along each dimension of the grid, and each slice."""
    is_npu = topology.kind == NPU
    grid = np.indices(topology.shape).reshape(len(topology.shape), -1)
    for coordinate, size in zip(grid, topology.shape, strict=True):
        for place in range(size):
            for chosen in (coordinate <= place, coordinate == place):
                yield _mask(topology, np.flatnonzero(chosen)) & is_npu


def _boxes(topology: Topology) -> Iterator[Bools]:
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
            yield (label == box) & (topology.kind == NPU)


def _sweeps(topology: Topology) -> Iterator[Bools]:
    """NPUs by distance from a few of them."""
    net = network(topology, np.array([1]))
    npus = topology.npus
    starts = np.unique(npus[[0, len(npus) // 2, -1]])
    for times in unloaded_times(net, starts, np.zeros_like(starts))[:, npus]:
        order = npus[np.argsort(times, kind="stable")]
        for count in np.unique(np.linspace(1, len(npus), 64).astype(int)):
            yield _mask(topology, order[:count])


def _mask(topology: Topology, devices: Any) -> Bools:
    inside = np.zeros(topology.num_devices, np.bool_)
    inside[devices] = True
    return inside


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
