"""Earliest arrival: chunk by chunk, every destination as early as what is taken already allows; the paper's method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Self

import numpy as np

from pccl._arrays import Ints
from pccl.network import Ten
from pccl.synthesis.jobs import SMALL, Jobs
from pccl.synthesis.methods.base import Method, Orders, Placed, find_in_phases
from pccl.synthesis.methods.guided_kernels import Guide
from pccl.synthesis.methods.placement import place_jobs
from pccl.synthesis.orders import order_of
from pccl.synthesis.problem import Problem
from pccl.synthesis.schedule import Schedule

__all__ = ["EarliestArrival"]


@dataclass(frozen=True)
class EarliestArrival(Method):
    """Place chunks in an order; each takes the links that bring it to its destinations soonest."""

    order: str = "rounds"
    routes: str = "any"
    steps: bool = False  # whether time is counted in steps while placing, or exactly

    name: ClassVar[str] = "earliest-arrival"
    obeys: ClassVar[frozenset[str]] = frozenset({"order", "routes"})

    def find(self, problem: Problem, orders: Orders | None = None) -> Schedule:
        """Find a schedule; `orders` take the place of the method's own."""

        def place(
            phase: int, jobs: Jobs, ten: Ten, release: Ints, progress: Callable[[int], None]
        ) -> Placed:
            order = orders[phase] if orders else order_of(self.order, jobs, self.seed)
            minimal = self.routes == "minimal"
            return place_jobs(jobs, ten, order, release, minimal, NO_GUIDE, progress)

        return find_in_phases(problem, self, place, self.steps, gaps=False)

    @classmethod
    def usual(cls, problem: Problem) -> Self:
        """Detours allowed, pieces in rounds."""
        return cls(seed=problem.seed, order="rounds", routes="any", steps=problem.steps)

    @classmethod
    def openings(cls, problem: Problem) -> Iterator[tuple[int, Self]]:
        """The paper's method where all take part or chunks are many; with detours where there is room for them."""
        detours = cls.usual(problem)
        if problem.only_trees:
            yield (0 if problem.even and not problem.dense else 2), detours
            return
        many = len(problem.conditions) > SMALL
        paper = cls(
            seed=problem.seed, order="farthest-first", routes="minimal", steps=problem.steps
        )
        straight = many or (problem.dense and problem.even)
        yield (0 if straight else 1), paper
        yield (1 if straight else 0), detours

    @classmethod
    def variants(cls, problem: Problem) -> Iterator[Self]:
        """Both orders, on all kinds of routes, in steps and exactly."""
        routes = ("any", "minimal") if problem.any_single and problem.dense else ("any",)
        steps = (True, False) if problem.steps else (False,)
        for order, way, step in product(("rounds", "farthest-first"), routes, steps):
            yield cls(seed=problem.seed, order=order, routes=way, steps=step)

    def notes(self) -> list[str]:
        """What else to say of it to people."""
        steps = ["in steps"] if self.steps else []
        return [self.order, f"{self.routes} routes", *steps, *super().notes()]


_NOTHING = np.zeros(0)
# What the kernel takes where prices do not count.
NO_GUIDE = Guide(
    False, _NOTHING, 0.0, 0.0, 0.0, _NOTHING, _NOTHING, _NOTHING, np.zeros(0, np.int64)
)
