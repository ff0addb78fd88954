"""Lower bounds with certificates: how long any algorithm must take, and a few lines that prove it again.

latency   the unloaded time of a chunk from one device to another
cut       what must leave a set of devices, over the rate at which its links carry it away
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pccl.collective import Collective, Conditions, compile_conditions, format_group
from pccl.errors import VerificationError
from pccl.synthesis.jobs import Jobs, gathering, reducing, roots
from pccl.synthesis.ten import network, unloaded_times
from pccl.topology import Topology
from pccl.topology.core import NPU, transmission_time
from pccl.units import Picoseconds

__all__ = ["Bound", "bound_of", "lower_bound"]

Mask = NDArray[np.bool_]
MOST_CUTS = 2048  # candidates looked at in one go; each costs about the square of the number of devices


@dataclass(frozen=True)
class Bound:
    """A time that no algorithm can beat, and why.

    Attributes
    ----------
    kind
        ``"latency"`` or ``"cut"``.
    value
        Picoseconds.
    devices
        Of a cut: the set that chunks must leave. Of a latency: where the chunk starts and where it must get to.
    chunk
        Of a latency: which chunk.
    """

    kind: str
    value: Picoseconds
    devices: tuple[int, ...]
    chunk: int = -1

    def __str__(self) -> str:
        if self.kind == "latency":
            source, destination = self.devices
            return f"{self.value}, the way of chunk {self.chunk} from {source} to {destination}"
        inside = format_group(self.devices)
        return f"{self.value}, what must leave devices {inside if len(inside) < 60 else inside[:57] + '...'}"

    def check(self, topology: Topology, conditions: Conditions) -> None:
        """Prove the bound again from its certificate alone; raises if it claims more than that shows."""
        if self.kind == "latency":
            proven = _latency(topology, conditions, self.chunk, *self.devices)
        else:
            inside = np.zeros(topology.num_devices, np.bool_)
            inside[list(self.devices)] = True
            proven = _cut(topology, conditions, inside)
        if self.value > proven:
            shown = Picoseconds(proven)
            raise VerificationError(f"the {self.kind} bound claims {self.value}, but its certificate proves {shown}")


def lower_bound(topology: Topology, *collectives: Collective) -> Bound:
    """The best bound we find for all collectives running at the same time.

    Examples
    --------
    >>> import pccl
    >>> mesh = pccl.topology.mesh(4, 4, bandwidth="1GB/s", latency="0ns")
    >>> str(pccl.lower_bound(mesh, pccl.AllToAll(size="16kB")))
    '16us, what must leave devices 0-7'
    """
    return bound_of(topology, compile_conditions(topology, collectives))


def bound_of(topology: Topology, conditions: Conditions) -> Bound:
    """The best bound for these conditions."""
    latency = _best_latency(topology, conditions)
    return max(latency, _best_cut(topology, conditions), key=lambda bound: bound.value)


# --- latency ---------------------------------------------------------------------------------------------------------


def _best_latency(topology: Topology, conditions: Conditions) -> Bound:
    root = roots(conditions)
    collected = reducing(topology, conditions, root, False)
    spread = gathering(topology, conditions, root, False)
    # Where a sum is collected is our choice; so of its way only that of the contributions to a destination counts.
    plain = ~conditions.reduces[spread.chunk]
    found = [_farthest(collected, collected.distance, mirrored=True), _farthest(spread, spread.distance * plain, False)]
    return max(found, key=lambda bound: bound.value)


def _farthest(jobs: Jobs, distance: NDArray[np.int64], mirrored: bool) -> Bound:
    if not distance.max(initial=0):
        return Bound("latency", Picoseconds(0), (0, 0))
    job = int(distance.argmax())
    source = int(jobs.source[job])
    targets = jobs.destination[jobs.first[job] : jobs.first[job + 1]]
    times = unloaded_times(jobs.net, np.array([source]), jobs.size[job : job + 1].astype(np.int64))[0]
    far = int(targets[times[targets].argmax()])
    ends = (far, source) if mirrored else (source, far)
    return Bound("latency", Picoseconds(int(times[far]) * jobs.net.unit), ends, int(jobs.chunk[job]))


def _latency(topology: Topology, conditions: Conditions, chunk: int, source: int, destination: int) -> int:
    if chunk < 0 or source not in conditions.sources(chunk) or destination not in conditions.destinations(chunk):
        return 0
    net = network(topology, conditions.bytes[chunk : chunk + 1])
    return int(unloaded_times(net, np.array([source]), np.array([0]))[0, destination]) * net.unit


# --- cuts ------------------------------------------------------------------------------------------------------------


def _cut(topology: Topology, conditions: Conditions, inside: Mask) -> int:
    """Picoseconds that the chunks which must leave the set need at least."""
    leaves = _any(inside[conditions.source_ids], conditions.source_offsets)
    leaves &= _any(~inside[conditions.destination_ids], conditions.destination_offsets)
    rates, kind = _rates(topology, conditions)
    count = np.bincount(kind[inside[topology.src] & ~inside[topology.dst]], minlength=len(rates))
    rate = sum((int(n) * r for n, r in zip(count, rates, strict=True)), Fraction(0))
    return math.ceil(int(conditions.bytes[leaves].sum()) / rate) if rate else 0


def _rates(topology: Topology, conditions: Conditions) -> tuple[list[Fraction], NDArray[np.int64]]:
    """Bytes per picosecond that links of each kind carry at most, and the kind of each link.

    An exclusive link is held for its latency too, so that it carries the largest chunks at the best rate.
    """
    features = np.stack([topology.bandwidth, np.where(topology.exclusive, topology.latency, 0)])
    (bandwidth, latency), kind = np.unique(features, axis=1, return_inverse=True)
    largest = int(conditions.bytes.max(initial=1))
    held = transmission_time(largest, bandwidth) + latency
    rates = [
        Fraction(largest, int(h)) if a else Fraction(int(b), 10**12)
        for b, a, h in zip(bandwidth, latency, held, strict=True)
    ]
    return rates, kind.reshape(-1)


def _any(values: Mask, offsets: NDArray[np.int64]) -> Mask:
    """Per row, whether any of its values is true."""
    counts = np.concatenate([[0], np.cumsum(values)])
    return counts[offsets[1:]] > counts[offsets[:-1]]


def _best_cut(topology: Topology, conditions: Conditions) -> Bound:
    demand = _Demand(topology, conditions)
    best, value = np.zeros(topology.num_devices, np.bool_), 0.0
    for masks in _candidates(topology, conditions):
        values = demand.time(_with_switches(topology, masks))
        if values.max(initial=0.0) > value:
            best, value = _with_switches(topology, masks[values.argmax()][None])[0], float(values.max())
    while value > 0:  # move one device at a time while that helps
        near = np.repeat(best[None], topology.num_devices, axis=0)
        near[np.diag_indices(topology.num_devices)] ^= True
        values = demand.time(near)
        if values.max() <= value * (1 + 1e-12):
            break
        best, value = near[values.argmax()], float(values.max())
    devices = tuple(np.flatnonzero(best).tolist())
    return Bound("cut", Picoseconds(_cut(topology, conditions, best)), devices)


class _Demand:
    """Conditions summed up so that many cuts can be judged at once."""

    def __init__(self, topology: Topology, conditions: Conditions) -> None:
        self.topology, n = topology, topology.num_devices
        single = (conditions.num_destinations == 1) & ~conditions.reduces
        source = conditions.source_ids[conditions.source_offsets[:-1][single]].astype(np.int64)
        target = conditions.destination_ids[conditions.destination_offsets[:-1][single]]
        pairs = np.bincount(source * n + target, conditions.bytes[single], n * n)
        self.pairs = pairs.reshape(n, n).astype(np.float32)
        # Pieces of a share have the same sources and destinations: one row stands for all of them.
        share = np.cumsum(conditions.piece == 0) - 1
        several = np.flatnonzero(~single & (conditions.piece == 0))
        self.bytes = np.bincount(share, conditions.bytes)[share[several]] if len(several) else np.zeros(0)
        self.sources, self.targets = np.zeros((2, len(several), n), np.float32)
        for row, chunk in enumerate(several.tolist()):
            self.sources[row, conditions.sources(chunk)] = 1
            self.targets[row, conditions.destinations(chunk)] = 1
        rates, kind = _rates(topology, conditions)
        self.rate = np.array([float(rate) for rate in rates])[kind] if len(kind) else np.zeros(0)

    def time(self, masks: Mask) -> NDArray[np.float64]:
        """Picoseconds that what must leave each set needs at least."""
        inside = masks.astype(np.float32)
        size = ((inside @ self.pairs) * (1 - inside)).sum(axis=1, dtype=np.float64)
        leaves = (inside @ self.sources.T > 0) & ((1 - inside) @ self.targets.T > 0)
        size += leaves @ self.bytes
        src, dst = self.topology.src, self.topology.dst
        rate = (masks[:, src] & ~masks[:, dst]) @ self.rate
        return np.asarray(np.divide(size, rate, out=np.zeros(len(masks)), where=rate > 0))


def _candidates(topology: Topology, conditions: Conditions) -> Iterator[Mask]:
    """Sets of NPUs that are likely to be the narrow ones, in batches, each with its complement."""
    npus = topology.npus
    alone = np.zeros((len(npus), topology.num_devices), np.bool_)
    alone[np.arange(len(npus)), npus] = True
    masks = [*alone, *_joined_pairs(topology), *_grid_prefixes(topology), *_boxes(topology), *_sweeps(topology)]
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


def _joined_pairs(topology: Topology) -> Iterator[Mask]:
    is_npu = topology.kind == NPU
    joined = is_npu[topology.src] & is_npu[topology.dst] & (topology.src < topology.dst)
    for a, b in list(dict.fromkeys(zip(topology.src[joined].tolist(), topology.dst[joined].tolist(), strict=True)))[
        :4096
    ]:
        mask = np.zeros(topology.num_devices, np.bool_)
        mask[[a, b]] = True
        yield mask


def _grid_prefixes(topology: Topology) -> Iterator[Mask]:
    """NPUs before each place along each dimension of the grid, and each slice."""
    grid = np.indices(topology.shape).reshape(len(topology.shape), -1)
    for coordinate, size in zip(grid, topology.shape, strict=True):
        for place in range(size):
            for chosen in (coordinate <= place, coordinate == place):
                mask = np.zeros(topology.num_devices, np.bool_)
                mask[: len(chosen)] = chosen
                yield mask & (topology.kind == NPU)


def _boxes(topology: Topology) -> Iterator[Mask]:
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


def _sweeps(topology: Topology) -> Iterator[Mask]:
    """NPUs by distance from a few of them."""
    net = network(topology, np.array([2**20]))
    npus = topology.npus
    for start in dict.fromkeys((int(npus[0]), int(npus[len(npus) // 2]), int(npus[-1]))):
        order = npus[np.argsort(unloaded_times(net, np.array([start]), np.array([0]))[0, npus], kind="stable")]
        for count in np.unique(np.linspace(1, len(npus), 64).astype(int)):
            mask = np.zeros(topology.num_devices, np.bool_)
            mask[order[:count]] = True
            yield mask


def _with_switches(topology: Topology, masks: Mask) -> Mask:
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
