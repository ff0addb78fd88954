"""A library of plans: the fewest that lose little, nothing done twice, and work that survives lost processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pccl
from pccl import AllGather, AllReduce, PcclError, tune
from pccl.topology import parse_topology
from pccl.tuning.choice import fewest, split
from pccl.tuning.work import TRIES
from tests.end_to_end.program import PROGRAM, refused
from tests.end_to_end.program import pccl as run

RING = parse_topology("ring:4")
FAST = pccl.Settings(effort="fast")


@given(
    st.integers(1, 4).flatmap(
        lambda plans: st.lists(
            st.lists(st.integers(1, 4), min_size=plans, max_size=plans), min_size=1, max_size=6
        )
    )
)
def test_ranges_are_as_few_as_can_be(columns):
    """Against all ways to cut the sizes into ranges."""
    times = np.array(columns, float).T
    loss = 0.5
    found = fewest(times, loss)
    sizes = times.shape[1]
    assert [place for one in found for place in range(one.first, one.last + 1)] == list(
        range(sizes)
    )
    for one in found:
        span = slice(one.first, one.last + 1)
        assert np.all(times[one.plan, span] <= 1.5 * times[:, span].min(axis=0))

    def possible(cuts):
        edges = [0, *cuts, sizes]
        return all(
            any(np.all(row[a:b] <= 1.5 * times[:, a:b].min(axis=0)) for row in times)
            for a, b in pairwise(edges)
        )

    assert not any(
        possible(cuts)
        for count in range(len(found) - 1)
        for cuts in combinations(range(1, sizes), count)
    )


def test_groups_get_plans_of_their_own():
    """Both are correct alone, and as they were found together."""
    groups = pccl.device_mesh(dp=2, tp=4)["tp"]
    both = pccl.synthesize(
        parse_topology("mesh:2x4"), *(AllReduce("4MiB", group) for group in groups)
    )
    parts = split(both)
    assert [part.collectives[0].ranks for part in parts] == [tuple(group) for group in groups]
    for part in parts:
        pccl.verify(part)
    assert sum(len(part.transfers) for part in parts) == len(both.transfers)


def test_the_folder(tmp_path):
    library = tune(
        RING, [AllGather("1MiB"), AllReduce("1MiB")], tmp_path, sizes="4KiB:1MiB", target="mscclpp"
    )
    index = json.loads((tmp_path / "index.json").read_text())
    assert (index["format"], index["version"], index["target"]) == ("pccl-plans", 1, "mscclpp")
    for kind in ("all-gather", "all-reduce"):
        plans = [plan for plan in index["plans"] if plan["collective"] == kind]
        # One after another, from the smallest size to all that are larger.
        assert plans[0]["first"] == 4096
        assert [plan["end"] for plan in plans] == [*(plan["first"] for plan in plans[1:]), None]
        for plan in plans:
            pccl.verify(pccl.load(tmp_path / plan["file"]))
            assert pccl.check(tmp_path / plan["runtime_file"], "mscclpp")
    for point in library.curves:
        assert point.bound <= point.best <= point.time <= 1.02 * point.best
    page = (tmp_path / "index.html").read_text()
    assert "<svg" in page
    assert "all-reduce-0.pccl" in page


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("mscclpp", r'"min_message_size": (\d+),\s*"max_message_size": (\d+)'),
        ("msccl", r'minBytes="(\d+)" maxBytes="(\d+)"'),
    ],
)
def test_files_for_runtimes_say_which_sizes_they_are_for(tmp_path, target, told):
    """One begins where another ends; the first is for all that is smaller, the last for all that is larger."""
    work = {"sizes": "4KiB:4MiB", "step": 32, "loss": 0.0, "target": target}
    library = tune(RING, [AllGather("1MiB")], tmp_path, **work)
    assert len(library.plans) > 1
    found = []
    for plan in library.plans:
        text = (tmp_path / plan.runtime_file).read_text()
        found.append(tuple(map(int, re.search(told, text).groups())))
    assert found[0][0] == 0
    assert found[-1][1] > 2**30
    for (_, before), (after, _), plan in zip(found, found[1:], library.plans[1:], strict=False):
        assert (before + 1, after) == (plan.first, plan.first)


def test_no_plan_is_worse_than_what_people_have_today(tmp_path):
    """Where one pass finds nothing better, the plan is NCCL's own."""
    library = tune(
        parse_topology("h100:2"),
        [AllReduce("1MiB")],
        tmp_path,
        sizes="1MiB:64MiB",
        step=64,
        settings=FAST,
    )
    assert all(point.best <= point.nccl for point in library.curves)
    for plan in library.plans:
        pccl.verify(pccl.load(tmp_path / plan.file))


@pytest.mark.parametrize("target", ["torch", "mscclpp"])
def test_plans_need_nothing_of_switches_that_the_runtime_does_not_use(tmp_path, target):
    able = parse_topology("switch:4,multicast=yes,reduce=yes")
    library = tune(
        able, [AllReduce("1MiB")], tmp_path, sizes="1MiB:1MiB", target=target, settings=FAST
    )
    plan = pccl.load(tmp_path / library.plans[0].file)
    assert plan.needs == ()
    # So NVLS, which is what people have there, is faster than any plan that these runtimes can keep.
    assert library.curves[0].nccl < library.curves[0].bound


def test_nothing_finished_is_done_twice(tmp_path, monkeypatch):
    first = tune(RING, [AllGather("1MiB")], tmp_path, sizes="4KiB:64KiB", settings=FAST)

    def never(*_, **__):
        raise AssertionError("done twice")

    monkeypatch.setattr("pccl.tuning.work.perform", never)
    again = tune(RING, [AllGather("1MiB")], tmp_path, sizes="4KiB:64KiB", settings=FAST)
    assert again.plans == first.plans
    assert (first.done_before, again.done_before) == (0, 3)
    with pytest.raises(AssertionError, match="done twice"):
        tune(RING, [AllGather("1MiB")], tmp_path, sizes="4KiB:256KiB", settings=FAST)


def test_plans_of_an_earlier_index_do_not_stay(tmp_path):
    tune(RING, [AllGather("1MiB"), AllReduce("1MiB")], tmp_path, sizes="4KiB:4KiB", settings=FAST)
    tune(RING, [AllGather("1MiB")], tmp_path, sizes="4KiB:4KiB", settings=FAST)
    assert [path.name for path in tmp_path.glob("*.pccl")] == ["all-gather-0.pccl"]


def test_ctrl_c_keeps_what_is_finished(tmp_path, monkeypatch):
    from pccl.tuning import work

    done = []

    def stopped(task):
        if done:
            raise KeyboardInterrupt
        done.append(task)
        return perform(task)

    perform = work.perform
    monkeypatch.setattr(work, "perform", stopped)
    with pytest.raises(PcclError, match="interrupted; 1 of 3 plans are finished and kept"):
        tune(RING, [AllGather("1MiB")], tmp_path, sizes="4KiB:64KiB", settings=FAST)


def test_a_search_that_ctrl_c_cuts_short_is_not_kept(tmp_path, monkeypatch):
    """It catches Ctrl-C, and returns the best that it has found by then."""
    from pccl.synthesis import Entry
    from pccl.tuning import tasks

    def cut_short(*task, settings, log):
        found = pccl.synthesize(*task, settings=settings)
        log(Entry(0.0, "", found.duration, found.duration, interrupted=True))
        return found

    monkeypatch.setattr(tasks, "synthesize", cut_short)
    with pytest.raises(pccl.StoppedError, match="interrupted; 0 of 1 plans"):
        tune(RING, [AllGather("1MiB")], tmp_path, sizes="4KiB:4KiB", settings=FAST)
    assert not list(tmp_path.glob("work/*"))


def test_ctrl_c_ends_all_processes(tmp_path):
    command = ["tune", "-t", "mesh:4x4", "--collectives", "all-reduce", "--jobs", "2"]
    process = subprocess.Popen(
        [*PROGRAM, *command, "-o", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while process.poll() is None and not list(tmp_path.glob("work/*.json")):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate()[1]
    assert process.returncode == 130
    assert "of 11 plans are finished and kept: the same command goes on from there" in said


def test_what_is_asked_for_twice_is_refused(tmp_path):
    both = [AllGather("1MiB"), AllGather("2MiB")]
    with pytest.raises(PcclError, match="all-gather is asked for twice"):
        tune(RING, both, tmp_path, sizes="4KiB:4KiB", settings=FAST)


@pytest.mark.parametrize(
    ("collectives", "sizes", "problem"),
    [
        ("all-gather,", "1KiB:4KiB", "nothing before or after a comma"),
        ("all-gather", "1KiB:", "last of the sizes ''"),
        ("all-gather", "4KiB:1KiB", "an empty range"),
    ],
)
def test_flags_that_say_nothing(tmp_path, collectives, sizes, problem):
    flags = ("--collectives", collectives, "--sizes", sizes, "-o", tmp_path / "plans")
    assert problem in refused("tune", "-t", "ring:4", *flags)


class Breaking(ThreadPoolExecutor):
    """An executor that loses the first of its tasks, as one does whose machine is gone."""

    lost = 0

    def submit(self, function, /, *arguments):
        def gone(*_):
            raise OSError("the machine is gone")

        if self.lost < self.most:
            self.lost += 1
            return super().submit(gone)
        return super().submit(function, *arguments)


@pytest.mark.parametrize("most", [1, TRIES])
def test_what_is_lost_is_done_by_others(tmp_path, most):
    pool = Breaking(1)
    pool.most = most
    work = {"sizes": "4KiB:4KiB", "settings": FAST, "executor": pool}
    if most == TRIES:
        with pytest.raises(OSError, match="the machine is gone"):
            tune(RING, [AllGather("1MiB")], tmp_path, **work)
    else:
        assert len(tune(RING, [AllGather("1MiB")], tmp_path, **work).plans) == 1


def test_after_kill_9_it_goes_on(tmp_path):
    """In the middle, with processes of its own; then again to the end."""
    command = [
        "tune",
        "-t",
        "ring:4",
        "--collectives",
        "all-gather,all-reduce",
        "--sizes",
        "4KiB:1MiB",
        "--json",
    ]
    command += ["--effort", "fast", "--jobs", "2", "-o", str(tmp_path)]
    process = subprocess.Popen(
        [*PROGRAM, *command], stdout=subprocess.DEVNULL, start_new_session=True
    )
    work = tmp_path / "work"
    while process.poll() is None and len(list(work.glob("*.json"))) < 2:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in work.glob("*.json")}
    assert len(kept) >= 2
    result = json.loads(run(*command).stdout)
    assert result["done_before"] == len(kept)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_a_cluster_of_which_a_process_is_killed(tmp_path):
    """A real one, of Dask."""
    distributed = pytest.importorskip("distributed")
    here = str(Path(__file__).parents[2])
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(lambda: __import__("sys").path.insert(0, here))
        victim = next(iter(client.run(os.getpid).values()))
        killed = []

        def kill(done, total, text):
            if done >= 1 and not killed:
                os.kill(victim, signal.SIGKILL)
                killed.append(done)

        library = tune(
            RING, [AllGather("1MiB")], tmp_path, sizes="4KiB:1MiB", settings=FAST,
            executor=client.get_executor(), progress=kill,
        )  # fmt: skip
    assert killed
    assert len(library.curves) == 5


def test_jobs_of_submitit_of_which_one_is_killed(tmp_path, monkeypatch):
    """Real ones, in processes of this machine; they are no futures, and have to be asked whether they are done."""
    submitit = pytest.importorskip("submitit")

    class Killing(submitit.LocalExecutor):
        killed = 0

        def _submit_command(self, command):
            job = super()._submit_command(command)
            if not self.killed:
                os.kill(int(job.job_id), signal.SIGKILL)
                self.killed += 1
            return job

    executor = Killing(tmp_path / "logs")
    # Seconds to wait for what a lost job may still write.
    monkeypatch.setattr(submitit.LocalJob, "_results_timeout_s", 0)
    library = tune(
        RING, [AllGather("1MiB")], tmp_path / "plans", sizes="4KiB:16KiB", settings=FAST, executor=executor,
    )  # fmt: skip
    assert executor.killed == 1
    assert len(library.curves) == 2
    assert len(list((tmp_path / "logs").glob("*_result.pkl"))) == 2


def test_mistakes_come_back_from_processes_as_they_are(tmp_path):
    """They are not tried again."""
    unreachable = pccl.Topology.from_links(2, [pccl.Link(0, 1, "1GB/s", "0ns")])
    with ThreadPoolExecutor(1) as pool, pytest.raises(pccl.InfeasibleError):
        tune(unreachable, [AllGather("1MiB")], tmp_path, sizes="4KiB:4KiB", executor=pool)
    with pytest.raises(pccl.InfeasibleError):
        tune(unreachable, [AllGather("1MiB")], tmp_path, sizes="4KiB:4KiB", jobs=2)


def test_the_command(tmp_path):
    shown = run("tune", "-t", "mesh:2x2", "--collectives", "all-gather", "--mesh", "dp=2,tp=2", "--along", "tp",
                "--sizes", "4KiB:4KiB", "--effort", "fast", "-o", tmp_path).stdout  # fmt: skip
    assert "all-gather-0-group0.pccl" in shown
    assert "all-gather-0-group1.pccl" in shown
    assert "1 of 1 plans kept" in shown


def test_a_machine_as_it_is_today(tmp_path):
    """One of four links has failed, and the others are slower than they should be."""
    common = ("--collectives", "all-gather", "--sizes", "1MiB:1MiB", "--effort", "fast", "--json")
    times = {}
    for name, flags in {
        "whole": (),
        "damaged": ("--without", "0:1"),
        "slow": ("--without", "0:1", "--set", "*:*.bandwidth=50%"),
    }.items():
        folder = tmp_path / name
        index = json.loads(run("tune", "-t", "ring:4", *flags, *common, "-o", folder).stdout)
        times[name] = index["curves"][0]["time"]
        plan = pccl.load(folder / index["plans"][0]["file"])
        pccl.verify(plan)
        assert plan.topology.num_links == (8 if name == "whole" else 6)
    assert times["whole"] < times["damaged"] < times["slow"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--collectives", "all-good"), "all-good"),
        (("--collectives", "all-to-all-v"), "all-to-all-v has no 'size'"),
        (("--sizes", "4M:1M"), "an empty range"),
        (("--mesh", "dp=2"), "--mesh needs --along"),
        (("--loss", "200%"), "the loss must be a share"),
        (("--for", "cuda"), "invalid value for '--for'"),
        (("-t", "torus:3x3x3x3x3x3x3x3x3x3x3"), "chunks to deliver"),
        (("-o", "/dev/null"), "it is not a folder"),
        (("--without", "npu9"), "ring:4 has no device 'npu9'"),
        (("--set", "0:1.speed=1"), "speed"),
    ],
)
def test_wrong_questions_get_one_line(tmp_path, flags, message):
    given = {"-t": "ring:4", "--collectives": "all-gather", "-o": str(tmp_path / "plans")} | dict(
        [flags]
    )
    assert message in refused("tune", *(word for pair in given.items() for word in pair))


def test_running_programs_choose_by_the_index(tmp_path):
    """From its first size on, until the next plan serves; below all of them the first."""
    from pccl.runtime.plans import Plans

    library = tune(RING, [AllGather("1MiB")], tmp_path, sizes="4KiB:4MiB", step=32, loss=0.0)
    plans = Plans(tmp_path)
    for point in library.curves:
        assert plans.find("all-gather", range(4), point.size).path.name == point.plan
        assert plans.find("all-gather", range(4), point.size + 1).path.name == point.plan
    assert plans.find("all-gather", range(4), 8).path.name == library.plans[0].file
    (tmp_path / "index.json").write_text("[]")
    with pytest.raises(PcclError, match="is not an index of plans"):
        Plans(tmp_path)
