"""The spec file: a topology and everything that runs on it, in one YAML or JSON document.

A file that cannot be used is a :class:`~pccl.errors.FormatError` of one line that names the file and the place in it,
such as ``$.collectives[0].size``. The JSON Schema for editors comes from the same structs that read the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from math import prod
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec

from pccl.collective import COLLECTIVES, Collective, Condition, DeviceMesh, device_mesh, parse_group
from pccl.errors import CollectiveError, FormatError, PcclError
from pccl.settings import Settings
from pccl.topology import Topology, load, named_in, topology_from_dict
from pccl.topology.documents import converted, placed, read_document
from pccl.topology.edits import damaged
from pccl.topology.files import TopologyFile
from pccl.topology.language import files_in, parse_topology
from pccl.units import Bytes, counted, parse

__all__ = [
    "CollectiveEntry",
    "Spec",
    "check_mesh",
    "collectives_of",
    "load_spec",
    "normal_kind",
    "spec_schema",
]


@dataclass(frozen=True)
class Spec:
    """What a spec file asks for."""

    topology: Topology
    collectives: tuple[Collective, ...]
    settings: Settings = field(default_factory=Settings)
    output: Path | None = None


def _about(text: str, **limits: Any) -> msgspec.Meta:
    return msgspec.Meta(description=text, **limits)


_Rank = Annotated[int, msgspec.Meta(ge=0)]
_Count = Annotated[int, msgspec.Meta(ge=1)]
# Bare numbers are read in order to be refused with a hint.
_Size = str | int | float


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
    dtype: Annotated[str | None, _about("type of the elements, such as float16")] = None
    priority: Annotated[
        int | None, _about("those of a higher one run as if those of a lower were not there")
    ] = None
    weight: Annotated[float | None, _about("how much it matters that this one is done early")] = (
        None
    )
    confined: Annotated[bool | None, _about("whether its chunks keep to the NPUs of the group")] = (
        None
    )
    root: Annotated[_Rank | None, _about("NPU that is special; absent: the first of the group")] = (
        None
    )
    cyclic: Annotated[
        bool | None, _about("send-recv: whether the last member sends to the first")
    ] = None
    whole: Annotated[
        bool | None, _about("all-reduce: whether the buffer is one share, not one for every member")
    ] = None
    matrix: Annotated[
        str | list[list[int | float | str]] | None,
        _about("all-to-all-v: what member i sends to member j, in bytes or with a unit; or a file"),
    ] = None
    round: Annotated[
        _Size | None,
        _about("all-to-all-v: shares are rounded up to whole multiples of this, such as 64KiB"),
    ] = None
    pattern: Annotated[list[ConditionEntry] | None, _about("custom: chunk by chunk")] = None


class _Task(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    topology: Annotated[
        str | dict[str, Any],
        _about("one line such as mesh:8x8, a file beside this one, or a mapping"),
    ]
    without: Annotated[
        str | list[str], _about("what has failed: npu5, rail*, or a cable 24-27:infiniband*")
    ] = []
    set: Annotated[
        dict[str, str | int | bool], _about("other figures: {rail*.bandwidth: 25GB/s}")
    ] = {}
    collectives: Annotated[list[CollectiveEntry], msgspec.Meta(min_length=1)]
    mesh: Annotated[
        dict[str, _Count], _about("ranks as a row-major grid with named dimensions: {dp: 8, tp: 8}")
    ] = {}
    output: Annotated[str | None, _about("the .pccl file to write, relative to this file")] = None


def _setting_keys() -> Iterator[tuple[str, Any, Any]]:
    """A key for every setting, which is None where the file does not give it."""
    types = get_type_hints(Settings)
    for setting in fields(Settings):
        about = _about(setting.metadata["help"])
        yield setting.name, Annotated[types[setting.name] | None, about], None


# The whole document: the task, and a key for every setting.
SpecFile: Any = msgspec.defstruct(
    "SpecFile", _setting_keys(), bases=(_Task,), module=__name__, forbid_unknown_fields=True
)
SpecFile.__doc__ = "A topology, and everything that runs on it at the same time."


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
    # Errors of reading name the file themselves; those below get its name here.
    document = read_document(path, "a spec")
    try:
        return _read(converted(document, SpecFile), path.parent)
    except PcclError as error:
        raise FormatError(f"{path}: {error}") from error


def _read(given: Any, folder: Path) -> Spec:
    topology = _topology(given.topology, folder)
    with placed("$.without"):
        topology = damaged(
            topology, [given.without] if isinstance(given.without, str) else given.without
        )
    with placed("$.set"):
        topology = topology.edited(given.set)
    mesh = None
    # Named dimensions, in the order of the file: that order is row-major order of the ranks.
    if given.mesh:
        with placed("$.mesh"):
            mesh = device_mesh(tuple(given.mesh.values()), tuple(given.mesh))
            check_mesh(mesh, topology)
    collectives: list[Collective] = []
    for i, entry in enumerate(given.collectives):
        place = f"$.collectives[{i}]"
        if isinstance(entry.matrix, str):
            entry.matrix = str(folder / entry.matrix)
        with placed(place):
            several = collectives_of(entry, mesh, place)
            for collective in several:
                # Checked here, where the place in the file is known.
                collective.check_pieces(topology)
                collective.conditions(topology)
        collectives += several
    # Relative to the file, wherever the command is run from.
    output = None if given.output is None else folder / given.output
    return Spec(topology, tuple(collectives), _settings(given), output)


def _settings(given: Any) -> Settings:
    settings = Settings()
    for setting in fields(Settings):
        value = getattr(given, setting.name)
        if value is not None:
            # One by one, so that the error names the key that is wrong.
            with placed(f"$.{setting.name}"):
                settings = settings.with_overrides({setting.name: value})
    return settings


def spec_schema() -> dict[str, Any]:
    """Return the JSON Schema of spec files, for editors and validators.

    Examples
    --------
    >>> sorted(spec_schema()["$defs"]["SpecFile"]["properties"])[:3]
    ['collectives', 'effort', 'gap']
    """
    # Both at once, so that the schema of a topology is a definition of the same document.
    _, definitions = msgspec.json.schema_components(
        [SpecFile, TopologyFile], ref_template="#/$defs/{name}"
    )
    # A mapping is read later on, by the reader of topologies; an editor may know what is in it.
    definitions["SpecFile"]["properties"]["topology"]["anyOf"] = [
        {"type": "string"},
        {"$ref": "#/$defs/TopologyFile"},
    ]
    for definition in definitions.values():
        for name in {"size", "round", "bandwidth", "latency"} & definition["properties"].keys():
            about = definition["properties"][name]
            # Bare numbers are only read in order to be refused.
            for key in ("anyOf", "default"):
                about.pop(key, None)
            about["type"] = "string"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/SpecFile",
        "$defs": definitions,
    }


def normal_kind(text: str) -> str:
    """Return the name of a collective from any usual spelling of it.

    Examples
    --------
    >>> [normal_kind(text) for text in ("AllGather", "all_gather", "alltoallv")]
    ['all-gather', 'all-gather', 'all-to-all-v']
    """
    # PyTorch, MPI and NCCL spell the same names with and without signs in between.
    known = {kind.replace("-", ""): kind for kind in COLLECTIVES}
    plain = re.sub(r"[-_\s]", "", text).lower()
    if plain in known:
        return known[plain]
    near = [known[match] for match in get_close_matches(plain, known, n=2)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(COLLECTIVES)}"
    raise CollectiveError(f"there is no collective {text!r}; {hint}")


def check_mesh(mesh: DeviceMesh, topology: Topology) -> None:
    """Raise unless every rank of the mesh can be an NPU."""
    # Fewer ranks than NPUs are fine: the others take no part.
    ranks = prod(mesh.shape)
    if ranks > topology.num_npus:
        pairs = zip(mesh.names, mesh.shape, strict=True)
        shape = " x ".join(f"{name}={size}" for name, size in pairs)
        raise CollectiveError(
            f"the mesh {shape} has {counted(ranks, 'rank')}, but {topology.name} has "
            f"{counted(topology.num_npus, 'NPU')}"
        )


def collectives_of(
    entry: CollectiveEntry, mesh: DeviceMesh | None = None, place: str = ""
) -> list[Collective]:
    """Return the collectives that an entry stands for; ``place`` says in errors where the entry is.

    Examples
    --------
    >>> collectives_of(CollectiveEntry("AllReduce", size="1MiB", group="0-3"))
    [AllReduce(size=Bytes(1048576), group=(0, 1, 2, 3), chunks=None, dtype='uint8')]
    """
    with placed(place and f"{place}.kind"):
        kind = normal_kind(entry.kind)
    # Read before the groups, as an error in a size should not wait for that of a mesh.
    arguments = _arguments(entry, kind, place)
    if entry.along is None:
        return [COLLECTIVES[kind](**arguments)]
    with placed(place and f"{place}.along"):
        if entry.group is not None:
            raise CollectiveError("give either a group or a dimension of the mesh, not both")
        if mesh is None:
            raise CollectiveError("there is no mesh to go along; give one, such as dp=8, tp=8")
        names = entry.along.split(",") if isinstance(entry.along, str) else entry.along
        groups = mesh.groups(*(name.strip() for name in names))
    return [COLLECTIVES[kind](**arguments, group=group) for group in groups]


def _arguments(entry: CollectiveEntry, kind: str, place: str) -> dict[str, Any]:
    """What the class of the collective takes, read one by one for the sake of the error's place."""
    # The class knows its parameters: a new collective needs no line here.
    takes = [f.name for f in fields(COLLECTIVES[kind]) if f.init]
    arguments: dict[str, Any] = {}
    for name in CollectiveEntry.__struct_fields__[1:]:
        # None is 'not given' for every key, which is why no key may mean anything by null.
        value = getattr(entry, name)
        if value is None:
            continue
        with placed(place and f"{place}.{name}"):
            # Whoever can have a group can have one for each row of a mesh.
            if ("group" if name == "along" else name) not in takes:
                raise CollectiveError(f"{kind} has no {name!r}; it has {', '.join(takes)}")
            if name in ("size", "round"):
                value = parse(Bytes, value, f"{name} of {kind}")
            elif name == "group":
                value = _group(value)
            elif name == "pattern":
                value = _pattern(value, place)
            if name != "along":
                arguments[name] = value
    # Asked for here, in words, since Python would speak of missing positional arguments.
    for name in ("size", "matrix", "pattern"):
        if name in takes and name not in arguments:
            example = {"size": ", for example 8MiB", "matrix": ", for example traffic.csv"}.get(
                name, ""
            )
            raise CollectiveError(f"{kind} needs a {name}{example}")
    return arguments


def _group(value: str | int | list[int]) -> tuple[int, ...]:
    if isinstance(value, str):
        return parse_group(value)
    return (value,) if isinstance(value, int) else tuple(value)


def _pattern(rows: list[ConditionEntry], place: str) -> list[Condition]:
    pattern = []
    for i, row in enumerate(rows):
        with placed(f"{place}.pattern[{i}]"):
            size = parse(Bytes, row.size, "size of a condition")
            pattern.append(Condition(row.sources, row.destinations, size, row.reduces))
    return pattern


def _topology(given: str | dict[str, Any], folder: Path) -> Topology:
    if isinstance(given, dict):
        try:
            return topology_from_dict(given)
        except FormatError as error:
            # The topology counts places from its own root, which is below ours.
            place = "$.topology" + error.place.removeprefix("$")
            raise FormatError(error.problem, place) from error
    with placed("$.topology"):
        files = files_in(given)
        if files is None and not named_in(given) and (folder / given).is_file():
            files = [given], {}
        if files is None:
            return parse_topology(given)
        # Files beside the spec are found from any folder.
        paths, options = files
        return load(*(folder / path for path in paths), **options)
