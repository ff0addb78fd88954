"""The optimum over trees: how fast any All-Reduce is that collects sums along trees and spreads them along trees.

Every byte has a root, which may be any device that can hold sums. From each contributor a unit of flow goes to the
roots, inside what links carry while sums are collected; and one from the roots to each destination, inside what they
carry while sums are spread. At a switch that only passes messages on, as much leaves as comes in, in either phase. The
linear program of that has a dual: heights of devices, a landscape for each contributor and each destination. What a
link must be worth follows from how far it rises in all of them, so that any landscapes prove something, in whole
numbers: bytes climb from whoever contributes to a root, and what links are worth is what they can carry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pccl._arrays import Bools, Column, Floats, Indices, Ints
from pccl.bounds.case import Case, Share
from pccl.bounds.rising import alike
from pccl.bounds.windows import PICOSECONDS
from pccl.collective import Collective, compile_conditions
from pccl.errors import CollectiveError
from pccl.topology import Topology
from pccl.units import Picoseconds

# The highest of all devices, as heights are whole numbers in the end.
SCALE = 2**30


@dataclass(frozen=True)
class Landscapes:
    """Heights of devices: ``collect[m]`` above contributor m, ``spread[m]`` above destination m; slack at switches."""

    collect: Ints
    spread: Ints
    collect_slack: Ints
    spread_slack: Ints


def tree_optimum(topology: Topology, *collectives: Collective) -> Picoseconds:
    """How long an All-Reduce takes at least if sums are collected and spread along trees, without latencies.

    Examples
    --------
    >>> import pccl
    >>> time = tree_optimum(pccl.topology.mesh(3, 3, bandwidth="1GB/s"), pccl.AllReduce("9MB"))
    >>> round(time / 10**9, 3)  # milliseconds: two thirds of the data over every link
    6.0
    """
    case = Case(topology, compile_conditions(topology, collectives))
    shares = alike(case)
    if len(shares) != 1 or not shares[0].reduces or np.any(case.single_ends):
        asked = ", ".join(collective.kind for collective in collectives)
        raise CollectiveError(f"the optimum over trees is for one all-reduce, not for {asked}")
    share = shares[0]
    return Picoseconds(prove(topology, share, _best(topology, share)))


def prove(topology: Topology, share: Share, heights: Landscapes) -> int:
    """Picoseconds that trees need at least, from any heights."""
    worth = np.zeros(topology.num_links, np.int64)
    src = topology.src
    dst = topology.dst
    # Only switches that pass messages on have slack: what leaves them has entered them.
    collect_slack = np.where(topology.reduce, 0, heights.collect_slack)
    spread_slack = np.where(topology.multicast, 0, heights.spread_slack)
    for height, members, slack, start, end in (
        (heights.collect, share.sources, collect_slack, src, dst),
        (heights.spread, share.destinations, spread_slack, dst, src),
    ):
        level = height - height[np.arange(len(members)), members][:, None]
        rise = np.maximum(level[:, end] - level[:, start], 0).sum(axis=0)
        worth = np.maximum(worth, rise + slack[end] - slack[start])
    climbed = _climb(heights.collect, share.sources) + _climb(heights.spread, share.destinations)
    least = int(climbed[_roots(topology)].min())
    earned = sum(
        int(a) * int(b) for a, b in zip(worth.tolist(), topology.bandwidth.tolist(), strict=True)
    )
    return max(share.bytes * least * PICOSECONDS // earned, 0) if earned else 0


def _climb(height: Ints, members: Indices) -> Ints:
    """Per device: how high it is above all members together, each in its own landscape."""
    own = height[np.arange(len(members)), members]
    total: Ints = (height - own[:, None]).sum(axis=0)
    return total


def _roots(topology: Topology) -> Bools:
    """Devices at which a sum can be complete before it is spread."""
    return topology.reduce & topology.multicast


def _best(topology: Topology, share: Share) -> Landscapes:
    """The best heights, as the linear program has them."""
    collect, collect_slack, spread, spread_slack = _solved(topology, share)
    top = max(float(np.abs(table).max(initial=0)) for table in (collect, spread))
    scale = SCALE / max(top, 1e-300)
    whole = [
        np.rint(table * scale).astype(np.int64)
        for table in (collect, spread, collect_slack, spread_slack)
    ]
    return Landscapes(*whole)


def _solved(topology: Topology, share: Share) -> tuple[Floats, Floats, Floats, Floats]:
    """Heights and slack for collecting, and for spreading."""
    twin = _twins(topology)
    same_ends = np.array_equal(np.sort(share.sources), np.sort(share.destinations))
    # Where the network looks the same backwards, sums are best spread as they are collected, backwards.
    if twin is not None and same_ends:
        phases = [(share.sources, topology.src, topology.dst, topology.reduce)]
        found = _program(topology, phases, twin)
        return (*found[0], *found[0])
    phases = [
        (share.sources, topology.src, topology.dst, topology.reduce),
        (share.destinations, topology.dst, topology.src, topology.multicast),
    ]
    one, other = _program(topology, phases, np.arange(topology.num_links))
    return (*one, *other)


def _twins(topology: Topology) -> Ints | None:
    """Per link: the first of it and the one back, if the network looks the same backwards; else None."""
    src = topology.src.astype(np.int64)
    dst = topology.dst.astype(np.int64)
    rate = topology.bandwidth
    ahead = np.lexsort((rate, src, dst))
    back = np.lexsort((rate, dst, src))
    forth = np.stack([rate, src, dst])[:, ahead]
    if not np.array_equal(forth, np.stack([rate, dst, src])[:, back]):
        return None
    if np.any(topology.multicast != topology.reduce):
        return None
    twin = np.arange(topology.num_links)
    twin[ahead] = np.minimum(ahead, back)
    twin[back] = np.minimum(ahead, back)
    return twin


def _program(
    topology: Topology, phases: list[tuple[Indices, Indices, Indices, Bools]], twin: Ints
) -> list[tuple[Floats, Floats]]:
    """Per phase: the heights of all devices for each member, and the slack at switches; by HiGHS."""
    import highspy

    links = topology.num_links
    devices = topology.num_devices
    link = np.arange(links)
    roots = np.flatnonzero(_roots(topology))
    entries: list[tuple[Column, Column, Column]] = []
    lower = [np.zeros(links)]
    upper = [np.full(links, highspy.kHighsInf)]
    # Columns: what links are worth; per phase the rises, heights and slack; and last how far bytes climb.
    column = links
    row = 0
    limits: list[Floats] = []
    places: list[tuple[int, int, int]] = []
    for members, start, end, able in phases:
        count = len(members)
        number = np.repeat(np.arange(count), links)
        everywhere = np.tile(link, count)
        rise = column
        height = rise + count * links
        slack = height + count * devices
        column = slack + devices
        places.append((height, slack, count))
        # A link rises by no less than from one end to the other, in the landscape of each member.
        rows = row + np.arange(count * links)
        base = height + number * devices
        entries += [
            (rows, base + end[everywhere], np.ones(len(rows))),
            (rows, base + start[everywhere], -np.ones(len(rows))),
            (rows, rise + np.arange(len(rows)), -np.ones(len(rows))),
        ]
        limits.append(np.zeros(len(rows)))
        row += len(rows)
        # All its rises together, and the slack that it gains, are no more than what it is worth.
        entries += [
            (row + everywhere, rise + np.arange(len(rows)), np.ones(len(rows))),
            (row + link, slack + end, np.ones(links)),
            (row + link, slack + start, -np.ones(links)),
            (row + link, twin, -np.ones(links)),
        ]
        limits.append(np.zeros(links))
        row += links
        lowest = np.full(count * devices + devices, -highspy.kHighsInf)
        highest = np.full(count * devices + devices, highspy.kHighsInf)
        # Members are at height zero in their own landscapes; only switches that pass messages on have slack.
        own = np.arange(count) * devices + members
        fixed = np.concatenate([own, count * devices + np.flatnonzero(able)])
        lowest[fixed] = 0
        highest[fixed] = 0
        lower += [np.zeros(count * links), lowest]
        upper += [np.full(count * links, highspy.kHighsInf), highest]
    climb = column
    lower.append(np.zeros(1))
    upper.append(np.full(1, highspy.kHighsInf))
    for root in roots.tolist():
        entries.append((np.array([row]), np.array([climb]), np.ones(1)))
        for height, _, count in places:
            above = height + np.arange(count) * devices + root
            entries.append((np.full(count, row), above, -np.ones(count)))
        row += 1
    limits.append(np.zeros(len(roots)))
    # Only proportions matter, so that all links together are worth one.
    rate = np.bincount(twin, topology.bandwidth / topology.bandwidth.max(), links)
    entries.append((np.full(links, row), link, rate))
    limits.append(np.ones(1))
    solution = _solve(entries, np.concatenate(lower), np.concatenate(upper), np.concatenate(limits))
    return [
        (
            solution[height : height + count * devices].reshape(count, devices),
            solution[slack : slack + devices],
        )
        for height, slack, count in places
    ]


def _solve(
    entries: list[tuple[Column, Column, Column]], lower: Floats, upper: Floats, limits: Floats
) -> Floats:
    """Make the last column as large as rows allow."""
    import highspy

    rows, columns, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    order = np.argsort(rows, kind="stable")
    program = highspy.HighsLp()
    program.num_col_ = len(lower)
    program.num_row_ = len(limits)
    program.sense_ = highspy.ObjSense.kMaximize
    program.col_cost_ = (np.arange(len(lower)) == len(lower) - 1).astype(np.float64)
    program.col_lower_ = lower
    program.col_upper_ = upper
    program.row_lower_ = np.full(len(limits), -highspy.kHighsInf)
    program.row_upper_ = limits
    matrix = program.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.index_ = columns[order].astype(np.int32)
    matrix.value_ = values[order]
    matrix.start_ = np.searchsorted(rows[order], np.arange(len(limits) + 1)).astype(np.int32)
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, setting in (
        ("output_flag", False),
        ("solver", "ipm"),
        ("run_crossover", "off"),
        ("threads", 1),
    ):
        solver.setOptionValue(option, setting)
    solver.passModel(program)
    solver.run()
    return np.array(solver.getSolution().col_value)
