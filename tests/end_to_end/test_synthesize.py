"""``pccl synthesize`` with flags: what it does, and what it refuses."""

from __future__ import annotations

import json

import pytest

import pccl
from tests.end_to_end.program import pccl as run
from tests.end_to_end.program import refused, spawn

GATHER = ("synthesize", "-t", "ring:4", "-c", "all-gather", "-s", "4MiB")


def document(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_whole_way_in_processes_of_their_own(tmp_path):
    path = tmp_path / "a2a.pccl"
    done = spawn(
        "synthesize",
        "--topology",
        "mesh:3x3",
        "--collective",
        "all-to-all",
        "--size",
        "9KiB",
        "-o",
        path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "verified     yes\n" in done.stdout
    assert f"saved to     {path}\n" in done.stdout
    done = spawn("verify", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{path}: correct: all-to-all on mesh:3x3; ")


def test_the_summary():
    lines = run(*GATHER).stdout.splitlines()
    assert lines[0] == "topology     'ring:4': 4 NPUs, 8 links, 50GiB/s, 500ns"
    assert lines[1].startswith("collectives  all-gather of 4MiB among all NPUs, ")
    assert lines[-1] == "verified     yes"


def test_quiet_and_unverified():
    assert run(*GATHER, "--quiet").output == ""
    assert "verified     no, as asked" in run(*GATHER, "--no-verify").stdout
    assert document(*GATHER, "--no-verify", "--quiet")["verified"] is False


def test_json_agrees_with_the_file(tmp_path):
    path = tmp_path / "ring.pccl"
    found = document(
        *GATHER, "--seed", "5", "--order", "rounds", "--routes", "any", "--chunks", "2", "-o", path
    )
    algorithm = pccl.load(path)
    assert found["file"] == str(path)
    assert found["duration_ps"] == algorithm.duration
    assert found["transfers"] == len(algorithm.transfers)
    assert found["chunks"] == 8
    assert (found["seed"], found["verified"], found["version"]) == (5, True, pccl.__version__)
    assert found["collectives"] == [{"kind": "all-gather", "size": "4MiB", "chunks": 2}]


def test_several_groups_at_once():
    found = document(*GATHER, "--group", "0-1", "--group", "2,3")
    assert [collective["group"] for collective in found["collectives"]] == [[0, 1], [2, 3]]


def test_process_groups_of_a_mesh():
    found = document(
        "synthesize",
        "-t",
        "mesh:2x4",
        "-c",
        "all-reduce",
        "-s",
        "8KiB",
        "--mesh",
        "dp=2,tp=4",
        "--along",
        "dp",
    )
    assert [collective["group"] for collective in found["collectives"]] == [
        [0, 4],
        [1, 5],
        [2, 6],
        [3, 7],
    ]
    found = document(
        "synthesize",
        "-t",
        "mesh:2x4",
        "-c",
        "all-reduce",
        "-s",
        "8KiB",
        "--mesh",
        "dp=2,tp=4",
        "--along",
        "dp,tp",
    )
    assert [collective["group"] for collective in found["collectives"]] == [list(range(8))]


@pytest.mark.parametrize("kind", ["allgather", "all_gather", "AllGather", "ALL-GATHER"])
def test_other_spellings(kind):
    found = document("synthesize", "-t", "ring:4", "-c", kind, "-s", "4MiB")
    assert found["collectives"][0]["kind"] == "all-gather"


def test_sizes_need_not_divide():
    task = ("synthesize", "-t", "ring:3", "-c", "all-reduce", "-s", "4MiB", "--effort", "fast")
    found = document(*task, "--dtype", "float16")
    assert found["collectives"] == [
        {"kind": "all-reduce", "size": "4MiB", "chunks": 1, "dtype": "float16"}
    ]
    assert found["bytes_moved"] == 4 * 2**22


def test_roots_and_cycles():
    assert (
        document(
            "synthesize",
            "-t",
            "ring:4",
            "-c",
            "broadcast",
            "-s",
            "1MiB",
            "--chunks",
            "1",
            "--root",
            "2",
        )["transfers"]
        == 3
    )
    assert (
        document(
            "synthesize",
            "-t",
            "ring:4",
            "-c",
            "send-recv",
            "-s",
            "1MiB",
            "--chunks",
            "1",
            "--cyclic",
        )["chunks"]
        == 4
    )


def test_the_same_seed_gives_the_same_file(tmp_path):
    for name in ("a", "b"):
        run(
            "synthesize",
            "-t",
            "mesh:3x3",
            "-c",
            "all-to-all",
            "-s",
            "9KiB",
            "--seed",
            "3",
            "-o",
            tmp_path / f"{name}.pccl",
        )
    assert pccl.load(tmp_path / "a.pccl") == pccl.load(tmp_path / "b.pccl")


MESH = ("-t", "mesh:3x3", "-c", "all-gather")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a spec file, or --topology and --collective; for example --topology mesh:8x8"),
        (("-t", "mesh:3x3"), "for example --collective all-to-all"),
        (MESH, "all-gather needs a size, for example 8MiB"),
        ((*MESH, "-s", "9"), "size of all-gather '9' has no unit: write for example '9MiB'"),
        ((*MESH, "-s", "9XB"), "unknown unit 'XB'"),
        ((*MESH, "-s", "0B"), "all-gather has a size of 0; it must be positive"),
        ((*MESH, "-s", "-9B"), "it must not be negative"),
        (
            (*MESH, "-s", "10B", "--dtype", "float32"),
            "is not a whole number of elements of float32",
        ),
        ((*MESH, "-s", "10B", "--dtype", "half"), "there is no dtype 'half'; there are"),
        ((*MESH, "-s", "9MB", "-g", "0-9"), "there is no NPU 9 in mesh:3x3, which has NPUs 0-8"),
        ((*MESH, "-s", "9MB", "-g", "0,1,1"), "NPU 1 appears twice in the group"),
        ((*MESH, "-s", "9MB", "-g", "0-99999999"), "group '0-99999999' is beyond 1,000,000 ranks"),
        ((*MESH, "-s", "9MB", "-g", "9" * 5000), "is not a rank or range such as 0-7"),
        ((*MESH, "-s", "9MB", "-g", "x"), "'x' is not a rank or range such as 0-7"),
        ((*MESH, "-s", "9MB", "--chunks", "0"), "invalid value for '--chunks'"),
        ((*MESH, "-s", "9MB", "--seed", "-1"), "invalid value for '--seed'"),
        (
            (*MESH, "-s", "9MB", "--root", "3"),
            "all-gather has no 'root'; it has size, group, chunks",
        ),
        ((*MESH, "-s", "9MB", "--order", "x"), "there is no order 'x'"),
        ((*MESH, "-s", "9MB", "--routes", "x"), "there is no routes 'x'"),
        ((*MESH, "-s", "9MB", "--mesh", "dp=3"), "--mesh needs --along"),
        ((*MESH, "-s", "9MB", "--along", "dp"), "--along needs --mesh"),
        (
            (*MESH, "-s", "9MB", "--mesh", "dp=3,dp=3", "--along", "dp"),
            "two dimensions of the mesh have the same name",
        ),
        ((*MESH, "-s", "9MB", "--mesh", "dp:3", "--along", "dp"), "'dp:3' is not name=size"),
        (
            (*MESH, "-s", "9MB", "--mesh", "dp=4,tp=3", "--along", "tp"),
            "has 12 ranks, but mesh:3x3 has 9 NPUs",
        ),
        (
            (*MESH, "-s", "9MB", "--mesh", "dp=3,tp=3", "--along", "pp"),
            "no dimension 'pp'; it has dp, tp",
        ),
        (
            (*MESH, "-s", "9MB", "--mesh", "dp=3", "--along", "dp", "-g", "0"),
            "either a group or a dimension",
        ),
        (
            ("-t", "mesh:3x3", "-c", "al-gather", "-s", "9MB"),
            "no collective 'al-gather'; did you mean all-gather",
        ),
        (
            ("-t", "mesh:3x3", "-c", "alltoallv", "-s", "9MB"),
            "all-to-all-v has no 'size'; it has group",
        ),
        (
            ("-t", "tours:3x3", "-c", "all-gather", "-s", "9MB"),
            "there is no 'tours'; did you mean 'torus'?",
        ),
        (
            ("-t", "ring:4@0GB/s", "-c", "all-gather", "-s", "4MB"),
            "has no bandwidth; it must be positive",
        ),
        (("-t", "ring:4@-1GB/s", "-c", "all-gather", "-s", "4MB"), "it must not be negative"),
        (("-t", "ring:4@50", "-c", "all-gather", "-s", "4MB"), "'50' has no unit"),
        (
            ("-t", "switch:4", "-c", "all-gather", "-s", "4MB", "-g", "0,4"),
            "device 4 (switch0) is a switch, not an NPU",
        ),
        (
            ("-t", "ring:4", "-c", "broadcast", "-s", "4MB", "-g", "0-1", "--root", "3"),
            "root 3 is not in the group",
        ),
        (
            ("-t", "nope.yaml", "-c", "all-gather", "-s", "4MB"),
            "nope.yaml: there is no such file",
        ),
    ],
)
def test_bad_input(arguments, message):
    assert message in refused("synthesize", *arguments)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("zero.txt", "0 1 500ns 0GB/s", "zero.txt:1: the bandwidth must be positive"),
        ("less.txt", "0 1 500ns -5GB/s", "less.txt:1: bandwidth '-5GB/s' is not a number"),
        ("bare.txt", "0 1 500 5GB/s", "bare.txt:1: latency '500' has no unit"),
        (
            "oneway.txt",
            "0 1 500ns 5GB/s",
            "chunk 1 cannot get from NPU 1 to NPU 0: no path of links joins them",
        ),
        ("twice.yaml", "npus: [a, a]\nlinks: []", "two devices are called 'a'"),
        ("broken.yaml", "npus: [a, b\nlinks: []", "broken.yaml: line 2: "),
        ("broken.json", '{"npus": 2,', "broken.json: "),
        ("key.yaml", "npus: 2\nlnks: []", "there is no key 'lnks'; did you mean 'links'?"),
        (
            "end.yaml",
            "npus: 2\nlinks: [{src: 0, dst: 9, bandwidth: 1GB/s, latency: 1us}]",
            "no device 9 - at `$.links[0].dst`",
        ),
    ],
)
def test_bad_topology_files(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    assert message in refused("synthesize", "-t", path, "-c", "all-gather", "-s", "2MB")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("nowhere/a.pccl", "there is no folder"),
        ("a.json", "an algorithm is saved as .pccl"),
        ("folder.pccl", "it is a folder"),
        ("locked.pccl", "permission denied"),
    ],
)
def test_output_is_refused_before_any_work(tmp_path, monkeypatch, output, message):
    (tmp_path / "folder.pccl").mkdir()
    (tmp_path / "locked.pccl").touch()
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    monkeypatch.setattr("pccl.synthesis.synthesize", None)
    assert message in refused(*GATHER, "-o", tmp_path / output)


def test_the_bound_holds_for_any_number_of_chunks():
    """One pass cuts nothing; that more chunks would be faster must show in the gap."""
    fast = document(
        "synthesize", "-t", "mesh:8x1", "-c", "broadcast", "-s", "1MiB", "--effort", "fast"
    )
    balanced = document("synthesize", "-t", "mesh:8x1", "-c", "broadcast", "-s", "1MiB")
    assert fast["bound_ps"] == balanced["bound_ps"] <= balanced["duration_ps"] < fast["duration_ps"]
    assert fast["gap"] > 1
