"""The search for prices of links that make the cheapest ways of all chunks as dear as possible.

The best prices are the dual of routing everything with the least congestion: a linear program, which HiGHS solves where
it is small. Where it is not, prices rise again and again where cheapest ways meet (multiplicative weights).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pccl._arrays import Bools, Floats, Ints
from pccl.bounds.traffic import link_rates, single_ends, useful_links
from pccl.collective import Conditions
from pccl.network.graph_kernels import cheapest_loads
from pccl.topology import Topology

__all__ = ["good_prices"]

# Rows of the linear program, which then takes about a second.
SMALL_LP = 20_000
# Spent on rising prices, about two seconds.
RELAXATIONS = 20_000_000
MOST_ROUNDS = 200
# By how much, at most, the logarithm of a price rises in a round.
RISE = 0.3
# The dearest link of all, as prices are whole numbers in the end.
SCALE = 2**24


def good_prices(topology: Topology, conditions: Conditions, cut: Bools) -> Iterator[Ints]:
    """Yield prices that may prove much: simple ones, and the best for what goes from one device to one other."""
    rate = link_rates(topology, conditions)
    useful = useful_links(topology, conditions).astype(np.float64)
    is_end = np.zeros(topology.num_devices, np.bool_)
    is_end[conditions.source_ids] = True
    is_end[conditions.destination_ids] = True
    at_ends = useful * (is_end[topology.src] | is_end[topology.dst])
    crossing = (cut[topology.src] & ~cut[topology.dst]).astype(np.float64)
    found = [useful, at_ends, crossing, useful / np.maximum(rate, 1e-300)]
    # What has several ends is left out: cuts know more about it.
    demand = single_ends(topology, conditions).astype(np.float64)
    np.fill_diagonal(demand, 0)
    if np.any(demand):
        demand /= demand.max()
        sources = np.count_nonzero(demand.sum(axis=1))
        if sources * topology.num_links <= SMALL_LP:
            found.append(_by_program(topology, demand, rate))
        else:
            found.append(_by_rising(topology, demand, rate, crossing))
    for price in found:
        scale = SCALE / max(float(price.max(initial=0)), 1e-300)
        yield np.rint(np.maximum(price, 0) * scale).astype(np.int64)


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
    average = np.zeros(len(rate))
    load = np.empty(len(rate))
    congestion = np.empty(len(rate))
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
    upper[links + np.arange(len(sources)) * devices + sources] = 0
    program.col_upper_ = upper
    program.row_lower_ = np.full(len(row) + 1, -highspy.kHighsInf)
    program.row_upper_ = np.concatenate([np.zeros(len(row)), [1.0]])
    matrix = program.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    index = np.stack([link, cost + topology.src[link], cost + topology.dst[link]], axis=1)
    value = np.tile([-1.0, -1.0, 1.0], len(row))
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
