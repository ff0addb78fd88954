"""All-Reduces in which partial sums are exchanged, so that small data pay for the longest way once and not twice.

NPUs form blocks, all members of which hold the sum of the block. Blocks merge: whoever is next to a member of each of
the others gets their sums and adds them up; the others get a copy of the result. In the beginning everyone is a block,
in the end all are one. Along a line of eight that takes seven links, along a ring of four two, in a hypercube one for
each dimension, and around a switch, where everyone is next to everyone, all blocks may merge at once.

A device holds one sum of a chunk, and sends what it holds when it sends. So no sum may pass through an NPU as it is,
and none may come in before all has been sent that must not contain it (see :mod:`pccl.algorithm.apart`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pccl._arrays import Bools, Ints
from pccl.schemes.dimensions import Grid
from pccl.schemes.sends import Sends, Trees, lay_pattern, lay_trees
from pccl.schemes.tree_kernels import Pattern
from pccl.schemes.workload import UnsupportedError, Workload
from pccl.topology.parts import SWITCH

# More messages than this are too many for what is only good for small data.
MOST_MESSAGES = 150_000
MOST_MEMBERS = 256

# How the places of one dimension become one block: level by level, the block of each place.
Levels: TypeAlias = list[Ints]


def one_shot(workload: Workload) -> Sends:
    """Everyone sends what it has to everyone, and adds up what comes in."""
    n = len(workload.members)
    plan = _planned(_Ways.of(workload), [np.arange(n)], [at_once(n)])
    if plan is None:
        raise UnsupportedError(
            "needs a way from every NPU of the group to every other that passes through no NPU and no switch that adds"
        )
    return plan.sends()


def two_shot(workload: Workload) -> Sends:
    """Everyone sends each share to the member that adds it up, which sends the sum to everyone."""
    n = len(workload.members)
    roots = workload.roots[:, None]
    parent = np.where(np.arange(n) == roots, -1, roots)
    step = (np.arange(n) - roots) % n
    return lay_trees(workload, lambda _: Trees(parent, step))


def recursive_doubling(workload: Workload) -> Sends:
    """Blocks merge in pairs, one dimension after another."""
    return _best(workload, lambda size: [in_pairs(size)])


def exchange(workload: Workload) -> Sends:
    """Blocks merge in pairs or several at once, one dimension after another, in the way that promises most."""
    return _best(workload, _options)


def _best(workload: Workload, options: Callable[[int], Sequence[Levels]]) -> Sends:
    """The quickest plan along the dimensions of the group, or as if it had none."""
    ways = _Ways.of(workload)
    for places in _dimensions(workload):
        # Each dimension by itself: what is best for one does not depend on the others.
        found = [_quickest(ways, places, number, options) for number in range(len(places))]
        levels = [one for one in found if one is not None]
        if len(levels) == len(places):
            plan = _planned(ways, places, levels)
            if plan is not None:
                return plan.sends()
    raise UnsupportedError(
        "needs NPUs next to each other, with no other NPU and no switch that adds in between"
    )


def _dimensions(workload: Workload) -> Iterator[list[Ints]]:
    """By dimension, the innermost first: the place of each member; or else its place in the group."""
    try:
        grid = Grid.of(workload)
        yield [along for along in grid.place[::-1] if along.max(initial=0)]
    except UnsupportedError:
        pass
    yield [np.arange(len(workload.members))]


def _quickest(
    ways: _Ways,
    places: list[Ints],
    dimension: int,
    options: Callable[[int], Sequence[Levels]],
) -> Levels | None:
    """The levels of one dimension after which all along it have its sum soonest."""
    along = places[dimension]
    others = places[:dimension] + places[dimension + 1 :]
    best = None
    soonest = np.inf
    for levels in options(int(along.max(initial=0)) + 1):
        plan = _planned(ways, [along], [levels], others)
        if plan is not None and plan.end < soonest:
            best = levels
            soonest = plan.end
    return best


# --- levels ----------------------------------------------------------------------------------------------------------


def at_once(size: int) -> Levels:
    """All places merge at once."""
    return [np.zeros(size, np.int64)]


def in_pairs(size: int) -> Levels:
    """Halves merge, and before them their halves.

    Examples
    --------
    >>> [level.tolist() for level in in_pairs(5)]
    [[0, 0, 1, 2, 3], [0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]
    """
    parts = 1
    levels = [np.zeros(size, np.int64)]
    while 2 * parts < size:
        parts *= 2
        levels.append(np.arange(size) * parts // size)
    return levels[::-1]


def _options(size: int) -> list[Levels]:
    """Ways worth a try: in pairs, or by the factors of the size, in any order."""
    found = [in_pairs(size)]
    for factors in _factorings(size):
        steps = np.cumprod(factors)
        found.append([np.arange(size) // step for step in steps])
    return found


def _factorings(size: int) -> Iterator[list[int]]:
    """All ordered ways to write a number as a product.

    Examples
    --------
    >>> sorted(_factorings(8))
    [[2, 2, 2], [2, 4], [4, 2], [8]]
    """
    if size == 1:
        yield []
    for first in range(2, size + 1):
        if size % first == 0:
            yield from ([first, *rest] for rest in _factorings(size // first))


# --- a plan ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ways:
    """The ways between members that pass through nothing but switches that pass messages on."""

    workload: Workload
    is_open: Bools  # from member to member: whether there is one
    time: Ints  # how long it takes without traffic
    links: list[list[list[int]]]  # that it goes over
    hold: list[int]  # per link: for how long a message for every chunk holds it
    travel: list[int]  # per link: how long one of them takes

    @classmethod
    def of(cls, workload: Workload) -> _Ways:
        """Look at all pairs of members."""
        topology = workload.topology
        members = workload.members
        n = len(members)
        if n > MOST_MEMBERS:
            raise UnsupportedError(f"is made for at most {MOST_MEMBERS} NPUs")
        paths, path = workload.paths(np.repeat(members, n), np.tile(members, n))
        count = len(paths.first) - 1
        owner = np.repeat(np.arange(count), np.diff(paths.first))
        arrives = np.append(owner[1:] != owner[:-1], True)[: len(owner)]
        passes = (topology.kind == SWITCH) & ~topology.multicast & ~topology.reduce
        blocked = owner[~passes[topology.dst[paths.link]] & ~arrives]
        is_open = np.bincount(blocked, minlength=count) == 0
        hold, travel = workload.link_times
        time = np.bincount(owner, travel[paths.link], count).astype(np.int64)
        lists = [part.tolist() for part in np.split(paths.link, paths.first[1:-1])]
        square = path.reshape(n, n)
        return cls(
            workload,
            is_open[square] & ~np.eye(n, dtype=np.bool_),
            time[square],
            [[lists[number] for number in row] for row in square.tolist()],
            (hold * len(workload.conditions)).tolist(),
            travel.tolist(),
        )


class _Plan:
    """Messages between members, in order, and about when they arrive."""

    def __init__(self, ways: _Ways) -> None:
        n = len(ways.is_open)
        self.ways = ways
        self.ready = np.zeros(n, np.int64)
        self.last = np.full(n, -1)  # the last row that brought something to a member
        self.used = np.zeros(n, np.int64)  # messages sent
        self.free = [0] * len(ways.hold)
        # Link, what it waits for, what came to the receiver before it, both counted back; whether it is added.
        self.rows: list[tuple[int, int, int, bool]] = []

    @property
    def end(self) -> int:
        """About when all is done."""
        return int(self.ready.max(initial=0))

    def sends(self) -> Sends:
        """The messages, for all chunks."""
        workload = self.ways.workload
        chunks = len(workload.conditions)
        if len(self.rows) * chunks > MOST_MESSAGES:
            raise UnsupportedError(
                f"would take more than {MOST_MESSAGES:,} transfers; it is made for small groups"
            )
        columns = np.array(self.rows, np.int64).reshape(-1, 4).T
        first = np.array([0, len(self.rows)])
        link = columns[0].astype(np.int32)
        pattern = Pattern(first, link, columns[1], columns[2], columns[3] > 0)
        return lay_pattern(pattern, workload.by_piece, np.zeros(chunks, np.int64))

    def merge(self, blocks: list[Ints]) -> bool:
        """Let all members of some blocks have the sum of all; returns whether that can be."""
        held_since = self.ready.copy()
        brought = self.last.copy()
        partners = {}
        for block, members in enumerate(blocks):
            for member in members.tolist():
                found = self._partners(member, block, blocks, held_since)
                if found is not None:
                    partners[member] = found
        if not partners:
            return False
        # All begin with the next block, so that nobody gets everything at once.
        for turn in range(len(blocks) - 1):
            for member, senders in partners.items():
                sender = senders[turn]
                self._send(sender, member, True, int(held_since[sender]), int(brought[sender]))
        return self._spread(np.concatenate(blocks), set(partners))

    def _partners(
        self, member: int, block: int, blocks: list[Ints], held_since: Ints
    ) -> list[int] | None:
        """From whom a member gets the sum of each other block; None if it is not next to all of them."""
        found = []
        for turn in range(1, len(blocks)):
            others = blocks[(block + turn) % len(blocks)]
            others = others[self.ways.is_open[others, member]]
            if not len(others):
                return None
            arrival = held_since[others] + self.ways.time[others, member]
            apart = (others - member) % len(self.ready)
            best = int(others[np.lexsort((apart, self.used[others], arrival))[0]])
            self.used[best] += 1
            found.append(best)
        return found

    def _spread(self, members: Ints, informed: set[int]) -> bool:
        """Copy the sum from those who have it to the others, who get it from whomever it comes from first."""
        inside = np.isin(members, list(informed))
        have = members[inside]
        need = members[~inside]
        while len(need):
            arrival = self.ready[have][:, None] + self.ways.time[np.ix_(have, need)]
            arrival = np.where(
                self.ways.is_open[np.ix_(have, need)], arrival, np.iinfo(np.int64).max
            )
            row, column = np.unravel_index(np.argmin(arrival), arrival.shape)
            sender = int(have[row])
            member = int(need[column])
            if not self.ways.is_open[sender, member]:
                return False
            self._send(sender, member, False, int(self.ready[sender]), int(self.last[sender]))
            have = np.append(have, member)
            need = np.delete(need, column)
        return True

    def _send(self, sender: int, member: int, reduce: bool, time: int, wait: int) -> None:
        """One message, sent from a time on, when what it waits for has come."""
        before = int(self.last[member])
        links = self.ways.links[sender][member]
        for number, link in enumerate(links, 1):
            row = len(self.rows)
            start = max(time, self.free[link])
            self.free[link] = start + self.ways.hold[link]
            time = start + self.ways.travel[link]
            newest = row - wait if wait >= 0 else 0
            previous = row - before if before >= 0 and number == len(links) else 0
            self.rows.append((link, newest, previous, reduce))
            wait = row
        self.last[member] = wait
        self.ready[member] = max(time, int(self.ready[member]))


def _planned(
    ways: _Ways,
    places: Sequence[Ints],
    levels: Sequence[Levels],
    others: Sequence[Ints] = (),
) -> _Plan | None:
    """Merge blocks along one dimension after another; None if some cannot.

    Members merge with those only who are at the same place along the other dimensions.
    """
    plan = _Plan(ways)
    everyone = np.arange(len(ways.is_open))
    for number, (along, own) in enumerate(zip(places, levels, strict=True)):
        still_apart = [*places[number + 1 :], *others]
        before = along
        for level in own:
            after = level[along]
            for group in _split(everyone, [after, *still_apart]):
                blocks = _split(group, [before])
                if len(blocks) > 1 and not plan.merge(blocks):
                    return None
            before = after
    return plan


def _split(members: Ints, keys: list[Ints]) -> list[Ints]:
    """The members that agree in all keys, group by group."""
    columns = np.stack([key[members] for key in keys])
    _, number, count = np.unique(columns, axis=1, return_inverse=True, return_counts=True)
    order = np.argsort(number.reshape(-1), kind="stable")
    return np.split(members[order], np.cumsum(count)[:-1])
