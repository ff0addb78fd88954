"""Traffic in files: who sends how much to whom, from CSV, NumPy or Parquet."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np

from pccl.errors import FormatError, PcclError
from pccl.topology.documents import read_text

SUFFIXES = (".csv", ".tsv", ".txt", ".npy", ".parquet")
# More members would make a table of tens of millions of shares.
_MOST_MEMBERS = 4_096
# A number, or a size with its unit.
_VALUE = re.compile(r"[0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?\s*(?:[kKMGTP]?i?B?)?")


def read_matrix(path: str | Path) -> list[list[Any]]:
    r"""Read a traffic matrix: row i, column j is what member i sends to member j, in bytes or with a unit.

    A first row and a first column of names are left out, as spreadsheets and pandas write them.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "traffic.csv"
    >>> _ = file.write_text("from,a,b\na,0,1MiB\nb,2048,0\n")
    >>> read_matrix(file)
    [[0.0, '1MiB'], [2048.0, 0.0]]
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise FormatError(
            f"{path}: a traffic matrix is {', '.join(SUFFIXES)}, not {path.suffix or 'this'!r}"
        )
    if path.suffix == ".npy":
        rows = _from_numpy(path)
    elif path.suffix == ".parquet":
        rows = _from_parquet(path)
    else:
        rows = _from_text(path)
    if not rows or len(rows) > _MOST_MEMBERS:
        raise FormatError(
            f"{path}: a matrix of {len(rows):,} rows; there may be 1 to {_MOST_MEMBERS:,}"
        )
    return rows


def _from_text(path: Path) -> list[list[Any]]:
    text = read_text(path, "a traffic matrix")
    lines = [line for line in text.replace("\ufeff", "").splitlines() if line.strip()]
    if not lines or len(lines) > _MOST_MEMBERS + 1:
        raise FormatError(
            f"{path}: a matrix of {len(lines):,} rows; there may be 1 to {_MOST_MEMBERS:,}"
        )
    signs = [sign for sign in (",", ";", "\t") if sign in lines[0]]
    cells = [line.split() for line in lines]
    if signs:
        try:
            cells = [
                [cell.strip() for cell in row] for row in csv.reader(lines, delimiter=signs[0])
            ]
        except csv.Error as error:
            raise FormatError(f"{path}: {error}") from None
    # Names of members above and beside the numbers. Where all are numbers, the shape tells: one row more than columns.
    is_one_too_high = all(len(row) == len(cells) - 1 for row in cells)
    has_header = any(map(_is_name, cells[0])) or is_one_too_high
    if has_header and len(cells) > 1:
        header, *cells = cells
        beside = len(header) == len(cells) + 1 or any(_is_name(row[0]) for row in cells if row)
    else:
        beside = any(_is_name(row[0]) for row in cells if row)
    rows = [row[1:] if beside else row for row in cells]
    first = len(lines) - len(cells) + 1
    return [[_number(cell, path, first + i) for cell in row] for i, row in enumerate(rows)]


def _is_name(cell: str) -> bool:
    """Whether a cell is what somebody is called, and no number, not even a wrong one."""
    return re.match(r"[-+.]?[0-9]", cell) is None


def _number(cell: str, path: Path, line: int) -> Any:
    if not _VALUE.fullmatch(cell):
        raise FormatError(
            f"{path}:{line}: {cell[:40]!r} is neither a number of bytes nor a size such as 1MiB"
        )
    return cell if cell[-1].isalpha() else float(cell.replace("_", ""))


def _from_numpy(path: Path) -> list[list[Any]]:
    try:
        # Mapped, so that a header that lies about the size is found out before anything is read.
        matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise FormatError(f"{path}: there is no such file") from None
    except (OSError, ValueError, EOFError) as error:
        raise FormatError(f"{path} is no matrix of NumPy: {error}") from None
    if matrix.ndim != 2 or max(matrix.shape) > _MOST_MEMBERS or matrix.dtype.kind not in "iuf":
        text = f"shape {matrix.shape} of {matrix.dtype}"
        raise FormatError(
            f"{path}: expected a square of at most {_MOST_MEMBERS:,} numbers a side, not {text}"
        )
    rows: list[list[Any]] = np.asarray(matrix).tolist()
    return rows


def _from_parquet(path: Path) -> list[list[Any]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise PcclError("pyarrow is not installed: pip install pyarrow") from error
    try:
        about = parquet.read_metadata(path)
        if max(about.num_rows, about.num_columns) > _MOST_MEMBERS + 1:
            raise FormatError(
                f"{path}: {about.num_rows:,} rows; there may be at most {_MOST_MEMBERS:,}"
            )
        table = parquet.read_table(path)
    except FileNotFoundError:
        raise FormatError(f"{path}: there is no such file") from None
    except (OSError, ArrowException) as error:
        raise FormatError(
            f"{path} is no table of Parquet: {' '.join(str(error).split())}"
        ) from None
    columns = [column.to_pylist() for column in table.columns]
    # What pandas keeps of its index, or names of members.
    if len(columns) == table.num_rows + 1:
        names = [name.startswith("__index") for name in table.column_names]
        columns.pop(names.index(True) if any(names) else 0)
    return [list(row) for row in zip(*columns, strict=True)]
