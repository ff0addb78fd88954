"""A topology as kernels see it: arcs grouped by the device they leave, with whole times; and distances over them."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Bools, Indices, Ints
from pccl.errors import InfeasibleError
from pccl.network.graph_kernels import NEVER, Network, all_shortest, shortest
from pccl.topology import Topology
from pccl.topology.core import transmission_time
from pccl.units import Bytes

# Picoseconds, about two weeks: no schedule may take longer, so that sums of times fit an int64.
LONGEST = 2**60
# Of tables of distances; more sizes share those of the next smaller class.
MOST_SIZE_CLASSES = 8


def network(topology: Topology, sizes: Ints, steps: bool = False) -> Network:
    """The arcs of a topology, for chunks of these sizes (the size classes).

    With `steps`, a transfer takes a whole multiple of the greatest common divisor of all the times for which links are
    held, rounded up: then transfers fit together without gaps that are too short to be of use.
    """
    first, link = topology.out_links
    (bandwidth, latency, overhead), kind = topology.link_kinds
    _check_times(topology, sizes)
    duration = transmission_time(sizes[:, None], bandwidth[None, :])
    travel = duration + latency
    hold = duration + overhead
    finite = np.flatnonzero(topology.buffer)
    store = np.full(topology.num_devices, -1, np.int64)
    store[finite] = np.arange(len(finite))
    limited = topology.limited
    # In steps, holds are whole and travel is rounded up: what is planned to arrive too late is
    # still right, what arrives too early is not. Exactly, all times that matter decide the unit.
    times = [hold] if steps else [hold, travel, duration] if limited else [hold, travel]
    unit = int(np.gcd.reduce(np.concatenate(times, axis=None))) or 1
    return Network(
        first=first,
        src=topology.src[link],
        dst=topology.dst[link],
        link=link.astype(np.int32),
        lane=link.astype(np.int32),
        kind=kind[link].astype(np.int32),
        hold=hold // unit,
        travel=-(-travel // unit),
        duration=duration // unit,
        store=store,
        passes=~topology.multicast,
        any_passes=bool(np.any(~topology.multicast)),
        limited=limited,
        unit=unit,
    )


def _check_times(topology: Topology, sizes: Ints) -> None:
    """Refuse what would take so long that even the shortest way across the network is no int64 of picoseconds."""
    if not topology.num_links or not len(sizes):
        return
    # In floats: the exact times are what might not fit an int64.
    slowest = int(np.argmax(topology.latency + sizes.max() / topology.bandwidth * 1e12))
    seconds = float(sizes.max() / topology.bandwidth[slowest] + topology.latency[slowest] / 1e12)
    if seconds * 1e12 * topology.num_devices > LONGEST:
        raise InfeasibleError(
            f"a chunk of {Bytes(sizes.max())} takes {seconds:.3g} s over {topology.link_text(slowest)}, "
            f"too long to schedule on {topology.num_devices} devices; use smaller chunks or take the link out"
        )


def steps_help(exact: Network) -> bool:
    """Whether there is a step worth counting in: not too short beside the holds, and not what times come to anyway."""
    step = int(np.gcd.reduce(exact.hold, axis=None))
    return (
        not exact.limited
        and 8 * step >= exact.hold.min(initial=0)
        and bool(np.any(exact.travel % max(step, 1)))
    )


def arc_of_link(net: Network) -> Indices:
    """Per link: its arc, which is another one on the transposed network."""
    arc = np.empty(len(net.link), np.int32)
    arc[net.link] = np.arange(len(net.link))
    return arc


def unloaded_times(
    net: Network, devices: Ints, size_classes: Ints, allowed: Bools | None = None
) -> Ints:
    """Row i: time from device i to every device for a chunk of its size class when nothing is in the way.

    If not all devices are `allowed`, only ways through those count.
    """
    table = np.empty((len(devices), len(net.first) - 1), np.int64)
    heap = _heap_for(len(net.dst))
    for size_class in np.unique(size_classes):
        rows = np.flatnonzero(size_classes == size_class)
        part = np.empty((len(rows), table.shape[1]), np.int64)
        travel = net.travel[size_class][net.kind]
        if allowed is not None:
            travel = np.where(allowed[net.dst], travel, NEVER)
        all_shortest(net.first, net.dst, travel, devices[rows].astype(np.int64), heap, part)
        table[rows] = part
    return table


def times_from_nearest(topology: Topology, size: int, devices: Ints | Indices) -> Ints:
    """Per device: the unloaded time, in picoseconds, that a chunk needs from the nearest of some devices."""
    net = network(topology, np.array([size]))
    times = np.empty(topology.num_devices, np.int64)
    shortest(
        net.first,
        net.dst,
        net.travel[0][net.kind],
        devices.astype(np.int64),
        _heap_for(len(net.dst) + len(devices)),
        times,
    )
    return np.where(times < NEVER, times * net.unit, NEVER)


def price_table(topology: Topology, price: Ints) -> Ints:
    """[from, to]: what the cheapest way costs, where every link has a price."""
    first, link = topology.out_links
    devices = np.arange(topology.num_devices)
    table = np.empty((len(devices), len(devices)), np.int64)
    all_shortest(first, topology.dst[link], price[link], devices, _heap_for(len(link)), table)
    return table


def few_sizes(sizes: Ints) -> tuple[Ints, Ints]:
    """Classes of sizes, for tables of distances: per size its class, and per class its smallest size.

    A chunk of the class takes at least as long as one of the smallest size, so distances are never too long.
    """
    if len(sizes) <= MOST_SIZE_CLASSES:
        return np.arange(len(sizes)), np.arange(len(sizes))
    spread = np.log2(sizes / sizes[0])
    class_of_size = (spread / (spread[-1] + 1e-9) * MOST_SIZE_CLASSES).astype(np.int64)
    _, smallest, class_of_size = np.unique(class_of_size, return_index=True, return_inverse=True)
    return class_of_size.reshape(-1), smallest


def no_way(
    topology: Topology, chunk: int, sender: int, receiver: int, confined: bool = False
) -> InfeasibleError:
    """The error for a chunk that cannot get where it must, perhaps only because it is confined to its group."""
    where = topology.name.removesuffix(" transposed")
    path = (
        "path of links inside its group, to which it is confined," if confined else "path of links"
    )
    return InfeasibleError(
        f"chunk {chunk} cannot get from {topology.device_text(sender)} to "
        f"{topology.device_text(receiver)}: no {path} joins them in {where}"
    )


def _heap_for(arcs: int) -> Ints:
    return np.empty((arcs + 2, 3), np.int64)
