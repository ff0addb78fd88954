"""An algorithm as one JSON document: what a ``.pccl`` file holds, readable by anything.

The transfers are four columns; four more follow from them and are written for the sake of other readers. When a
document is loaded, those may be missing, and are checked where they are given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Ints
from pccl._files import replacing
from pccl.algorithm.core import Algorithm, Provenance
from pccl.collective import collective_from_dict
from pccl.errors import FormatError, PcclError
from pccl.topology import topology_from_dict, topology_to_dict
from pccl.topology.files import read_document

__all__ = ["load_json", "save_json"]

FORMAT, VERSION = "pccl-algorithm", 1
_DERIVED = {"src": "src", "dst": "dst", "arrival_ps": "arrival", "bytes": "bytes"}
_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Transfers(msgspec.Struct, forbid_unknown_fields=True):
    chunk: list[_Whole]
    link: list[_Whole]
    start_ps: list[_Whole]
    reduce: list[bool]
    src: list[_Whole] | None = None
    dst: list[_Whole] | None = None
    arrival_ps: list[_Whole] | None = None
    bytes: list[_Whole] | None = None


class _Made(msgspec.Struct, forbid_unknown_fields=True):
    method: str = "unknown"
    seed: int = 0
    seconds: float = 0.0
    version: str = "unknown"


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    version: int
    topology: dict[str, Any]
    collectives: list[dict[str, Any]]
    transfers: _Transfers
    provenance: _Made = msgspec.field(default_factory=_Made)


def save_json(algorithm: Algorithm, path: str | Path) -> None:
    """Write an algorithm to a ``.json`` file; :func:`pccl.load` reads it back."""
    with replacing(path) as file:
        for text in _texts(algorithm):
            file.write(text)


def load_json(path: str | Path) -> Algorithm:
    """Read an algorithm from a ``.json`` file; use :func:`pccl.load`, which knows all kinds of files."""
    path = Path(path)
    if not path.exists():
        raise FormatError(f"{path}: there is no such file")
    said = read_document(path, "an algorithm")
    if said.get("format") != FORMAT:
        raise FormatError(
            f'{path} is not an algorithm of pccl: it does not say "format": "{FORMAT}"'
        )
    if type(said.get("version")) is not int or said["version"] != VERSION:
        raise FormatError(
            f"{path} has version {said.get('version')}; this pccl reads version {VERSION}"
        )
    try:
        return _algorithm(msgspec.convert(said, _Document))
    except (PcclError, msgspec.ValidationError, MemoryError) as error:
        raise FormatError(f"{path} is corrupted: {error}") from None


def _texts(algorithm: Algorithm) -> Iterator[bytes]:
    """The document piece by piece, with a line for each column."""
    t, encode = algorithm.transfers, msgspec.json.encode
    heads = {
        "format": FORMAT,
        "version": VERSION,
        "topology": topology_to_dict(algorithm.topology),
        "collectives": [collective.to_dict() for collective in algorithm.collectives],
        "provenance": asdict(algorithm.provenance),
    }
    yield b"{\n"
    for name, value in heads.items():
        yield b'"%s": %s,\n' % (name.encode(), encode(value))
    yield b'"transfers": {\n'
    columns: dict[str, NDArray[Any]] = {
        "chunk": t.chunk,
        "link": t.link,
        "start_ps": t.start,
        "reduce": t.reduce,
    }
    columns |= {name: getattr(t, attribute) for name, attribute in _DERIVED.items()}
    for i, (name, column) in enumerate(columns.items()):
        yield b'%s"%s": %s' % (b",\n" if i else b"", name.encode(), encode(column.tolist()))
    yield b"\n}\n}\n"


def _algorithm(document: _Document) -> Algorithm:
    given = document.transfers
    columns = {name: _column(given, name) for name in ("chunk", "link", "start_ps", "reduce")}
    count = len(columns["chunk"])
    for name in (*columns, *_DERIVED):
        values = getattr(given, name)
        if values is not None and len(values) != count:
            raise FormatError(
                f"column {name!r} has {len(values)} entries, column 'chunk' has {count}"
            )
    algorithm = Algorithm.build(
        topology_from_dict(document.topology),
        [collective_from_dict(data) for data in document.collectives],
        *columns.values(),
        provenance=Provenance(**msgspec.structs.asdict(document.provenance)),
    )
    order = np.lexsort(
        (columns["link"], columns["start_ps"], columns["chunk"])
    )  # that of the algorithm
    for name, attribute in _DERIVED.items():
        if getattr(given, name) is not None:
            _check_derived(
                name, _column(given, name)[order], getattr(algorithm.transfers, attribute), order
            )
    return algorithm


def _column(given: _Transfers, name: str) -> NDArray[Any]:
    return np.array(getattr(given, name), np.bool_ if name == "reduce" else np.int64)


def _check_derived(name: str, said: NDArray[Any], right: NDArray[Any], order: Ints) -> None:
    wrong = np.flatnonzero(said != right)
    if len(wrong):
        row = int(wrong[0])
        raise FormatError(
            f"transfer {order[row]} has {name} {said[row]}; with its chunk and link it is {right[row]}"
        )
