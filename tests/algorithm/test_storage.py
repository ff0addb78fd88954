"""The .pccl file: what is saved is what is loaded, and a damaged file is refused or harmless, never misread."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pccl
from pccl import Algorithm, AllReduce, Bound, Broadcast, FormatError, Provenance, SendRecv, load
from pccl.units import Picoseconds
from tests.algorithm.examples import LINE, PAIR, schedule
from tests.strategies import problems, synthesized

slow_but_fine = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Algorithm, bytes]:
    """An algorithm with switches, sums and latencies, and the file that holds it."""
    algorithm = pccl.synthesize(
        pccl.topology.switch_2d(2, 2),
        AllReduce("4KiB", chunks=2),
        Broadcast("1MiB", [3, 0], chunks=1),
    )
    path = tmp_path_factory.mktemp("saved") / "algorithm.pccl"
    algorithm.save(path)
    return algorithm, path.read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@settings(slow_but_fine, max_examples=40)
@given(problems())
def test_what_is_saved_is_loaded(folder: Path, problem) -> None:
    algorithm = synthesized(problem, seed=5)
    algorithm.save(folder / "one.pccl")
    again = load(folder / "one.pccl")
    assert again == algorithm
    assert again.provenance == algorithm.provenance
    assert again.bound == algorithm.bound
    assert again.conditions == algorithm.conditions
    assert again.transfers.arrival.tolist() == algorithm.transfers.arrival.tolist()
    again.save(folder / "two.pccl")
    assert (folder / "one.pccl").read_bytes() == (folder / "two.pccl").read_bytes()


@slow_but_fine
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2), st.integers(0, 3), st.integers(1 - 2**63, 2**63 - 1), st.booleans()
        )
    )
)
def test_wrong_algorithms_are_kept_as_they_are(
    folder: Path, rows: list[tuple[int, int, int, bool]]
) -> None:
    """Storage is no verifier: any start that fits, and sums of what is no sum."""
    columns = ([row[i] for row in rows] for i in range(4))
    algorithm = Algorithm.build(LINE, [Broadcast("3kB", chunks=3)], *columns)
    algorithm.save(folder / "wrong.pccl")
    assert load(folder / "wrong.pccl") == algorithm


def test_equal_algorithms_give_equal_bytes(tmp_path: Path) -> None:
    """Whatever order the rows came in; what provenance says is part of the file, though not of the algorithm."""
    rows = [(0, 0, 1, 0), (0, 1, 2, 1)]
    for name, order in (("one", rows), ("two", rows[::-1])):
        schedule(LINE, SendRecv("1kB", (0, 2)), *order).save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_names_and_numbers_of_all_kinds(tmp_path: Path) -> None:
    named = pccl.Topology.from_links(
        ["α", "\"β'\n"], [pccl.Link(0, 1, "1GB/s", "0ns")], name="mine \\ yours"
    )
    algorithm = Algorithm.build(
        named,
        [pccl.SendRecv("1kB")],
        [0],
        [0],
        [0],
        provenance=Provenance("by hand", np.int64(3), np.float64(0.5)),
    )
    algorithm.save(str(tmp_path / "named.pccl"))
    again = load(str(tmp_path / "named.pccl"))
    assert again == algorithm
    assert again.provenance == algorithm.provenance


def test_the_file_is_small(saved: tuple[Algorithm, bytes]) -> None:
    content = saved[1]
    assert len(content) < 5500
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        header = json.loads(archive.read("header.json"))
    assert header["format"] == "pccl-algorithm"
    assert header["collectives"][0] == {"kind": "all-reduce", "size": "4KiB", "chunks": 2}


# --- files that are refused ------------------------------------------------------------------------------------------


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.pccl: there is no such file"):
        load(tmp_path / "none.pccl")
    with pytest.raises(FormatError, match=r"cannot read .*: Is a directory"):
        load(tmp_path)
    with pytest.raises(FormatError, match=r"cannot write .*: No such file or directory"):
        schedule(PAIR, SendRecv("1kB"), (0, 0, 1, 0)).save(tmp_path / "no" / "such" / "folder.pccl")


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x05\x06", b"\x00" * 1000])
def test_not_an_archive(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "text.pccl").write_bytes(content)
    with pytest.raises(FormatError, match=r"text\.pccl is not a \.pccl file, or is corrupted: "):
        load(tmp_path / "text.pccl")


def test_another_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        archive.writestr("readme", "hello")
    with pytest.raises(FormatError, match=r"some\.zip is not a \.pccl file: it has no header"):
        load(tmp_path / "some.zip")


def test_truncated_anywhere(saved: tuple[Algorithm, bytes], tmp_path: Path) -> None:
    _, content = saved
    for length in range(0, len(content), 37):
        (tmp_path / "cut.pccl").write_bytes(content[:length])
        with pytest.raises(FormatError, match=r"is not a \.pccl file, or is corrupted"):
            load(tmp_path / "cut.pccl")


def loads_right_or_not_at_all(path: Path, content: bytes, algorithm: Algorithm) -> None:
    path.write_bytes(content)
    try:
        again = load(path)
    except FormatError:
        return
    assert again == algorithm


@pytest.mark.parametrize("flip", [0x01, 0x04, 0x06, 0x20, 0xFF])
def test_flipped_bits_anywhere(saved: tuple[Algorithm, bytes], tmp_path: Path, flip: int) -> None:
    """Nearly every byte of the headers, where zipfile believes what it reads, and a sample of the others."""
    algorithm, content = saved
    directory = content.index(b"PK\x01\x02")
    for position in [
        *range(flip % 3, directory, 7),
        *range(directory, len(content), 2 if flip < 0xFF else 1),
    ]:
        damaged = bytearray(content)
        damaged[position] ^= flip
        loads_right_or_not_at_all(tmp_path / "flipped.pccl", bytes(damaged), algorithm)


@settings(slow_but_fine, max_examples=200)
@given(st.data())
def test_damaged_in_several_places(
    saved: tuple[Algorithm, bytes], folder: Path, data: st.DataObject
) -> None:
    algorithm, content = saved
    damaged = bytearray(content)
    positions = st.integers(0, len(content) - 1)
    for position, value in data.draw(
        st.lists(st.tuples(positions, st.integers(0, 255)), min_size=1, max_size=4)
    ):
        damaged[position] = value
    loads_right_or_not_at_all(folder / "damaged.pccl", bytes(damaged), algorithm)


# --- files that are whole, but say what cannot be --------------------------------------------------------------------


def rewritten(
    content: bytes, path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]
) -> Path:
    """The file with its header and columns changed, and with correct checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        header = json.loads(archive.read("header.json"))
        columns = {
            name: np.load(io.BytesIO(archive.read(name)))
            for name in archive.namelist()
            if "npy" in name
        }
    columns = {name.removesuffix(".npy"): column for name, column in columns.items()}
    change(header, columns)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        for name, column in columns.items():
            with archive.open(f"{name}.npy", "w") as entry:
                np.save(entry, column)
    return path


BOUND = {"kind": "cut", "value_ps": 1, "certificate": {}, "whole_chunks": False, "reason": ""}


def header(**changed: object) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda header, columns: header.update(changed)


def column(
    name: str, change: Callable[[Any], Any]
) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda header, columns: columns.update({name: change(columns[name])})


def without(name: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda header, columns: (columns if name in columns else header).pop(name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (header(format="npz"), "is not a .pccl file: its header does not say so"),
        (without("format"), "is not a .pccl file: its header does not say so"),
        (header(version=3), "has version 3; this pccl reads versions 1 to 2"),
        (without("version"), "has version None, which is not a number such as 2"),
        (header(version=True), "has version True"),
        (header(version="1"), "has version '1', which is not a number such as 2"),
        (header(bound={"kind": "cut"}), "missing required field"),
        (header(bound=BOUND | {"mood": "good"}), "unknown field `mood`"),
        (header(bound=BOUND | {"value_ps": -1}), r">= 0 - at `\$\.bound\.value_ps`"),
        (header(bound=BOUND | {"certificate": {"devices": 0.5}}), "is corrupted"),
        (header(future=1), "unknown field `future`"),
        (header(time_unit_ps=1.7), r"Expected `int`, got `float` - at `\$\.time_unit_ps`"),
        (without("topology"), "is corrupted: .*missing required field `topology`"),
        (header(topology=[]), "is corrupted"),
        (header(collectives=[]), "is corrupted: there is nothing to do"),
        (
            header(collectives=[7]),
            r"is corrupted: Expected `object`, got `int` - at `\$\.collectives\[0\]`",
        ),
        (header(collectives=7), "is corrupted"),
        (header(provenance={"mood": "good"}), "is corrupted: .*unknown field `mood`"),
        (header(provenance=None), "is corrupted"),
        (header(time_unit_ps=2**61), "it counts time up to .* in units of 2305843009213693952 ps"),
        (header(time_unit_ps=2**80), "it counts time up to .* in units of"),
        (header(time_unit_ps=0), "it counts time up to .* in units of 0 ps"),
        (header(time_unit_ps="soon"), "is corrupted"),
        (without("link"), "is corrupted: column 'link' is missing"),
        (without("topology_src"), "is corrupted: column 'topology_src' is missing"),
        (column("start", lambda x: x[1:]), "transfer columns differ in length"),
        (column("link", lambda x: x[1:]), "its chunks do not have .* transfers in all"),
        (column("reduce", lambda x: x[:1]), "transfer columns differ in length"),
        (column("transfers_per_chunk", lambda x: x[1:]), "it has .* chunks, its collectives have"),
        (
            column("transfers_per_chunk", lambda x: x.astype(np.int64) + 2**50),
            "its chunks do not have",
        ),
        (column("transfers_per_chunk", lambda x: -x.astype(np.int64)), "its chunks do not have"),
        (column("link", lambda x: x.astype(np.int64) + 2**32), "there is no link 429496"),
        (column("link", lambda x: x + 0.5), "column 'link' is not a list of whole numbers"),
        (
            column("start", lambda x: x.astype(np.float32)),
            "column 'start' is not a list of whole numbers",
        ),
        (column("start", lambda x: x[:, None]), "column 'start' is not a list of whole numbers"),
        (
            column("topology_src", lambda x: x.astype(np.int64) + 2**32),
            "'topology_src' holds numbers that are too lar",
        ),
        (column("topology_src", lambda x: x + 50), "ends at a device that does not exist"),
        (column("topology_kind", lambda x: x[1:]), "is corrupted"),
        (column("topology_bandwidth", lambda x: np.full(len(x), 2**63, np.uint64)), "is corrupted"),
    ],
)
def test_whole_files_that_are_refused(
    saved: tuple[Algorithm, bytes], tmp_path: Path, change, message: str
) -> None:
    path = rewritten(saved[1], tmp_path / "changed.pccl", change)
    with pytest.raises(FormatError, match=message):
        load(path)


def test_the_bound_is_kept(saved: tuple[Algorithm, bytes], tmp_path: Path) -> None:
    bound = Bound("cut", Picoseconds(2**40), {"devices": (0, 2)}, True, "what must leave them")
    bounded = dataclasses.replace(saved[0], bound=bound)
    bounded.save(tmp_path / "bounded.pccl")
    pccl.export(bounded, tmp_path / "bounded.json")
    for name in ("bounded.pccl", "bounded.json"):
        assert load(tmp_path / name).bound == bound
    unbounded = rewritten(saved[1], tmp_path / "old.pccl", lambda header, _: header.pop("bound", 0))
    assert load(unbounded).bound is None, "as in files from before bounds were kept"


def test_the_end_of_the_name_says_how_it_is_saved(
    saved: tuple[Algorithm, bytes], tmp_path: Path
) -> None:
    algorithm, archive = saved
    algorithm.save(tmp_path / "saved.json")
    pccl.export(algorithm, tmp_path / "exported.json")
    document = (tmp_path / "saved.json").read_bytes()
    assert document == (tmp_path / "exported.json").read_bytes()
    assert json.loads(document)["format"] == "pccl-algorithm"
    assert load(tmp_path / "saved.json") == algorithm
    algorithm.save(tmp_path / "saved.backup")
    assert (tmp_path / "saved.backup").read_bytes() == archive
    assert load(tmp_path / "saved.backup") == algorithm


def test_archives_that_are_called_json_are_still_read(
    saved: tuple[Algorithm, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "archive.json"
    path.write_bytes(saved[1])
    assert load(path) == saved[0]


def test_what_inflates_too_much_is_not_inflated(
    saved: tuple[Algorithm, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "bomb.pccl"
    path.write_bytes(saved[1])
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("more.npy", "w") as entry,
    ):
        for _ in range(2):
            entry.write(bytes(2**26))
    with pytest.raises(FormatError, match=r"claims to hold 134,.* bytes, too many for its size"):
        load(path)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_devices_are_not_read(path: str) -> None:
    with pytest.raises(FormatError, match=f"cannot read {path}: it is not a file"):
        load(path)


def test_a_rewritten_file_is_the_same(saved: tuple[Algorithm, bytes], tmp_path: Path) -> None:
    """So that the changes above are what is refused."""
    assert (
        load(rewritten(saved[1], tmp_path / "same.pccl", lambda header, columns: None)) == saved[0]
    )


def test_provenance_does_not_change_what_is_loaded(
    saved: tuple[Algorithm, bytes], tmp_path: Path
) -> None:
    other = dataclasses.replace(saved[0], provenance=Provenance("by hand"))
    other.save(tmp_path / "other.pccl")
    assert load(tmp_path / "other.pccl") == saved[0]
    assert load(tmp_path / "other.pccl").provenance.method == "by hand"


def test_switches_of_version_1_could_do_everything(tmp_path: Path) -> None:
    """Then a switch multiplied and added, and no file said so."""
    star = pccl.topology.switch(4, multicast=True, reduce=True)
    algorithm = pccl.synthesize(star, pccl.AllReduce("4MiB", chunks=1))

    def as_before(header: dict[str, Any], columns: dict[str, Any]) -> None:
        header["version"] = 1
        del columns["topology_reduce"]
        del columns["topology_gap"]

    algorithm.save(tmp_path / "new.pccl")
    old = rewritten((tmp_path / "new.pccl").read_bytes(), tmp_path / "old.pccl", as_before)
    assert pccl.load(old) == algorithm
    pccl.verify(pccl.load(old))


def test_the_order_of_messages_is_stored_where_it_is_not_first_in_first_out(tmp_path: Path) -> None:
    star = pccl.topology.switch(2, latency="0ns")
    swap = pccl.SendRecv("2kB", (0, 1), chunks=1)
    late = 10**9
    rows = ([0, 0, 0], [0, 0, 3], [0, late, 2 * late])
    for follows in ([-1, -1, 0], [-1, -1, 1]):
        algorithm = pccl.Algorithm.build(star, [swap], *rows, follows=follows)
        assert algorithm.transfers.first_in_first_out == (follows[2] == 0)
        pccl.verify(algorithm)
        for name in ("a.pccl", "a.json"):
            algorithm.save(tmp_path / name)
            assert pccl.load(tmp_path / name) == algorithm


def test_a_version_that_is_no_number_is_called_so(tmp_path):
    path = tmp_path / "ring.json"
    pccl.synthesize(pccl.topology.ring(3), pccl.AllGather("3kB", chunks=1)).save(path)
    path.write_text(path.read_text().replace('"version": 2', '"version": "1"'))
    with pytest.raises(FormatError, match="has version '1', which is not a number such as 2"):
        pccl.load(path)
