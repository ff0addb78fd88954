"""Open tables: JSON reads back as the same algorithm or not at all, CSV and Parquet hold what the columns hold."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pccl
from pccl import Algorithm, AllReduce, Broadcast, FormatError, PcclError, load
from pccl.formats.tables import writers as tables
from tests.algorithm.examples import LINE
from tests.end_to_end.program import pccl as program
from tests.strategies import problems, synthesized, topologies

slow_but_fine = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def algorithm() -> Algorithm:
    """With switches, sums and latencies, and a bound."""
    topology = pccl.topology.switch_2d(2, 2)
    collectives = AllReduce("4KiB"), Broadcast("1MiB", [3, 0])
    found = pccl.synthesize(topology, *collectives, effort="fast")
    return dataclasses.replace(found, bound=pccl.lower_bound(topology, *collectives))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def document(algorithm: Algorithm, folder: Path) -> str:
    pccl.export(algorithm, folder / "whole.json")
    return (folder / "whole.json").read_text(encoding="utf-8")


# --- JSON -------------------------------------------------------------------------------------------------------------


@settings(slow_but_fine, max_examples=30)
@given(problems())
def test_what_is_exported_is_loaded(folder: Path, problem) -> None:
    algorithm = synthesized(problem, seed=5)
    pccl.export(algorithm, folder / "one.json")
    again = load(folder / "one.json")
    assert again == algorithm
    assert again.provenance == algorithm.provenance
    assert again.bound == algorithm.bound
    assert again.conditions == algorithm.conditions
    pccl.export(again, folder / "two.json")
    assert (folder / "one.json").read_bytes() == (folder / "two.json").read_bytes()


@settings(slow_but_fine, max_examples=30)
@given(topologies(absent=True))
def test_any_network_is_kept(folder: Path, topology: pccl.Topology) -> None:
    algorithm = Algorithm.build(topology, [Broadcast("3kB", [int(topology.npus[0])])], [], [], [])
    pccl.export(algorithm, folder / "network.json")
    assert load(folder / "network.json") == algorithm


@slow_but_fine
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(-(2**61), 2**61), st.booleans())
    )
)
def test_wrong_algorithms_are_kept_as_they_are(
    folder: Path, rows: list[tuple[int, int, int, bool]]
) -> None:
    algorithm = Algorithm.build(
        LINE, [Broadcast("3kB", chunks=3)], *([row[i] for row in rows] for i in range(4))
    )
    pccl.export(algorithm, folder / "wrong.json")
    assert load(folder / "wrong.json") == algorithm


def changed(document: str, path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    data = json.loads(document)
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_rows_in_any_order_and_without_what_follows_from_them(
    algorithm, document, tmp_path
) -> None:
    def shuffle(data: dict[str, Any]) -> None:
        order = np.random.default_rng(3).permutation(len(data["transfers"]["chunk"])).tolist()
        # What follows names rows, which have other numbers now.
        place = {row: i for i, row in enumerate(order)} | {-1: -1}
        data["transfers"]["follows"] = [place[row] for row in data["transfers"]["follows"]]
        data["transfers"] = {
            name: [column[i] for i in order] for name, column in data["transfers"].items()
        }

    assert load(changed(document, tmp_path / "shuffled.json", shuffle)) == algorithm

    def strip(data: dict[str, Any]) -> None:
        del data["provenance"]
        for name in ("src", "dst", "arrival_ps", "bytes"):
            del data["transfers"][name]

    assert load(changed(document, tmp_path / "bare.json", strip)) == algorithm


def entry(*keys: str | int, value: object) -> Callable[[dict[str, Any]], object]:
    def change(data: dict[str, Any]) -> None:
        where: Any = data
        for key in keys[:-1]:
            where = where[key]
        where[keys[-1]] = value

    return change


def without(*keys: str) -> Callable[[dict[str, Any]], object]:
    return lambda data: (data if len(keys) == 1 else data[keys[0]]).pop(keys[-1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (entry("format", value="spec"), 'is not an algorithm of pccl: it does not say "format": "pccl-algorithm"'),
        (without("format"), "is not an algorithm of pccl"),
        (entry("version", value=3), "has version 3; this pccl reads versions 1 to 2"),
        (entry("version", value=True), "has version True"),
        (entry("future", value=1), "is corrupted: Object contains unknown field `future`"),
        (without("topology"), "is corrupted: Object missing required field `topology`"),
        (entry("topology", "links", 0, "dst", value=99), r"there is no device 99 - at `\$\.links\[0\]\.dst`"),
        (entry("topology", "links", 0, "bandwidth", value=5), "has no unit"),
        (entry("collectives", value=[]), "is corrupted: there is nothing to do"),
        (entry("collectives", 0, "kind", value="all-hands"), "there is no collective 'all-hands'"),
        (entry("collectives", 0, value=7), r"Expected `object`, got `int` - at `\$\.collectives\[0\]`"),
        (entry("provenance", value={"mood": "good"}), "unknown field `mood`"),
        (without("transfers", "link"), r"missing required field `link` - at `\$\.transfers`"),
        (entry("transfers", "colour", value=[]), r"unknown field `colour` - at `\$\.transfers`"),
        (entry("transfers", "link", value=[0]), "column 'link' has 1 entries, column 'chunk' has 52"),
        (entry("transfers", "reduce", value=[True]), "column 'reduce' has 1 entries"),
        (entry("transfers", "src", value=[]), "column 'src' has 0 entries"),
        (entry("transfers", "start_ps", 3, value=0.5), r"`int`, got `float` - at `\$\.transfers\.start_ps\[3\]`"),
        (entry("transfers", "start_ps", 3, value=None), r"got `null` - at `\$\.transfers\.start_ps\[3\]`"),
        (entry("transfers", "start_ps", 3, value=2**63), r"<= 9223372036854775807 - at `\$\.transfers\.start_ps\[3\]`"),
        (entry("transfers", "chunk", 3, value=True), r"Expected `int`, got `bool` - at `\$\.transfers\.chunk\[3\]`"),
        (entry("transfers", "reduce", 3, value=1), r"Expected `bool`, got `int` - at `\$\.transfers\.reduce\[3\]`"),
        (entry("transfers", "chunk", 3, value=99), "transfer 3: there is no chunk 99"),
        (entry("transfers", "link", 3, value=-1), "transfer 3: there is no link -1"),
        (entry("transfers", "arrival_ps", 3, value=5), "transfer 3 has arrival_ps 5; with its chunk and link it is"),
        (entry("transfers", "dst", 0, value=5000), "transfer 0 has dst 5000"),
    ],
)  # fmt: skip
def test_documents_that_are_refused(document: str, tmp_path: Path, change, message: str) -> None:
    with pytest.raises(FormatError, match=message) as problem:
        load(changed(document, tmp_path / "changed.json", change))
    assert "changed.json" in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("[]", "expected the keys and values of an algorithm, not list"),
        ("{", "Expecting property name"),
        ('{"format": "a", "format": "b"}', "the key 'format' appears twice"),
        ("\ud800", "codec"),
    ],
)
def test_what_is_no_document(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "odd.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(FormatError, match=message):
        load(tmp_path / "odd.json")


def test_the_schema_of_the_page(document: str, algorithm: Algorithm) -> None:
    """It lists what is written, and demands what is needed."""
    page = (Path(__file__).parents[2] / "docs" / "traces.md").read_text(encoding="utf-8")
    schema = json.loads(page.partition("```json\n")[2].partition("```")[0])
    data = json.loads(document)
    for said, part, optional in (
        (schema, data, {"provenance", "bound"}),
        (schema["properties"]["bound"], data["bound"], {"cut_short"}),
        (
            schema["properties"]["transfers"],
            data["transfers"],
            {"follows", "src", "dst", "arrival_ps", "bytes"},
        ),
        (schema["properties"]["provenance"], data["provenance"], set(data["provenance"])),
    ):
        assert set(said["properties"]) == set(part)
        assert set(said.get("required", [])) == set(part) - optional
        assert said["additionalProperties"] is False
    listed = page.partition("## In pandas")[2].partition("## JSON")[0]
    assert all(f"`{name}`" in listed for name in tables.columns(algorithm))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.json: there is no such file"):
        load(tmp_path / "none.json")


def test_cut_off_anywhere(document: str, tmp_path: Path) -> None:
    for length in range(0, len(document) - 3, 101):
        (tmp_path / "cut.json").write_text(document[:length], encoding="utf-8")
        with pytest.raises(FormatError, match=r"cut\.json"):
            load(tmp_path / "cut.json")


@settings(slow_but_fine, max_examples=150)
@given(st.data())
def test_damaged_anywhere(document: str, folder: Path, data: st.DataObject) -> None:
    """JSON has no checksum, so that a change may make sense; but what makes none is refused as always."""
    damaged = bytearray(document.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    (folder / "damaged.json").write_bytes(damaged)
    with contextlib.suppress(FormatError):
        assert isinstance(load(folder / "damaged.json"), Algorithm)


# --- CSV and Parquet --------------------------------------------------------------------------------------------------


@settings(slow_but_fine, max_examples=20)
@given(problems())
def test_csv_holds_the_columns(folder: Path, problem) -> None:
    algorithm = synthesized(problem)
    tables._BLOCK, block = 5, tables._BLOCK
    try:
        pccl.export(algorithm, folder / "table.csv")
    finally:
        tables._BLOCK = block
    t, topology = algorithm.transfers, algorithm.topology
    with (folder / "table.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(t)
    for name, column in {
        "chunk": t.chunk, "link": t.link, "src": t.src, "dst": t.dst, "start_ps": t.start, "arrival_ps": t.arrival,
        "bytes": t.bytes, "piece": algorithm.conditions.piece[t.chunk],
        "collective": algorithm.conditions.collective[t.chunk],
    }.items():  # fmt: skip
        assert [int(row[name]) for row in rows] == column.tolist()
    assert [row["reduce"] for row in rows] == ["true" if added else "false" for added in t.reduce]
    assert [row["src_name"] for row in rows] == [topology.labels[d] for d in t.src]
    assert [row["dst_name"] for row in rows] == [topology.labels[d] for d in t.dst]
    assert [row["kind"] for row in rows] == [
        algorithm.collectives[int(row["collective"])].kind for row in rows
    ]


def test_csv_of_odd_names(tmp_path: Path) -> None:
    names = ['comma, "quote"', "two\nlines"]
    pair = pccl.Topology.from_links(names, [pccl.Link(0, 1, "1GB/s", "0ns")])
    pccl.export(pccl.synthesize(pair, Broadcast("1kB"), effort="fast"), tmp_path / "odd.csv")
    (row,) = csv.DictReader(
        io.StringIO((tmp_path / "odd.csv").read_text(encoding="utf-8"), newline="")
    )
    assert [row["src_name"], row["dst_name"]] == names


def test_parquet_holds_the_columns(algorithm: Algorithm, tmp_path: Path, monkeypatch) -> None:
    from pyarrow import parquet

    monkeypatch.setattr(tables, "_BLOCK", 20)
    pccl.export(algorithm, tmp_path / "table.parquet")
    table = parquet.read_table(tmp_path / "table.parquet")
    for name, column in tables.columns(algorithm).items():
        texts = np.array(column.texts)[column.code] if isinstance(column, tables.Names) else column
        assert table[name].to_pylist() == texts.tolist()
    about = json.loads(table.schema.metadata[b"pccl"])
    assert about["duration_ps"] == algorithm.duration
    assert [pccl.collective.collective_from_dict(one) for one in about["collectives"]] == list(
        algorithm.collectives
    )


def test_parquet_without_pyarrow(algorithm: Algorithm, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(PcclError, match=r"pyarrow is not installed: pip install pyarrow"):
        pccl.export(algorithm, tmp_path / "table.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", ["json", "csv", "parquet"])
def test_an_algorithm_without_transfers(tmp_path: Path, suffix: str) -> None:
    alone = pccl.synthesize(pccl.topology.ring(3), Broadcast("1kB", [1]), effort="fast")
    pccl.export(alone, tmp_path / f"none.{suffix}")
    if suffix == "json":
        assert load(tmp_path / "none.json") == alone
    elif suffix == "csv":
        assert (tmp_path / "none.csv").read_text().splitlines() == [",".join(tables.columns(alone))]


def test_a_file_that_cannot_be_written(algorithm: Algorithm, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FormatError, match=r"cannot write .*folder\.csv: it is a folder"):
        pccl.export(algorithm, tmp_path / "folder.csv")
    with pytest.raises(FormatError, match=r"cannot write .*table\.csv: No such file or directory"):
        pccl.export(algorithm, tmp_path / "nowhere" / "table.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


# --- the program ------------------------------------------------------------------------------------------------------


def test_the_program(tmp_path: Path) -> None:
    saved = tmp_path / "ring.pccl"
    assert (
        program(
            "synthesize",
            "-t",
            "ring:4",
            "-c",
            "all-gather",
            "-s",
            "4MiB",
            "--chunks",
            "1",
            "-o",
            saved,
        ).exit_code
        == 0
    )
    for suffix in ("json", "csv", "parquet"):
        result = program("export", saved, "-o", tmp_path / f"ring.{suffix}")
        assert result.exit_code == 0, result.output
        assert "transfers    12" in result.stdout
        printed = program("export", saved, "-o", "-", "--format", suffix)
        assert printed.stdout_bytes == (tmp_path / f"ring.{suffix}").read_bytes()
    refused = program("export", saved, "-o", "-", "--format", "chakra")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "chakra is a folder, which cannot go to standard output" in refused.stderr
    assert not (tmp_path / "-").exists()
    assert program("verify", tmp_path / "ring.json").exit_code == 0
    assert load(tmp_path / "ring.json") == load(saved)
