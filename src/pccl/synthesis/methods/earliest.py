"""Earliest arrival: chunk by chunk, every destination as early as what is taken already allows; the paper's method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import ClassVar, Self

from pccl.synthesis.jobs import SMALL
from pccl.synthesis.methods.placement import InOrder
from pccl.synthesis.problem import Problem


class EarliestArrival(InOrder):
    """Place chunks in an order; each takes the links that bring it to its destinations soonest."""

    name: ClassVar[str] = "earliest-arrival"

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
        if len(problem.topology.switches) and not many:
            yield 1, replace(detours, order="staggered")

    @classmethod
    def variants(cls, problem: Problem) -> Iterator[Self]:
        """Both orders, on all kinds of routes, in steps and exactly."""
        orders = ("rounds", "farthest-first", "staggered")
        steps = (True, False) if problem.steps else (False,)
        for order, way, step in product(orders, problem.routes, steps):
            yield cls(seed=problem.seed, order=order, routes=way, steps=step)
