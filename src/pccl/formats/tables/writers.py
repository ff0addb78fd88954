"""Open tables of the transfers: JSON that reads back as an algorithm, CSV, and Parquet.

CSV and Parquet have the same columns, one row per transfer, ordered by chunk, start and link.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Indices
from pccl._files import replacing
from pccl._version import __version__
from pccl.algorithm import Algorithm
from pccl.algorithm.core import needs_text
from pccl.algorithm.json_file import save_json
from pccl.errors import PcclError

# Rows that are turned into objects at a time.
_BLOCK = 200_000


class Names(NamedTuple):
    """A column of texts, of which there are few: row ``i`` is ``texts[code[i]]``."""

    code: Indices
    texts: tuple[str, ...]


_Column: TypeAlias = NDArray[Any] | Names


def columns(algorithm: Algorithm, begin: int = 0, end: int | None = None) -> dict[str, _Column]:
    """Everything there is to know of the transfers from row `begin` to row `end`, column by column.

    Examples
    --------
    >>> import pccl
    >>> algorithm = pccl.synthesize(pccl.topology.ring(4), pccl.AllGather("4MiB", chunks=1))
    >>> table = columns(algorithm)
    >>> list(table)[:6], table["start_ps"].max().item()
    (['chunk', 'collective', 'kind', 'piece', 'link', 'src'], 20031250)
    """
    rows = slice(begin, end)
    labels = algorithm.topology.labels
    conditions = algorithm.conditions
    every = algorithm.transfers
    # Derived columns of the block alone, which take less memory.
    block = {name: getattr(every, name)[rows] for name in ("chunk", "link", "start", "reduce")}
    t = replace(every, **block)
    collective = conditions.collective[t.chunk]
    return {
        "chunk": t.chunk,
        "collective": collective,
        "kind": Names(collective, tuple(one.kind for one in algorithm.collectives)),
        "piece": conditions.piece[t.chunk],
        "link": t.link,
        "src": t.src,
        "dst": t.dst,
        "src_name": Names(t.src, labels),
        "dst_name": Names(t.dst, labels),
        "start_ps": t.start,
        "arrival_ps": t.arrival,
        "bytes": t.bytes,
        "reduce": t.reduce,
        "follows": every.follows[rows] if len(every.follows) else np.full(len(t), -1, np.int32),
    }


def write_json(algorithm: Algorithm, path: str | Path) -> dict[str, str]:
    """Write one JSON document with everything; :func:`pccl.load` reads it back."""
    save_json(algorithm, path)
    return _facts(algorithm)


def write_csv(algorithm: Algorithm, path: str | Path) -> dict[str, str]:
    """Write one line per transfer, below a line with the names of the columns."""
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns(algorithm, 0, 0))
        for block in _blocks(algorithm):
            writer.writerows(zip(*map(_values, block.values()), strict=True))
        # Whoever opened the file closes it.
        text.detach()
    return _facts(algorithm)


def write_parquet(algorithm: Algorithm, path: str | Path) -> dict[str, str]:
    """Write a Parquet file; its metadata ``pccl`` says what the algorithm is for and where it comes from."""
    arrow, parquet = _pyarrow()
    about = {
        "version": __version__,
        "topology": algorithm.topology.name,
        "collectives": [collective.to_dict() for collective in algorithm.collectives],
        "method": algorithm.provenance.method,
        "seed": algorithm.provenance.seed,
        "duration_ps": int(algorithm.duration),
        "needs": list(algorithm.needs),
    }
    # The schema has to be known before the first block.
    empty = _arrow_table(arrow, columns(algorithm, 0, 0))
    schema = empty.schema.with_metadata({"pccl": json.dumps(about)})
    with replacing(path) as file, parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for block in _blocks(algorithm):
            writer.write_table(_arrow_table(arrow, block).replace_schema_metadata())
    return _facts(algorithm)


def _blocks(algorithm: Algorithm) -> Iterator[dict[str, _Column]]:
    for begin in range(0, len(algorithm.transfers), _BLOCK):
        yield columns(algorithm, begin, begin + _BLOCK)


def _values(column: _Column) -> list[Any]:
    if not isinstance(column, Names) and column.dtype == np.bool_:
        column = Names(column.astype(np.int32), ("false", "true"))
    if isinstance(column, Names):
        column = np.array(column.texts, object)[column.code]
    values: list[Any] = column.tolist()
    return values


def _arrow_table(arrow: Any, table: dict[str, _Column]) -> Any:
    def convert(column: _Column) -> Any:
        if isinstance(column, Names):
            return arrow.DictionaryArray.from_arrays(column.code, list(column.texts))
        return arrow.array(column)

    return arrow.table({name: convert(column) for name, column in table.items()})


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise PcclError("pyarrow is not installed: pip install pyarrow") from error
    return pyarrow, pyarrow.parquet


def _facts(algorithm: Algorithm) -> dict[str, str]:
    facts = {"transfers": f"{len(algorithm.transfers):,}"}
    if algorithm.needs:
        facts["needs"] = needs_text(algorithm.needs)
    return facts
