"""Algorithms exported to MSCCL++ and run by the interpreter; and that the interpreter notices what is done to them."""

from __future__ import annotations

import copy
import json
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.algorithm import Algorithm
from pccl.collective import Collective
from pccl.errors import InternalError, PcclError
from pccl.formats.mscclpp import assembly, writer
from pccl.formats.mscclpp.interpreter import check, execute
from pccl.formats.mscclpp.plan import parse
from pccl.formats.mscclpp.writer import write
from pccl.topology import parse_topology
from tests import renew_docs, strategies
from tests.end_to_end.program import pccl as run
from tests.end_to_end.program import refused
from tests.formats.programs import quick

Json = dict[str, Any]
GROUP = (0, 3, 6, 9, 15)
MACHINES = ["ring:4", "mesh:3x3", "mesh:4x4", "dgx1", "switch:8", "switch2d:4x2", "h100"]
KINDS = {
    "all-gather": pccl.AllGather, "reduce-scatter": pccl.ReduceScatter, "all-reduce": pccl.AllReduce,
    "all-to-all": pccl.AllToAll, "broadcast": pccl.Broadcast, "reduce": pccl.Reduce, "scatter": pccl.Scatter,
    "gather": pccl.Gather, "send-recv": pccl.SendRecv,
}  # fmt: skip
NOT_IN_PLACE = {"scatter", "gather", "send-recv", "all-to-all-v"}


@pytest.fixture(autouse=True)
def _no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are run by the tests themselves, once."""
    monkeypatch.setattr(writer, "MOST_TRIED", 0)


def collective(kind: str, members: int, chunks: int, group: tuple[int, ...] | None) -> Collective:
    if kind == "all-to-all-v":
        shares = [
            [1024 * chunks * ((i + 2 * j) % 3) for j in range(members)] for i in range(members)
        ]
        return pccl.AllToAllV(shares, group=group, chunks=chunks)
    return KINDS[kind](f"{members * chunks}KiB", group=group, chunks=chunks)  # type: ignore[abstract]


@cache
def synthesized(machine: str, kind: str, chunks: int) -> Algorithm:
    topology = parse_topology(machine)
    group = GROUP if machine == "mesh:4x4" else None
    members = len(group or topology.npus)
    return quick(topology, collective(kind, members, chunks, group))


def written(algorithm: Algorithm, path: Path, **options: Any) -> str:
    write(algorithm, path, **options)
    return path.read_text()


def plan(algorithm: Algorithm, folder: Path, **options: Any) -> Json:
    document: Json = json.loads(written(algorithm, folder / "a.plan.json", **options))
    return document


def problems(document: Json) -> list[str]:
    return [str(problem) for problem in execute(parse(json.dumps(document)))]


@pytest.mark.parametrize("chunks", [1, 4])
@pytest.mark.parametrize("kind", [*KINDS, "all-to-all-v"])
@pytest.mark.parametrize("machine", MACHINES)
def test_exported_plans_run_and_give_the_right_results(
    machine: str, kind: str, chunks: int, tmp_path: Path
) -> None:
    algorithm = synthesized(machine, kind, chunks)
    for in_place in (False, True):
        # Boxes of three put ports and memory into one plan; alternate, so that each is met with everything else.
        box = 3 if (chunks == 4) == in_place else None
        options: Json = {
            "in_place": in_place,
            "all_ranks": machine == "mesh:4x4",
            "ranks_per_box": box,
        }
        if in_place and kind in NOT_IN_PLACE:
            with pytest.raises(PcclError, match="no form in place"):
                write(algorithm, tmp_path / "a.plan.json", **options)
            continue
        write(algorithm, tmp_path / "a.plan.json", **options)
        assert check(tmp_path / "a.plan.json")[0] == []


@pytest.mark.parametrize("kind", ["all-gather", "all-reduce", "all-to-all"])
def test_instances_and_scarce_threadblocks(kind: str, tmp_path: Path) -> None:
    algorithm = synthesized("mesh:3x3", kind, 4)
    for options in ({"instances": 3, "ranks_per_box": 1}, {"max_threadblocks": 18}):
        document = plan(algorithm, tmp_path, **options)
        assert problems(document) == []
        assert all(
            len(gpu["threadblocks"]) <= options.get("max_threadblocks", 80)
            for gpu in document["gpus"]
        )


@pytest.mark.parametrize(
    ("kind", "most"), [("all-gather", 8), ("all-reduce", 18), ("all-to-all", 12)]
)
def test_messages_share_signals_where_there_is_no_room(
    kind: str, most: int, tmp_path: Path
) -> None:
    algorithm, path = synthesized("dgx1", kind, 16), tmp_path / "a.plan.json"
    options: Json
    for options in ({}, {"ranks_per_box": 3, "in_place": True}):
        said = write(algorithm, path, max_threadblocks=most, **options)["messages"]
        assert int(re.findall(r"at most (\d+) with one signal", said)[0]) > 1
        assert check(path)[0] == []


def test_ring_worked_example(tmp_path: Path) -> None:
    """Rank 0 of two puts its half into the output of rank 1, and takes in the other half."""
    algorithm = quick(parse_topology("line:2"), pccl.AllGather("2KiB"))
    gpu = plan(algorithm, tmp_path)["gpus"][0]
    assert [gpu["input_chunks"], gpu["output_chunks"], gpu["scratch_chunks"]] == [1, 2, 0]
    sender, receiver, copier = gpu["threadblocks"]
    assert [op["name"] for op in sender["ops"]] == [
        "rlxsignal",
        "rlxwait",
        "nop",
        "put",
        "nop",
        "signal",
    ]
    assert sender["ops"][3]["src_buff"] == [{"type": "i", "index": 0, "size": 1}]
    assert sender["ops"][3]["dst_buff"] == [{"buffer_id": 0, "index": 0, "size": 1}]
    assert [op["name"] for op in receiver["ops"]] == ["rlxsignal", "rlxwait", "wait"]
    assert [op["name"] for op in copier["ops"]] == ["copy"]
    assert gpu["remote_buffers"] == [{"rank": 1, "type": "o", "access_channel_types": ["memory"]}]
    assert gpu["channels"] == [{"channel_type": "memory", "connected_to": [1, 1]}]


def test_different_plans_have_different_names(tmp_path: Path) -> None:
    """Executors keep what they have set up for a plan by its name."""
    algorithm = synthesized("ring:4", "all-reduce", 1)
    options: list[Json] = [{}, {}, {"in_place": True}, {"instances": 2}, {"ranks_per_box": 2}]
    names = [plan(algorithm, tmp_path, **given)["name"] for given in options]
    assert names[0] == names[1]
    assert len(set(names)) == 4


def test_threads_of_a_threadblock(tmp_path: Path) -> None:
    algorithm = synthesized("ring:4", "all-reduce", 1)
    document = plan(algorithm, tmp_path, threads_per_block=512)
    assert document["num_threads_per_block"] == 512
    assert plan(algorithm, tmp_path)["num_threads_per_block"] == 1024


def test_in_place_gathers_address_the_output_only(tmp_path: Path) -> None:
    for kind, buffer in (("all-gather", "o"), ("reduce-scatter", "i")):
        document = plan(synthesized("mesh:3x3", kind, 1), tmp_path, in_place=True)
        ops = [
            op for gpu in document["gpus"] for block in gpu["threadblocks"] for op in block["ops"]
        ]
        used = {
            chunk["type"]
            for op in ops
            for chunk in op.get("src_buff", []) + op.get("dst_buff", [])
            if "type" in chunk
        }
        assert used - {"s"} == {buffer}
        assert {remote["type"] for gpu in document["gpus"] for remote in gpu["remote_buffers"]} <= {
            buffer,
            "s",
        }


CASES: list[tuple[str, str, Json]] = [
    ("ring:4", "all-reduce", {}),
    ("ring:4", "all-to-all", {"in_place": True, "ranks_per_box": 1}),
    ("switch:8", "reduce-scatter", {"ranks_per_box": 4}),
    ("mesh:3x3", "all-gather", {"in_place": True}),
]


@pytest.mark.parametrize(("machine", "kind", "options"), CASES)
def test_a_dropped_operation_is_noticed(
    machine: str, kind: str, options: Json, tmp_path: Path
) -> None:
    """Whatever is dropped; only a nop may turn out to be implied by what follows it."""
    document = plan(synthesized(machine, kind, 1), tmp_path, **options)
    where = [
        (rank, b, i)
        for rank, gpu in enumerate(document["gpus"])
        for b, block in enumerate(gpu["threadblocks"])
        for i, op in enumerate(block["ops"])
        if op["name"] != "nop"
    ]
    for rank, b, i in random.Random(1).sample(where, 30):
        damaged = copy.deepcopy(document)
        dropped = damaged["gpus"][rank]["threadblocks"][b]["ops"].pop(i)
        assert problems(damaged), (rank, b, i, dropped)


@pytest.mark.parametrize(("machine", "kind", "options"), CASES)
def test_a_wrong_place_is_noticed(machine: str, kind: str, options: Json, tmp_path: Path) -> None:
    document = plan(synthesized(machine, kind, 1), tmp_path, **options)
    where = [
        (rank, b, i, side)
        for rank, gpu in enumerate(document["gpus"])
        for b, block in enumerate(gpu["threadblocks"])
        for i, op in enumerate(block["ops"])
        for side in ("src_buff", "dst_buff")
        if side in op
    ]
    for rank, b, i, side in random.Random(2).sample(where, 15):
        damaged = copy.deepcopy(document)
        damaged["gpus"][rank]["threadblocks"][b]["ops"][i][side][0]["index"] += 1
        assert problems(damaged), (rank, b, i, side)


def first(document: Json, *names: str) -> tuple[list[Json], int]:
    """The first place where operations of these names follow each other."""
    for gpu in document["gpus"]:
        for block in gpu["threadblocks"]:
            found = [op["name"] for op in block["ops"]]
            for i in range(len(found) - len(names) + 1):
                if tuple(found[i : i + len(names)]) == names:
                    return block["ops"], i
    raise AssertionError(f"nowhere {names}")


@pytest.mark.parametrize(
    ("names", "i", "j", "said"),
    [
        (("put", "nop", "signal"), 0, 2, ("race", "may end before", "before anything is there")),
        (("sem_acquire", "nop", "put"), 0, 2, ("race", "before anything is there")),
        (("wait", "nop", "re"), 0, 2, ("race", "before anything is there")),
        (("rlxwait", "nop", "put"), 0, 2, ("without a handshake",)),
        (("re", "nop", "sem_release"), 0, 2, ("race", "before anything is there")),
    ],
)  # fmt: skip
def test_swapped_operations_are_noticed(
    names: tuple[str, ...], i: int, j: int, said: tuple[str, ...], tmp_path: Path
) -> None:
    document = plan(synthesized("ring:4", "all-reduce", 1), tmp_path)
    ops, k = first(document, *names)
    ops[k + i], ops[k + j] = ops[k + j], ops[k + i]
    assert any(text in line for line in problems(document) for text in said), problems(document)


def test_sixty_four_gpus(tmp_path: Path) -> None:
    gather = quick(parse_topology("h100:8"), pccl.AllGather("64MiB"))
    assert problems(plan(gather, tmp_path, ranks_per_box=8)) == []
    swap = plan(quick(parse_topology("switch:64"), pccl.AllToAll("64MiB")), tmp_path)
    assert max(len(gpu["threadblocks"]) for gpu in swap["gpus"]) == 80
    assert (
        sum(
            op["name"] == "put"
            for gpu in swap["gpus"]
            for b in gpu["threadblocks"]
            for op in b["ops"]
        )
        == 64 * 63
    )


def test_sixty_four_gpus_are_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long that takes: ``python -m benchmarks.export``."""
    monkeypatch.setattr(writer, "MOST_TRIED", 64 * 80 * 64)
    algorithm = quick(parse_topology("mesh:8x8"), pccl.AllToAll("64MiB"))
    said = write(algorithm, tmp_path / "a.plan.json")["checked"]
    assert said == "run by the interpreter: exact, without races or deadlock"


def test_what_no_joining_helps_is_refused_at_once(tmp_path: Path) -> None:
    algorithm = synthesized("mesh:3x3", "all-to-all", 16)
    with pytest.raises(PcclError, match=r"needs \d+ operations or more, .* --max-threadblocks"):
        write(algorithm, tmp_path / "a.plan.json", max_threadblocks=2)


def test_how_full_a_plan_is() -> None:
    """Twice the chunks are twice the operations."""
    one, two = (writer.fill(synthesized("ring:4", "all-gather", chunks)) for chunks in (1, 2))
    assert 0 < one < 0.01
    assert two == pytest.approx(2 * one, rel=0.1)


def test_messages_are_joined_until_threadblocks_are_enough(tmp_path: Path) -> None:
    """A rank that lacks many threadblocks gives up as much room at once."""
    algorithm = synthesized("mesh:3x3", "all-to-all", 4)
    said = write(algorithm, tmp_path / "a.plan.json", max_threadblocks=4)
    assert said["threadblocks"].endswith("at most 4 on a rank")


def test_too_many_operations_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        PcclError,
        match=r"(sends|receives) [\d,]+ batches of messages, .* has room for 64 .* --max-threadblocks",
    ):
        write(
            synthesized("mesh:3x3", "all-to-all", 4), tmp_path / "a.plan.json", max_threadblocks=3
        )
    with pytest.raises(
        PcclError, match=r"needs 3 threadblocks, 1 of them for \d copies, but may have 2; use fewer"
    ):
        write(
            synthesized("ring:4", "all-to-all", 1),
            tmp_path / "a.plan.json",
            in_place=True,
            max_threadblocks=2,
        )
    assert not (tmp_path / "a.plan.json").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"instances": 0}, "instances must be a positive whole number"),
        ({"instances": 50}, "50 instances need at least 100 threadblocks"),
        ({"ranks_per_box": -1}, "ranks_per_box must be a positive"),
        (
            {"min_bytes": "1MiB", "max_bytes": "1KiB"},
            r"from min_bytes \(1048576\) to max_bytes \(1024\) there are no sizes",
        ),
        (
            {"max_bytes": "8GiB"},
            "kernels count the bytes of 4 chunks with 32 bits: up to 4293918720",
        ),
        ({"min_bytes": "1"}, "min_bytes"),
        ({"threads_per_block": 2048}, "threads_per_block is 2048; a threadblock has at most 1024"),
    ],
)
def test_bad_options(options: Json, said: str, tmp_path: Path) -> None:
    with pytest.raises(PcclError, match=said):
        write(synthesized("ring:4", "all-gather", 1), tmp_path / "a.plan.json", **options)


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    ring, path = parse_topology("ring:4"), tmp_path / "a.plan.json"
    custom = pccl.Custom([pccl.Condition(0, (1, 2), "1KiB")])
    with pytest.raises(PcclError, match="no call of MSCCL"):
        write(quick(ring, custom), path)
    two = quick(ring, pccl.AllGather("1KiB", group=(0, 1)), pccl.AllToAll("1KiB", group=(3, 2)))
    with pytest.raises(PcclError, match="2 collectives"):
        write(two, path)
    with pytest.raises(PcclError, match="no collective 2"):
        write(two, path, collective=2)
    assert json.loads(written(two, path, collective=1))["collective"] == "alltoall"
    with pytest.raises(PcclError, match=r"relays through .* outside the group .* --all-ranks"):
        write(synthesized("mesh:4x4", "all-gather", 1), path, all_ranks=False)
    with pytest.raises(PcclError, match="cannot write"):
        write(synthesized("ring:4", "all-gather", 1), tmp_path)


def test_plans_are_tried_before_they_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm, path = synthesized("ring:4", "all-gather", 1), tmp_path / "a.plan.json"
    assert write(algorithm, path)["checked"].startswith("no, with 1")
    monkeypatch.setattr(writer, "MOST_TRIED", 1000)
    assert (
        write(algorithm, path)["checked"]
        == "run by the interpreter: exact, without races or deadlock"
    )
    path.unlink()
    monkeypatch.setattr(assembly, "MAX_CHANNELS_OF_OP", 0)
    monkeypatch.setattr(assembly, "_parts", lambda *_: [])
    with pytest.raises(InternalError, match="the plan that was to be written is wrong: "):
        write(algorithm, path)
    assert not path.exists()


def test_through_the_registry(tmp_path: Path) -> None:
    path = tmp_path / "a.plan.json"
    facts = pccl.export(
        synthesized("ring:4", "all-gather", 4), path, min_bytes="1KiB", in_place=True
    )
    assert facts["sizes"] == "buffers of 16 chunks, each a multiple of 16B; 1KiB to 4095MiB in all"
    assert json.loads(path.read_text())["min_message_size"] == 1024
    found = pccl.check(path)
    assert found.problems == ()
    assert re.fullmatch(
        "pccl_allgather_4_[0-9a-f]{8}: allgather of 4 ranks, in place", found.facts["plan"]
    )
    assert found.facts["results"] == "exact, without races or deadlock"
    assert pccl.check(path, group=[0, 1], root=9).problems == ("the root 9 is not a member",)


@settings(max_examples=25, deadline=None)
@given(problem=strategies.problems(), data=st.data())
def test_plans_of_anything(
    problem: Any, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Uneven networks, switches that add, relays: a plan that is right, or one line on why there is none."""
    algorithm = strategies.synthesized(problem, effort="fast")
    options = {
        "collective": data.draw(st.integers(0, len(algorithm.collectives) - 1)),
        "in_place": data.draw(st.booleans()),
        "ranks_per_box": data.draw(st.sampled_from([None, 1, 2])),
        "instances": data.draw(st.integers(1, 2)),
        "max_threadblocks": data.draw(st.sampled_from([8, 80])),
        "all_ranks": True,
        # However long its messages take.
        "lowered": True,
    }
    try:
        document = plan(algorithm, tmp_path_factory.mktemp("plans"), **options)
    except PcclError as error:
        said = str(error)
    else:
        assert problems(document) == []
        return
    assert re.search(
        "in place|no call of MSCCL|what it no longer has|max_threadblocks|group of one", said
    ), said


def test_the_page_shows_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MOST_TRIED", 100_000)
    monkeypatch.chdir(tmp_path)
    page = (renew_docs.ROOT / "docs" / "export-mscclpp.md").read_text(encoding="utf-8")
    blocks = renew_docs.BLOCK.findall(page)
    shown = [pair for block in blocks for pair in renew_docs.commands(block)]
    assert len(shown) == 3
    for command, expected in shown:
        got, wanted = (re.sub(r"_\w{8}:", "", text) for text in (renew_docs.run(command), expected))
        assert renew_docs.masked(got) == renew_docs.masked(wanted), command


def test_from_the_command_line(tmp_path: Path) -> None:
    algorithm, path = tmp_path / "ring.pccl", tmp_path / "ring.plan.json"
    synthesized("ring:4", "all-reduce", 1).save(algorithm)
    done = run(
        "export", algorithm, "-f", "mscclpp", "-o", path, "--ranks-per-box", "2", "--instances", "2"
    )
    assert "at most 8 on a rank" in done.stdout
    assert "correct" in run("check", path).stdout
    path.write_text(path.read_text().replace('"allreduce"', '"reducescatter"'))
    assert "the buffers do not fit reducescatter" in refused("check", path, status=1)
    path.write_text("{}")
    assert "missing required field `name`" in refused("check", path)
