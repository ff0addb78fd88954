"""Open tables of the transfers: JSON, CSV and Parquet."""

from __future__ import annotations

from pccl.formats.format import Format

__all__ = ["FORMATS"]

_WRITERS = "pccl.formats.tables.writers"

FORMATS = (
    Format(
        "json",
        "everything, as one JSON document",
        writer=f"{_WRITERS}:write_json",
        suffixes=(".json",),
    ),
    Format(
        "csv",
        "one row per transfer, as text",
        writer=f"{_WRITERS}:write_csv",
        suffixes=(".csv",),
    ),
    Format(
        "parquet",
        "one row per transfer, in columns",
        writer=f"{_WRITERS}:write_parquet",
        suffixes=(".parquet",),
    ),
)
