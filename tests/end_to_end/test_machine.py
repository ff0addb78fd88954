"""From a machine to a plan on the command line: dumps, damage, changes and traffic."""

from __future__ import annotations

import json

import pytest

from pccl.topology import load
from tests.end_to_end.program import pccl as run
from tests.end_to_end.program import refused
from tests.topology.importers import texts


@pytest.fixture
def box(tmp_path):
    path = tmp_path / "node1.txt"
    path.write_text(texts.smi(2, "NV12", (("mlx5_0", 0), ("mlx5_1", 1))))
    return path


def test_a_dump_ends_in_a_summary_and_a_file_to_edit(box, tmp_path):
    text = run("topology", box, "-o", tmp_path / "mine.yaml").stdout
    assert "\nread as      nvidia-smi topo -m\n" in text
    assert "\nfound        2 GPUs of node1, NV12\n             NICs near GPUs" in text
    assert "\nassumed      A100 SXM4, by the number of NVLinks" in text
    assert load(tmp_path / "mine.yaml") == load(box)
    document = json.loads(run("topology", box, "--json").stdout)
    assert document["formats"] == ["nvidia-smi topo -m"]
    assert document["assumed"]


def test_several_files_need_no_sign_between_them(box, tmp_path):
    other = tmp_path / "node2.txt"
    other.write_text(box.read_text())
    fabric = tmp_path / "ib.out"
    fabric.write_text(texts.fabric(["node1", "node2"]))
    assert "\nNPUs         4 (2 x 2)\n" in run("topology", box, other, fabric).stdout
    assert "\nNPUs         6 (3 x 2)\n" in run("topology", box, "--boxes", 3).stdout


def test_flags_say_what_a_file_does_not(box):
    assert "30GB/s (4 links)" in run("topology", box, "--nic", "30GB/s").stdout
    assert "600GB/s" in run("topology", box, "--gpu", "b200").stdout
    assert "'mesh:2x2' is none" in refused("topology", "mesh:2x2", "--gpu", "h100")
    assert "there is no GPU 'h1000'" in refused("topology", box, "--gpu", "h1000")


def test_damage_and_changes():
    text = run(
        "topology",
        "h100:2",
        "--without",
        "8-11:rail*",
        "--without",
        "npu5",
        "--set",
        "rail7.bandwidth=50%",
    ).stdout
    assert text.startswith("name         h100:2, damaged, edited\nNPUs         15 (2 x 8)\n")
    assert "\nlost         12 links\n" in text
    assert "25GB/s (4 links)" in text
    assert "no device 'npu99'" in refused("topology", "ring:4", "--without", "npu99")
    assert "there is no network to change" in refused("topology", "--without", "npu5")


def test_a_picture_of_a_damaged_machine(box, tmp_path):
    figure = tmp_path / "box.svg"
    flags = ("--kind", "topology", "-o", figure)
    assert run("plot", box, "--without", "mlx5_1", *flags).exit_code == 0
    assert "out of order" in figure.read_text()
    assert run("plot", f"{box},boxes=2", *flags).exit_code == 0
    assert "has its network" in refused("plot", "a.pccl", "--without", "npu1", *flags)


def test_traffic_and_damage_in_a_task(tmp_path):
    matrix = tmp_path / "traffic.csv"
    matrix.write_text("0,1KiB,2KiB\n1KiB,0,1KiB\n0,0,0\n")
    flags = (
        "-t",
        "ring:4",
        "--without",
        "0:3",
        "-c",
        "all-to-all-v",
        "--matrix",
        matrix,
        "-g",
        "0-2",
    )
    result = json.loads(run("bound", *flags, "--json").stdout)
    spec = tmp_path / "task.yaml"
    spec.write_text(
        "topology: ring:4\nwithout: 0:3\ncollectives:\n  - {kind: all-to-all-v, group: 0-2, matrix: traffic.csv}\n"
    )
    assert json.loads(run("bound", spec, "--json").stdout) == result
    assert "leave out --without" in refused("bound", spec, "--without", "npu1")
    assert "leave out --set" in refused("bound", spec, "--set", "*.gap=1ns")
    assert "all-gather has no 'round'" in refused(
        "bound", "-t", "ring:4", "-c", "all-gather", "-s", "1KiB", "--round", "64KiB"
    )
    assert "all-to-all-v needs a matrix" in refused("bound", "-t", "ring:4", "-c", "all-to-all-v")
    assert "all-gather has no 'matrix'" in refused(
        "bound", "-t", "ring:4", "-c", "all-gather", "-s", "1KiB", "--matrix", matrix
    )


def test_changes_in_a_spec_and_where_they_are_wrong(tmp_path):
    spec = tmp_path / "task.yaml"
    spec.write_text(
        'topology: h100:2\nset: {"rail*.bandwidth": 25GB/s}\ncollectives:\n  - {kind: all-gather, size: 1MiB}\n'
    )
    assert run("bound", spec).exit_code == 0
    spec.write_text(spec.read_text().replace("rail*", "rial*"))
    assert "no device 'rial*'; did you mean 'rail" in refused("bound", spec)
    assert "- at `$.set`" in refused("bound", spec)


def test_garbage_gets_one_line(tmp_path):
    garbage = {
        "a.xml": "<system>",
        "b.txt": "GPU0 X",
        "c.conf": "SwitchName",
        "d.gml": "graph [\nnode [",
    }
    for name, text in garbage.items():
        path = tmp_path / name
        path.write_text(text)
        assert str(path) in refused("topology", path)
