"""The best so far: shorter is better, but not for any number of chunks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pccl.synthesis.incumbent import Incumbent


def schedule(chunks, duration, bound):
    """A schedule of so many chunks that takes so long, where no schedule of as many can take less than the bound."""
    problem = SimpleNamespace(conditions=range(chunks), quick_bound=SimpleNamespace(value=bound))
    return SimpleNamespace(duration=duration, problem=problem, origin=None)


@pytest.mark.parametrize(
    ("best", "found", "is_taken"),
    [
        # As good as the other can become: more chunks must be worth their while, fewer may take a little longer.
        (schedule(2, 1000, 900), schedule(8, 990, 900), False),
        (schedule(2, 1000, 900), schedule(8, 970, 900), True),
        (schedule(8, 1000, 900), schedule(2, 1010, 900), True),
        (schedule(8, 1000, 900), schedule(2, 1030, 900), False),
        # Many chunks will become better than few can: what counts is what takes less now.
        (schedule(2, 1000, 900), schedule(8, 990, 700), True),
        (schedule(8, 1000, 700), schedule(2, 1010, 900), False),
    ],
)
def test_what_is_taken_for_better(best, found, is_taken):
    incumbent = Incumbent(0.0, None, any_number_of_chunks=True)
    incumbent.offer(best)
    incumbent.offer(found)
    assert (incumbent.best is found) == is_taken


def test_of_what_takes_hardly_longer_the_search_settles_for_fewer_chunks():
    incumbent = Incumbent(0.0, None, any_number_of_chunks=True)
    for one in (schedule(8, 1000, 700), schedule(2, 1010, 900)):
        incumbent.offer(one)
    assert incumbent.is_near(schedule(2, 1010, 900))
    assert not incumbent.is_near(schedule(1, 1030, 900))
