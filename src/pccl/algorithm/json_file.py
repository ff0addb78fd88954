"""An algorithm as one JSON document: what a ``.pccl`` file holds, readable by anything.

The transfers are four columns; four more follow from them and are written for the sake of other readers. When a
document is loaded, those may be missing, and are checked where they are given.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np

from pccl._arrays import Column
from pccl._files import replacing
from pccl.algorithm.core import Algorithm
from pccl.algorithm.storage import Header, check_header, header_of
from pccl.errors import FormatError, PcclError
from pccl.topology import topology_from_dict, topology_to_dict
from pccl.topology.documents import read_document

# Names in the document, and those of the columns of an algorithm.
_GIVEN = {"chunk": "chunk", "link": "link", "start_ps": "start", "reduce": "reduce"}
_DERIVED = {"src": "src", "dst": "dst", "arrival_ps": "arrival", "bytes": "bytes"}
_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Transfers(msgspec.Struct, forbid_unknown_fields=True):
    chunk: list[_Whole]
    link: list[_Whole]
    start_ps: list[_Whole]
    reduce: list[bool]
    follows: list[_Whole] | None = None
    src: list[_Whole] | None = None
    dst: list[_Whole] | None = None
    arrival_ps: list[_Whole] | None = None
    bytes: list[_Whole] | None = None


class _Document(Header, forbid_unknown_fields=True, kw_only=True):
    topology: dict[str, Any]
    transfers: _Transfers


def save_json(algorithm: Algorithm, path: str | Path) -> None:
    """Write an algorithm to a ``.json`` file, with a line for each column; :func:`pccl.load` reads it back."""
    head = header_of(algorithm) | {"topology": topology_to_dict(algorithm.topology)}
    with replacing(path) as file:
        file.write(b"{\n")
        for name, value in head.items():
            file.write(f'"{name}": {json.dumps(value, default=int)},\n'.encode())
        file.write(b'"transfers": {')
        comma = b"\n"
        follows = {"follows": "follows"} if algorithm.topology.plain else {}
        for name, attribute in (_GIVEN | follows | _DERIVED).items():
            column = getattr(algorithm.transfers, attribute).tolist()
            file.write(b'%s"%s": %s' % (comma, name.encode(), msgspec.json.encode(column)))
            comma = b",\n"
        file.write(b"\n}\n}\n")


def load_json(path: Path) -> Algorithm:
    """Read an algorithm from a ``.json`` file; use :func:`pccl.load`, which knows all kinds of files."""
    said = read_document(path, "an algorithm")
    check_header(said, path, 'an algorithm of pccl: it does not say "format": "pccl-algorithm"')
    try:
        return _algorithm(msgspec.convert(said, _Document))
    except (PcclError, msgspec.ValidationError, MemoryError) as error:
        raise FormatError(f"{path} is corrupted: {error}") from None


def _algorithm(document: _Document) -> Algorithm:
    given: dict[str, Column] = {}
    for name in (*_GIVEN, "follows", *_DERIVED):
        values = getattr(document.transfers, name)
        if values is not None:
            given[name] = np.array(values, np.bool_ if name == "reduce" else np.int64)
    count = len(given["chunk"])
    for name, column in given.items():
        if len(column) != count:
            raise FormatError(
                f"column {name!r} has {len(column)} entries, column 'chunk' has {count}"
            )
    topology = topology_from_dict(document.topology)
    if document.all_switches_can:
        able = np.ones(topology.num_devices, np.bool_)
        topology = replace(topology, multicast=able, reduce=able)
    algorithm = Algorithm.build(
        topology,
        document.read_collectives(),
        *(given[name] for name in _GIVEN),
        follows=given.get("follows"),
        **document.knowledge(),
    )
    # Rows of the document in the order of the algorithm.
    order = np.lexsort((given["link"], given["start_ps"], given["chunk"]))
    # Other readers trust these columns, so a file where they are wrong must not pass for a good
    # one.
    for name, attribute in _DERIVED.items():
        if name in given:
            said = given[name][order]
            right = getattr(algorithm.transfers, attribute)
            for row in np.flatnonzero(said != right):
                raise FormatError(
                    f"transfer {order[row]} has {name} {said[row]}; with its chunk and link it is {right[row]}"
                )
    return algorithm
