"""The search for cuts: sets of devices that much must leave over little."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pccl._arrays import Bools, Floats
from pccl.bounds.proofs import rates, shares
from pccl.collective import Conditions
from pccl.network import network, unloaded_times
from pccl.topology import Topology
from pccl.topology.core import NPU

__all__ = ["best_cuts"]

MOST_PAIRS = 256
MOST_CUTS = (
    2048  # candidates looked at in one go; each costs about the square of the number of devices
)


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
        best, value = near[values.argmax()], float(values.max())
    return best


class _Demand:
    """Conditions summed up so that many cuts can be judged at once."""

    def __init__(self, topology: Topology, conditions: Conditions) -> None:
        n = topology.num_devices
        single, several = shares(topology, conditions)
        self.pairs, rows = single.astype(np.float32), list(several)
        self.any_pairs = bool(self.pairs.any())
        self.bytes = np.array([size for size, *_ in rows], np.float64)
        self.sources, self.targets = np.zeros((2, len(rows), n), np.float32)
        for row, (_, sources, targets, _) in enumerate(rows):
            self.sources[row, sources] = 1
            self.targets[row, targets] = 1
        speeds, kind = rates(topology, conditions)
        self.rate = np.zeros((n, n), np.float32)
        np.add.at(
            self.rate,
            (topology.src, topology.dst),
            np.array([float(speed) for speed in speeds])[kind],
        )

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
    npus = topology.npus
    alone = np.zeros((len(npus), topology.num_devices), np.bool_)
    alone[np.arange(len(npus)), npus] = True
    masks = [
        *alone,
        *_joined_pairs(topology),
        *_grid_prefixes(topology),
        *_boxes(topology),
        *_sweeps(topology),
    ]
    for collective in range(int(conditions.collective.max(initial=-1)) + 1):
        group = np.zeros(topology.num_devices, np.bool_)
        mine = conditions.collective == collective
        group[conditions.source_ids[np.repeat(mine, np.diff(conditions.source_offsets))]] = True
        masks.append(group)
        if collective == 63:  # of many groups, each one alone tells little
            break
    is_npu = topology.kind == NPU
    for low in range(0, len(masks), MOST_CUTS // 2):
        some = np.array(masks[low : low + MOST_CUTS // 2])
        yield np.concatenate([some, ~some & is_npu])


def _joined_pairs(topology: Topology) -> Iterator[Bools]:
    is_npu = topology.kind == NPU
    joined = is_npu[topology.src] & is_npu[topology.dst] & (topology.src < topology.dst)
    pairs = list(
        dict.fromkeys(
            zip(topology.src[joined].tolist(), topology.dst[joined].tolist(), strict=True)
        )
    )
    for a, b in pairs[:: -(-len(pairs) // MOST_PAIRS) or 1]:
        mask = np.zeros(topology.num_devices, np.bool_)
        mask[[a, b]] = True
        yield mask


def _grid_prefixes(topology: Topology) -> Iterator[Bools]:
    """NPUs before each place along each dimension of the grid, and each slice."""
    grid = np.indices(topology.shape).reshape(len(topology.shape), -1)
    for coordinate, size in zip(grid, topology.shape, strict=True):
        for place in range(size):
            for chosen in (coordinate <= place, coordinate == place):
                mask = np.zeros(topology.num_devices, np.bool_)
                mask[: len(chosen)] = chosen
                yield mask & (topology.kind == NPU)


def _boxes(topology: Topology) -> Iterator[Bools]:
    """What hangs together by links faster than each bandwidth there is."""
    for threshold in topology.rates[0][:16].tolist():
        label = np.arange(topology.num_devices)
        fast = topology.bandwidth > threshold
        src, dst = topology.src[fast], topology.dst[fast]
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
    for start in dict.fromkeys((int(npus[0]), int(npus[len(npus) // 2]), int(npus[-1]))):
        order = npus[
            np.argsort(
                unloaded_times(net, np.array([start]), np.array([0]))[0, npus], kind="stable"
            )
        ]
        for count in np.unique(np.linspace(1, len(npus), 64).astype(int)):
            mask = np.zeros(topology.num_devices, np.bool_)
            mask[order[:count]] = True
            yield mask


def _with_switches(topology: Topology, masks: Bools) -> Bools:
    """Put every switch on the side with which it shares more bandwidth; a few rounds, as switches share it too."""
    if not len(topology.switches):
        return masks
    n = topology.num_devices
    shared = np.zeros((n, n), np.float32)
    np.add.at(shared, (topology.src, topology.dst), topology.bandwidth.astype(np.float32))
    shared += shared.T
    side = np.where(masks, 1, -1).astype(np.float32)
    side[:, topology.switches] = 0  # undecided at first
    for _ in range(4):
        side[:, topology.switches] = np.sign((side @ shared)[:, topology.switches])
    return side > 0
