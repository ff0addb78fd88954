"""In which order chunks are placed: replaceable, as the order decides how well the greedy search does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["ORDERS", "Order"]

Ints = NDArray[np.int64]
Order: TypeAlias = Callable[[Ints, Ints, np.random.Generator | None], Ints]


def farthest_first(distance: Ints, piece: Ints, rng: np.random.Generator | None) -> Ints:  # noqa: ARG001
    """The paper's order: chunks with the longest way go first."""
    return _sorted_by([-distance], rng)


def rounds(distance: Ints, piece: Ints, rng: np.random.Generator | None) -> Ints:
    """First pieces before second pieces, and so on; inside a round the farthest go first."""
    return _sorted_by([piece, -distance], rng)


def _sorted_by(keys: list[Ints], rng: np.random.Generator | None) -> Ints:
    """Sort by the first key, then the next; ties stay in the order of the chunks, or are broken at random."""
    ties = np.arange(len(keys[0])) if rng is None else rng.permutation(len(keys[0]))
    return np.lexsort((ties, *reversed(keys))).astype(np.int64)


ORDERS: dict[str, Order] = {"farthest-first": farthest_first, "rounds": rounds}
