"""The spec file: a topology and everything that runs on it, in one YAML or JSON document.

A file that cannot be used is a :class:`~pccl.errors.FormatError` of one line that names the file and the place in it,
such as ``$.collectives[0].size``. The JSON Schema for editors comes from the same structs that read the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from difflib import get_close_matches
from math import prod
from pathlib import Path
from typing import Annotated, Any

import msgspec

from pccl.collective import COLLECTIVES, Collective, Condition, DeviceMesh, device_mesh, parse_group
from pccl.errors import CollectiveError, FormatError, PcclError
from pccl.topology import Topology, files
from pccl.topology.language import FILE_SUFFIXES, parse_topology
from pccl.units import Bytes, parse

__all__ = [
    "CollectiveEntry",
    "Spec",
    "check_mesh",
    "collectives_of",
    "load_spec",
    "normal_kind",
    "spec_from_dict",
    "spec_schema",
]


@dataclass(frozen=True)
class Spec:
    """What a spec file asks for; what it leaves open is ``None``."""

    topology: Topology
    collectives: tuple[Collective, ...]
    seed: int | None = None
    effort: str | None = None
    time_limit: float | None = None
    gap: float | None = None
    method: str | None = None
    order: str | None = None
    routes: str | None = None
    output: Path | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What it says to :func:`pccl.synthesize`."""
        names = ("seed", "effort", "time_limit", "gap", "method", "order", "routes")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def _about(text: str, **limits: Any) -> msgspec.Meta:
    return msgspec.Meta(description=text, **limits)


_Rank = Annotated[int, msgspec.Meta(ge=0)]
_Count = Annotated[int, msgspec.Meta(ge=1)]
_Size = str | int | float  # bare numbers are read in order to be refused with a hint


class ConditionEntry(msgspec.Struct, forbid_unknown_fields=True):
    """One chunk of a custom collective."""

    sources: Annotated[
        _Rank | list[_Rank], _about("the NPU that has it, or all contributors of a sum")
    ]
    destinations: Annotated[_Rank | list[_Rank], _about("the NPUs that must end with it")]
    size: Annotated[_Size, _about("bytes of the chunk with their unit, such as 1MiB")]
    reduces: Annotated[bool, _about("whether the sources contribute to a sum")] = False


class CollectiveEntry(msgspec.Struct, forbid_unknown_fields=True):
    """One collective, or with `along` one for every process group of the mesh."""

    kind: Annotated[str, _about(f"one of {', '.join(COLLECTIVES)}")]
    size: Annotated[_Size | None, _about("buffer of one NPU with its unit, such as 8MiB")] = None
    group: Annotated[
        str | _Rank | list[_Rank] | None, _about("NPUs such as 0-7,12 or [0, 1, 2]; absent: all")
    ] = None
    along: Annotated[
        str | list[str] | None, _about("dimension of the mesh: one collective per process group")
    ] = None
    chunks: Annotated[
        _Count | None, _about("pieces that every share is cut into; absent: as many as help")
    ] = None
    root: Annotated[_Rank | None, _about("NPU that is special; absent: the first of the group")] = (
        None
    )
    cyclic: Annotated[
        bool | None, _about("send-recv: whether the last member sends to the first")
    ] = None
    matrix: Annotated[
        list[list[int | str]] | None,
        _about("all-to-all-v: what member i sends to member j, in bytes or with a unit"),
    ] = None
    pattern: Annotated[list[ConditionEntry] | None, _about("custom: chunk by chunk")] = None


class SpecFile(msgspec.Struct, forbid_unknown_fields=True):
    """A topology, and everything that runs on it at the same time."""

    topology: Annotated[
        str | dict[str, Any],
        _about("one line such as mesh:8x8, a file beside this one, or a mapping"),
    ]
    collectives: Annotated[list[CollectiveEntry], msgspec.Meta(min_length=1)]
    mesh: Annotated[
        dict[str, _Count], _about("ranks as a row-major grid with named dimensions: {dp: 8, tp: 8}")
    ] = {}
    seed: Annotated[_Rank | None, _about("breaks ties; the same seed gives the same algorithm")] = (
        None
    )
    effort: Annotated[str | None, _about("fast, balanced or thorough")] = None
    time_limit: Annotated[float | None, _about("seconds after which the best so far is taken")] = (
        None
    )
    gap: Annotated[
        float | None, _about("how far from the bound is good enough, as a share such as 0.05")
    ] = None
    method: Annotated[str | None, _about("earliest-arrival, price-guided or flooding")] = None
    order: Annotated[
        str | None, _about("in which chunks are placed: farthest-first, rounds or random")
    ] = None
    routes: Annotated[str | None, _about("minimal or any")] = None
    output: Annotated[str | None, _about("the .pccl file to write, relative to this file")] = None


def load_spec(path: str | Path) -> Spec:
    r"""Read a spec file; ``.json`` is JSON, anything else YAML.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "gather.yaml"
    >>> _ = file.write_text("topology: ring:4\ncollectives:\n  - {kind: all-gather, size: 4MiB, group: 0-3}\n")
    >>> load_spec(file).topology
    Topology('ring:4': 4 NPUs, 8 links, 50GiB/s, 500ns)
    """
    path = Path(path)
    try:
        return spec_from_dict(files.read_document(path, "a spec"), path.parent)
    except PcclError as error:
        text = str(error)
        raise FormatError(text if text.startswith(f"{path}:") else f"{path}: {text}") from error


def spec_from_dict(document: Mapping[str, Any], folder: str | Path = ".") -> Spec:
    """Read a spec from plain values; files that it names are looked up in the folder.

    Examples
    --------
    >>> tp = {"kind": "all-gather", "size": "8MiB", "along": "tp"}
    >>> spec = spec_from_dict({"topology": "mesh:2x4", "mesh": {"dp": 2, "tp": 4}, "collectives": [tp]})
    >>> [collective.group for collective in spec.collectives]
    [(0, 1, 2, 3), (4, 5, 6, 7)]
    """
    try:
        given = msgspec.convert(dict(document), SpecFile)
    except msgspec.ValidationError as error:
        raise FormatError(_with_suggestion(str(error))) from error
    topology = _topology(given.topology, Path(folder))
    with _at("$.mesh"):
        mesh = device_mesh(tuple(given.mesh.values()), tuple(given.mesh)) if given.mesh else None
        if mesh is not None:
            check_mesh(mesh, topology)
    collectives: list[Collective] = []
    for i, entry in enumerate(given.collectives):
        path = f"$.collectives[{i}]"
        with _at(path):
            several = collectives_of(entry, mesh, path)
            for collective in several:
                collective.conditions(
                    topology
                )  # checked here, where the place in the file is known
        collectives += several
    output = None if given.output is None else Path(folder) / given.output
    return Spec(
        topology, tuple(collectives), given.seed, given.effort, given.time_limit, given.gap, given.method, given.order,
        given.routes, output,
    )  # fmt: skip


def spec_schema() -> dict[str, Any]:
    """The JSON Schema of spec files, for editors and validators.

    Examples
    --------
    >>> sorted(spec_schema()["$defs"]["SpecFile"]["properties"])[:3]
    ['collectives', 'effort', 'gap']
    """
    _, structs = msgspec.json.schema_components(
        [SpecFile, files._Topology], ref_template="#/$defs/{name}"
    )
    public = re.sub(r'(?<=["/])_(?=[A-Z])', "", msgspec.json.encode(structs).decode())
    definitions: dict[str, Any] = msgspec.json.decode(public)
    definitions["SpecFile"]["properties"]["topology"]["anyOf"] = [
        {"type": "string"},
        {"$ref": "#/$defs/Topology"},
    ]
    for definition in definitions.values():
        for name in {"size", "bandwidth", "latency"} & definition["properties"].keys():
            about = definition["properties"][name]
            for key in ("anyOf", "default"):  # bare numbers are only read in order to be refused
                about.pop(key, None)
            about["type"] = "string"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/SpecFile",
        "$defs": definitions,
    }


def normal_kind(text: str) -> str:
    """The name of a collective from any usual spelling of it.

    Examples
    --------
    >>> [normal_kind(text) for text in ("AllGather", "all_gather", "alltoallv")]
    ['all-gather', 'all-gather', 'all-to-all-v']
    """
    known = {kind.replace("-", ""): kind for kind in COLLECTIVES}
    plain = re.sub(r"[-_\s]", "", text).lower()
    if plain in known:
        return known[plain]
    near = [known[match] for match in get_close_matches(plain, known, n=2)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(COLLECTIVES)}"
    raise CollectiveError(f"there is no collective {text!r}; {hint}")


def check_mesh(mesh: DeviceMesh, topology: Topology) -> None:
    """Raise unless every rank of the mesh can be an NPU."""
    ranks = prod(mesh.shape)
    if ranks > topology.num_npus:
        shape = " x ".join(
            f"{name}={size}" for name, size in zip(mesh.names, mesh.shape, strict=True)
        )
        raise CollectiveError(
            f"the mesh {shape} has {ranks} ranks, but {topology.name} has {topology.num_npus} NPUs"
        )


def collectives_of(
    entry: CollectiveEntry, mesh: DeviceMesh | None = None, path: str = ""
) -> list[Collective]:
    """The collectives that an entry stands for; ``path`` says in errors where the entry is.

    Examples
    --------
    >>> collectives_of(CollectiveEntry("AllReduce", size="1MiB", group="0-3"))
    [AllReduce(size=Bytes(1048576), group=(0, 1, 2, 3), chunks=None, dtype='uint8')]
    """
    with _at(path, "kind"):
        kind = normal_kind(entry.kind)
    arguments = _arguments(entry, kind, path)
    if entry.along is None:
        return [COLLECTIVES[kind](**arguments)]
    with _at(path, "along"):
        if entry.group is not None:
            raise CollectiveError("give either a group or a dimension of the mesh, not both")
        if mesh is None:
            raise CollectiveError(
                f"there is no mesh to go along; give one, such as {_MESH_EXAMPLE}"
            )
        names = entry.along.split(",") if isinstance(entry.along, str) else entry.along
        groups = mesh.groups(*(name.strip() for name in names))
    return [COLLECTIVES[kind](**arguments, group=group) for group in groups]


_MESH_EXAMPLE = "dp=8, tp=8"


def _arguments(entry: CollectiveEntry, kind: str, path: str) -> dict[str, Any]:
    """What the class of the collective takes, checked one by one for the sake of the error's place."""
    takes = {f.name for f in fields(COLLECTIVES[kind]) if f.init}
    given = {
        name: getattr(entry, name) for name in CollectiveEntry.__struct_fields__ if name != "kind"
    }
    arguments: dict[str, Any] = {
        name: value for name, value in given.items() if value is not None and name != "along"
    }
    for name in [*arguments, *(["along"] if entry.along is not None else [])]:
        with _at(path, name):
            if ("group" if name == "along" else name) not in takes:
                known = ", ".join(name for name in given if name in takes)
                raise CollectiveError(f"{kind} has no {name!r}; it has {known}")
    for name in ("size", "matrix", "pattern"):
        if name in takes and name not in arguments:
            raise CollectiveError(
                f"{kind} needs a {name}{', for example 8MiB' if name == 'size' else ''}"
            )
    if "size" in arguments:
        with _at(path, "size"):
            arguments["size"] = parse(Bytes, entry.size, f"size of {kind}")
    if "group" in arguments:
        with _at(path, "group"):
            arguments["group"] = _group(arguments["group"])
    if "pattern" in arguments:
        arguments["pattern"] = [
            _condition(row, f"{path}.pattern[{i}]") for i, row in enumerate(arguments["pattern"])
        ]
    return arguments


def _group(value: str | int | list[int]) -> tuple[int, ...]:
    if isinstance(value, str):
        return parse_group(value)
    return (value,) if isinstance(value, int) else tuple(value)


def _condition(row: ConditionEntry, path: str) -> Condition:
    with _at(path):
        return Condition(
            row.sources,
            row.destinations,
            parse(Bytes, row.size, "size of a condition"),
            row.reduces,
        )


def _topology(given: str | dict[str, Any], folder: Path) -> Topology:
    if isinstance(given, str):
        with _at("$.topology"):
            return parse_topology(str(folder / given) if given.endswith(FILE_SUFFIXES) else given)
    try:
        return files.topology_from_dict(given)
    except FormatError as error:
        text = str(error)
        inside = (
            text.replace("at `$", "at `$.topology")
            if "at `$" in text
            else f"{text} - at `$.topology`"
        )
        raise FormatError(inside) from error


@contextmanager
def _at(path: str, field: str = "") -> Iterator[None]:
    """Add the place to errors that do not name one yet; without a path there is none to add."""
    try:
        yield
    except PcclError as error:
        if not path or " - at `$" in str(error):
            raise
        raise FormatError(f"{error} - at `{path}{'.' if field else ''}{field}`") from error


def _with_suggestion(text: str) -> str:
    """Replace msgspec's remark on an unknown field by one that says which was meant."""
    match = re.fullmatch(r"Object contains unknown field `(.*?)`(?: - at `(.*)`)?", text)
    if match is None:
        return text
    unknown, path = match[1], match[2] or "$"
    struct = (
        ConditionEntry
        if ".pattern[" in path
        else CollectiveEntry
        if ".collectives[" in path
        else SpecFile
    )
    near = get_close_matches(unknown, struct.__struct_fields__, n=1)
    hint = (
        f"did you mean {near[0]!r}?" if near else f"there are {', '.join(struct.__struct_fields__)}"
    )
    return f"there is no key {unknown!r}; {hint} - at `{path}`"
