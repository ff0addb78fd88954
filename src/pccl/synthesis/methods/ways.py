"""Ways of messages between devices that keep chunks, through switches that do not."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Bools, Column, offsets_by_owner, offsets_of, stable_order
from pccl.network import Network
from pccl.synthesis.calls import Calls
from pccl.synthesis.methods.ways_kernels import Map, Ways, ways_from

# Of equally short ways from one device to another.
MOST_ALIKE = 8


def keeping(net: Network) -> Bools:
    """Per device: whether it keeps chunks, and may send them as often as it likes; some switches just pass them on."""
    keeps: Bools = ~net.passes
    return keeps


def find_ways(net: Network) -> Ways:
    """Ways from every device that keeps chunks to every other one that messages get to without a stop.

    They are the shortest ones, for chunks of the largest size; of many that are equally short, some.
    """
    devices = len(net.first) - 1
    arcs = len(net.dst)
    keeps = keeping(net)
    world = Map(
        keeps=keeps,
        weight=net.travel[-1][net.kind],
        into_first=offsets_by_owner(net.dst, devices),
        into=stable_order(net.dst, devices),
        far=np.empty(devices, np.int64),
        direct=np.empty(devices, np.int64),
        heap=np.empty((arcs + 2, 3), np.int64),
    )
    ways = Ways(
        first=np.zeros(devices + 1, np.int64),
        src=np.empty(arcs, np.int32),
        dst=np.empty(arcs, np.int32),
        begin=np.zeros(arcs + 1, np.int64),
        arc=np.empty(arcs + devices, np.int32),
    )
    widths = np.zeros(devices, np.int64)
    count = 0
    for source in np.flatnonzero(keeps).tolist():
        reached = ways_from(net, world, MOST_ALIKE, source, ways, count)
        calls = Calls("finding ways through switches")
        while reached < 0:
            calls.came_to(source)
            ways = _grown(ways)
            reached = ways_from(net, world, MOST_ALIKE, source, ways, count)
        widths[source] = reached - count
        count = reached
    return Ways(
        first=offsets_of(widths),
        src=ways.src[:count],
        dst=ways.dst[:count],
        begin=ways.begin[: count + 1],
        arc=ways.arc[: ways.begin[count]],
    )


def _grown(ways: Ways) -> Ways:
    """The same with twice the room."""
    return ways._replace(
        src=_doubled(ways.src),
        dst=_doubled(ways.dst),
        begin=np.append(_doubled(ways.begin[:-1]), 0),
        arc=_doubled(ways.arc),
    )


def _doubled(column: Column) -> Column:
    return np.append(column, np.zeros(len(column) + 1, column.dtype))
