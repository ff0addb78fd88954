"""The ``.pccl`` file: a NumPy archive (npz) with the columns, and a JSON header that says what they mean.

Columns are stored as small as they go: starts in their greatest common unit, integers in as few bytes as they need.
Conditions follow from the collectives and are not stored.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from pccl._arrays import Column
from pccl._files import refuse_endless, replacing
from pccl.algorithm.bound import Bound
from pccl.algorithm.core import Algorithm, Provenance
from pccl.collective import Collective, collective_from_dict, compile_conditions
from pccl.errors import FormatError, PcclError
from pccl.topology import Topology
from pccl.topology.parts import DEVICE_COLUMNS, LINK_COLUMNS
from pccl.units import Picoseconds, counted

_TOPOLOGY = (*DEVICE_COLUMNS, *LINK_COLUMNS)
_COLUMNS = [f"topology_{name}" for name in _TOPOLOGY]
_COLUMNS += ["transfers_per_chunk", "link", "start", "reduce"]
# Columns that are written only where they say more than what is usual.
_FOLLOWS = "follows"
# No clock in the archive: equal algorithms of equal provenance give equal bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)
# Ours inflate three- to fivefold. What claims to inflate far more would only fill the memory.
_MOST_INFLATION = 50
_ALWAYS_FINE = 2**26
_ALWAYS_CLAIMED = 2**22


# --- what every file says of an algorithm, beside its network and its columns -----------------------------------------

_FORMAT = "pccl-algorithm"
# In version 1 all switches could multiply and add, and messages cost nothing.
_VERSION = 2
_ALL_SWITCHES_CAN = 1


class _Made(msgspec.Struct, forbid_unknown_fields=True):
    method: str = "unknown"
    seed: int = 0
    seconds: float = 0.0
    version: str = "unknown"
    cut_short: bool = False


class _Proven(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    value_ps: Annotated[int, msgspec.Meta(ge=0, le=2**62)]
    certificate: dict[str, tuple[int, ...]]
    whole_chunks: bool
    reason: str
    cut_short: bool = False


class Header(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The part that is the same in every file."""

    format: str
    version: int
    collectives: list[dict[str, Any]]
    provenance: _Made = msgspec.field(default_factory=_Made)
    bound: _Proven | None = None

    @property
    def all_switches_can(self) -> bool:
        """Whether the file was written when switches could do everything, and said nothing about it."""
        return self.version == _ALL_SWITCHES_CAN

    def read_collectives(self) -> list[Collective]:
        """Return what the algorithm is for."""
        return [collective_from_dict(data) for data in self.collectives]

    def knowledge(self) -> dict[str, Any]:
        """Return what is known about the algorithm, by the names that :meth:`Algorithm.build` has for it."""
        known: dict[str, Any] = {
            "provenance": Provenance(**msgspec.structs.asdict(self.provenance))
        }
        if self.bound is not None:
            said = msgspec.structs.asdict(self.bound)
            known["bound"] = Bound(value=Picoseconds(said.pop("value_ps")), **said)
        return known


def header_of(algorithm: Algorithm) -> dict[str, Any]:
    """Return the same for an algorithm that is to be written."""
    said = {
        "format": _FORMAT,
        "version": _VERSION,
        "collectives": [collective.to_dict() for collective in algorithm.collectives],
        "provenance": asdict(algorithm.provenance),
    }
    if algorithm.bound is not None:
        bound = asdict(algorithm.bound)
        said["bound"] = {"value_ps": int(bound.pop("value")), **bound}
    return said


def check_header(said: dict[str, Any], path: Path, other: str) -> None:
    """Refuse what is something `other` than an algorithm, or of a version that we do not know."""
    if said.get("format") != _FORMAT:
        raise FormatError(f"{path} is not {other}")
    version = said.get("version")
    # True would equal 1.
    if type(version) is not int:
        raise FormatError(
            f"{path} has version {version!r}, which is not a number such as {_VERSION}"
        )
    if not 1 <= version <= _VERSION:
        raise FormatError(
            f"{path} has version {version!r}; this pccl reads versions 1 to {_VERSION}"
        )


# --- the .pccl file ---------------------------------------------------------------------------------------------------


class _About(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    labels: list[str]
    shape: list[int]
    lost: list[tuple[int, int]] = []


class _Header(Header, forbid_unknown_fields=True, kw_only=True):
    topology: _About
    time_unit_ps: int


def save(algorithm: Algorithm, path: str | Path) -> None:
    """Write an algorithm to a file; :func:`load` reads it back.

    The end of the name says how: ``.json`` is one JSON document, anything else the archive of ``.pccl`` files.
    """
    if Path(path).suffix == ".json":
        from pccl.algorithm.json_file import save_json

        save_json(algorithm, path)
        return
    topology = algorithm.topology
    transfers = algorithm.transfers
    # Counted in what all starts have in common, most fit 16 or 32 bits.
    unit = int(np.gcd.reduce(transfers.start)) or 1
    about = {"name": topology.name, "labels": topology.labels, "shape": topology.shape}
    if topology.lost:
        about["lost"] = topology.lost
    header = header_of(algorithm) | {"topology": about, "time_unit_ps": unit}
    columns: list[Column] = [getattr(topology, name) for name in _TOPOLOGY]
    columns += [
        # Transfers are sorted by chunk, so their numbers say which chunk each belongs to.
        np.bincount(transfers.chunk, minlength=len(algorithm.conditions)),
        transfers.link,
        transfers.start // unit,
        transfers.reduce,
    ]
    contents = {"header.json": json.dumps(header, indent=1, default=int).encode()}
    named = dict(zip(_COLUMNS, columns, strict=True))
    if not transfers.first_in_first_out:
        named[_FOLLOWS] = transfers.follows
    for name, column in named.items():
        content = io.BytesIO()
        np.lib.format.write_array(content, _narrow(column), allow_pickle=False)
        contents[f"{name}.npy"] = content.getvalue()
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, compresslevel=1)


def load(path: str | Path) -> Algorithm:
    """Read an algorithm from a ``.pccl`` file, or from a ``.json`` file that holds one.

    Examples
    --------
    >>> import pccl, tempfile
    >>> algorithm = pccl.synthesize(pccl.topology.ring(4), pccl.AllGather(size="4MiB"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     algorithm.save(f"{folder}/ring.pccl")
    ...     pccl.load(f"{folder}/ring.pccl") == algorithm
    True
    """
    if not isinstance(path, str | PathLike):
        raise FormatError(f"load reads a file, whose name is a text, not {path!r}")
    path = Path(path)
    if not path.exists():
        raise FormatError(f"{path}: there is no such file")
    refuse_endless(path)
    # Archives were once saved under any name, also under this one.
    if path.suffix == ".json" and not zipfile.is_zipfile(path):
        from pccl.algorithm.json_file import load_json

        return load_json(path)
    try:
        with zipfile.ZipFile(path) as archive:
            header = _read_header(archive, path)
            columns = {
                name.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(archive.read(name)))
                for name in archive.namelist()
                if name != "header.json"
            }
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from None
    except FormatError:
        raise
    except Exception as error:
        # Damaged bytes make zipfile, its decompressors and NumPy raise nearly anything.
        raise FormatError(f"{path} is not a .pccl file, or is corrupted: {error}") from None
    try:
        return _algorithm(header, columns)
    except (PcclError, ArithmeticError, LookupError, TypeError, ValueError, MemoryError) as error:
        raise FormatError(f"{path} is corrupted: {error}") from None


def _read_header(archive: zipfile.ZipFile, path: Path) -> _Header:
    inflated = sum(entry.file_size for entry in archive.infolist())
    if inflated > max(_ALWAYS_FINE, _MOST_INFLATION * path.stat().st_size):
        raise FormatError(f"{path} claims to hold {inflated:,} bytes, too many for its size")
    if "header.json" not in archive.namelist():
        raise FormatError(f"{path} is not a .pccl file: it has no header")
    text = archive.read("header.json")
    said = json.loads(text)
    if not isinstance(said, dict):
        said = {}
    check_header(said, path, "a .pccl file: its header does not say so")
    return msgspec.json.decode(text, type=_Header)


def _algorithm(header: _Header, columns: dict[str, Column]) -> Algorithm:
    if header.all_switches_can:
        columns = _with_able_switches(columns)
    for name in (*_COLUMNS, *columns):
        if name not in columns:
            raise FormatError(f"column {name!r} is missing")
        if name not in (*_COLUMNS, _FOLLOWS):
            raise FormatError(f"this pccl knows no column {name!r}")
        if columns[name].ndim != 1 or columns[name].dtype.kind not in "biu":
            raise FormatError(f"column {name!r} is not a list of whole numbers")
    topology = _topology(header.topology, columns)
    collectives = header.read_collectives()
    counts = columns["transfers_per_chunk"].astype(np.int64)
    total = len(columns["link"])
    # Every chunk takes a transfer to each destination; a header that speaks of far more would only fill the memory.
    claimed = sum(one.deliveries(len(one.members(topology.npus))) for one in collectives)
    if claimed > max(_ALWAYS_CLAIMED, 4 * total):
        raise FormatError(
            f"its collectives need about {claimed:,} transfers, of which it has {total:,}"
        )
    conditions = compile_conditions(topology, collectives)
    if len(counts) != len(conditions):
        raise FormatError(
            f"it has {counted(len(counts), 'chunk')}, its collectives have {len(conditions)}"
        )
    # Before `repeat` makes a column of whatever length a damaged file says.
    if np.any((counts < 0) | (counts > total)) or counts.sum() != total:
        raise FormatError(f"its chunks do not have {counted(total, 'transfer')} in all")
    start = columns["start"]
    unit = header.time_unit_ps
    # In Python's integers, as the product is what may not fit.
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
        follows=columns.get(_FOLLOWS),
        conditions=conditions,
        **header.knowledge(),
    )


def _with_able_switches(columns: dict[str, Column]) -> dict[str, Column]:
    """The columns of a file of version 1, with those that came later.

    A switch that was said to be without multicast still copied and added, over one link after another.
    """
    added = {}
    if "topology_kind" in columns:
        added = dict.fromkeys(
            ("topology_multicast", "topology_reduce"),
            np.ones(len(columns["topology_kind"]), np.bool_),
        )
    if "topology_src" in columns:
        added["topology_gap"] = np.zeros(len(columns["topology_src"]), np.int64)
    return columns | added


def _topology(about: _About, columns: dict[str, Column]) -> Topology:
    given = {name: columns[f"topology_{name}"] for name in _TOPOLOGY}
    topology = Topology(
        name=about.name,
        labels=tuple(about.labels),
        shape=tuple(about.shape),
        lost=tuple(about.lost),
        **given,
    )
    # The columns have been made as wide as ours are; what changed by that did not fit.
    for name, column in given.items():
        made = getattr(topology, name)
        if not np.can_cast(column.dtype, made.dtype) and not np.array_equal(made, column):
            raise FormatError(f"column 'topology_{name}' holds numbers that are too large")
    return topology


def _narrow(column: Column) -> Column:
    """The same integers in the smallest type that holds them all."""
    if column.dtype == np.bool_ or not len(column):
        return column
    lowest = int(column.min())
    furthest = int(column.max())
    if lowest < 0:
        # Beside a negative number, a positive one must fit the signed type as well.
        furthest = min(lowest, -furthest - 1)
    return column.astype(np.min_scalar_type(furthest))
