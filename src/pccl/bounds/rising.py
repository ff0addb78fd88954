"""The search for prices of links that make what must be sent as dear as can be.

The best prices are the dual of routing everything with the least congestion: a linear program, which HiGHS solves where
it is small. Where it is not, prices rise again and again where cheapest ways meet (multiplicative weights).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.bounds.case import Case, Members, Share
from pccl.bounds.messages import Messages
from pccl.bounds.patience import Patience
from pccl.network.graph_kernels import cheapest_loads
from pccl.topology import Topology

# Spent on rising prices, about two seconds; where trees are grown in Python, squares of devices.
RELAXATIONS = 20_000_000
TREE_RELAXATIONS = 500_000
MOST_ROUNDS = 200
# By how much, at most, the logarithm of a price rises in a round.
RISE = 0.3
# The dearest link of all, as prices are whole numbers in the end.
SCALE = 2**24


def whole(price: Floats) -> Ints:
    """Prices in whole numbers."""
    scale = SCALE / max(float(price.max(initial=0)), 1e-300)
    return np.rint(np.maximum(price, 0) * scale).astype(np.int64)


def by_rising(
    topology: Topology, demand: Floats, rate: Floats, crossing: Floats, patience: Patience
) -> Floats:
    """Multiplicative weights: what cheapest ways load most gets dearer; the average over all rounds is what counts."""
    first, link = topology.out_links
    src = topology.src[link].astype(np.int64)
    dst = topology.dst[link].astype(np.int64)
    sources = np.flatnonzero(demand.sum(axis=1))
    rounds = int(min(MOST_ROUNDS, max(2, RELAXATIONS // (len(sources) * len(link)))))
    # Half of the first prices go to the links that leave the cut.
    cut_rate = crossing * rate
    share = cut_rate / max(float(cut_rate.sum()), 1e-300) + rate / rate.sum()
    risen = np.log(share)
    average, load, congestion = np.zeros((3, len(rate)))
    tables = np.empty((3, topology.num_devices))
    trees = np.empty((2, topology.num_devices), np.int64)
    heap = np.empty(len(link) + 2)
    entry = np.empty(len(link) + 2, np.int64)
    for number in range(1, rounds + 1):
        if number > 1 and patience.ends():
            break
        weight = np.exp(risen - risen.max())
        price = weight / weight.sum() / rate
        # Later rounds know more.
        average += number * price
        cheapest_loads(
            first, src, dst, price[link], demand, sources, load, tables, trees, heap, entry
        )
        congestion[link] = load
        congestion /= rate
        risen += RISE * congestion / congestion.max()
    return average


def by_program(topology: Topology, demand: Floats, rate: Floats, patience: Patience) -> Floats:
    """Maximise what chunks pay, where no way costs more than its links, and links earn one in all."""
    import highspy

    sources = np.flatnonzero(demand.sum(axis=1))
    devices = topology.num_devices
    links = topology.num_links
    # Columns: the price of each link (per share of its rate), then the cost to each device from each source.
    # Rows: for each source and link, the cost rises by no more than the price from one end to the other.
    row = np.arange(len(sources) * links)
    cost = links + row // links * devices
    link = row % links
    program = highspy.HighsLp()
    program.num_col_ = links + len(sources) * devices
    program.num_row_ = len(row) + 1
    program.sense_ = highspy.ObjSense.kMaximize
    program.col_cost_ = np.concatenate([np.zeros(links), demand[sources].ravel()])
    program.col_lower_ = np.zeros(program.num_col_)
    upper = np.full(program.num_col_, highspy.kHighsInf)
    # A source is at no cost from itself; all other costs follow from that and from the rows.
    upper[links + np.arange(len(sources)) * devices + sources] = 0
    program.col_upper_ = upper
    program.row_lower_ = np.full(len(row) + 1, -highspy.kHighsInf)
    program.row_upper_ = np.concatenate([np.zeros(len(row)), [1.0]])
    matrix = program.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    # One row for each source and link: cost at its end - cost at its beginning - price <= 0.
    index = np.stack([link, cost + topology.src[link], cost + topology.dst[link]], axis=1)
    value = np.tile([-1.0, -1.0, 1.0], len(row))
    # The last row limits what all links earn together. Only the proportions of prices matter, so
    # rates are scaled to about one, which is what the solver likes.
    start = np.append(np.arange(len(row) + 1) * 3, 3 * len(row) + links)
    matrix.index_ = np.concatenate([index.ravel(), np.arange(links)]).astype(np.int32)
    matrix.value_ = np.concatenate([value, rate / rate.max()])
    matrix.start_ = start.astype(np.int32)
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, setting in (("output_flag", False), ("solver", "ipm"), ("threads", 1)):
        solver.setOptionValue(option, setting)
    if patience.left < math.inf:
        solver.setOptionValue("time_limit", max(patience.left, 0.0))
    solver.passModel(program)
    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kTimeLimit:
        patience.is_over = True
    return np.array(solver.getSolution().col_value)[:links]


def by_trees(case: Case, starts: Sequence[Floats]) -> Floats:
    """Prices that rise where the fewest messages meet that chunks with several ends need; from the best start on."""
    topology = case.topology
    rate = case.link_rates
    shares = alike(case)
    best = max(starts, key=lambda price: _tree_loads(topology, whole(price), shares, rate)[1])
    value = _tree_loads(topology, whole(best), shares, rate)[1]
    share = best * rate / max(float((best * rate).sum()), 1e-300) + 0.1 * rate / rate.sum()
    risen = np.log(share)
    average = np.zeros(len(rate))
    rounds = int(min(MOST_ROUNDS, max(2, TREE_RELAXATIONS // topology.num_devices**2)))
    for number in range(1, rounds + 1):
        if case.patience.ends():
            break
        weight = np.exp(risen - risen.max())
        price = weight / weight.sum() / rate
        average += number * price
        load, _ = _tree_loads(topology, whole(price), shares, rate)
        congestion = load / rate
        risen += RISE * congestion / max(float(congestion.max()), 1e-300)
        # Later rounds know more, and their average more than each of them.
        if number == rounds or number % 8 == 0:
            reached = _tree_loads(topology, whole(average), shares, rate)[1]
            if reached > value:
                best = average.copy()
                value = reached
    return best


def alike(case: Case) -> list[Share]:
    """What has several ends, with shares that need the same messages as one."""
    found: dict[Members, Share] = {}
    for share in case.several_ends():
        first = found.setdefault(share.members, share._replace(bytes=0))
        found[share.members] = first._replace(bytes=first.bytes + share.bytes)
    return list(found.values())


def _tree_loads(
    topology: Topology, price: Ints, shares: list[Share], rate: Floats
) -> tuple[Floats, float]:
    """What links carry if all take the fewest and cheapest messages, and what that proves, roughly."""
    load = np.zeros(topology.num_links)
    cost = 0.0
    messages: dict[bool, Messages] = {}
    for share in shares:
        if share.reduces not in messages:
            messages[share.reduces] = Messages.at(topology, price, share.reduces)
        world = messages[share.reduces]
        for paid, count, ends in world.crossings(share.sources, share.destinations):
            cost += share.bytes * paid * count
            # Both directions alike, where there are both.
            back = ends[::-1]
            ways = [ends, back] if world.cost[back] < 2 * world.cost[ends] else [ends]
            for way in ways:
                load[world.links(*way)] += share.bytes * count / len(ways)
    earned = float((price * rate).sum())
    return load, cost / earned if earned else 0.0
