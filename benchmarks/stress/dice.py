"""Random choices, all of which follow from a few numbers; what they return are plain values of Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Dice:
    """A source of random choices.

    Examples
    --------
    >>> Dice(1, 2).whole(1, 6) == Dice(1, 2).whole(1, 6)
    True
    """

    def __init__(self, *numbers: int) -> None:
        self._random = np.random.default_rng(numbers)

    def chance(self, share: float) -> bool:
        """True in this share of all cases."""
        return bool(self._random.random() < share)

    def whole(self, least: int, most: int) -> int:
        """A whole number; both ends may come."""
        return int(self._random.integers(least, most, endpoint=True))

    def scale(self, least: int, most: int) -> int:
        """A whole number of any order of magnitude."""
        return int(np.exp(self._random.uniform(np.log(least), np.log(most))))

    def pick(self, choices: Sequence[T]) -> T:
        """One of several."""
        return choices[self.whole(0, len(choices) - 1)]

    def weighted(self, choices: dict[T, float]) -> T:
        """One of several, each as often as its weight says."""
        weights = np.array(list(choices.values()))
        place = self._random.choice(len(weights), p=weights / weights.sum())
        return list(choices)[int(place)]

    def some(self, choices: Sequence[T], count: int) -> list[T]:
        """So many different ones of several, in random order."""
        places = self._random.permutation(len(choices))[:count]
        return [choices[place] for place in places.tolist()]

    def seed(self) -> int:
        """A small number to seed something else with."""
        return self.whole(0, 999)
