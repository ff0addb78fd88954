"""Compiled loops of the mirrored method: trees of a symmetric network, timed so that they can run backwards as well."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._array_kernels import draw
from pccl._arrays import Bits, Bools, Ints
from pccl._kernels import kernel
from pccl.errors import InternalError

# One change in so many is made anywhere; the others are made to trees that are late.
_ANYWHERE = 3
# One in so many ends before it has come to a leaf.
_STOPS = 5
# How much more it counts that two trees together take too long than that one is late.
_TOGETHER = 3
# One change in so many is one of turns.
_TURNS = 10
_CHANCES = 1 << 30
_COLDEST = 1e-9
# Changes that cannot be are that much rarer than tries, as one in ten is a change of turns.
_MOST_VAIN = 1000


class Grid(NamedTuple):
    """A network, its links in orbits: those that a symmetry moves to one another. All times are in ticks."""

    first: Ints  # arcs of device v are first[v] .. first[v + 1] - 1
    dst: Ints
    orbit: Ints  # per arc
    back: Ints  # per orbit: that of the same arcs the other way
    root: int
    travel: int
    hold: int


class Growing(NamedTuple):
    """Trees, one for each orbit of chunks, and when their transfers start."""

    up: Ints  # [tree, device]: the arc to its parent
    start: Ints  # [tree, device]
    done: Ints  # per tree: when the root has all
    due: Ints  # per tree: when it should
    turn: Ints  # per tree: for when its transfers are planned, so that the right ones go first


class Room(NamedTuple):
    """Scratch space."""

    children: Ints  # [tree, device]
    missing: Ints  # [tree, device]: children that have not sent yet
    due: Ints  # [tree, device]: when it is to have sent
    ready: Ints  # [orbit of arcs, ...]: what can be sent, as tree * devices + device; what is due first is last
    count: Ints  # per orbit of arcs: how much of that there is
    free: Ints  # per orbit of arcs: from when on
    taken: Bools  # [orbit of arcs, tick]: whether something starts then
    sent: Ints  # in the order of starts
    sorted: Ints  # per tree
    random: Bits  # [0]: state of the generator


@kernel
def timed(grid: Grid, trees: Growing, room: Room, end: int) -> tuple[int, int]:
    """Start what is most urgent whenever a link is free, also for what runs over it backwards from the end.

    Returns how much of it is late, and by how much trees are two by two, squared and added up.
    """
    count, devices = trees.up.shape
    _prepare(grid, trees, room)
    transfers = count * (devices - 1)
    head = 0
    tail = 0
    # After the end nothing runs backwards, and at the worst one transfer follows another.
    for now in range(end + (transfers + 1) * (grid.travel + grid.hold)):
        while head < tail:
            item = room.sent[head]
            if trees.start[item // devices, item % devices] + grid.travel > now:
                break
            head += 1
            _arrive(grid, trees, room, item, now)
        if head == transfers:
            return _lateness(grid, trees, room, end)
        for orbit in range(len(grid.back)):
            if room.count[orbit] == 0 or room.free[orbit] > now:
                continue
            if _is_mirrored(grid, room, orbit, now, end):
                continue
            room.count[orbit] -= 1
            item = room.ready[orbit, room.count[orbit]]
            trees.start[item // devices, item % devices] = now
            # After the end there is nothing to run backwards.
            if now < end:
                room.taken[orbit, now] = True
            room.free[orbit] = now + grid.hold
            room.sent[tail] = item
            tail += 1
    raise InternalError("trees take longer than all of their transfers one after another")


@kernel
def _prepare(grid: Grid, trees: Growing, room: Room) -> None:
    count, devices = trees.up.shape
    room.count[:] = 0
    room.free[:] = 0
    room.taken[:] = False
    for tree in range(count):
        for device in range(devices):
            room.missing[tree, device] = room.children[tree, device]
            if device != grid.root and room.children[tree, device] == 0:
                _offer(grid, trees, room, tree, device)


@kernel
def look_at(grid: Grid, trees: Growing, room: Room, tree: int) -> None:
    """Find out what devices wait for in a tree, and when they are to be done."""
    room.children[tree] = 0
    for device in range(trees.up.shape[1]):
        if device == grid.root:
            continue
        room.children[tree, grid.dst[trees.up[tree, device]]] += 1
        above = device
        due = trees.turn[tree]
        for _ in range(trees.up.shape[1]):
            if above == grid.root:
                break
            above = grid.dst[trees.up[tree, above]]
            due -= grid.travel
        else:
            raise InternalError("a device is in no tree: those above it are a circle")
        room.due[tree, device] = due


@kernel
def _offer(grid: Grid, trees: Growing, room: Room, tree: int, device: int) -> None:
    """Let a device send to its parent when its link is free and nothing else is due before."""
    devices = trees.up.shape[1]
    orbit = grid.orbit[trees.up[tree, device]]
    due = room.due[tree, device]
    place = room.count[orbit]
    while place > 0:
        other = room.ready[orbit, place - 1]
        if room.due[other // devices, other % devices] > due:
            break
        room.ready[orbit, place] = other
        place -= 1
    room.ready[orbit, place] = tree * devices + device
    room.count[orbit] += 1


@kernel
def _arrive(grid: Grid, trees: Growing, room: Room, item: int, now: int) -> None:
    devices = trees.up.shape[1]
    tree = item // devices
    device = grid.dst[trees.up[tree, item % devices]]
    room.missing[tree, device] -= 1
    if room.missing[tree, device]:
        return
    if device == grid.root:
        trees.done[tree] = now
    else:
        _offer(grid, trees, room, tree, device)


@kernel
def _is_mirrored(grid: Grid, room: Room, orbit: int, now: int, end: int) -> bool:
    """Whether the link is held by what runs the other way, seen backwards from the end."""
    middle = end - grid.travel - now
    if grid.back[orbit] == orbit and abs(middle - now) < grid.hold:
        return True
    for tick in range(max(middle - grid.hold + 1, 0), min(middle + grid.hold, now + 1)):
        if room.taken[grid.back[orbit], tick]:
            return True
    return False


@kernel
def _lateness(grid: Grid, trees: Growing, room: Room, end: int) -> tuple[int, int]:
    count = len(trees.done)
    late = 0
    for tree in range(count):
        late += max(trees.done[tree] - trees.due[tree], 0) ** 2 + _late_on_the_way(
            grid, trees, room, tree
        )
        place = tree
        while place > 0 and room.sorted[place - 1] > trees.done[tree]:
            room.sorted[place] = room.sorted[place - 1]
            place -= 1
        room.sorted[place] = trees.done[tree]
    together = 0
    for tree in range((count + 1) // 2):
        together += max(room.sorted[tree] + room.sorted[count - 1 - tree] - end, 0) ** 2
    return late + _TOGETHER * together, together


@kernel
def _late_on_the_way(grid: Grid, trees: Growing, room: Room, tree: int) -> int:
    """By how much transfers start too late for a tree to be in time.

    Of trees that are late by the same time, the one with fewer such transfers is nearer to being in time.
    """
    late = 0
    # Transfers go in the order of what is due for its turn.
    early = trees.due[tree] - trees.turn[tree]
    for device in range(trees.up.shape[1]):
        if device != grid.root:
            late += max(trees.start[tree, device] - room.due[tree, device] - early, 0)
    return late * grid.hold


@kernel
def grow(grid: Grid, trees: Growing, distance: Ints, load: Ints, random: Bits) -> None:
    """Trees along shortest ways, over links that carry little in both directions."""
    count, devices = trees.up.shape
    for tree in range(count):
        begin = draw(random, devices)
        for number in range(devices):
            device = (begin + number) % devices
            if device == grid.root:
                continue
            best = np.int64(-1)
            least = np.int64(0)
            for arc in range(grid.first[device], grid.first[device + 1]):
                if distance[grid.dst[arc]] >= distance[device]:
                    continue
                orbit = grid.orbit[arc]
                # Twice, and one at random, so that only ties are left to chance.
                carries = 2 * (load[orbit] + load[grid.back[orbit]]) + draw(random, 2)
                if best < 0 or carries < least:
                    best = arc
                    least = carries
            trees.up[tree, device] = best
            load[grid.orbit[best]] += 1


@kernel
def annealed(
    grid: Grid, trees: Growing, best: Growing, room: Room, end: int, tries: int, heat: float
) -> tuple[int, int]:
    """Change trees, late ones above all, and keep what is hardly worse, ever less so.

    Returns how late the best trees are together, and how many were timed.
    """
    random = room.random
    for tree in range(len(trees.done)):
        look_at(grid, trees, room, tree)
    cost, together = timed(grid, trees, room, end)
    _keep(best, trees)
    lowest = cost
    least = together
    done = 1
    for _ in range(_MOST_VAIN * tries + 1):
        if done >= tries or least == 0:
            break
        tree, device = _chosen(grid, trees, random)
        arc = trees.up[tree, device]
        turn = trees.turn[tree]
        if not _change(grid, trees, random, tree, device):
            continue
        look_at(grid, trees, room, tree)
        new, together = timed(grid, trees, room, end)
        done += 1
        warmth = max(heat * (1 - done / tries), _COLDEST)
        chance = draw(random, _CHANCES) / _CHANCES
        if new <= cost or chance < np.exp((cost - new) / warmth):
            cost = new
            if new < lowest or together == 0:
                lowest = new
                least = together
                _keep(best, trees)
        else:
            trees.up[tree, device] = arc
            trees.turn[tree] = turn
            look_at(grid, trees, room, tree)
    else:
        raise InternalError("trees can hardly be changed at all")
    return least, done


@kernel
def _change(grid: Grid, trees: Growing, random: Bits, tree: int, device: int) -> bool:
    """Let a device have another parent, or the tree another turn; whether that can be."""
    if device == grid.root or draw(random, _TURNS) == 0:
        trees.turn[tree] += draw(random, 4 * grid.hold + 1) - 2 * grid.hold
        return True
    arcs = grid.first[device + 1] - grid.first[device]
    arc = grid.first[device] + draw(random, arcs)
    if arc == trees.up[tree, device] or _is_below(grid, trees, tree, grid.dst[arc], device):
        return False
    trees.up[tree, device] = arc
    return True


@kernel
def _keep(best: Growing, trees: Growing) -> None:
    for tree in range(len(trees.done)):
        best.done[tree] = trees.done[tree]
        for device in range(trees.up.shape[1]):
            best.up[tree, device] = trees.up[tree, device]
            best.start[tree, device] = trees.start[tree, device]


@kernel
def _chosen(grid: Grid, trees: Growing, random: Bits) -> tuple[int, int]:
    """A device of a tree whose parent to change: on the way that makes a late tree late, or any."""
    count, devices = trees.up.shape
    if draw(random, _ANYWHERE) == 0:
        return draw(random, count), draw(random, devices)
    tree = np.int64(0)
    late = 0
    for one in range(count):
        if trees.done[one] > trees.due[one]:
            late += 1
            if draw(random, late) == 0:
                tree = one
    device = grid.root
    for _ in range(1 + draw(random, devices)):
        below = np.int64(-1)
        for arc in range(grid.first[device], grid.first[device + 1]):
            child = grid.dst[arc]
            if child == grid.root or grid.dst[trees.up[tree, child]] != device:
                continue
            if below < 0 or trees.start[tree, child] > trees.start[tree, below]:
                below = child
        if below < 0 or (device != grid.root and draw(random, _STOPS) == 0):
            break
        device = below
    return tree, device


@kernel
def _is_below(grid: Grid, trees: Growing, tree: int, device: int, above: int) -> bool:
    """Whether a device is in the branch that begins at another."""
    for _ in range(trees.up.shape[1]):
        if device == above:
            return True
        if device == grid.root:
            return False
        device = grid.dst[trees.up[tree, device]]
    raise InternalError("a device is in no tree: those above it are a circle")
