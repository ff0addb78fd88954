"""Random problems: they follow from two numbers, are of every kind, and workers that hang or die are noticed."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
from benchmarks.stress.checks import CHECKS
from benchmarks.stress.judge import Outcome, Task, Verdict, judge
from benchmarks.stress.problems import EFFORTS, problem_of
from benchmarks.stress.tally import Tally
from benchmarks.stress.watchdog import Answered, Lost, Watchdog

from pccl.collective import COLLECTIVES
from pccl.synthesis.methods import METHODS
from pccl.targets import TARGETS
from pccl.topology.names import ZOO

MANY = 800


@pytest.fixture(scope="module")
def problems():
    return [problem_of(1, number) for number in range(MANY)]


def nothing(*stage: object) -> None:
    """What is said to nobody."""


# --- problems --------------------------------------------------------------------------------------------------------


def test_a_problem_follows_from_two_numbers(problems):
    assert problems[:50] == [problem_of(1, number) for number in range(50)]
    assert problem_of(2, 0) != problems[0]


def test_every_kind_of_everything_comes(problems):
    assert {kind for one in problems for kind in one.kinds} == set(COLLECTIVES)
    assert {one.family for one in problems} >= set(ZOO)
    assert {one.options.get("target") for one in problems} == {None, *TARGETS}
    assert {one.options.get("method") for one in problems} == {None, *METHODS}
    assert {one.options["effort"] for one in problems} == set(EFFORTS) - {"mixed"}
    assert {name for one in problems for name in one.checks} == set(CHECKS)


def test_a_third_are_exchanges_through_switches(problems):
    exchanges = [one for one in problems if one.switched and one.kinds[0] == "all-to-all-v"]
    assert 0.28 < len(exchanges) / MANY < 0.5


def test_few_networks_are_refused(problems):
    assert sum(one.npus == 0 for one in problems) < 0.03 * MANY


def test_collectives_can_be_asked_for(problems):
    for one in problems[:100]:
        assert [collective.kind for collective in one.asked()] == list(one.kinds)


# --- verdicts --------------------------------------------------------------------------------------------------------


def test_a_plan_is_looked_at():
    number = next(n for n in range(MANY) if problem_of(1, n, "fast").npus == 2)
    verdict = judge(Task(1, number, "fast"), nothing)
    assert verdict.outcome in (Outcome.PLANNED, Outcome.REFUSED)


def test_what_falls_short_can_be_seen_again(capsys):
    problem = problem_of(1, 3)
    tally = Tally()
    tally.add(Verdict(problem, Outcome.INCORRECT, "simulate", "too late", "line 1\nline 2"))
    said = capsys.readouterr().out.splitlines()
    assert tally.failed
    assert (
        said[0]
        == f"incorrect in simulate: too late  [python -m benchmarks.stress --one {problem.name}]"
    )
    assert said[1:3] == ["    line 1", "    line 2"]
    compile(shlex.split(said[3])[2], "command", "exec")


def test_the_last_line_has_the_counts():
    problem = problem_of(1, 0)
    tally = Tally([Verdict(problem, outcome) for outcome in (Outcome.PLANNED, Outcome.REFUSED)])
    assert not tally.failed
    assert tally.summary().splitlines()[-1] == (
        "stress: 2 problems, 1 planned, 1 refused, 0 hangs, 0 crashes, 0 incorrect, 0 beyond the wait"
    )


# --- the watchdog ----------------------------------------------------------------------------------------------------


def test_workers_that_hang_or_die_are_noticed_and_replaced():
    tasks = ["one", "hang", "two", "die", "eat", "three"]
    dog = Watchdog("tests.benchmarks.watched:work", iter(tasks), jobs=1)
    events = [event for event in dog.run() if event is not None]
    assert [event.task for event in events] == tasks
    answers = {event.task: event.answer for event in events if isinstance(event, Answered)}
    assert answers == {"one": "ONE", "two": "TWO", "eat": "7", "three": "THREE"}
    hung, died = (event for event in events if isinstance(event, Lost))
    assert hung.hung
    assert (hung.stage, hung.about) == ("at work", "about hang")
    assert "in _sleep" in hung.stack
    assert not died.hung
    assert died.code == 3


def test_one_problem_from_the_command_line():
    number = next(n for n in range(MANY) if problem_of(1, n, "fast").npus == 2)
    command = [
        sys.executable,
        "-m",
        "benchmarks.stress",
        "--effort",
        "fast",
        "--one",
        f"1:{number}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("python -c 'import numpy as np, pccl")
    assert done.stdout.splitlines()[-1].startswith("stress: 1 problems, ")
