"""MSCCL-IR: what is exported runs exactly, and what has been tampered with is caught."""

from __future__ import annotations

import re
from functools import cache

import pytest

import pccl
from pccl.formats.msccl.file import read
from pccl.formats.msccl.interpreter import check
from pccl.formats.msccl.writer import write
from pccl.units import Bytes
from tests.formats.programs import quick

KINDS = {
    "all-gather": pccl.AllGather, "reduce-scatter": pccl.ReduceScatter, "all-reduce": pccl.AllReduce,
    "all-to-all": pccl.AllToAll,
}  # fmt: skip
ROOTED = (pccl.Broadcast, pccl.Reduce, pccl.Gather, pccl.Scatter)
GROUP = (0, 3, 5, 10, 15)
TOPOLOGIES = {
    "ring": lambda: pccl.topology.ring(4),
    "mesh": lambda: pccl.topology.mesh(3, 3),
    "relayed group": lambda: pccl.topology.mesh(4, 4),
    "dgx1": lambda: pccl.topology.parse_topology("dgx1"),
    "switch": lambda: pccl.topology.switch(8),
    "2d switch": lambda: pccl.topology.switch_2d(4, 2),
    "h100": lambda: pccl.topology.parse_topology("h100"),
}


@cache
def synthesized(name: str, kind: str, chunks: int) -> pccl.Algorithm:
    topology = TOPOLOGIES[name]()
    group = GROUP if name == "relayed group" else None
    members = topology.num_npus if group is None else len(group)
    return quick(
        topology, KINDS[kind](Bytes(members * chunks * 64 * 1024), group=group, chunks=chunks)
    )


def correct(path, **options) -> dict[str, str]:
    problems, facts = check(path, **options)
    assert problems == []
    return facts


@pytest.mark.parametrize("chunks", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_everything_runs_everywhere(name, kind, chunks, tmp_path):
    algorithm, outsiders = synthesized(name, kind, chunks), name == "relayed group"
    path = tmp_path / "a.xml"
    for in_place in (
        (False, True) if kind == "all-to-all" else (None,)
    ):  # None: one file for both, run for both
        write(algorithm, path, in_place=in_place, all_ranks=outsiders)
        algo = read(path)[0]
        assert (algo.inplace, algo.outofplace) == {None: (1, 1), False: (0, 1), True: (1, 0)}[
            in_place
        ]
        assert 0 < algo.maxBytes < 2**62
        # One message at a time is enough for every connection.
        correct(path, group=GROUP if outsiders else None, depth=1)


@pytest.mark.parametrize("kind", KINDS)
def test_instances_protocols_channels_and_targets(kind, tmp_path):
    algorithm = synthesized("ring", kind, 4)
    path = tmp_path / "a.xml"
    for target in ("executor", "rccl", "msccl"):
        for options in ({"instances": 3}, {"protocol": "LL128", "channels": 1}):
            write(algorithm, path, target=target, **options)
            correct(path, target=target)
    one, many = (
        read(p)[0]
        for p in (path, tmp_path / "b.xml")
        if write(algorithm, p, channels=1 if p == path else 9)
    )
    assert one.nchannels < many.nchannels
    assert one.nchunksperloop == many.nchunksperloop == 16


def test_only_in_place_needs_no_copies(tmp_path):
    path = tmp_path / "a.xml"
    for in_place, copies in ((True, 0), (False, 4), (None, 4)):
        write(synthesized("ring", "all-gather", 1), path, in_place=in_place)
        assert path.read_text().count('"cpy"') == copies


def test_neighbours_travel_together(tmp_path):
    write(synthesized("switch", "all-to-all", 4), tmp_path / "a.xml")
    counts = {
        step.cnt
        for gpu in read(tmp_path / "a.xml")[0].gpus
        for tb in gpu.threadblocks
        for step in tb.steps
    }
    assert counts == {4}


def test_routes_that_do_not_depend_on_each_other_have_channels_of_their_own(tmp_path):
    """On a ring, what a rank sends of its own does not wait behind what it passes on."""
    write(synthesized("ring", "all-gather", 4), tmp_path / "a.xml")
    for gpu in read(tmp_path / "a.xml")[0].gpus:
        for tb in (tb for tb in gpu.threadblocks if tb.send >= 0):
            assert len({step.srcbuf for step in tb.steps}) == 1


def test_sending_and_receiving_are_apart(tmp_path):
    write(synthesized("mesh", "all-reduce", 4), tmp_path / "a.xml")
    for gpu in read(tmp_path / "a.xml")[0].gpus:
        assert all(tb.send < 0 or tb.recv < 0 for tb in gpu.threadblocks)


def test_a_group_exports_as_its_ranks(tmp_path):
    algorithm = quick(pccl.topology.ring(6), pccl.AllReduce("3kB", group=[4, 2, 3]))
    write(algorithm, tmp_path / "a.xml")
    assert read(tmp_path / "a.xml")[0].ngpus == 3
    correct(tmp_path / "a.xml")


def test_ranks_with_nothing_to_do_are_there(tmp_path):
    algorithm = quick(pccl.topology.ring(6), pccl.AllGather("2kB", group=[0, 1]))
    write(algorithm, tmp_path / "a.xml", all_ranks=True)
    assert all(len(gpu.threadblocks) >= 1 for gpu in read(tmp_path / "a.xml")[0].gpus)
    correct(tmp_path / "a.xml", group=[0, 1])


# --- what cannot be written ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*ROOTED, pccl.SendRecv])
def test_collectives_that_runtimes_cannot_choose(kind, tmp_path):
    algorithm = quick(pccl.topology.ring(4), kind("4kB"))
    reason = "cannot tell apart by their roots" if kind in ROOTED else "does not know"
    with pytest.raises(pccl.PcclError, match=f"not for {kind.kind}, which it {reason}"):
        write(algorithm, tmp_path / "a.xml")
    assert not (tmp_path / "a.xml").exists()


def test_relays_outside_the_group(tmp_path):
    with pytest.raises(pccl.PcclError, match=r"outside the group of 5 NPUs .*--all-ranks"):
        write(synthesized("relayed group", "all-gather", 1), tmp_path / "a.xml", all_ranks=False)
    facts = write(synthesized("relayed group", "all-gather", 1), tmp_path / "a.xml")
    assert facts["group"] == "ranks 0,3,5,10,15; the others only relay"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "nccl"}, "no target 'nccl'; there are executor, rccl, msccl"),
        ({"protocol": "LL64"}, "no protocol 'LL64'; there are Simple, LL, LL128"),
        ({"instances": 0}, "instances must be a positive whole number"),
        ({"min_bytes": "2MiB", "max_bytes": "1MiB"}, "sizes from 2MiB to 1MiB are none"),
        ({"min_bytes": "12"}, "has no unit"),
        ({"padded": True}, "padded is for all-to-all-v"),
        ({"collective": 1}, "there is no collective 1"),
        ({"instances": 40}, "more than 32 channels"),
        (
            {"target": "rccl", "instances": 20},
            r"threadblocks to send to 2 others, more than the 64 of RCCL",
        ),
    ],
)
def test_wrong_options_and_limits(options, message, tmp_path):
    with pytest.raises(pccl.PcclError, match=message):
        write(synthesized("ring", "all-gather", 1), tmp_path / "a.xml", **options)


def test_the_original_runtime_has_no_all_to_all_in_place(tmp_path):
    with pytest.raises(pccl.PcclError, match="no alltoall in place"):
        write(
            synthesized("ring", "all-to-all", 1), tmp_path / "a.xml", target="msccl", in_place=True
        )


def test_several_collectives_are_written_one_by_one(tmp_path):
    algorithm = quick(
        pccl.topology.mesh(2, 4),
        pccl.AllReduce("4kB", group=range(4)),
        pccl.AllGather("4kB", group=range(4, 8)),
    )
    with pytest.raises(pccl.PcclError, match="runs 2 at once; say which"):
        write(algorithm, tmp_path / "a.xml")
    for which, coll in enumerate(("allreduce", "allgather")):
        write(algorithm, tmp_path / "a.xml", collective=which, all_ranks=True)
        assert read(tmp_path / "a.xml")[0].coll == coll
        correct(tmp_path / "a.xml", group=range(4 * which, 4 * which + 4))


# --- unequal shares --------------------------------------------------------------------------------------------------

MATRIX = [[4096, 1024, 0], [3072, 0, 2048], [1024, 1024, 1024]]


def test_unequal_shares_need_padding(tmp_path):
    algorithm = quick(pccl.topology.ring(3), pccl.AllToAllV(MATRIX, chunks=1))
    with pytest.raises(
        pccl.PcclError, match=r"never choose a file for alltoallv.*'pccl export --padded'"
    ):
        write(algorithm, tmp_path / "a.xml")


@pytest.mark.parametrize("instances", [1, 2])
@pytest.mark.parametrize("chunks", [1, 4])
def test_unequal_shares_in_room_for_the_largest(tmp_path, instances, chunks):
    matrix = [[entry * chunks for entry in row] for row in MATRIX]
    algorithm = quick(pccl.topology.ring(3), pccl.AllToAllV(matrix, chunks=chunks))
    write(algorithm, tmp_path / "a.xml", padded=True, instances=instances)
    instances *= chunks
    assert (
        read(tmp_path / "a.xml")[0].nchunksperloop == 12 * instances
    )  # of 1 KiB, the common divisor
    shares = [[entry // 1024 * instances for entry in row] for row in MATRIX]
    correct(tmp_path / "a.xml", shares=shares)
    said = correct(tmp_path / "a.xml")["padded"]  # the file says it as well
    assert said.startswith(
        f"{13 * instances} of {36 * instances} chunks are used, the beginning of every share"
    )
    more = [[entry + 1 if entry < 4 * instances else entry for entry in row] for row in shares]
    assert "is not what alltoall promises" in check(tmp_path / "a.xml", shares=more)[0][0]


@pytest.mark.parametrize("matrix", [[[0, 4999], [1, 0]], [[4999, 1], [1, 0]]])
def test_what_cannot_be_divided_further_is_refused(matrix, tmp_path):
    """A message, or a copy, of so many chunks that their steps fill more than a threadblock."""
    algorithm = quick(pccl.topology.ring(2), pccl.AllToAllV(matrix, chunks=1))
    with pytest.raises(
        pccl.PcclError, match=r"rank \d needs 71 steps for one message or copy, more than the 64"
    ):
        write(algorithm, tmp_path / "a.xml", padded=True)


@pytest.mark.parametrize("padded", [False, True])
def test_shares_that_are_all_empty_need_no_file(padded, tmp_path):
    algorithm = quick(pccl.topology.ring(3), pccl.AllToAllV([[0] * 3] * 3, chunks=1))
    with pytest.raises(pccl.PcclError, match="all shares are empty"):
        write(algorithm, tmp_path / "a.xml", padded=padded)


def test_corruptions_of_padded_files_are_caught(tmp_path):
    path = tmp_path / "a.xml"
    write(quick(pccl.topology.ring(3), pccl.AllToAllV(MATRIX, chunks=1)), path, padded=True)
    text = path.read_text()
    lines = [line for line in text.splitlines() if "<step" in line]
    for line in lines:
        used = "dstoff" if 'type="r"' in line else "srcoff"
        wrong = re.sub(
            rf'{used}="(\d+)"',
            lambda match: match[0].replace(match[1], str(int(match[1]) ^ 1)),
            line,
        )
        for damaged in ("", wrong):
            path.write_text(text.replace(line, damaged, 1))
            assert check(path)[0], (line, damaged)
    for old, new, said in (
        (
            'sender="0" shares="4 1 0"',
            'sender="0" shares="4 2 0"',
            "gpu 1: o[1] is not what alltoall promises",
        ),
        (
            'shares="4 1 0"',
            'shares="4 1"',
            "pccl: gpu 0 sends 4, 1 chunks, which are not 3 numbers from 0 to 4",
        ),
        (
            'shares="4 1 0"',
            'shares="5 1 0"',
            "pccl: gpu 0 sends 5, 1, 0 chunks, which are not 3 numbers from 0 to 4",
        ),
        ('shares="4 1 0"', 'shares="4 x 0"', "'4 x 0' of <pccl> is not a list of whole numbers"),
        (
            'sender="0"',
            'sender="7"',
            "pccl: it says how much gpus 1, 2, 7 send, which is not each of 0 to 2",
        ),
        ('coll="alltoall"', 'coll="allreduce"', "pccl: it says how much of its shares is sent"),
    ):
        assert old in text
        path.write_text(text.replace(old, new, 1))
        assert said in "\n".join(check(path)[0])


def test_long_lists_are_cut(tmp_path):
    """Values have at most 255 characters."""
    matrix = [[390 + j for j in range(70)], *([[0] * 70] * 69)]
    write(
        quick(pccl.topology.fully_connected(70), pccl.AllToAllV(matrix, chunks=1)),
        tmp_path / "a.xml",
        padded=True,
    )
    assert (tmp_path / "a.xml").read_text().count("<pccl ") == 71
    correct(tmp_path / "a.xml")


def test_files_say_for_whom_they_are(tmp_path):
    write(synthesized("relayed group", "all-gather", 1), tmp_path / "a.xml", all_ranks=True)
    assert correct(tmp_path / "a.xml")["group"] == "ranks 0,3,5,10,15; the others only relay"
    assert check(tmp_path / "a.xml", group=range(16))[0]
    text = (tmp_path / "a.xml").read_text()
    (tmp_path / "a.xml").write_text(text.replace('members="0 3', 'members="3 3'))
    assert check(tmp_path / "a.xml")[0] == [
        "pccl: the members 3, 3, 5, 10, 15 are not different ranks of 0 to 15"
    ]


def test_unequal_shares_would_overlap_in_place(tmp_path):
    algorithm = quick(pccl.topology.ring(3), pccl.AllToAllV(MATRIX, chunks=1))
    with pytest.raises(pccl.PcclError, match="no form in place"):
        write(algorithm, tmp_path / "a.xml", padded=True, in_place=True)


def test_equal_shares_are_an_all_to_all(tmp_path):
    algorithm = quick(pccl.topology.ring(3), pccl.AllToAllV([[512] * 3] * 3, chunks=1))
    for in_place in (False, True):
        write(algorithm, tmp_path / "a.xml", in_place=in_place)
        correct(tmp_path / "a.xml")


# --- what has been tampered with -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """An all-reduce in place on a mesh, which has relays, sums, and dependencies of all sorts."""
    path = tmp_path_factory.mktemp("msccl") / "a.xml"
    write(synthesized("mesh", "all-reduce", 1), path, in_place=True)
    return path.read_text().splitlines()


def broken(lines, tmp_path, **options) -> list[str]:
    path = tmp_path / "broken.xml"
    path.write_text("\n".join(lines) + "\n")
    return check(path, **options)[0]


def steps_of(lines, pattern):
    return [i for i, line in enumerate(lines) if "<step" in line and re.search(pattern, line)]


def test_every_dropped_step_is_caught(lines, tmp_path):
    for i in steps_of(lines, '"(s|r|rrc)"')[::7]:
        problems = broken(lines[:i] + lines[i + 1 :], tmp_path)
        assert problems
        assert all(re.match(r"gpu \d+", line) for line in problems)


def test_swapped_steps_are_caught(lines, tmp_path):
    for i in steps_of(lines, 'type="rrc"')[:8]:
        if 'type="rrc"' in lines[i + 1]:
            swapped = lines.copy()
            a, b = (re.sub(r' s="\d+"', "", line) for line in (lines[i], lines[i + 1]))
            number = [re.search(r' s="\d+"', line)[0] for line in (lines[i], lines[i + 1])]
            swapped[i], swapped[i + 1] = (
                b.replace("<step", f"<step{number[0]}"),
                a.replace("<step", f"<step{number[1]}"),
            )
            assert broken(swapped, tmp_path)


def test_every_wrong_offset_is_caught(lines, tmp_path):
    for i in steps_of(lines, 'type="(s|rrc|r)"')[::5]:
        which = "srcoff" if 'type="s"' in lines[i] else "dstoff"
        wrong = lines.copy()
        wrong[i] = re.sub(
            rf'{which}="(\d+)"', lambda m: f'{m[0][:6]}="{(int(m[1]) + 1) % 9}"', lines[i]
        )
        assert wrong[i] != lines[i]
        assert broken(wrong, tmp_path), lines[i]


def test_every_missing_dependency_is_a_race_or_worse(lines, tmp_path):
    missing = steps_of(lines, r'depid="\d')
    assert len(missing) > 50
    for i in missing[::6]:
        wrong = lines.copy()
        wrong[i] = re.sub(r'depid="\d+" deps="\d+"', 'depid="-1" deps="-1"', lines[i])
        problems = broken(wrong, tmp_path)
        assert problems, lines[i]
        assert "race" in problems[0] or "nop" in problems[0]
        assert re.match(r"gpu \d+ tb \d+ step \d+: ", problems[0])


def test_a_copy_in_place_of_a_sum_is_caught(lines, tmp_path):
    i = steps_of(lines, 'type="rrc"')[0]
    wrong = lines.copy()
    wrong[i] = lines[i].replace('"rrc"', '"r"')
    assert "is not what allreduce promises" in broken(wrong, tmp_path)[0]


# --- large ones ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pccl.AllToAll, pccl.AllGather])
def test_sixty_four_ranks(kind, tmp_path):
    """How long that takes: ``python -m benchmarks.export``."""
    algorithm = quick(pccl.topology.mesh(8, 8), kind("64MiB", chunks=1))
    said = write(algorithm, tmp_path / "a.xml")["checked"]
    assert said == "run by the interpreter: exact, without races or deadlock"


def test_sixty_four_ranks_on_one_switch(tmp_path):
    algorithm = quick(pccl.topology.switch(64), pccl.AllToAll("64MiB", chunks=1))
    write(algorithm, tmp_path / "a.xml")  # no channel has more than 32 peers
    with pytest.raises(
        pccl.PcclError, match="127 threadblocks to send to 63 others, more than the 64 of RCCL"
    ):
        write(algorithm, tmp_path / "a.xml", target="rccl")


def test_too_many_relays(tmp_path):
    """What to change is something that can be changed: there is but one chunk."""
    algorithm = quick(pccl.topology.ring(64, unidirectional=True), pccl.AllToAll("64MiB"))
    with pytest.raises(
        pccl.PcclError,
        match=r"read 4,095; its ranks pass on too many messages: use a smaller group",
    ):
        write(algorithm, tmp_path / "a.xml")


def test_too_many_chunks(tmp_path):
    algorithm = quick(pccl.topology.mesh(3, 3), pccl.AllReduce("4MiB", chunks=512))
    with pytest.raises(
        pccl.PcclError,
        match=r"elements in the file or more, but the runtimes read 4,095; use fewer chunks",
    ):
        write(algorithm, tmp_path / "a.xml")


@pytest.mark.parametrize("kind", ["reduce-scatter", "all-reduce"])
def test_sums_that_meet_at_the_same_time(kind, tmp_path):
    """Of two runs that arrive at once, each brings something that is added before what the other brings."""
    algorithm = quick(pccl.topology.torus(4, 4), KINDS[kind]("64MiB", chunks=4))
    write(algorithm, tmp_path / "a.xml", instances=3, protocol="LL")
    correct(tmp_path / "a.xml")


@pytest.mark.parametrize("kind", KINDS)
def test_as_few_channels_as_asked_for(kind, tmp_path):
    """Messages that would overtake others wait for them, and the time that is promised knows it."""
    algorithm = quick(pccl.topology.parse_topology("dgx2:1"), KINDS[kind]("16MiB", chunks=4))
    path = tmp_path / "a.xml"
    for channels in (1, 2):
        write(algorithm, path, channels=channels, in_place=False)
        assert read(path)[0].nchannels <= channels
        correct(path)


def test_channels_that_are_too_few(tmp_path):
    algorithm = quick(pccl.topology.ring(4), pccl.AllToAll("4MiB", chunks=64))
    with pytest.raises(pccl.PcclError, match=r"with 1 channel .*; allow more channels"):
        write(algorithm, tmp_path / "a.xml", channels=1)


def test_switches_that_runtimes_do_not_have(tmp_path):
    """What switches would multiply takes twice as long as messages: it is written only if that is asked for."""
    multiplies = pccl.topology.switch(8, multicast=True)
    plan = pccl.synthesize(multiplies, pccl.Broadcast("64MiB", chunks=4))
    assert plan.needs == ("multicast",)
    assert "switches that multiply" in plan.summary()
    with pytest.raises(pccl.PcclError, match=r"switches that multiply .*--for mscclpp"):
        pccl.export(plan, tmp_path / "a.plan.json")
    facts = pccl.export(plan, tmp_path / "a.plan.json", lowered=True)
    assert "planned, but" in facts["time"]
