"""Open tables of the transfers: JSON, CSV and Parquet."""

from __future__ import annotations

from pccl.formats.format import Format

__all__ = ["FORMATS"]

_TABLES = {
    "json": "everything, as one JSON document",
    "csv": "one row per transfer, as text",
    "parquet": "one row per transfer, in columns",
}

FORMATS = tuple(
    Format(
        name,
        description,
        writer=f"pccl.formats.tables.writers:write_{name}",
        suffixes=(f".{name}",),
    )
    for name, description in _TABLES.items()
)
