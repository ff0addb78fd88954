"""The page on quality: every row with a large gap is explained, or marked as not explained."""

from __future__ import annotations

import pytest
from benchmarks.quality import workloads
from benchmarks.quality_page import Fact, Result, facts, lines, missing, summary, unexplained

from benchmarks import quality_page


def row(
    name: str,
    time: float,
    bound: float = 10.0,
    baseline: float = 100.0,
    messages: float = 0.0,
    needs_switches: bool = False,
) -> Result:
    measured = ("us", time, messages or time, needs_switches, bound, 1.0, "flooding", "4 chunks")
    return Result("Rings", name, *measured, None, None, None, None, ("ring", baseline))


GOOD = row("good", 10.5)
FAR = row("far", 12.0)
SLOW = row("slow", 10.5, baseline=10.0)


@pytest.fixture
def known(monkeypatch):
    def say(*entries: Fact) -> None:
        monkeypatch.setattr(quality_page, "facts", lambda: entries)

    return say


def test_what_is_far_or_slower_is_to_be_explained(known):
    known()
    assert unexplained([GOOD, FAR, SLOW]) == [FAR, SLOW]
    assert [*missing([GOOD, FAR])][-1] == "| Rings: far | 20.0% | **not explained** |"


def test_what_is_explained_is_not_marked(known):
    known(Fact("Rings", ("far", "slow"), "a law of nature"), Fact("Rings", ("good",), "luck"))
    assert not unexplained([GOOD, FAR, SLOW])
    page = [*missing([GOOD, FAR, SLOW])]
    assert page[-1] == "| Rings: far; slow | 5.0% to 20.0% | a law of nature |"
    assert "luck" not in "".join(page)


def test_nothing_is_missing(known):
    known()
    assert not [*missing([GOOD])]


def test_rows_and_summary():
    table = [*lines([GOOD, SLOW])]
    assert table[1] == "## Rings"
    assert table[-1].startswith("| slow, 4 chunks **(missed)** | 10.50 | 10.50 | 10.00 | 5.0% ")
    assert "2 rows of all: mean gap 5.0%" in summary([GOOD, SLOW])


def test_a_plan_that_plain_switches_cannot_keep_is_marked():
    assert row("adds, and does not say so", 10.5, messages=10.8).missed
    assert not row("needs nothing", 10.5, messages=10.6).missed
    assert not row("adds", 10.5, messages=20.0, needs_switches=True).missed


def test_facts_are_about_rows_that_there_are():
    names = {(one.section, one.name) for one in workloads()}
    for fact in facts():
        assert fact.why
        assert {(fact.section, name) for name in fact.rows} <= names
