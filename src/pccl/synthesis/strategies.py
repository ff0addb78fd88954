"""What to try, and how much: efforts, what callers leave open, and methods in the order of their promise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from pccl.errors import PcclError
from pccl.synthesis.jobs import SMALL
from pccl.synthesis.methods import METHODS, Method
from pccl.synthesis.orders import ORDERS
from pccl.synthesis.problem import Problem

__all__ = ["EFFORTS", "Asked", "Effort", "asked_for", "grid", "opening"]

ROUTES = ("minimal", "any")
# Steepness and urgency. Where links differ, what matters most is to use the slow ones evenly; else also when.
KNOBS = (
    (3.0, 1.0),
    (3.0, 0.3),
    (12.0, 0.1),
    (6.0, 0.3),
    (20.0, 0.0),
    (1.0, 3.0),
    (40.0, 0.0),
    (0.0, 10.0),
)
STEEP_KNOBS = ((40.0, 0.0), (20.0, 0.0), (12.0, 0.1), (6.0, 0.3), (3.0, 1.0), (3.0, 0.3))


@dataclass(frozen=True)
class Effort:
    """How much to try."""

    work: int  # in links looked at: no new attempt after that many, which take 50 ns each
    gap: float  # good enough
    modest: int  # work to spend before that counts
    patience: int  # learned attempts without a gain before giving up
    passes: int  # of justification


EFFORTS = {
    "fast": Effort(work=0, gap=1.0, modest=0, patience=0, passes=0),
    "balanced": Effort(work=120_000_000, gap=0.01, modest=30_000_000, patience=40, passes=6),
    "thorough": Effort(work=2_000_000_000, gap=0.0, modest=0, patience=400, passes=20),
}


@dataclass(frozen=True)
class Asked:
    """What the caller leaves open, and what not."""

    effort: Effort
    method: str | None
    order: str | None
    routes: str | None
    time_limit: float | None  # seconds

    def __post_init__(self) -> None:
        for value, known, what in (
            (self.method, METHODS, "method"),
            (self.order, tuple(ORDERS), "order"),
            (self.routes, ROUTES, "routes"),
        ):
            if value is not None and value not in known:
                raise PcclError(f"there is no {what} {value!r}; there are {', '.join(known)}")
        if self.method == "flooding" and (self.order or self.routes):
            raise PcclError("flooding has no order and no routes to choose")

    def allows(self, method: Method) -> bool:
        """Whether the method is one of those asked for."""
        if method.name == "flooding" and (self.order or self.routes):
            return False
        return self.method in (None, method.name)

    def applied(self, method: Method) -> Method:
        """The method with the order and routes asked for."""
        if method.name == "flooding":
            return method
        return replace(
            method, order=self.order or method.order, routes=self.routes or method.routes
        )


def asked_for(
    effort: str,
    gap: float | None,
    method: str | None,
    order: str | None,
    routes: str | None,
    time_limit: float | None,
) -> Asked:
    """Check what the caller says."""
    if time_limit is not None and not (_is_number(time_limit) and time_limit > 0):
        raise PcclError(f"the time limit must be a positive number of seconds, not {time_limit!r}")
    return Asked(_effort(effort, gap), method, order, routes, time_limit)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _effort(name: str, gap: float | None) -> Effort:
    if name not in EFFORTS:
        raise PcclError(f"there is no effort {name!r}; there are {', '.join(EFFORTS)}")
    if gap is None:
        return EFFORTS[name]
    if not _is_number(gap) or not 0 <= gap < 1e6:
        raise PcclError(f"the gap must be a share from 0 on, such as 0.05, not {gap!r}")
    return replace(EFFORTS[name], gap=float(gap), modest=0)


# --- methods ---------------------------------------------------------------------------------------------------------


def opening(problem: Problem, asked: Asked) -> list[Method]:
    """The cheapest methods that promise something for this input, the most promising first."""
    limited, steps, seed, sums = (
        problem.topology.limited,
        problem.steps,
        problem.seed,
        problem.collects_and_spreads,
    )
    many = len(problem.conditions) > SMALL
    flooding = Method("flooding", seed=seed)
    steepness, urgency = (KNOBS if problem.even else STEEP_KNOBS)[0]
    guided = Method(
        "price-guided", "rounds", "any", steps, steepness, urgency, apart=sums, seed=seed
    )
    paper = Method(
        "earliest-arrival", order="farthest-first", routes="minimal", steps=steps, seed=seed
    )
    detours = replace(paper, order="rounds", routes="any")
    if problem.any_several and not problem.any_single and not limited:
        methods = (
            [flooding, guided, detours]
            if problem.dense and problem.even
            else [guided, flooding, detours]
        )
        if not problem.dense and problem.even:
            methods = [detours, guided, flooding]
    elif (problem.dense and problem.even) or many:
        methods = [paper, detours]
    else:
        methods = [detours, paper]
    if not problem.floods:
        methods = [method for method in methods if method.name != "flooding"]
    if asked.method == "flooding" and (limited or not problem.floods):
        why = (
            "knows no limits of switches"
            if limited
            else "would spread too many chunks all over the network"
        )
        raise PcclError(f"flooding {why}; choose another method")
    allowed = [asked.applied(method) for method in methods if asked.allows(method)]
    fallback = replace(
        guided if asked.method == "price-guided" else flooding, name=asked.method or flooding.name
    )
    return allowed or [asked.applied(fallback)]


def grid(problem: Problem, asked: Asked, best: Method) -> list[Method]:
    """Methods and knobs that are worth a try when the opening was not good enough."""
    steps, seed = problem.steps, problem.seed
    routes = ("any", "minimal") if problem.any_single and problem.dense else ("any",)
    guided = product(KNOBS if problem.even else STEEP_KNOBS, routes)
    dual = bool(problem.bound.prices)
    methods = [
        Method("price-guided", "rounds", way, steps, *knobs, dual=dual, seed=seed)
        for knobs, way in guided
    ]
    earliest = product(("rounds", "farthest-first"), routes, (True, False) if steps else (False,))
    methods += [
        Method("earliest-arrival", order, way, step, seed=seed) for order, way, step in earliest
    ]
    if (
        problem.any_several
        and not problem.any_single
        and not problem.topology.limited
        and problem.floods
    ):
        methods += [Method("flooding", seed=seed + number) for number in range(4)]
    if problem.collects_and_spreads:
        methods = [
            replace(method, root=best.root, apart=apart)
            for method in methods
            for apart in (True, False)
        ]
    return list(dict.fromkeys(asked.applied(method) for method in methods if asked.allows(method)))
