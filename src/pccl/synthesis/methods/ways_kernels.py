"""Ways of messages through switches that pass them on one by one: all shortest ones, or some of them."""

from __future__ import annotations

from typing import NamedTuple

from pccl._arrays import Bools, Indices, Ints
from pccl._heap_kernels import pop, push
from pccl._kernels import kernel
from pccl.errors import InternalError
from pccl.network.graph_kernels import NEVER, Network


class Ways(NamedTuple):
    """Ways from one device that keeps chunks to another, grouped by the one they leave."""

    first: Ints  # ways of device d are first[d] .. first[d + 1] - 1
    src: Indices
    dst: Indices
    begin: Ints  # arcs of way w are arc[begin[w]:begin[w + 1]]
    arc: Indices


class Map(NamedTuple):
    """What the ways from one device are found with."""

    keeps: Bools  # per device: whether ways end there, as it keeps what it gets
    weight: Ints  # per arc
    into_first: Ints  # arcs into device d are into[into_first[d] : into_first[d + 1]]
    into: Ints
    far: Ints  # per device: how far it is from the one that ways are sought from
    direct: Ints  # per device: how far it is over one arc
    heap: Ints


@kernel
def ways_from(net: Network, world: Map, most: int, source: int, ways: Ways, count: int) -> int:
    """Write down the ways from a device, from number `count` on; returns how many there are then, or -1 for no room.

    These are all arcs to its neighbours, and where a way through switches is no longer than that, or where there is no
    arc, some of the shortest. The last ones are those to the devices whose numbers come next.
    """
    measure(net, world, source)
    devices = len(world.far)
    for arc in range(net.first[source], net.first[source + 1]):
        if world.keeps[net.dst[arc]]:
            if not has_room(ways, count, devices):
                return -1
            ways.arc[ways.begin[count]] = arc
            count = end_way(net, ways, count, 1)
    for step in range(1, devices):
        target = (source - step) % devices
        far = world.far[target]
        if not world.keeps[target] or far == NEVER or far > world.direct[target]:
            continue
        alike = count
        for number in range(most):
            if not has_room(ways, count, devices):
                return -1
            width = walk(net, world, source, target, number, ways.arc[ways.begin[count] :])
            if is_new(ways, alike, count, width):
                count = end_way(net, ways, count, width)
    return count


@kernel
def measure(net: Network, world: Map, source: int) -> None:
    """How far everything is from a device: over arcs, and through switches that keep nothing."""
    far = world.far
    far[:] = NEVER
    world.direct[:] = NEVER
    waiting = push(world.heap, 0, 0, 0, source)
    # Nothing gets nearer once it was the nearest, so every arc leads on once.
    for _ in range(len(net.dst) + 2):
        if waiting == 0:
            break
        waiting = pop(world.heap, waiting)
        total = world.heap[waiting, 0]
        device = world.heap[waiting, 2]
        if device != source and (world.keeps[device] or total > far[device]):
            continue
        for arc in range(net.first[device], net.first[device + 1]):
            receiver = net.dst[arc]
            there = total + world.weight[arc]
            if receiver == source:
                continue
            if device == source and world.keeps[receiver]:
                world.direct[receiver] = min(world.direct[receiver], there)
            elif there < far[receiver]:
                far[receiver] = there
                waiting = push(world.heap, waiting, there, 0, receiver)
    else:
        raise InternalError("shortest ways through switches take an arc more than once")


@kernel
def walk(net: Network, world: Map, source: int, target: int, number: int, path: Indices) -> int:
    """Write down one of the shortest ways to a device; returns how many arcs it has.

    Where there is a choice, a digit of a number decides: numbers that follow each other lead to different ways, and
    they begin elsewhere for every pair of devices, so that all ways are of use.
    """
    digits = source + target + number
    device = target
    width = 0
    for _ in range(len(world.far)):
        if device == source:
            break
        choices = 0
        for k in range(world.into_first[device], world.into_first[device + 1]):
            choices += leads(net, world, source, world.into[k])
        choice = digits % choices
        digits //= choices
        for k in range(world.into_first[device], world.into_first[device + 1]):
            arc = world.into[k]
            if leads(net, world, source, arc):
                if choice == 0:
                    path[width] = arc
                    width += 1
                    device = net.src[arc]
                    break
                choice -= 1
    else:
        raise InternalError("a way through switches does not come to its beginning")
    for i in range(width // 2):  # found from its end
        path[i], path[width - 1 - i] = path[width - 1 - i], path[i]
    return width


@kernel
def leads(net: Network, world: Map, source: int, arc: int) -> bool:
    """Whether an arc is part of a shortest way through switches."""
    sender = net.src[arc]
    receiver = net.dst[arc]
    if sender == source:
        return not world.keeps[receiver] and world.weight[arc] == world.far[receiver]
    if world.keeps[sender] or world.far[sender] == NEVER:
        return False
    there: bool = world.far[sender] + world.weight[arc] == world.far[receiver]
    return there


@kernel
def has_room(ways: Ways, count: int, longest: int) -> bool:
    """Whether there is room for one more way."""
    return count < len(ways.src) and ways.begin[count] + longest <= len(ways.arc)


@kernel
def is_new(ways: Ways, low: int, count: int, width: int) -> bool:
    """Whether the arcs behind all ways are not those of one of the last few, from number `low` on."""
    path = ways.begin[count]
    for way in range(low, count):
        begin = ways.begin[way]
        same = ways.begin[way + 1] - begin == width
        for k in range(width):
            same = same and ways.arc[begin + k] == ways.arc[path + k]
        if same:
            return False
    return True


@kernel
def end_way(net: Network, ways: Ways, count: int, width: int) -> int:
    """Make a way of the arcs behind all ways; returns how many ways there are then."""
    begin = ways.begin[count]
    ways.src[count] = net.src[ways.arc[begin]]
    ways.dst[count] = net.dst[ways.arc[begin + width - 1]]
    ways.begin[count + 1] = begin + width
    return count + 1
