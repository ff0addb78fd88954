"""The search for prices of links that make the cheapest ways of all chunks as dear as possible.

The best prices are the dual of routing everything with the least congestion: a linear program, which HiGHS solves where
it is small. Where it is not, prices rise again and again where cheapest ways meet (multiplicative weights).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pccl._arrays import Bools, Floats, Ints
from pccl.bounds.proofs import prices, rates, shares, useful_links
from pccl.collective import Conditions
from pccl.network.graph_kernels import cheapest_loads
from pccl.topology import Topology

__all__ = ["best_prices"]

SMALL_LP = 20_000  # rows, which take about a second
RELAXATIONS = 20_000_000  # spent on rising prices, about two seconds
MOST_ROUNDS = 200
RISE = 0.3  # by how much, at most, the logarithm of a price rises in a round
SCALE = 2**24  # of prices as integers


def best_prices(topology: Topology, conditions: Conditions, cut: Bools) -> Ints:
    """The best prices we find; the links that leave a cut are a start."""
    speeds, kind = rates(topology, conditions)
    rate = np.array([float(speed) for speed in speeds])[kind] if len(kind) else np.zeros(0)
    crossing = (cut[topology.src] & ~cut[topology.dst]).astype(np.float64)
    useful = useful_links(topology, conditions).astype(np.float64)
    ends = np.zeros(topology.num_devices, np.bool_)
    ends[conditions.source_ids] = ends[conditions.destination_ids] = True
    at_ends = useful * (ends[topology.src] | ends[topology.dst])
    candidates = [useful, at_ends, crossing, useful / np.maximum(rate, 1e-300)]
    demand = _demand(topology, conditions)
    if np.any(demand):
        used = np.flatnonzero(demand.sum(axis=1))
        if len(used) * topology.num_links <= SMALL_LP:
            candidates.append(_by_program(topology, demand, rate))
        else:
            candidates.append(_by_rising(topology, demand, rate, crossing))
    whole = [_whole(candidate) for candidate in candidates]
    return max(whole, key=lambda price: prices(topology, conditions, price))


def _whole(price: Floats) -> Ints:
    scaled = np.maximum(price, 0) * (SCALE / max(float(price.max(initial=0)), 1e-300))
    return np.rint(scaled).astype(np.int64)


def _demand(topology: Topology, conditions: Conditions) -> Floats:
    """Bytes from device to device, as far as they have one source and one destination: cuts know the rest better."""
    single, _ = shares(topology, conditions)
    demand = single.astype(np.float64)
    np.fill_diagonal(demand, 0)
    return demand / max(float(demand.max()), 1.0)


def _by_rising(topology: Topology, demand: Floats, rate: Floats, crossing: Floats) -> Floats:
    """Multiplicative weights: what cheapest ways load most gets dearer; the average over all rounds is what counts."""
    first, link = topology.out_links
    dst, src = topology.dst[link].astype(np.int64), topology.src[link].astype(np.int64)
    sources = np.flatnonzero(demand.sum(axis=1))
    rounds = int(min(MOST_ROUNDS, max(2, RELAXATIONS // (len(sources) * topology.num_links))))
    share = crossing * rate / max(float((crossing * rate).sum()), 1e-300) + rate / rate.sum()
    risen, average = np.log(share), np.zeros(len(rate))
    load = np.empty(len(rate))
    scratch = np.empty((3, topology.num_devices)), np.empty((2, topology.num_devices), np.int64)
    heap = np.empty(topology.num_links + 2)
    entry = np.empty(topology.num_links + 2, np.int64)
    for number in range(1, rounds + 1):
        weight = np.exp(risen - risen.max())
        price = weight / weight.sum() / rate
        average += number * price  # later rounds know more
        cheapest_loads(first, src, dst, price[link], demand, sources, load, *scratch, heap, entry)
        congestion = np.empty(len(rate))
        congestion[link] = load
        congestion /= rate
        risen += RISE * congestion / congestion.max()
    return average


def _by_program(topology: Topology, demand: Floats, rate: Floats) -> Floats:
    """Maximise what chunks pay, where no way costs more than its links, and links earn one in all."""
    import highspy

    sources, n, links = np.flatnonzero(demand.sum(axis=1)), topology.num_devices, topology.num_links
    # Columns: the price of each link (per share of its rate), then the cost to each device from each source.
    row = np.arange(len(sources) * links)
    cost = links + row // links * n
    link = row % links
    scale = rate / rate.max()
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = links + len(sources) * n, len(row) + 1
    program.col_cost_ = np.concatenate([np.zeros(links), demand[sources].ravel()])
    program.sense_ = highspy.ObjSense.kMaximize
    upper = np.full(program.num_col_, highspy.kHighsInf)
    upper[links + np.arange(len(sources)) * n + sources] = 0
    program.col_lower_, program.col_upper_ = np.zeros(program.num_col_), upper
    program.row_lower_ = np.full(len(row) + 1, -highspy.kHighsInf)
    program.row_upper_ = np.concatenate([np.zeros(len(row)), [1.0]])
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    index = np.stack([link, cost + topology.src[link], cost + topology.dst[link]], axis=1)
    program.a_matrix_.index_ = np.concatenate([index.ravel(), np.arange(links)]).astype(np.int32)
    program.a_matrix_.value_ = np.concatenate([np.tile([-1.0, -1.0, 1.0], len(row)), scale])
    program.a_matrix_.start_ = np.append(np.arange(len(row) + 1) * 3, 3 * len(row) + links).astype(
        np.int32
    )
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (("output_flag", False), ("solver", "ipm"), ("threads", 1)):
        solver.setOptionValue(option, value)
    solver.passModel(program)
    solver.run()
    return np.array(solver.getSolution().col_value)[:links]
