"""Messages in rounds: in each round every way between two ranks carries at most one message.

Ways are coloured such that those of one colour are a partial permutation: every rank sends over at most one of them and
receives over at most one. A round is then one exchange a colour, always between the same ranks, so that a program
needs to know these few permutations, and tables of what is exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from pccl._arrays import Ints
from pccl.errors import InternalError


@dataclass(frozen=True, eq=False)
class Rounds:
    """When messages are exchanged.

    Attributes
    ----------
    permutations
        Per colour: the pairs of ranks that send and receive.
    color, round
        Per message: over which of the permutations it goes, and when.
    """

    permutations: list[list[tuple[int, int]]]
    color: Ints
    round: Ints

    @property
    def count(self) -> int:
        """How many rounds there are."""
        return int(self.round.max(initial=-1)) + 1


def in_rounds(way: Ints, start: Ints, before: Ints, after: Ints) -> Rounds:
    """Give every message a color and a round.

    Within a round all messages are read before any is written, and those of a lower color are written first.

    Parameters
    ----------
    way
        Per message: sender, receiver, and which of the ways between the two it takes.
    start
        Per message: when it was planned to leave.
    before, after
        Pairs of events, of which the first must be complete before the second begins. Sending message ``m`` is event
        ``m``, and receiving it is event ``len(start) + m``.

    Examples
    --------
    Rank 0 sends two messages to rank 1, which sends the first of them on.

    >>> way = np.array([[0, 1, 0], [0, 1, 0], [1, 2, 0]])
    >>> found = in_rounds(way, np.array([0, 1, 1]), np.array([3]), np.array([2]))
    >>> found.permutations, found.round.tolist()
    ([[(0, 1), (1, 2)]], [0, 1, 1])
    """
    count = len(start)
    ways, number = np.unique(way, axis=0, return_inverse=True)
    number = number.reshape(-1)
    color_of_way = color_ways(ways[:, 0].tolist(), ways[:, 1].tolist())
    color = np.array(color_of_way, np.int64)[number] if count else np.zeros(0, np.int64)
    found = np.zeros(count, np.int64)
    waits: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for first, second in zip(before.tolist(), after.tolist(), strict=True):
        one, other = first % count, second % count
        # What is written can be read in the next round. A write waits for reads and for writes of lower colors of its
        # own round at most.
        is_written = first >= count
        same_round = second >= count and not (is_written and color[one] >= color[other])
        waits[other].append((one, 0 if same_round else 1))
    taken: set[tuple[int, int]] = set()
    for message in _in_order(start, waits):
        earliest = max((int(found[one]) + gap for one, gap in waits[message]), default=0)
        while (number[message], earliest) in taken:
            earliest += 1
        taken.add((int(number[message]), earliest))
        found[message] = earliest
    colors = max(color_of_way, default=-1) + 1
    permutations: list[list[tuple[int, int]]] = [[] for _ in range(colors)]
    for (src, dst, _), chosen in zip(ways.tolist(), color_of_way, strict=True):
        permutations[chosen].append((src, dst))
    return Rounds(permutations, color, found)


def color_ways(src: list[int], dst: list[int]) -> list[int]:
    """Color ways such that no two of one color leave from one rank, or arrive at one rank.

    As many colors are enough as one rank has ways in one direction (Kőnig). Where no color is free at both ends, two
    colors change places along a path, after which one is.

    Examples
    --------
    >>> color_ways([0, 0, 1], [1, 2, 2])
    [0, 1, 0]
    """
    # By end and color, the way that has it. Senders and receivers are two sides: every way joins one side to the other.
    at: dict[tuple[str, int, int], int] = {}
    color = [-1] * len(src)
    ends = [(("out", a), ("in", b)) for a, b in zip(src, dst, strict=True)]

    def free(end: tuple[str, int]) -> int:
        candidate = 0
        while (*end, candidate) in at:
            candidate += 1
        return candidate

    for way, (sender, receiver) in enumerate(ends):
        ours = free(sender)
        theirs = free(receiver)
        # Follow the path of these two colors from the receiver on, and swap them; it cannot end at the sender.
        path: list[int] = []
        end, wanted = receiver, ours
        while (*end, wanted) in at:
            if len(path) == len(ends):
                raise InternalError("the path of two colors is longer than all ways together")
            step = at[(*end, wanted)]
            path.append(step)
            end = ends[step][0] if ends[step][1] == end else ends[step][1]
            wanted = theirs if wanted == ours else ours
        for step in path:
            for side in ends[step]:
                del at[(*side, color[step])]
        for step in path:
            color[step] = theirs if color[step] == ours else ours
            for side in ends[step]:
                at[(*side, color[step])] = step
        color[way] = ours
        for side in (sender, receiver):
            at[(*side, ours)] = way
    return color


def _in_order(start: Ints, waits: list[list[tuple[int, int]]]) -> list[int]:
    """Messages by their planned start, but after all that they wait for."""
    missing = [len(each) for each in waits]
    followers: list[list[int]] = [[] for _ in waits]
    for message, each in enumerate(waits):
        for one, _ in each:
            followers[one].append(message)
    ready = [(int(start[m]), m) for m in range(len(waits)) if not missing[m]]
    heapify(ready)
    order = []
    while ready:
        _, message = heappop(ready)
        order.append(message)
        for follower in followers[message]:
            missing[follower] -= 1
            if not missing[follower]:
                heappush(ready, (int(start[follower]), follower))
    return order
