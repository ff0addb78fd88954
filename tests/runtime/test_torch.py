"""Plans on torch.distributed: gloo processes that stay for all tests of this module."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from benchmarks.quality import workloads
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import pccl
from pccl.runtime import run_locally, scripts_of
from pccl.runtime.checking import trial_buffers, trials, wrong_elements
from pccl.runtime.pool import Pool
from tests.strategies import collectives, networks, synthesized

torch = pytest.importorskip("torch")
CONNECT = "pccl.torch.measure:connect"
TASKS = "tests.runtime.torch_tasks"
# Ranks, so many that plans of four to eight of them can be run.
MOST = 8
PLANS = 200


@pytest.fixture(scope="module")
def pool():
    with Pool(MOST, CONNECT, timeout=60) as found:
        yield found


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """A folder of plans for four ranks, one for each collective, and some for two."""
    folder = tmp_path_factory.mktemp("plans")
    mesh = pccl.topology.mesh(2, 2)
    for kind in (
        "AllReduce",
        "AllGather",
        "ReduceScatter",
        "AllToAll",
        "Broadcast",
        "Reduce",
        "Gather",
        "Scatter",
    ):
        plan = pccl.synthesize(mesh, getattr(pccl, kind)("64KiB", chunks=2), effort="fast")
        plan.save(folder / f"{kind}.pccl")
    for kind in ("AllReduce", "AllGather", "ReduceScatter"):
        plan = pccl.synthesize(
            mesh, getattr(pccl, kind)("64KiB", group=[0, 1], confined=True), effort="fast"
        )
        plan.save(folder / f"{kind}-2.pccl")
    return folder


# --- random plans -----------------------------------------------------------------------------------------------------


def random_cases(count):
    """Random plans, and how to run each of them; always the same ones."""
    found = []

    @settings(
        max_examples=count, phases=[Phase.generate], derandomize=True, deadline=None, database=None
    )
    @given(data=st.data())
    def collect(data):
        network = data.draw(networks(limits=False, flags=True, least=4, most=MOST))
        asked = data.draw(st.lists(collectives(network.num_npus), min_size=1, max_size=2))
        op = data.draw(st.sampled_from(["sum", "sum", "max", "min", "prod", "avg"]))
        dtypes = (
            ["float32", "float16", "bfloat16"]
            if op == "avg"
            else ["int32", "float32", "float16", "bfloat16"]
        )
        elements = [data.draw(st.integers(0, 200)) for _ in asked]
        plan = synthesized((network, asked))
        case = (
            data.draw(st.sampled_from(dtypes)),
            op,
            data.draw(st.booleans()),
            data.draw(st.booleans()),
        )
        found.append((scripts_of(plan), elements, *case))

    collect()
    return found[:count]


def reference(scripts, elements, dtype, op):
    """What comes out of the floats of a case in one process, by rank."""
    from pccl.torch.arrays import TorchArrays
    from tests.runtime.torch_tasks import float_buffers

    buffers = [float_buffers(scripts, rank, elements, dtype, 3) for rank in range(scripts.ranks)]
    run_locally(scripts, buffers, op=op, elements=elements, arrays=TorchArrays(torch.device("cpu")))
    return [[pair.output.to(torch.float64).numpy() for pair in pairs] for pairs in buffers]


def test_random_plans_run_exactly_on_numpy_and_on_gloo(pool):
    """Integers are what the collectives promise; floats are the same bits as in one process, in the same order."""
    cases = random_cases(PLANS)
    assert len(cases) == PLANS
    for scripts, elements, _, op, in_place, _ in cases:
        found = trials(scripts, elements, op=op, dtype="float32" if op == "avg" else "int32")
        buffers = trial_buffers(scripts, found, in_place=in_place)
        run_locally(scripts, buffers, op=op, elements=elements)
        assert not any(wrong_elements(found, buffers))
    results = pool.run(f"{TASKS}:run_cases", cases)
    for number, (scripts, elements, dtype, op, _, _) in enumerate(cases):
        came = [results[rank][number] for rank in range(scripts.ranks)]
        if dtype == "int32":
            assert came == [0] * scripts.ranks
            continue
        for mine, wanted in zip(came, reference(scripts, elements, dtype, op), strict=True):
            for one, other in zip(mine, wanted, strict=True):
                np.testing.assert_array_equal(one, other)


def test_a_sample_of_the_quality_table_runs_exactly(pool):
    """``python -m benchmarks.run`` runs all rows of up to 16 NPUs; these have eight."""
    sample = [
        one
        for one in workloads()
        if one.section == "Machines, 1 KiB" and one.name.endswith(" dgx1")
    ]
    assert len(sample) == 6
    cases = []
    for workload in sample:
        machine = workload.topology()
        plan = pccl.synthesize(machine, *workload.collectives(machine.num_npus), effort="fast")
        scripts = scripts_of(plan)
        cases += [
            (scripts, [4099], dtype, "sum", False, False)
            for dtype in ("int32", "bfloat16", "float16")
        ]
    results = pool.run(f"{TASKS}:run_cases", cases)
    for number, (scripts, elements, dtype, op, _, _) in enumerate(cases):
        came = [row[number] for row in results]
        wanted = [0] * MOST if dtype == "int32" else reference(scripts, elements, dtype, op)
        np.testing.assert_equal(came, wanted)


# --- compile ----------------------------------------------------------------------------------------------------------


def test_a_plan_is_a_function_on_tensors(pool, plans):
    results = pool.run(f"{TASKS}:compiled", str(plans / "AllReduce.pccl"))[:4]
    total = [4.0 * i + 6 for i in range(6)]
    largest = [3.0 + i for i in range(6)]
    assert results == [[total, largest, [6.0, 10.0, 14.0], [[1.0, 1.0]] * 3]] * 4


def test_several_groups_and_those_who_relay_make_one_call(pool):
    """Two groups on a ring of four, whose members are not neighbours; rank 3 is in none of them."""
    ring = pccl.topology.ring(4, unidirectional=True)
    plan = pccl.synthesize(
        ring,
        pccl.AllReduce("4kB", group=[0, 2]),
        pccl.AllReduce("8kB", group=[1, 2]),
        effort="fast",
    )
    found = pool.run(f"{TASKS}:compiled_for_groups", scripts_of(plan), [5, 3])
    assert found[:4] == [[[4.0] * 5], [[5.0] * 3], [[4.0] * 5, [5.0] * 3], []]


def test_mistakes_are_named(pool, plans):
    scripts = scripts_of(pccl.load(plans / "AllReduce.pccl"))
    for messages in pool.run(f"{TASKS}:called_wrongly", scripts)[:4]:
        first, second, third, fourth = messages
        assert "the output of rank" in first
        assert "BAND" in second
        assert "with 2 outputs and 2 inputs" in third
        assert "tensors of bool" in fourth


# --- the backend ------------------------------------------------------------------------------------------------------


def test_unmodified_programs_are_served_from_a_folder_of_plans(pool, plans):
    found = []
    for wrong, served, heard in pool.run(f"{TASKS}:collectives", str(plans))[:4]:
        assert wrong == []
        assert served == {
            "all-reduce": 3,  # one of them is the barrier
            "all-gather": 1,
            "reduce-scatter": 1,
            "all-to-all": 2,
            "broadcast": 1,
            "reduce": 1,
            "gather": 1,
            "scatter": 1,
        }
        # Each reason is said once, by the first rank.
        assert len(heard) == len(set(heard))
        found.append(" ".join(heard))
    assert "no plan for broadcast with root 2" in found[0]
    assert "the operation BAND" in found[0]
    assert "all_gather into lists" in found[0]
    assert found[1:] == [""] * 3


@pytest.mark.parametrize(
    ("example", "calls"),
    [
        ("train_ddp", {"all-reduce"}),
        ("train_fsdp", {"all-gather", "reduce-scatter", "all-reduce"}),
    ],
)
def test_training_with_plans_is_training_with_gloo(pool, plans, example, calls):
    """Of two ranks a sum has one order, and the losses are the same bits; of four they are close."""
    for ranks in (2, 4):
        for gloo, ours, served in pool.run(f"{TASKS}:train", example, str(plans), ranks)[:ranks]:
            assert calls <= set(served)
            if ranks == 2:
                assert ours == gloo
            assert ours == pytest.approx(gloo, rel=1e-5)


# --- failures ---------------------------------------------------------------------------------------------------------


def kill_when(started, process):
    """Kill a process as soon as there is a file, which ranks make when they have begun."""
    while not started.exists():
        time.sleep(0.05)
    os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize("task", ["for_ever", "for_ever_behind_the_backend"])
def test_when_a_rank_is_killed_all_others_raise(plans, task, tmp_path):
    given = str(plans) if "backend" in task else scripts_of(pccl.load(plans / "AllReduce.pccl"))
    with Pool(4, CONNECT, timeout=20) as pool:
        started = tmp_path / "started"
        killer = threading.Thread(target=kill_when, args=(started, pool.processes[1]), daemon=True)
        killer.start()
        with pytest.raises(pccl.RunError, match=r"rank 1 has died \(SIGKILL\)"):
            pool.run(f"{TASKS}:{task}", given, str(started))
        killer.join()
        assert pool.errors.keys() == {0, 1, 2, 3}
        assert all("has lost" in str(pool.errors[rank]) for rank in (0, 2, 3))


def test_a_work_raises_what_has_gone_wrong():
    from pccl.torch.compile import Queue, work_of

    def fail():
        raise pccl.RunError("rank 3 has gone")

    queue = Queue()
    work = work_of(queue, fail, [])
    with pytest.raises(pccl.RunError, match="rank 3 has gone"):
        work.wait()
    with pytest.raises(pccl.RunError, match="rank 3 has gone"):
        work.get_future().wait()
    assert work.is_completed()
    queue.close()


@pytest.mark.parametrize("counts", [[8, 9], [4000, 8]])
def test_ranks_that_disagree_on_sizes_all_raise(plans, counts):
    """A rank that calls with more or less than the others; no two ranks need to say it in the same words."""
    each = [[8, 8] if counts[0] == 8 else [4000, 4000]] * 3 + [counts]
    with (
        Pool(4, CONNECT, timeout=10) as pool,
        pytest.raises(pccl.RunError, match="as many elements"),
    ):
        pool.run(
            f"{TASKS}:changes_its_mind", scripts_of(pccl.load(plans / "AllReduce.pccl")), each=each
        )


def test_ranks_that_have_other_plans_or_other_numbers_all_raise(plans):
    made = [scripts_of(pccl.load(plans / f"{kind}.pccl")) for kind in ("AllReduce", "AllGather")]
    with (
        Pool(4, CONNECT, timeout=10) as pool,
        pytest.raises(pccl.RunError, match="rank 2 has another plan than rank 0"),
    ):
        pool.run(f"{TASKS}:compile_own", each=[made[0], made[0], made[1], made[0]])
    five = scripts_of(pccl.synthesize(pccl.topology.ring(5), pccl.AllReduce("5kB")))
    with (
        Pool(4, CONNECT, timeout=10) as pool,
        pytest.raises(pccl.RunError, match="for 5 ranks, but there are 4"),
    ):
        pool.run(f"{TASKS}:compile_own", five)
