"""Prices: whatever links cost, chunks pay for their cheapest ways, and links earn no more than they carry.

The certificate is a price per byte for every link. Time is what chunks must pay at least, over what all links together
can earn at most while they carry something without a pause.

The best prices are the dual of routing everything with the least congestion: a linear program, which HiGHS solves where
it is small. Where it is not, prices rise again and again where cheapest ways meet (multiplicative weights).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from pccl._arrays import Floats, Indices, Ints
from pccl.algorithm.bound import Certificate
from pccl.bounds.case import Case, Share
from pccl.network import NEVER, price_table
from pccl.network.graph_kernels import cheapest_loads
from pccl.topology import Topology

QUICK = False

# Rows of the linear program, which then takes about a second.
SMALL_LP = 20_000
# Spent on rising prices, about two seconds.
RELAXATIONS = 20_000_000
MOST_ROUNDS = 200
# By how much, at most, the logarithm of a price rises in a round.
RISE = 0.3
# The dearest link of all, as prices are whole numbers in the end.
SCALE = 2**24


def find(case: Case) -> Iterator[tuple[Certificate, bool]]:
    """Yield prices that may prove much: simple ones, and the best for what goes from one device to one other.

    The links that leave the narrowest cut are a start.
    """
    topology = case.topology
    rate = case.link_rates
    sources = case.conditions.source_ids
    targets = case.conditions.destination_ids
    useful = case.ways(1, sources, targets)[2].astype(np.float64)
    is_end = np.zeros(topology.num_devices, np.bool_)
    is_end[sources] = True
    is_end[targets] = True
    at_ends = useful * (is_end[topology.src] | is_end[topology.dst])
    cut = case.cuts[0]
    crossing = (cut[topology.src] & ~cut[topology.dst]).astype(np.float64)
    found = [useful, at_ends, crossing, useful / np.maximum(rate, 1e-300)]
    # What has several ends is left out: cuts know more about it.
    demand = case.single_ends.astype(np.float64)
    np.fill_diagonal(demand, 0)
    if np.any(demand):
        demand /= demand.max()
        senders = np.count_nonzero(demand.sum(axis=1))
        if senders * topology.num_links <= SMALL_LP:
            found.append(_by_program(topology, demand, rate))
        else:
            found.append(_by_rising(topology, demand, rate, crossing))
    for price in found:
        scale = SCALE / max(float(price.max(initial=0)), 1e-300)
        whole = np.rint(np.maximum(price, 0) * scale).astype(np.int64)
        yield {"prices": tuple(whole.tolist())}, False


def prove(case: Case, certificate: Certificate, _whole_chunks: bool) -> int:
    """Picoseconds in which links can earn, at these prices per byte, what the chunks must pay at least.

    That holds however data are cut.
    """
    given = certificate["prices"]
    # The dearest way of all must still fit an int64.
    if len(given) != case.topology.num_links or min(given, default=0) < 0 or sum(given) >= NEVER:
        return 0
    price = np.array(given, np.int64)
    earned = case.earnings(price)
    return math.ceil(_least_cost(case, price) / earned) if earned else 0


def explain(certificate: Certificate) -> str:
    """How many links have a price."""
    links = np.count_nonzero(certificate["prices"])
    return f"what chunks cost at least where {links} links have a price"


def _least_cost(case: Case, price: Ints) -> int:
    topology = case.topology
    distance = price_table(topology, price)
    single = case.single_ends
    total = 0
    if np.any(single):
        # Python's integers, as bytes times prices need not fit 64 bits.
        total = int((single.astype(object) * np.where(single > 0, distance, 0)).sum())
    enter = _cheapest(price, topology.dst, topology.num_devices)
    leave = _cheapest(price, topology.src, topology.num_devices)
    # Shares of an All-Reduce have the same ends, and there are many of them.
    known: dict[tuple[bytes, bytes, bool], int] = {}
    for share in case.several_ends():
        ends = share.sources.tobytes(), share.destinations.tobytes(), share.reduces
        # A share has to reach its farthest destination, and it has to pass the links at its ends.
        # Each of these costs is certain, but they may be for the same links: so the larger counts,
        # not their sum.
        if ends not in known:
            way = int(distance[np.ix_(share.sources, share.destinations)].max())
            known[ends] = max(way, _cost_at_ends(enter, leave, share))
        total += share.bytes * known[ends]
    return total


def _cost_at_ends(enter: Ints, leave: Ints, share: Share) -> int:
    """What a share pays for entering all its destinations and leaving all its contributors, each at least once.

    The first device to hold a sum with several destinations is none of those that wait for it, and need not send its
    own contribution. Until then every other contributor has sent, and after that every other destination receives: two
    transfers for each member but one.
    """
    enter = enter[share.destinations]
    if not share.reduces:
        return int(enter.sum())
    if len(share.destinations) == 1:
        others = share.sources != share.destinations[0]
        return int(leave[share.sources[others]].sum())
    leave = leave[share.sources]
    return int(enter.sum() - enter.max() + leave.sum() - leave.max())


def _cheapest(price: Ints, end: Indices, devices: int) -> Ints:
    """Per device: the price of the cheapest link that has this end there, or 0."""
    least = np.full(devices, NEVER)
    np.minimum.at(least, end, price)
    return np.where(least < NEVER, least, 0)


def _by_rising(topology: Topology, demand: Floats, rate: Floats, crossing: Floats) -> Floats:
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


def _by_program(topology: Topology, demand: Floats, rate: Floats) -> Floats:
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
    solver.passModel(program)
    solver.run()
    return np.array(solver.getSolution().col_value)[:links]
