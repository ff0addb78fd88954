"""The best so far: shorter is better, and in the end fewer chunks are if they take hardly longer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pccl.synthesis.clock import Clock
from pccl.synthesis.incumbent import Incumbent


def schedule(chunks, duration):
    """A schedule of so many chunks that takes so long."""
    problem = SimpleNamespace(conditions=range(chunks))
    return SimpleNamespace(duration=duration, problem=problem, origin=None)


@pytest.mark.parametrize(
    ("best", "found", "is_taken"),
    [
        # Whatever takes less is better ground to go on from, however many chunks it has.
        (schedule(2, 1000), schedule(8, 999), True),
        (schedule(8, 1000), schedule(2, 1001), False),
        (schedule(8, 1000), schedule(2, 999), True),
    ],
)
def test_what_is_taken_for_better(best, found, is_taken):
    incumbent = Incumbent(Clock(), None, any_number_of_chunks=True)
    incumbent.offer(best)
    incumbent.offer(found)
    assert (incumbent.best is found) == is_taken


def test_of_what_takes_hardly_longer_the_search_settles_for_fewer_chunks():
    incumbent = Incumbent(Clock(), None, any_number_of_chunks=True)
    for one in (schedule(8, 1000), schedule(2, 1010)):
        incumbent.offer(one)
    assert incumbent.is_near(1010)
    assert not incumbent.is_near(1030)


def test_near_is_near_to_the_shortest_of_all():
    """Or else fewer and fewer chunks would take longer and longer."""
    incumbent = Incumbent(Clock(), None, any_number_of_chunks=True)
    incumbent.offer(schedule(8, 1000))
    incumbent.settle(schedule(4, 1015))
    assert not incumbent.is_near(1030)
