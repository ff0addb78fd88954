"""Price-guided: links get dearer with what they carry, and chunks take what is cheap, or soon, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, Self

import numpy as np

from pccl._arrays import Floats
from pccl.network import Network
from pccl.synthesis.methods.guided_kernels import Guide
from pccl.synthesis.methods.placement import InOrder, guide_for
from pccl.synthesis.problem import Problem

# Steepness and urgency. Where links differ, what matters most is to use the slow ones evenly; else also when.
KNOBS = (
    (3.0, 1.0), (3.0, 0.3), (12.0, 0.1), (6.0, 0.3), (20.0, 0.0), (1.0, 3.0), (40.0, 0.0), (0.0, 10.0),
)  # fmt: skip
STEEP_KNOBS = ((40.0, 0.0), (20.0, 0.0), (12.0, 0.1), (6.0, 0.3), (3.0, 1.0), (3.0, 0.3))
# Through switches that pass messages on, links carry a chunk many times, and the time between them matters more.
# The third is what it is worth if one device less hands a chunk on: then sources send most of it by themselves.
PLAIN_KNOBS = (
    (3.0, 1.0, 1.0), (3.0, 0.3, 4.0), (6.0, 0.7, 0.5), (3.0, 0.3, 1.0), (1.0, 1.0, 1.0), (3.0, 1.0, 0.0),
    (15.0, 0.07, 0.0), (12.0, 0.1, 0.0),
)  # fmt: skip
# Where they differ besides, it is the slow ones that must be used evenly, by both phases together.
EVEN_KNOBS = (15.0, 0.07)
HEAD_START = 1.0  # the logarithm of the price that the dearest link of a bound starts with
DEAREST = 600.0  # the logarithm of the highest price


@dataclass(frozen=True)
class PriceGuided(InOrder):
    """Place chunks in an order; a way is scored by the price of its links plus urgency times its arrival.

    Prices grow with `steepness` and with what a link carries, relative to what the bound says it must.
    """

    steepness: float = 3.0
    urgency: float = 1.0
    apart: bool = False  # whether what is spread forgets the prices of what was collected before
    dual: bool = False  # whether prices start from those that prove the bound
    handed: float = (
        0.0  # how many times a message takes it is worth if one device less hands a chunk on
    )

    name: ClassVar[str] = "price-guided"

    def guides(self, problem: Problem) -> Callable[[Network], Guide]:
        """Prices for one phase after another, the second with what the first has learned."""
        load = self._first_load(problem)
        scale = int(problem.quick_bound.value)
        before: list[tuple[Network, Guide]] = []

        def guide(net: Network) -> Guide:
            if before and not self.apart:
                ((last, learned),) = before
                load[last.link] = np.log(learned.price)
            before[:] = [(net, self._guide(net, load, scale // net.unit))]
            return before[0][1]

        return guide

    def _first_load(self, problem: Problem) -> Floats:
        """The logarithm of the price that each link starts with."""
        prices = np.array(problem.bound.prices if self.dual else (), np.float64)
        if not np.any(prices):
            return np.zeros(problem.topology.num_links)
        load: Floats = HEAD_START * prices / prices.max()
        return load

    def _guide(self, net: Network, load: Floats, scale: int) -> Guide:
        """Prices for the kernel; `scale` is the time in which a price grows by the steepness."""
        price = np.exp(np.minimum(load[net.link], DEAREST))
        # No way is cheaper than holding its links at the least price there is.
        least = float((net.hold / net.travel).min(initial=1.0)) * float(price.min(initial=1.0))
        return guide_for(
            net,
            price,
            urgency=self.urgency,
            handed=self.handed * float(net.travel.max(initial=0)),
            growth=self.steepness / max(scale, 1),
            ahead=self.urgency + least,
        )

    @classmethod
    def usual(cls, problem: Problem) -> Self:
        """The knobs that do best most often."""
        return cls._with(problem, *_knobs(problem)[0])

    @classmethod
    def _with(cls, problem: Problem, steepness: float, urgency: float, handed: float = 0.0) -> Self:
        return cls(
            seed=problem.seed,
            steps=problem.steps,
            steepness=steepness,
            urgency=urgency,
            handed=handed,
            apart=problem.collects_and_spreads,
        )

    @classmethod
    def openings(cls, problem: Problem) -> Iterator[tuple[int, Self]]:
        """Trees, most of all over links that differ: a slow one should carry a chunk once."""
        if problem.only_trees:
            yield (1 if problem.even else 0), cls.usual(problem)
        if problem.only_trees and problem.topology.plain:
            # Where groups sit around one switch, sources send all by themselves.
            yield 0, cls._with(problem, *PLAIN_KNOBS[1])
            # Where latencies count as much as speeds.
            yield 0, cls._with(problem, *PLAIN_KNOBS[2])
            if not problem.even:
                yield 0, replace(cls._with(problem, *EVEN_KNOBS), apart=False)

    @classmethod
    def variants(cls, problem: Problem) -> Iterator[Self]:
        """All knobs, on all kinds of routes."""
        phases = (True, False) if problem.collects_and_spreads else (False,)
        knobs = _knobs(problem)
        dual = bool(problem.bound.prices)
        for knob, way, apart in product(knobs, problem.routes, phases):
            yield replace(cls._with(problem, *knob), routes=way, apart=apart, dual=dual)

    def notes(self) -> list[str]:
        """What else to say of it to people."""
        notes = [f"steepness {self.steepness:g}", f"urgency {self.urgency:g}", *super().notes()]
        said = {
            "few hands": self.handed > 0,
            "phases apart": self.apart,
            "prices of the bound": self.dual,
        }
        return [*notes, *(note for note, is_so in said.items() if is_so)]

    def __str__(self) -> str:
        return ", ".join([self.name, *self.notes()])


def _knobs(problem: Problem) -> tuple[tuple[float, ...], ...]:
    """Steepness, urgency and what few hands are worth; what does best most often first."""
    if problem.topology.plain:
        return PLAIN_KNOBS
    return KNOBS if problem.even else STEEP_KNOBS
