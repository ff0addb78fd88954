"""In which order chunks are placed: replaceable, as the order decides how well the greedy search does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Indices, Ints, compact

__all__ = ["ORDERS", "Order"]

Order: TypeAlias = Callable[[Ints, Indices, np.random.Generator], Ints]


def farthest_first(distance: Ints, piece: Indices, rng: np.random.Generator) -> Ints:  # noqa: ARG001
    """The paper's order: chunks with the longest way go first."""
    return _sorted_by([distance.max(initial=0) - distance], rng)


def rounds(distance: Ints, piece: Indices, rng: np.random.Generator) -> Ints:
    """First pieces before second pieces, and so on; inside a round the farthest go first."""
    return _sorted_by([distance.max(initial=0) - distance, piece], rng)


def at_random(distance: Ints, piece: Indices, rng: np.random.Generator) -> Ints:  # noqa: ARG001
    """No order at all."""
    return rng.permutation(len(distance))


def _sorted_by(keys: list[NDArray[Any]], rng: np.random.Generator) -> Ints:
    """Sort by the last key, then the one before, and so on; ties are broken at random.

    In the order of their numbers, chunks of one source would follow each other and get in each other's way: on an 8x8x8
    mesh that costs 2.5 % of the time of an All-to-All.
    """
    order = rng.permutation(len(keys[0]))
    for key in keys:
        order = order[np.argsort(compact(key)[order], kind="stable")]
    return order


ORDERS: dict[str, Order] = {"farthest-first": farthest_first, "rounds": rounds, "random": at_random}
