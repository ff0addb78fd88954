"""Spec files: what they can say, and where they are wrong."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

import pccl
from pccl.settings import Settings
from pccl.spec import load_spec, spec_schema
from pccl.topology import mesh, save_topology
from tests.end_to_end.program import EXAMPLES, refused
from tests.end_to_end.program import pccl as run


@pytest.fixture
def spec(tmp_path):
    def write(text, name="spec.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("name", "collectives", "chunks"), [("mix.yaml", 2, 18), ("parallelism.yaml", 16, 192)]
)
def test_the_examples(tmp_path, name, collectives, chunks):
    path = tmp_path / "example.pccl"
    result = run("synthesize", EXAMPLES / name, "--output", path, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["verified"]
    assert (len(document["collectives"]), document["chunks"]) == (collectives, chunks)
    assert run("verify", path).exit_code == 0


def test_the_mixture_is_that_of_the_paper():
    first, second = load_spec(EXAMPLES / "mix.yaml").collectives
    assert first == pccl.AllToAllV(
        [[0, "2MiB", "2MiB"], ["1MiB", 0, "1MiB"], ["1MiB", "1MiB", 0]], range(3), chunks=2
    )
    assert second == pccl.AllGather("3MiB", range(6, 9), chunks=2)


def test_everything_a_spec_can_say(spec, tmp_path):
    save_topology(mesh(2, 4), tmp_path / "network.yaml")
    path = spec("""
        topology: network.yaml
        mesh: {dp: 2, tp: 4}
        seed: 7
        order: rounds
        routes: any
        output: out.pccl
        collectives:
          - {kind: all-gather, size: 8KiB, along: tp, chunks: 2}
          - {kind: AllReduce, size: 8KiB, along: [dp, tp]}
          - {kind: broadcast, size: 1KiB, group: "0-2,5", root: 5}
          - {kind: send_recv, size: 1KiB, group: [0, 1, 2], cyclic: yes}
          - {kind: scatter, size: 8KiB}
          - {kind: all-to-all-v, group: 3-4, matrix: [[0, 100], [1KiB, 0]]}
          - kind: custom
            pattern:
              - {sources: 0, destinations: [1, 2], size: 1KiB}
              - {sources: [1, 2], destinations: 0, size: 1KiB, reduces: yes}
    """)
    given = load_spec(path)
    assert given.topology == mesh(2, 4)
    assert [collective.kind for collective in given.collectives] == [
        "all-gather", "all-gather", "all-reduce", "broadcast", "send-recv", "scatter", "all-to-all-v", "custom",
    ]  # fmt: skip
    assert given.collectives[1] == pccl.AllGather("8KiB", range(4, 8), chunks=2)
    assert given.collectives[3] == pccl.Broadcast("1KiB", (0, 1, 2, 5), root=5)
    assert given.settings == Settings(seed=7, order="rounds", routes="any")
    assert given.output == tmp_path / "out.pccl"
    assert run("synthesize", path).exit_code == 0
    assert pccl.load(tmp_path / "out.pccl").provenance.seed == 7


def test_json_and_a_topology_inside(spec):
    link = {"src": 0, "dst": 1, "bandwidth": "1GB/s", "latency": "1us", "both": True}
    document = {
        "topology": {"npus": 2, "links": [link]},
        "collectives": [{"kind": "all-gather", "size": "2kB"}],
    }
    path = spec(json.dumps(document), "spec.json")
    assert json.loads(run("synthesize", path, "--json").stdout)["transfers"] == 2


def test_settings_on_the_command_line_beat_those_of_the_spec(spec):
    text = "topology: ring:4\ncollectives: [{kind: all-gather, size: 4MiB}]\n"
    for given, arguments, seed in (("", (), 0), ("seed: 1", (), 1), ("seed: 1", ("--seed", 9), 9)):
        result = run("synthesize", spec(text + given), *arguments, "--json")
        assert json.loads(result.stdout)["seed"] == seed


def test_every_setting_is_a_key_and_an_option(spec):
    text = "topology: ring:4\ncollectives: [{kind: all-gather, size: 4MiB}]\n"
    said = {"effort": "fast", "time_limit": 5, "gap": 0.5, "seed": 3, "verify": False}
    said |= {"method": "flooding", "order": "rounds", "routes": "minimal", "target": "msccl"}
    assert set(said) == {setting.name for setting in fields(Settings)}
    keys = "".join(f"{name}: {json.dumps(value)}\n" for name, value in said.items())
    assert load_spec(spec(text + keys)).settings == Settings(**said)
    text = run("synthesize", "--help").stdout
    flags = {"target": "--for"}
    assert all(flags.get(name, f"--{name.replace('_', '-')}") in text for name in said)


def test_what_to_do_is_said_in_one_place(spec):
    text = "topology: ring:4\ncollectives: [{kind: all-gather, size: 4MiB}]\n"
    for flag in (
        "--topology",
        "--collective",
        "--size",
        "--group",
        "--chunks",
        "--root",
        "--mesh",
        "--along",
    ):
        assert f"leave out {flag}" in refused("synthesize", spec(text), flag, "1")


ONE = "topology: mesh:3x3\ncollectives: [%s]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the keys and values of a spec"),
        ("- a", "expected the keys and values of a spec, not list"),
        ("topology: [", "line 2: "),
        ("topology: ring:4\ntopology: ring:4", "line 2: the key 'topology' appears twice"),
        ("topology: ring:4", "missing required field `collectives`"),
        ("topology: ring:4\ncollectives: []", "length >= 1 - at `$.collectives`"),
        (
            "topolgy: ring:4\ncollectives: []",
            "there is no key 'topolgy'; did you mean 'topology'? - at `$`",
        ),
        (
            ONE % "{kind: all-gather, sise: 9MB}",
            "no key 'sise'; did you mean 'size'? - at `$.collectives[0]`",
        ),
        (ONE % "{kind: all-gather, zzz: 9}", "there is no key 'zzz'; there are kind, size, group"),
        (
            ONE % "{kind: al-gather, size: 9MB}",
            "did you mean all-gather or gather? - at `$.collectives[0].kind`",
        ),
        (
            ONE % "{kind: all-gather}",
            "all-gather needs a size, for example 8MiB - at `$.collectives[0]`",
        ),
        (ONE % "{kind: all-gather, size: 9}", "has no unit: write for example '9MiB'"),
        (ONE % "{kind: all-gather, size: 9}", "at `$.collectives[0].size`"),
        (
            ONE % "{kind: all-gather, size: 10B, dtype: float32}",
            "10B is not a whole number of elements of float32, which have 4 bytes - at `$.collectives[0]`",
        ),
        (ONE % "{kind: all-gather, size: 9B, group: 0-9}", "there is no NPU 9 in mesh:3x3"),
        (ONE % "{kind: all-gather, size: 9B, group: x}", "at `$.collectives[0].group`"),
        (ONE % "{kind: all-gather, size: 9B, group: [0, 0]}", "NPU 0 appears twice"),
        (ONE % "{kind: all-gather, size: 9B, group: [0, -1]}", "at `$.collectives[0].group[1]`"),
        (
            ONE % "{kind: all-gather, size: 9B, root: 1}",
            "has no 'root'; it has size, group, chunks",
        ),
        (ONE % "{kind: all-gather, size: 9B, chunks: 0}", "at `$.collectives[0].chunks`"),
        (ONE % "{kind: all-gather, size: 9B, along: tp}", "there is no mesh to go along"),
        (
            ONE % "{kind: all-gather, size: 9B, along: pp}" + "\nmesh: {dp: 3, tp: 3}",
            "no dimension 'pp'; it has dp, tp",
        ),
        (
            ONE % "{kind: all-gather, size: 9B}" + "\nmesh: {dp: 3, tp: 4}",
            "has 12 ranks, but mesh:3x3 has 9 NPUs",
        ),
        (
            ONE % "{kind: all-gather, size: 9B}" + f"\nmesh: {{dp: {9**40}}}",
            "ranks, but mesh:3x3 has 9 NPUs",
        ),
        (ONE % "{kind: all-to-all-v}", "all-to-all-v needs a matrix"),
        (ONE % "{kind: all-to-all-v, matrix: [[0, 1], [1]]}", "the matrix must be square"),
        (
            ONE % "{kind: all-to-all-v, matrix: [[0, -1], [1, 0]]}",
            "bytes are whole and not negative",
        ),
        (ONE % "{kind: custom, pattern: []}", "custom: there is no condition"),
        (
            ONE % "{kind: custom, pattern: [{sources: 0, destination: 1}]}",
            "did you mean 'destinations'?",
        ),
        (
            ONE % "{kind: custom, pattern: [{sources: [0, 1], destinations: 1, size: 1B}]}",
            "`$.collectives[0].pattern[0]`",
        ),
        (
            ONE.replace("mesh:3x3", "nope.yaml") % "{kind: all-gather, size: 9B}",
            "there is no such file",
        ),
        (
            ONE.replace("mesh:3x3", "tours:3") % "{kind: all-gather, size: 9B}",
            "did you mean 'torus'? - at `$.topology`",
        ),
        (
            ONE.replace("mesh:3x3", "{npus: 2, links: [{src: 0}]}")
            % "{kind: all-gather, size: 9B}",
            "`$.topology.links[0]`",
        ),
        (ONE % "{kind: all-gather, size: 9B}" + "\nseed: -1", "at `$.seed`"),
    ],
)
def test_bad_specs_say_where(spec, text, message):
    path = spec(text)
    line = refused("synthesize", path)
    assert line.startswith(f"{path}: ")
    assert message in line


def test_what_only_synthesis_finds(spec):
    path = spec("topology: ring:4\norder: x\ncollectives: [{kind: all-gather, size: 4B}]")
    assert "there is no order 'x'" in refused("synthesize", path)
    path = spec(
        "topology: ring:4\noutput: nowhere/a.pccl\ncollectives: [{kind: all-gather, size: 4B}]"
    )
    assert "there is no folder" in refused("synthesize", path)


def test_files_that_are_no_spec(spec, ring):
    for device in ("/dev/zero", "/dev/urandom"):
        path = spec("").with_name(f"{Path(device).name}.yaml")
        path.symlink_to(device)
        assert "is not a spec: it is not a text file" in refused("synthesize", path)
        assert "is not a topology: it is not a text file" in refused("topology", path)
    assert f"{ring} is an algorithm, not a spec" in refused("synthesize", ring)
    assert "is an algorithm, not a topology" in refused("topology", ring)
    path = spec("")
    assert "there is no such file" in refused("synthesize", path.with_name("none.yaml"))


def test_the_schema_knows_every_key():
    schema = json.loads(run("synthesize", "--schema").stdout)
    assert schema == spec_schema()
    keys = schema["$defs"]["CollectiveEntry"]["properties"]
    assert set(keys) == {
        "kind",
        "size",
        "group",
        "along",
        "chunks",
        "dtype",
        "priority",
        "weight",
        "confined",
        "root",
        "cyclic",
        "whole",
        "matrix",
        "round",
        "pattern",
    }
    assert keys["size"]["type"] == "string"
    assert all("description" in about for about in keys.values())
    assert set(schema["$defs"]) == {
        "CollectiveEntry",
        "ConditionEntry",
        "LinkEntry",
        "SpecFile",
        "SwitchEntry",
        "TopologyFile",
    }
