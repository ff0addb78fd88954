"""Plans on real processes: sockets and NumPy, which take nothing to install."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

import pccl
from pccl.runtime import Buffers, Rank, scripts_of
from pccl.runtime.measure import Job
from pccl.runtime.pool import Pool

CONNECT = "pccl.runtime.pool:connect_sockets"
HERE = __name__


@pytest.fixture(scope="module")
def pool():
    with Pool(4, CONNECT, timeout=30) as found:
        yield found


@pytest.fixture(scope="module")
def scripts():
    return scripts_of(pccl.synthesize(pccl.topology.ring(4), pccl.AllReduce("1MiB", chunks=2)))


# --- what ranks do in these tests -------------------------------------------------------------------------------------


def reduce_numbers(transport, scripts, count):
    numbers = np.arange(count) + transport.rank
    Rank(scripts, transport).run([Buffers(numbers, numbers)])
    return numbers.tolist()


def reduce_five(transport, scripts):
    return reduce_numbers(transport, scripts, 5)


def reduce_for_ever(transport, scripts):
    rank = Rank(scripts, transport)
    while True:
        numbers = np.zeros(1000)
        rank.run([Buffers(numbers, numbers)])


def changes_its_mind(transport, scripts, counts):
    """The first call is compared between ranks; later ones are not, and must still end with an error."""
    rank = Rank(scripts, transport)
    for count in counts:
        numbers = np.zeros(count)
        rank.run([Buffers(numbers, numbers)])


def raises_a_bug(transport):
    return 1 // 0 if transport.rank == 2 else transport.exchange(b"")


# --- tests ------------------------------------------------------------------------------------------------------------


def test_four_processes_add_up(pool, scripts):
    assert pool.run(f"{HERE}:reduce_numbers", scripts, 5) == [[6, 10, 14, 18, 22]] * 4


def test_every_element_is_checked(pool, scripts):
    job = Job(((1000,), (7,), (0,)), dtype="float16", in_place=True, iterations=2)
    for outcomes in pool.run("pccl.runtime.measure:measure_rank", scripts, job):
        assert [outcome.wrong for outcome in outcomes] == [(0,)] * 3


def test_ranks_that_only_relay_need_no_buffers(pool):
    """The first member tells them how many elements of which type they pass on, and how to add them."""
    ring = pccl.topology.ring(4, unidirectional=True)
    plan = scripts_of(pccl.synthesize(ring, pccl.AllReduce("1MiB", group=[0, 2], chunks=1)))
    assert plan.parts[0].helpers.tolist() == [1, 3]
    job = Job(((1000,), (3,)), dtype="int16", op="max", iterations=1)
    assert all(
        one.wrong == (0,)
        for row in pool.run("pccl.runtime.measure:measure_rank", plan, job)
        for one in row
    )


@pytest.mark.parametrize(
    ("task", "each", "message"),
    [
        (
            "reduce_numbers",
            [8, 8, 9, 8],
            "rank 2 is called with 9 elements of int64, sum, but rank 0 with 8",
        ),
        ("changes_its_mind", [[8, 8], [8, 16], [8, 8], [8, 8]], "with as many elements"),
    ],
)
def test_ranks_that_disagree_on_sizes_all_stop(scripts, task, each, message):
    with Pool(4, CONNECT, timeout=5) as pool, pytest.raises(pccl.RunError, match=message):
        pool.run(f"{HERE}:{task}", scripts, each=each)


def test_ranks_that_have_other_plans_all_stop(scripts):
    other = scripts_of(pccl.synthesize(pccl.topology.ring(4), pccl.AllReduce("1MiB", chunks=1)))
    plans = [scripts, scripts, scripts, other]
    with (
        Pool(4, CONNECT, timeout=5) as pool,
        pytest.raises(pccl.RunError, match="rank 3 has another plan than rank 0"),
    ):
        pool.run(f"{HERE}:reduce_five", each=plans)


def test_when_a_rank_is_killed_all_others_stop(scripts):
    with Pool(4, CONNECT, timeout=30) as pool:
        victim = pool.processes[2]
        killer = threading.Timer(0.5, os.kill, (victim, signal.SIGKILL))
        killer.start()
        with pytest.raises(pccl.RunError, match=r"rank 2 has died \(SIGKILL\)"):
            pool.run(f"{HERE}:reduce_for_ever", scripts)
        # They have said so by themselves: nobody has had to end them.
        assert pool.errors.keys() == {0, 1, 2, 3}
        assert all("rank 2 has gone" in str(pool.errors[rank]) for rank in (0, 1, 3))
        with pytest.raises(pccl.RunError, match="failed before"):
            pool.run(f"{HERE}:reduce_for_ever", scripts)


def test_a_bug_in_a_rank_is_no_mistake_of_the_user():
    with (
        Pool(4, CONNECT, timeout=5) as pool,
        pytest.raises(pccl.InternalError, match="ZeroDivisionError"),
    ):
        pool.run(f"{HERE}:raises_a_bug")


def test_a_pool_of_one_has_nobody_to_talk_to():
    plan = pccl.synthesize(pccl.topology.ring(2).restrict([0]), pccl.AllGather("1MiB"))
    with Pool(1, CONNECT, timeout=5) as pool:
        assert pool.run("pccl.runtime.measure:measure_rank", scripts_of(plan), Job(((9,),)))[0][
            0
        ].wrong == (0,)
