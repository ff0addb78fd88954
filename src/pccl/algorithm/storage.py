"""The ``.pccl`` file: a NumPy archive (npz) with the columns, and a JSON header that says what they mean.

Columns are stored as small as they go: starts in their greatest common unit, integers in as few bytes as they need.
Conditions follow from the collectives and are not stored.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pccl.algorithm.core import Algorithm, Provenance
from pccl.collective import collective_from_dict, compile_conditions
from pccl.errors import FormatError, PcclError
from pccl.topology import Topology

__all__ = ["load", "save"]

FORMAT, VERSION = "pccl-algorithm", 1
_TOPOLOGY = ("kind", "buffer", "multicast", "src", "dst", "latency", "bandwidth", "exclusive")
_COLUMNS = (
    *(f"topology_{name}" for name in _TOPOLOGY),
    "transfers_per_chunk",
    "link",
    "start",
    "reduce",
)
_EPOCH = (
    1980,
    1,
    1,
    0,
    0,
    0,
)  # no clock in the archive: equal algorithms of equal provenance give equal bytes


class _About(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    labels: list[str]
    shape: list[int]


class _Made(msgspec.Struct, forbid_unknown_fields=True):
    method: str
    seed: int
    seconds: float
    version: str


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    version: int
    topology: _About
    collectives: list[dict[str, Any]]
    provenance: _Made
    time_unit_ps: int


def save(algorithm: Algorithm, path: str | Path) -> None:
    """Write an algorithm to a file; :func:`load` reads it back."""
    topology, transfers = algorithm.topology, algorithm.transfers
    unit = int(np.gcd.reduce(transfers.start)) or 1 if len(transfers) else 1
    header = {
        "format": FORMAT,
        "version": VERSION,
        "topology": {
            "name": topology.name,
            "labels": list(topology.labels),
            "shape": list(topology.shape),
        },
        "collectives": [collective.to_dict() for collective in algorithm.collectives],
        "provenance": asdict(algorithm.provenance),
        "time_unit_ps": unit,
    }
    columns: dict[str, NDArray[Any]] = {
        f"topology_{name}": getattr(topology, name) for name in _TOPOLOGY
    }
    columns["transfers_per_chunk"] = np.bincount(
        transfers.chunk, minlength=len(algorithm.conditions)
    )
    columns["link"], columns["start"], columns["reduce"] = (
        transfers.link,
        transfers.start // unit,
        transfers.reduce,
    )
    path = Path(path)
    text = json.dumps(header, indent=1, default=int)
    try:
        if path.exists() and not path.is_file():  # a device or a pipe is written to, not replaced
            _write(path, text, columns)
        else:
            unfinished = path.with_name(
                f".{path.name}.{os.getpid()}"
            )  # so that nobody ever sees half a file
            try:
                _write(unfinished, text, columns)
                unfinished.replace(path)
            finally:
                unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise FormatError(f"cannot write {path}: {error.strerror or error}") from None


def _write(path: Path, header: str, columns: dict[str, NDArray[Any]]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(zipfile.ZipInfo("header.json", _EPOCH), header)
        for name, column in columns.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, _narrow(column), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content.getbuffer(), compresslevel=1)


def load(path: str | Path) -> Algorithm:
    """Read an algorithm from a ``.pccl`` file, or from a ``.json`` file as :func:`pccl.export` writes it.

    Examples
    --------
    >>> import pccl, tempfile
    >>> algorithm = pccl.synthesize(pccl.topology.ring(4), pccl.AllGather(size="4MiB"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     algorithm.save(f"{folder}/ring.pccl")
    ...     pccl.load(f"{folder}/ring.pccl") == algorithm
    True
    """
    if Path(path).suffix == ".json":
        from pccl.algorithm.json_file import load_json

        return load_json(path)
    try:
        with zipfile.ZipFile(path) as archive:
            header = _header(archive, path)
            columns = {
                name.removesuffix(".npy"): np.lib.format.read_array(
                    io.BytesIO(archive.read(name)), allow_pickle=False
                )
                for name in archive.namelist()
                if name != "header.json"
            }
    except FileNotFoundError:
        raise FormatError(f"{path}: there is no such file") from None
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from None
    except FormatError:
        raise
    except (
        Exception
    ) as error:  # damaged bytes make zipfile, its decompressors and NumPy raise nearly anything
        raise FormatError(f"{path} is not a .pccl file, or is corrupted: {error}") from None
    try:
        return _algorithm(header, columns)
    except (
        PcclError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        OverflowError,
        MemoryError,
    ) as error:
        raise FormatError(f"{path} is corrupted: {error}") from None


def _header(archive: zipfile.ZipFile, path: str | Path) -> _Header:
    try:
        text = archive.read("header.json")
    except KeyError:
        raise FormatError(f"{path} is not a .pccl file: it has no header") from None
    said = json.loads(text)
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise FormatError(f"{path} is not a .pccl file: its header does not say so")
    if type(said.get("version")) is not int or said["version"] != VERSION:
        raise FormatError(
            f"{path} has version {said.get('version')}; this pccl reads version {VERSION}"
        )
    return msgspec.json.decode(text, type=_Header)


def _algorithm(header: _Header, columns: dict[str, NDArray[Any]]) -> Algorithm:
    for name in (*_COLUMNS, *columns):
        if name not in columns:
            raise FormatError(f"column {name!r} is missing")
        if name not in _COLUMNS:
            raise FormatError(f"this pccl knows no column {name!r}")
        if columns[name].ndim != 1 or columns[name].dtype.kind not in "biu":
            raise FormatError(f"column {name!r} is not a list of whole numbers")
    topology = Topology(
        name=header.topology.name,
        labels=tuple(header.topology.labels),
        shape=tuple(header.topology.shape),
        **{name: columns[f"topology_{name}"] for name in _TOPOLOGY},
    )
    for name in _TOPOLOGY:
        if not np.array_equal(getattr(topology, name), columns[f"topology_{name}"]):
            raise FormatError(f"column 'topology_{name}' holds numbers that are too large")
    collectives = [collective_from_dict(data) for data in header.collectives]
    conditions = compile_conditions(topology, collectives)
    counts, total = columns["transfers_per_chunk"].astype(np.int64), len(columns["link"])
    if len(counts) != len(conditions):
        raise FormatError(f"it has {len(counts)} chunks, its collectives have {len(conditions)}")
    if np.any((counts < 0) | (counts > total)) or counts.sum() != total:
        raise FormatError(f"its chunks do not have {total} transfers in all")
    start, unit = columns["start"], header.time_unit_ps
    furthest = max(int(start.max(initial=0)), -int(start.min(initial=0)))
    if unit < 1 or furthest * unit >= 2**63:
        raise FormatError(f"it counts time up to {furthest} in units of {unit} ps")
    return Algorithm.build(
        topology,
        collectives,
        np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        columns["link"],
        start.astype(np.int64) * unit,
        columns["reduce"],
        provenance=Provenance(**msgspec.structs.asdict(header.provenance)),
        conditions=conditions,
    )


def _narrow(column: NDArray[Any]) -> NDArray[Any]:
    """The same integers in the smallest type that holds them all."""
    if column.dtype == np.bool_ or not len(column):
        return column
    lowest, highest = int(column.min()), int(column.max())
    # Beside a negative number, a positive one must fit the signed type as well.
    return column.astype(np.min_scalar_type(min(lowest, -highest - 1) if lowest < 0 else highest))
