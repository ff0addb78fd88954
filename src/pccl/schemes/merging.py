"""Messages between the members of a group by which partial sums are merged, and about when they arrive.

NPUs form blocks, all members of which hold the sum of the block. Blocks merge: whoever is next to a member of each of
the others gets their sums and adds them up; the others get a copy of the result. While blocks are put together, links
that are not needed for it may carry the sums of their parts to those who would else wait for many blocks at once.

A device holds one sum of a chunk, and sends what it holds when it sends. So no sum may pass through an NPU as it is,
and none may come in before all has been sent that must not contain it (see :mod:`pccl.algorithm.apart`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pccl._arrays import Bools, Ints, take_rows
from pccl.errors import InternalError
from pccl.network import NEVER
from pccl.schemes.sends import Sends
from pccl.schemes.workload import UnsupportedError, Workload, follow
from pccl.topology import Topology
from pccl.topology.parts import SWITCH

# More messages than this are too many for what is only good for small data.
MOST_MESSAGES = 150_000
MOST_MEMBERS = 256


@dataclass(frozen=True)
class Ways:
    """The ways between members that pass through nothing but switches that pass messages on."""

    workload: Workload
    is_open: Bools  # from member to member: whether there is one
    time: Ints  # how long it takes without traffic
    links: list[list[list[int]]]  # that it goes over
    hold: list[int]  # per link: for how long a message for each of the chunks holds it
    travel: list[int]  # per link: how long one of them takes

    @classmethod
    def of(cls, workload: Workload) -> Ways:
        """Look at all pairs of members."""
        topology = workload.topology
        members = workload.members
        if len(members) > MOST_MEMBERS:
            raise UnsupportedError(f"is made for at most {MOST_MEMBERS} NPUs")
        hold, travel = workload.link_times
        towards, time = _through_switches(topology, travel, members)
        is_open = (towards[:, members] >= 0).T
        src, dst = np.nonzero(is_open)
        paths = follow(topology, towards, dst, members[src], members[dst])
        links: list[list[list[int]]] = [[[] for _ in members] for _ in members]
        for number, (sender, member) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
            links[sender][member] = paths.link[slice(*paths.first[number : number + 2])].tolist()
        return cls(
            workload,
            is_open,
            time[:, members].T,
            links,
            (hold * len(workload.conditions)).tolist(),
            travel.tolist(),
        )

    def shared_by(self, patterns: int) -> Ways:
        """The same ways if each of so many patterns is for its part of the chunks."""
        return replace(self, hold=[hold // patterns for hold in self.hold])


def _through_switches(topology: Topology, travel: Ints, targets: Ints) -> tuple[Ints, Ints]:
    """By target and device: the link to take, -1 if there is none, and the time of a way through switches only."""
    passes = (topology.kind == SWITCH) & ~topology.multicast & ~topology.reduce
    shape = (len(targets), topology.num_devices)
    towards = np.full(shape, -1)
    time = np.full(shape, NEVER)
    time[np.arange(len(targets)), targets] = 0
    # One switch farther with every round.
    for _ in range(topology.num_devices + 1):
        changed = False
        for link in range(topology.num_links):
            src = topology.src[link]
            dst = topology.dst[link]
            arrival = time[:, dst] + travel[link]
            better = (passes[dst] | (targets == dst)) & (arrival < time[:, src])
            if np.any(better):
                towards[better, src] = link
                time[better, src] = arrival[better]
                changed = True
        if not changed:
            return towards, time
    raise InternalError("ways through switches get shorter for ever")


class Message(NamedTuple):
    """What goes over one link: rows are counted in the order in which messages were thought of."""

    pattern: int
    link: int
    waits_for: int  # the row that brought what is sent, or -1
    comes_after: int  # the row that brought the last sum to the receiver before, or -1
    reduce: bool  # whether it is added to what the receiver holds


class Held(NamedTuple):
    """What members held at one time, by member: since when, and the row that brought it."""

    since: Ints
    row: Ints


class Parts(NamedTuple):
    """What blocks were put together from."""

    of_block: list[list[Ints]]  # members by part, per block
    held: Held  # what they held then


class Merging:
    """Messages of one or several patterns, each of them for some chunks, that share the links.

    Attributes
    ----------
    ready
        By pattern and member: about when it holds what was brought last.
    """

    def __init__(self, ways: Ways, patterns: int = 1) -> None:
        n = len(ways.is_open)
        self.ways = ways
        self.patterns = patterns
        self.ready = np.zeros((patterns, n), np.int64)
        self._last = np.full((patterns, n), -1)  # the last row that brought something
        self._used = np.zeros((patterns, n), np.int64)  # messages sent
        self._free = [0] * len(ways.hold)
        self._messages: list[Message] = []

    @property
    def end(self) -> int:
        """About when all is done."""
        return int(self.ready.max(initial=0))

    # --- blocks of members that hold the same -------------------------------------------------------------------------

    def held(self, pattern: int = 0) -> Held:
        """What members hold now."""
        return Held(self.ready[pattern].copy(), self._last[pattern].copy())

    def merge(self, blocks: list[Ints], pattern: int = 0, parts: Parts | None = None) -> bool:
        """Let all members of some blocks have the sum of all; returns whether that can be.

        Where it is said which parts blocks were put together from, some members get the sums of parts before.
        """
        members = np.concatenate(blocks)
        informed = self.inform(members, blocks, pattern, parts)
        return bool(informed) and self._copy(pattern, members, informed)

    def inform(
        self, who: Ints, blocks: list[Ints], pattern: int, parts: Parts | None = None
    ) -> set[int]:
        """Let some members of blocks have the sum of all; returns those who can: they are next to all other blocks."""
        held = self.held(pattern)
        partners = {}
        asked = set(who.tolist())
        for block, members in enumerate(blocks):
            for member in filter(asked.__contains__, members.tolist()):
                found = self._partners(member, block, blocks, held.since, pattern)
                if found is not None:
                    partners[member] = found
        early = 0 if parts is None else self._send_parts(parts, blocks, partners, held, pattern)
        # All begin with the next block, so that nobody gets everything at once.
        for turn in range(early, len(blocks) - 1):
            for member, senders in partners.items():
                sender = senders[turn]
                since = int(held.since[sender])
                self._send(pattern, sender, member, True, since, int(held.row[sender]))
        return set(partners)

    def _send_parts(
        self,
        parts: Parts,
        blocks: list[Ints],
        partners: dict[int, list[int]],
        held: Held,
        pattern: int,
    ) -> int:
        """Send the sums of parts while blocks are put together; returns of how many next blocks everybody gets them."""
        early = self._num_early(parts, partners, held)
        block_of = {member: block for block, who in enumerate(blocks) for member in who.tolist()}
        sends = []
        for member in partners:
            for turn in range(1, early + 1):
                block = (block_of[member] + turn) % len(blocks)
                for number, part in enumerate(parts.of_block[block]):
                    near = part[self.ways.is_open[part, member]]
                    if not len(near):
                        return 0
                    sends.append((turn, number, int(near[member % len(near)]), member))
        for _, _, sender, member in sorted(sends):
            since = int(parts.held.since[sender])
            self._send(pattern, sender, member, True, since, int(parts.held.row[sender]))
        return early

    def _num_early(self, parts: Parts, partners: dict[int, list[int]], held: Held) -> int:
        """For how many blocks links have time to carry their parts before the sum of the first block can be there."""
        most_parts = max(len(of_one) for of_one in parts.of_block)
        found = []
        for member, senders in partners.items():
            first = senders[0]
            time = int(held.since[first] - parts.held.since[first])
            hold = max(self.ways.hold[link] for link in self.ways.links[first][member])
            found.append(min(time // max(hold * most_parts, 1), len(senders)))
        return min(found, default=0)

    def _partners(
        self, member: int, block: int, blocks: list[Ints], held_since: Ints, pattern: int
    ) -> list[int] | None:
        """From whom a member gets the sum of each other block; None if it is not next to all of them."""
        found = []
        used = self._used[pattern]
        for turn in range(1, len(blocks)):
            others = blocks[(block + turn) % len(blocks)]
            others = others[self.ways.is_open[others, member]]
            if not len(others):
                return None
            arrival = held_since[others] + self.ways.time[others, member]
            apart = (others - member) % len(used)
            best = int(others[np.lexsort((apart, used[others], arrival))[0]])
            used[best] += 1
            found.append(best)
        return found

    def _copy(self, pattern: int, members: Ints, informed: set[int]) -> bool:
        """Copy the sum from those who have it to the others, who get it from whomever it comes from first."""
        if len(informed) == len(members):
            return True
        inside = np.isin(members, list(informed))
        have = members[inside]
        need = members[~inside]
        ready = self.ready[pattern]
        while len(need):
            between = np.ix_(have, need)
            arrival = ready[have][:, None] + self.ways.time[between]
            arrival = np.where(self.ways.is_open[between], arrival, NEVER)
            row, column = np.unravel_index(np.argmin(arrival), arrival.shape)
            sender = int(have[row])
            member = int(need[column])
            if not self.ways.is_open[sender, member]:
                return False
            self._pass_on(pattern, sender, member, reduce=False)
            have = np.append(have, member)
            need = np.delete(need, column)
        return True

    # --- boxes of members, one of which adds up for all of them -------------------------------------------------------

    def collect(self, boxes: Sequence[Ints], owners: Sequence[Ints]) -> bool:
        """Add up what the members of each box have at one of them, its owner; returns whether that can be.

        Patterns have owners of their own: `owners[pattern][box]`.
        """
        return self._along_trees(boxes, owners, inward=True)

    def spread(self, boxes: Sequence[Ints], owners: Sequence[Ints]) -> bool:
        """Copy what the owner of each box has to all its members; returns whether that can be."""
        return self._along_trees(boxes, owners, inward=False)

    def _along_trees(self, boxes: Sequence[Ints], owners: Sequence[Ints], *, inward: bool) -> bool:
        sends = []
        for pattern, of_boxes in enumerate(owners):
            for box, owner in zip(boxes, of_boxes.tolist(), strict=True):
                tree = _tree(self.ways, box, owner, inward)
                if tree is None:
                    return False
                for member, (parent, depth) in tree.items():
                    # All begin with the owner next to them, so that no owner gets everything at once.
                    turn = (member - owner) % len(self.ways.is_open)
                    sends.append((-depth if inward else depth, turn, pattern, member, parent))
        for _, _, pattern, member, parent in sorted(sends):
            if inward:
                self._pass_on(pattern, member, parent, reduce=True)
            else:
                self._pass_on(pattern, parent, member, reduce=False)
        return True

    # --- messages -----------------------------------------------------------------------------------------------------

    def _pass_on(self, pattern: int, sender: int, member: int, *, reduce: bool) -> None:
        """Send what the sender holds now."""
        ready = int(self.ready[pattern, sender])
        self._send(pattern, sender, member, reduce, ready, int(self._last[pattern, sender]))

    def _send(
        self, pattern: int, sender: int, member: int, reduce: bool, time: int, wait: int
    ) -> None:
        """One message, sent from a time on, when what it waits for has come."""
        before = int(self._last[pattern, member])
        links = self.ways.links[sender][member]
        for number, link in enumerate(links, 1):
            start = max(time, self._free[link])
            self._free[link] = start + self.ways.hold[link]
            time = start + self.ways.travel[link]
            after = before if number == len(links) else -1
            self._messages.append(Message(pattern, link, wait, after, reduce))
            wait = len(self._messages) - 1
        self._last[pattern, member] = wait
        self.ready[pattern, member] = max(time, int(self.ready[pattern, member]))

    def sends(self) -> Sends:
        """The messages, for all chunks; shares take the patterns in turn."""
        conditions = self.ways.workload.conditions
        chunks = len(conditions)
        if len(self._messages) * chunks // self.patterns > MOST_MESSAGES:
            raise UnsupportedError(
                f"would take more than {MOST_MESSAGES:,} transfers; it is made for small groups"
            )
        columns = np.array(self._messages, np.int64).reshape(-1, len(Message._fields)).T
        of_pattern, link, waits_for, comes_after, reduce = columns
        by_pattern = np.argsort(of_pattern, kind="stable")
        first_of_pattern = np.searchsorted(of_pattern[by_pattern], np.arange(self.patterns + 1))
        within = np.empty(len(link), np.int64)
        within[by_pattern] = np.arange(len(link)) - first_of_pattern[of_pattern[by_pattern]]
        first, row = take_rows(first_of_pattern, by_pattern, conditions.share % self.patterns)
        chunk = np.repeat(np.arange(chunks), np.diff(first))
        # One share of every pattern after another.
        turn = conditions.share[chunk] // self.patterns
        order = np.lexsort((row, turn, conditions.piece[chunk]))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))

        def counted_back(target: Ints) -> Ints:
            """How far before itself the message stands of which each says the row, 0 for none."""
            found = target[row]
            back = place - place[first[chunk] + np.where(found >= 0, within[found], 0)]
            return np.where(found >= 0, back, 0)[order]

        return Sends(
            chunk[order],
            link[row][order].astype(np.int32),
            counted_back(waits_for),
            counted_back(comes_after),
            reduce[row][order] > 0,
        )


def _tree(ways: Ways, box: Ints, owner: int, inward: bool) -> dict[int, tuple[int, int]] | None:
    """Per member of a box but its owner: who is next on the shortest way to or from the owner, and how many are."""
    time = ways.time if inward else ways.time.T
    is_open = ways.is_open if inward else ways.is_open.T
    # Of as short ways, those over fewer members.
    step = np.where(is_open, time, NEVER)[np.ix_(box, box)] + 1
    at = int(np.flatnonzero(box == owner)[0])
    distance = step[:, at].copy()
    distance[at] = 0
    parent = np.full(len(box), at)
    depth = np.ones(len(box), np.int64)
    todo = box != owner
    while np.any(todo):
        left = np.flatnonzero(todo)
        nearest = int(left[np.argmin(distance[left])])
        if distance[nearest] >= NEVER:
            return None
        todo[nearest] = False
        shorter = distance[nearest] + step[:, nearest] < distance
        distance[shorter] = (distance[nearest] + step[:, nearest])[shorter]
        parent[shorter] = nearest
        depth[shorter] = depth[nearest] + 1
    members = box.tolist()
    return {
        member: (members[parent[place]], int(depth[place]))
        for place, member in enumerate(members)
        if member != owner
    }
