"""In which order chunks are placed: replaceable, as the order decides how well the greedy search does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from pccl._arrays import Column, Ints, sorted_order
from pccl.errors import PcclError
from pccl.synthesis.jobs import Jobs

Order: TypeAlias = Callable[[Jobs, np.random.Generator], Ints]


def check_order(name: str) -> None:
    """Raise unless there is an order of this name."""
    if name not in ORDERS:
        raise PcclError(f"there is no order {name!r}; there are {', '.join(ORDERS)}")


def order_of(name: str, jobs: Jobs, seed: int) -> Ints:
    """The jobs in this order."""
    return ORDERS[name](jobs, np.random.default_rng(seed))


def farthest_first(jobs: Jobs, rng: np.random.Generator) -> Ints:
    """The paper's order: chunks with the longest way go first."""
    return _sorted_by([_nearness(jobs)], rng)


def rounds(jobs: Jobs, rng: np.random.Generator) -> Ints:
    """First pieces before second pieces, and so on; inside a round the farthest go first."""
    return _sorted_by([_nearness(jobs), jobs.piece], rng)


def staggered(jobs: Jobs, rng: np.random.Generator) -> Ints:
    """In rounds, and inside a round as real exchanges do: all send to the next, then to the next but one, and so on.

    At any time, then, all sources send to different destinations, as long as they keep step.
    """
    # A chunk that is where it should be has no destination: it counts as sent to its source.
    ahead = np.zeros(len(jobs), np.int64)
    going = np.flatnonzero(np.diff(jobs.first))
    target = jobs.destination[jobs.first[going]]
    ahead[going] = (target - jobs.source[going]) % jobs.topology.num_devices
    return _sorted_by([ahead, jobs.piece], rng)


def at_random(jobs: Jobs, rng: np.random.Generator) -> Ints:
    """No order at all."""
    return rng.permutation(len(jobs))


def _nearness(jobs: Jobs) -> Ints:
    nearness: Ints = jobs.distance.max(initial=0) - jobs.distance
    return nearness


def _sorted_by(keys: list[Column], rng: np.random.Generator) -> Ints:
    """Sort by the last key, then the one before, and so on; ties are broken at random.

    In the order of their numbers, chunks of one source would follow each other and get in each other's way: on an 8x8x8
    mesh that costs 2.5 % of the time of an All-to-All.
    """
    order = rng.permutation(len(keys[0]))
    for key in keys:
        order = sorted_order(key, order)
    return order


ORDERS: dict[str, Order] = {
    "farthest-first": farthest_first,
    "rounds": rounds,
    "staggered": staggered,
    "random": at_random,
}
