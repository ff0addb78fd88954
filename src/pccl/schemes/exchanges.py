"""All-Reduces in which partial sums are exchanged, so that small data pay for the longest way once and not twice.

Blocks of NPUs merge (see :mod:`pccl.schemes.merging`): in the beginning everyone is a block, in the end all are one.
Along a line of eight that takes seven links, along a ring of four two, in a hypercube one for each dimension, and
around a switch, where everyone is next to everyone, all blocks may merge at once.

Where data are not that small, sending all of it several times costs more than a second way inside a box. Then each
share is added up by one NPU of every box, and only these exchange their sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from pccl._arrays import Ints
from pccl.schemes.dimensions import Grid
from pccl.schemes.merging import Held, Merging, Parts, Ways
from pccl.schemes.sends import Sends, Trees, lay_trees
from pccl.schemes.workload import UnsupportedError, Workload

# How the places of one dimension become one block: level by level, the block of each place.
Levels: TypeAlias = list[Ints]


def one_shot(workload: Workload) -> Sends:
    """Everyone sends what it has to everyone, and adds up what comes in."""
    n = len(workload.members)
    plan = _planned(Ways.of(workload), [np.arange(n)], [at_once(n)])
    if plan is None:
        raise UnsupportedError(
            "needs a way from every NPU of the group to every other that passes through no NPU and no switch that "
            "multiplies or adds"
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
    return _best(workload, _options, early=True)


def scattered_exchange(workload: Workload) -> Sends:
    """In every box one member adds up each share; these exchange their sums, and copy the result inside."""
    ways = Ways.of(workload)
    plans = [
        _scattered(ways, places[:inner], places[inner:])
        for places in _dimensions(workload)
        for inner in range(1, len(places))
    ]
    return _first_done(
        plans, "boxes, some NPUs of which are next to those at the same place of the others"
    )


def _first_done(plans: Sequence[Merging | None], needs: str) -> Sends:
    """The quickest of the plans that there are."""
    possible = [plan for plan in plans if plan is not None]
    if not possible:
        raise UnsupportedError(f"needs {needs}")
    return min(possible, key=lambda plan: plan.end).sends()


def _scattered(ways: Ways, inner: list[Ints], outer: list[Ints]) -> Merging | None:
    """Collect inside boxes, merge those at the same places of all boxes, and spread inside; None if that cannot be."""
    everyone = np.arange(len(ways.is_open))
    boxes = _split(everyone, outer)
    # In the order of the boxes.
    columns = [np.concatenate(_split(column, outer)) for column in _split(everyone, inner)]
    lighter = ways.shared_by(len(columns))
    owners = []
    best: list[Levels] = []
    for column in columns:
        found = [_quickest(lighter, outer, k, _options, column) for k in range(len(outer))]
        levels = [one for one in found if one is not None]
        if len(levels) == len(outer):
            owners.append(column)
            best = levels
    if not owners:
        return _scattered_apart(ways, boxes, columns)
    plan = Merging(ways.shared_by(len(owners)), len(owners))
    if not plan.collect(boxes, owners):
        return None
    for pattern, column in enumerate(owners):
        if not _merge_all(plan, outer, best, column, pattern=pattern):
            return None
    return plan if plan.spread(boxes, owners) else None


def _scattered_apart(ways: Ways, boxes: list[Ints], columns: list[Ints]) -> Merging | None:
    """The same where one member of a box sends to the others and another one receives: both add up the share."""
    patterns = []
    for receivers in columns:
        senders = _senders(ways, boxes, receivers)
        if senders is not None:
            patterns.append((receivers, senders))
    if not patterns:
        return None
    plan = Merging(ways.shared_by(len(patterns)), len(patterns))
    for pattern, (receivers, senders) in enumerate(patterns):
        holders = [np.union1d(*pair) for pair in zip(receivers, senders, strict=True)]
        for box, who in zip(boxes, holders, strict=True):
            if len(plan.inform(who, list(box[:, None]), pattern)) < len(who):
                return None
        plan.inform(receivers, holders, pattern)
    return plan if plan.spread(boxes, [receivers for receivers, _ in patterns]) else None


def _senders(ways: Ways, boxes: list[Ints], receivers: Ints) -> list[Ints] | None:
    """Per box: those who send to the receivers of other boxes; None if one of these is next to nobody there."""
    found: list[set[int]] = [set() for _ in boxes]
    for own, receiver in enumerate(receivers.tolist()):
        for other, box in enumerate(boxes):
            near = box[ways.is_open[box, receiver]]
            if other == own:
                continue
            if not len(near):
                return None
            found[other].add(int(near[np.argmin(ways.time[near, receiver])]))
    return [np.array(sorted(one), np.int64) for one in found]


def _best(
    workload: Workload, options: Callable[[int], Sequence[Levels]], *, early: bool = False
) -> Sends:
    """The quickest plan along the dimensions of the group, or as if it had none."""
    ways = Ways.of(workload)
    plans = []
    for places in _dimensions(workload):
        # Each dimension by itself: what is best for one does not depend on the others.
        found = [_quickest(ways, places, number, options) for number in range(len(places))]
        levels = [one for one in found if one is not None]
        if len(levels) == len(places):
            plans.append(_planned(ways, places, levels))
            if early:
                plans.append(_planned(ways, places, levels, early=True))
    return _first_done(
        plans,
        "NPUs next to each other, with no other NPU and no switch that multiplies or adds in between",
    )


def _dimensions(workload: Workload) -> Iterator[list[Ints]]:
    """By dimension, the innermost first: the place of each member; and then its place in the group."""
    try:
        grid = Grid.of(workload)
        yield [along for along in grid.place[::-1] if along.max(initial=0)]
    except UnsupportedError:
        pass
    yield [np.arange(len(workload.members))]


def _quickest(
    ways: Ways,
    places: list[Ints],
    dimension: int,
    options: Callable[[int], Sequence[Levels]],
    among: Ints | None = None,
) -> Levels | None:
    """The levels of one dimension after which all along it have its sum soonest."""
    along = places[dimension]
    others = places[:dimension] + places[dimension + 1 :]
    best = None
    soonest = np.inf
    for levels in options(int(along.max(initial=0)) + 1):
        plan = _planned(ways, [along], [levels], others, among)
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


# --- plans ------------------------------------------------------------------------------------------------------------


def _planned(
    ways: Ways,
    places: Sequence[Ints],
    levels: Sequence[Levels],
    others: Sequence[Ints] = (),
    among: Ints | None = None,
    *,
    early: bool = False,
) -> Merging | None:
    """Merge all members, or those among some, along one dimension after another; None if some cannot.

    Members merge with those only who are at the same place along the other dimensions.
    """
    plan = Merging(ways)
    members = np.arange(len(ways.is_open)) if among is None else among
    return plan if _merge_all(plan, places, levels, members, others, early=early) else None


def _merge_all(
    plan: Merging,
    places: Sequence[Ints],
    levels: Sequence[Levels],
    members: Ints,
    others: Sequence[Ints] = (),
    pattern: int = 0,
    *,
    early: bool = False,
) -> bool:
    """Merge members level by level; `early` says whether to send sums of parts while blocks are put together."""
    for number, (along, own) in enumerate(zip(places, levels, strict=True)):
        still_apart = [*places[number + 1 :], *others]
        before = along
        levels_below: list[tuple[Ints, Held]] = []  # their blocks, and what members held then
        for level in own:
            after = level[along]
            now = plan.held(pattern)
            for group in _split(members, [after, *still_apart]):
                blocks = _split(group, [before])
                parts = None
                if early and levels_below:
                    below, held = levels_below[-1]
                    parts = Parts([_split(block, [below]) for block in blocks], held)
                if len(blocks) > 1 and not plan.merge(blocks, pattern, parts):
                    return False
            levels_below.append((before, now))
            before = after
    return True


def _split(members: Ints, keys: list[Ints]) -> list[Ints]:
    """The members that agree in all keys, group by group."""
    columns = np.stack([key[members] for key in keys])
    # By the first key, then the next, and so on; those who agree in all of them keep their order.
    order = np.lexsort(columns[::-1])
    columns = columns[:, order]
    ends = np.flatnonzero(np.any(columns[:, 1:] != columns[:, :-1], axis=0))
    return np.split(members[order], ends + 1)
