"""Traffic matrices: lists, arrays, data frames and files say the same."""

from __future__ import annotations

import numpy as np
import pytest

import pccl
from pccl import AllToAllV, CollectiveError, FormatError, PcclError
from pccl.collective import collective_from_dict
from pccl.collective.matrices import read_matrix

MATRIX = ((0, 1024, 7), (2048, 0, 0), (1, 2, 0))


@pytest.mark.parametrize(
    "text",
    [
        "0,1024,7\n2048,0,0\n1,2,0\n",
        "0;1KiB;7\r\n2K;0;0\r\n1;2;0\r\n",
        "0 1024.0 7\n2.048e3 0 0\n1 2 0\n",
        "0\t1024\t7\n2048\t0\t0\n1\t2\t0\n",
        "from,a,b,c\na,0,1024,7\nb,2048,0,0\nc,1,2,0\n",
        ",0,1,2\n0,0,1024,7\n1,2048,0,0\n2,1,2,0\n",
        "a,b,c\n0,1024,7\n2048,0,0\n1,2,0\n",
        '"0","1_024","7"\n2048,0,0\n1,2,0\n',
    ],
)
def test_csv_of_any_kind(tmp_path, text):
    path = tmp_path / "traffic.csv"
    path.write_text(text, newline="")
    assert AllToAllV(path).matrix == MATRIX
    assert AllToAllV(str(path)).matrix == MATRIX


def test_numpy_whole_floats_and_frames(tmp_path):
    floats = np.array(MATRIX, np.float64)
    np.save(tmp_path / "traffic.npy", floats)
    assert AllToAllV(tmp_path / "traffic.npy").matrix == MATRIX
    assert AllToAllV(floats).matrix == MATRIX

    class Frame:
        """Like a data frame, which gives an array of itself."""

        def __array__(self, dtype=None, copy=None):
            return floats

    assert AllToAllV(Frame()).matrix == MATRIX
    with pytest.raises(CollectiveError, match=r"holds 1\.5; bytes are whole"):
        AllToAllV(floats + 1.5)
    with pytest.raises(CollectiveError, match="holds nan"):
        AllToAllV(floats * np.nan)


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {name: [row[i] for row in MATRIX] for i, name in enumerate("abc")}
    parquet.write_table(pyarrow.table(columns), tmp_path / "plain.parquet")
    named = columns | {"__index_level_0__": ["a", "b", "c"]}
    parquet.write_table(pyarrow.table(named), tmp_path / "pandas.parquet")
    for name in ("plain", "pandas"):
        assert AllToAllV(tmp_path / f"{name}.parquet").matrix == MATRIX
    (tmp_path / "bad.parquet").write_bytes(b"hello")
    with pytest.raises(FormatError, match="is no table of Parquet"):
        read_matrix(tmp_path / "bad.parquet")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("t.csv", b"0,1\n1,x\n", r"t\.csv:2: 'x' is neither a number"),
        ("t.csv", b"0,-1\n1,0\n", "'-1' is neither"),
        ("t.csv", b"", "a matrix of 0 rows"),
        ("t.csv", b"0\n" * 5000, "a matrix of 5,000 rows"),
        ("t.csv", b"\0\0", "not a text file"),
        ("t.npy", b"hello", "is no matrix of NumPy"),
        ("t.json", b"[]", "a traffic matrix is .csv"),
    ],
)
def test_wrong_files(tmp_path, name, content, problem):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FormatError, match=problem):
        read_matrix(path)


def test_missing_files_and_wrong_shapes(tmp_path):
    for name in ("t.csv", "t.npy"):
        with pytest.raises(FormatError, match="there is no such file"):
            read_matrix(tmp_path / name)
    (tmp_path / "t.csv").write_text("0,1,2\n3,0,4\n")
    with pytest.raises(CollectiveError, match="the matrix must be square"):
        AllToAllV(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("0,5\n2,0,0\n1,1,0\n")
    with pytest.raises(CollectiveError, match="row 0 has 2 entries, not 3, one for each row"):
        AllToAllV(tmp_path / "t.csv")
    np.save(tmp_path / "t.npy", np.zeros((2, 2, 2)))
    with pytest.raises(FormatError, match="expected a square"):
        read_matrix(tmp_path / "t.npy")


def test_shares_are_rounded_up_to_whole_units() -> None:
    collective = AllToAllV([[0, 1], [1025, 2048]], round="1KiB")
    assert collective.shares.tolist() == [[0, 1024], [2048, 2048]]
    assert (int(collective.size), collective.rounding) == (4096, 1023 + 1023)
    conditions = collective.conditions(pccl.topology.ring(2))
    assert conditions.bytes.tolist() == [1024, 2048]
    assert (
        str(collective)
        == "all-to-all-v of 4KiB among all NPUs, in units of 1KiB (2.0 KiB more in all)"
    )


def test_what_was_asked_for_is_kept_beside_the_unit() -> None:
    collective = AllToAllV([[0, 1], [1025, 0]], round="1KiB")
    data = collective.to_dict()
    assert (data["round"], data["matrix"]) == ("1KiB", [[0, 1], [1025, 0]])
    assert collective_from_dict(data) == collective
    assert "round" not in AllToAllV([[0, 1], [1, 0]]).to_dict()


def test_a_unit_makes_elements_whole() -> None:
    collective = AllToAllV([[0, 3], [5, 0]], round="4B", dtype="float32")
    assert collective.shares.tolist() == [[0, 4], [8, 0]]


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        ("0B", "all-to-all-v: round is 0B; shares are rounded up to multiples of a positive size"),
        ("64", "round of all-to-all-v '64' has no unit"),
        (64, "round of all-to-all-v 64 has no unit"),
        ("-1KiB", "it must not be negative"),
        ("6B", "a round of 6B is not a whole number of elements of float32"),
        ("4000PB", "what a member of all-to-all-v sends .* is too large"),
    ],
)
def test_wrong_units(unit, message) -> None:
    with pytest.raises(PcclError, match=message):
        AllToAllV([[0, 4, 4], [4, 0, 4], [4, 4, 0]], round=unit, dtype="float32")


def test_pieces_become_equal_where_that_takes_little() -> None:
    enlarged = AllToAllV([[0, "1KiB"], ["2KiB", 0]], chunks=3).with_equal_chunks(2)
    assert enlarged.shares.tolist() == [[0, 1026], [2052, 0]]
    small = AllToAllV([[0, 10], [20, 0]], chunks=3)
    assert small.with_equal_chunks(2) is small
    nothing = AllToAllV([[0, 0], [0, 0]], chunks=3)
    assert nothing.with_equal_chunks(2) is nothing
