"""The page docs/quality.md: rows, a summary, and what is missing where a gap is large or a promise is not kept.

What is missing is known to those who have looked, and kept in missing.toml: each entry has a section, the names of rows
in it, and why. An entry is shown as long as one of its rows needs it.
"""

from __future__ import annotations

import platform
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[1] / "docs" / "quality.md"
FACTS = Path(__file__).with_name("missing.toml")
# Larger gaps are explained.
LARGE_GAP = 0.10
# What needs no switches that multiply or add may take so many times as long as messages between NPUs.
KEPT = 1.02


@dataclass(frozen=True)
class Result:
    """A line of the table; times are in units."""

    section: str
    name: str
    unit: str
    time: float
    messages: float  # the time of its messages between NPUs, where switches only pass them on
    needs_switches: bool  # to multiply or add
    bound: float
    seconds: float
    method: str
    chunks: str
    goal: float | None
    most_gap: float | None
    over_trees: float | None
    trees: float | None
    baseline: tuple[str, float] | None

    @property
    def gap(self) -> float:
        """By how much it exceeds the bound."""
        return self.time / self.bound - 1

    @property
    def missed(self) -> bool:
        """Whether it is not what we promise."""
        slower = self.baseline is not None and self.time > self.baseline[1] * (1 + 1e-9)
        beyond_switches = not self.needs_switches and self.messages > KEPT * self.time
        return (
            slower
            or beyond_switches
            or (self.goal is not None and self.time > self.goal + 1e-9)
            or (self.most_gap or 9.0) < self.gap
            or (
                self.over_trees is not None
                and self.time > (1 + self.over_trees) * (self.trees or 0)
            )
        )

    @property
    def promise(self) -> str:
        """What we promise, in words."""
        promises = []
        if self.goal is not None:
            promises.append(f"{self.goal:,.4g}")
        if self.most_gap is not None:
            promises.append(f"{self.most_gap:.0%}")
        if self.trees is not None:
            within = "" if self.over_trees is None else f", {self.over_trees:.0%}"
            promises.append(f"trees {self.trees:,.2f}{within}")
        return "; ".join(promises)


@dataclass(frozen=True)
class Fact:
    """Why some rows of a section are not better."""

    section: str
    rows: tuple[str, ...]
    why: str

    def explains(self, result: Result) -> bool:
        """Whether it is about that row."""
        return result.section == self.section and result.name in self.rows


def facts(path: Path = FACTS) -> tuple[Fact, ...]:
    """What is known."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["missing"]
    return tuple(Fact(one["section"], tuple(one["rows"]), one["why"]) for one in entries)


def name_of(result: Result) -> str:
    """What to call a row outside its section."""
    return f"{result.section.removeprefix('Machines, ')}: {result.name}"


def to_explain(results: Sequence[Result]) -> list[Result]:
    """Rows with a large gap, or which miss what we promise."""
    return [r for r in results if r.gap > LARGE_GAP or r.missed]


def unexplained(results: Sequence[Result]) -> list[Result]:
    """Those of which nothing is known."""
    known = facts()
    return [r for r in to_explain(results) if not any(fact.explains(r) for fact in known)]


def missing(results: Sequence[Result]) -> Iterator[str]:
    """What is missing: a table."""
    rows = to_explain(results)
    if not rows:
        return
    yield ""
    yield "## What is missing"
    yield ""
    yield f"Where the gap is above {LARGE_GAP:.0%}, or a promise is not kept; `python -m benchmarks.quality --explain`"
    yield "searches longer, to tell whether the schedule or the bound is to blame."
    yield ""
    yield "| rows | gap | missing |"
    yield "|---|---|---|"
    for fact in facts():
        those = [r for r in rows if fact.explains(r)]
        if those:
            yield _explained(those, fact.why)
    for r in unexplained(results):
        yield _explained([r], "**not explained**")


def _explained(rows: Sequence[Result], why: str) -> str:
    section = rows[0].section.removeprefix("Machines, ")
    names = "; ".join(r.name for r in rows)
    gaps = [r.gap for r in rows]
    ends = dict.fromkeys(f"{gap:.1%}" for gap in (min(gaps), max(gaps)))
    return f"| {section}: {names} | {' to '.join(ends)} | {why} |"


def lines(results: Sequence[Result]) -> Iterator[str]:
    """All rows, section by section."""
    section = ""
    for r in results:
        if r.section != section:
            section = r.section
            yield ""
            yield f"## {section}"
            yield ""
            yield (
                f"| workload | {r.unit} | as messages | bound | gap | goal | CPU s | found by "
                "| best baseline |"
            )
            yield "|---|---|---|---|---|---|---|---|---|"
        other = (
            f"{r.baseline[0]} {r.baseline[1]:,.2f} ({r.baseline[1] / r.time:.2f}x)"
            if r.baseline
            else ""
        )
        name = ", ".join(filter(None, (r.name, r.chunks)))
        yield (
            f"| {name}{' **(missed)**' if r.missed else ''} | {r.time:,.2f} | {r.messages:,.2f} "
            f"| {r.bound:,.2f} | {r.gap:.1%} | {r.promise} | {r.seconds:.2f} | {r.method} | {other} |"
        )


def summary(results: Sequence[Result]) -> str:
    """How far from the bound machines are, over all sizes and collectives, and how far all rows are."""
    machines = [r.gap for r in results if r.section.startswith("Machines, ")]
    texts = []
    for name, some in (("machines of all sizes", machines), ("all", [r.gap for r in results])):
        gaps = np.array(some)
        if len(gaps):
            small = np.mean(gaps < LARGE_GAP)
            texts.append(
                f"{len(gaps)} rows of {name}: mean gap {gaps.mean():.1%}, median {np.median(gaps):.1%}, "
                f"{small:.0%} of them below {LARGE_GAP:.0%}."
            )
    return "\n".join(texts)


def write(results: Sequence[Result], effort: str) -> None:
    """Renew the page."""
    machine = f"{platform.machine()}, Python {platform.python_version()}, a core of a virtual machine for each row"
    head = f"""# How good the algorithms are

`make quality` renews this page: effort `{effort}`, {machine}. Times are in steps (one chunk over one link) where all
links are alike, else in microseconds; as messages is what the plan takes where NPUs send messages to each other and
switches pass them on, as most runtimes have it; the bound is what `pccl.lower_bound` proves (for any way to cut the
data into chunks where their number is searched for); CPU time is that of one synthesis on two threads, after kernels
are compiled. The goal is a time, a gap, or a share above the optimum over trees: what no All-Reduce beats that collects
sums along trees and spreads them along trees. The last column is the best of the [baselines](baselines.md), cut into as
many chunks as ours or not at all, and how many times longer it takes. [Machines](topologies.md#machines) are as they
are without options. A row is marked if it is slower than a baseline, misses its goal, or needs nothing of switches and
takes over 2% longer as messages.

{summary(results)}"""
    text = "\n".join([head, *missing(results), *lines(results), ""])
    PAGE.write_text(text, encoding="utf-8")
