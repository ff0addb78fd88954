"""Topologies in files: our own YAML or JSON, plain edge lists, and ASTRA-sim's analytical network description.

A file that cannot be read is a :class:`~pccl.errors.FormatError` of one line that says where: the file, and the line
or the path inside the document such as ``$.links[0].dst``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from pccl._files import replacing
from pccl.errors import FormatError, PcclError
from pccl.topology.core import Topology
from pccl.topology.documents import converted, parse_document, placed
from pccl.topology.generators import fully_connected, product, ring, switch
from pccl.topology.parts import ABSENT, LINK_COLUMNS, MOST_NPUS, MOST_PLACES, Link, Switch
from pccl.units import BytesPerSecond, Picoseconds, parse

_Count = Annotated[int, msgspec.Meta(ge=1, le=MOST_NPUS)]
_Places = Annotated[int, msgspec.Meta(ge=1, le=MOST_PLACES)]
_Device = int | str
# Bare numbers are read in order to be refused with a hint.
_Quantity = str | int | float
# The very object, not an equal one, is what msgspec takes for a default, and leaves out.
_NO_GAP = "0ns"


class SwitchEntry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One switch, as a file describes it."""

    name: str = ""
    buffer: _Places | None = None
    multicast: bool = False
    reduce: bool = False


class LinkEntry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One link, as a file describes it, or several that are alike."""

    src: _Device
    dst: _Device
    bandwidth: _Quantity
    latency: _Quantity
    exclusive: bool = False
    gap: _Quantity = _NO_GAP
    both: bool = False
    count: _Count = 1


class TopologyFile(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A topology, as our YAML and JSON files describe it."""

    npus: _Count | list[str]
    links: list[LinkEntry]
    switches: list[SwitchEntry] = []
    name: str = "custom"
    shape: list[_Count] = []
    absent: list[int] = []
    lost: list[tuple[int, int]] = []


class _AstraSim(msgspec.Struct, forbid_unknown_fields=True):
    topology: list[Literal["Ring", "FullyConnected", "Switch"]]
    npus_count: list[_Count]
    bandwidth: list[Annotated[float, msgspec.Meta(gt=0, le=1e6)]]
    latency: list[Annotated[float, msgspec.Meta(ge=0, le=1e12)]]
    name: str = "custom"


def topology_from_text(text: str, path: Path) -> Topology:
    """Read what a file holds: ``.json`` is our JSON; ``.txt`` and ``.edges`` are edge lists; anything else is YAML.

    YAML and JSON are ours or ASTRA-sim's, which are told apart by their keys. A file that gives no name is called after
    itself.
    """
    if path.suffix in (".txt", ".edges"):
        return _from_edges(text, path)
    document = parse_document(text, path, "a topology")
    if "logical-dims" in document:
        raise FormatError(
            f"{path}: dimensions of ASTRA-sim without any link; give its network file (npus_count: …)"
        )
    try:
        # A name in the document goes before that of the file.
        return topology_from_dict({"name": path.stem} | document)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def save_topology(topology: Topology, path: str | Path) -> None:
    """Write a topology to a ``.yaml``, ``.yml`` or ``.json`` file, which :func:`load` reads back exactly.

    Examples
    --------
    >>> import tempfile
    >>> from pccl.topology import load, mesh
    >>> file = Path(tempfile.mkdtemp()) / "mesh.yaml"
    >>> save_topology(mesh(2, 2), file)
    >>> load(file) == mesh(2, 2)
    True
    """
    path = Path(path)
    document = topology_to_dict(topology)
    if path.suffix == ".json":
        text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
    elif path.suffix in (".yaml", ".yml"):
        import yaml

        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        text = yaml.dump(document, Dumper=dumper, sort_keys=False, width=120, allow_unicode=True)
    else:
        raise FormatError(
            f"{path}: a topology is saved as .yaml, .yml or .json, not as {path.suffix or 'this'!r}"
        )
    with replacing(path) as file:
        file.write(text.encode())


def topology_to_dict(topology: Topology) -> dict[str, Any]:
    """Return the topology as plain values, ready for YAML or JSON; what has its default value is left out.

    Examples
    --------
    >>> from pccl.topology import ring
    >>> topology_to_dict(ring(2))["links"][0]
    {'src': 0, 'dst': 1, 'bandwidth': '50GiB/s', 'latency': '500ns'}
    """
    # NPUs that are absent have places too: their numbers, and those of all after them, must come
    # back.
    places = prod(topology.shape)
    names = list(topology.labels[:places])
    is_plain = names == [f"npu{i}" for i in range(places)]
    abilities = (topology.buffer, topology.multicast, topology.reduce)
    hubs = zip(topology.labels, *(column.tolist() for column in abilities), strict=True)
    links = zip(*(getattr(topology, column).tolist() for column in LINK_COLUMNS), strict=True)
    given = TopologyFile(
        npus=places if is_plain else names,
        links=[
            LinkEntry(
                src,
                dst,
                str(BytesPerSecond(speed)),
                str(Picoseconds(delay)),
                exclusive,
                str(Picoseconds(gap)) if gap else _NO_GAP,
            )
            for src, dst, delay, speed, exclusive, gap in links
        ],
        switches=[
            SwitchEntry(label, buffer or None, multicast, reduce)
            for label, buffer, multicast, reduce in islice(hubs, places, None)
        ],
        shape=list(topology.shape) if len(topology.shape) > 1 else [],
        absent=np.flatnonzero(topology.kind == ABSENT).tolist(),
        lost=list(topology.lost),
    )
    document = msgspec.to_builtins(given)
    # As people would write it: what it is first, and the many links last.
    keys = [
        key for key in ("npus", "shape", "switches", "absent", "lost", "links") if key in document
    ]
    return {"name": topology.name} | {key: document[key] for key in keys}


def topology_from_dict(document: Mapping[str, Any]) -> Topology:
    """Read a topology from plain values: what our YAML and JSON files hold, or ASTRA-sim's network description.

    Examples
    --------
    >>> cable = {"src": "left", "dst": "right", "bandwidth": "50GB/s", "latency": "500ns", "both": True}
    >>> topology_from_dict({"name": "pair", "npus": ["left", "right"], "links": [cable]})
    Topology('pair': 2 NPUs, 2 links, 50GB/s, 500ns)
    >>> topology_from_dict({"npus": 2, "links": [cable]})
    Traceback (most recent call last):
        ...
    pccl.errors.FormatError: there is no device 'left' - at `$.links[0].src`
    """
    try:
        if "npus_count" in document:
            return _from_astra_sim(converted(document, _AstraSim))
        return _from_struct(converted(document, TopologyFile))
    except FormatError:
        raise
    except PcclError as error:
        raise FormatError(str(error)) from error


def _from_struct(given: TopologyFile) -> Topology:
    names = [f"npu{i}" for i in range(given.npus)] if isinstance(given.npus, int) else given.npus
    switches = [
        Switch(s.name or f"switch{i}", s.buffer, s.multicast, s.reduce)
        for i, s in enumerate(given.switches)
    ]
    # Links may name their ends or number them.
    numbers: dict[_Device, int] = {}
    for i, name in enumerate([*names, *(s.name for s in switches)]):
        numbers |= {name: i, i: i}
    links = []
    for i, entry in enumerate(given.links):
        links += _from_link(entry, numbers, f"$.links[{i}]")
    topology = Topology.from_links(names, links, switches, name=given.name, shape=given.shape)
    if not (given.absent or given.lost):
        return topology
    kind = topology.kind.copy()
    for i, device in enumerate(given.absent):
        if not 0 <= device < topology.num_devices:
            raise FormatError(f"there is no device {device}", f"$.absent[{i}]")
        kind[device] = ABSENT
    # Checked again by that: a file may still have links at devices that it calls absent.
    return replace(topology, kind=kind, lost=tuple(given.lost))


def _from_link(entry: LinkEntry, numbers: Mapping[_Device, int], place: str) -> list[Link]:
    for field in ("src", "dst"):
        if getattr(entry, field) not in numbers:
            raise FormatError(f"there is no device {getattr(entry, field)!r}", f"{place}.{field}")
    src = numbers[entry.src]
    dst = numbers[entry.dst]
    # What is wrong with the numbers themselves is found by code that knows nothing of documents.
    with placed(place):
        _check_ends(src, dst, "a device")
        speed = _speed(entry.bandwidth, entry.latency)
        gap = parse(Picoseconds, entry.gap, "gap")
    links = [Link(src, dst, *speed, entry.exclusive, gap)]
    if entry.both:
        links.append(Link(dst, src, *speed, entry.exclusive, gap))
    return links * entry.count


def _check_ends(src: _Device, dst: _Device, name: str) -> None:
    if src == dst:
        raise FormatError(f"the link leads from {name} to itself")


def _speed(bandwidth: object, latency: object) -> tuple[BytesPerSecond, Picoseconds]:
    delay = parse(Picoseconds, latency, "latency")
    speed = parse(BytesPerSecond, bandwidth)
    if not speed:
        raise FormatError("the bandwidth must be positive")
    return speed, delay


def _from_astra_sim(given: _AstraSim) -> Topology:
    # By way of their text, numbers are what the file says: as a float, 0.1 is something else.
    # ASTRA-sim's gigabytes are 2**30 bytes.
    makers = {"Ring": ring, "FullyConnected": fully_connected, "Switch": switch}
    dimensions = len(given.topology)
    for field in ("topology", "npus_count", "bandwidth", "latency"):
        entries = len(getattr(given, field))
        if entries != dimensions or not dimensions:
            raise FormatError(f"{entries} entries for {dimensions} dimensions", f"$.{field}")
    factors = [
        makers[kind](
            npus,
            bandwidth=BytesPerSecond(max(1, round(Fraction(str(bandwidth)) * 2**30))),
            latency=Picoseconds(round(Fraction(str(latency)) * 1000)),
        )
        for kind, npus, bandwidth, latency in zip(
            given.topology, given.npus_count, given.bandwidth, given.latency, strict=True
        )
    ]
    # ASTRA-sim numbers the NPUs with the first dimension running fastest; in our products the last one does.
    return product(*reversed(factors), name=given.name)


def _from_edges(text: str, path: Path) -> Topology:
    edges = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if words:
            try:
                edges.append(_edge(words))
            except PcclError as error:
                raise FormatError(f"{path}:{number}: {error}") from error
    # There are as many NPUs as the highest number says, also those that no link mentions.
    ends = [end for edge in edges for end in edge[:2]]
    npus = max((end + 1 for end in ends if isinstance(end, int)), default=0)
    # A dict, because it keeps the order in which they appear.
    switches = dict.fromkeys(end for end in ends if isinstance(end, str))
    numbers: dict[_Device, int] = {npu: npu for npu in range(npus)}
    numbers |= {name: npus + i for i, name in enumerate(switches)}
    links = [Link(numbers[a], numbers[b], speed, delay) for a, b, speed, delay in edges]
    try:
        return Topology.from_links(npus, links, map(Switch, switches), name=path.stem)
    except PcclError as error:
        raise FormatError(f"{path}: {error}") from error


def _edge(words: list[str]) -> tuple[_Device, _Device, BytesPerSecond, Picoseconds]:
    if len(words) != 4:
        raise FormatError(f"expected 'src dst latency bandwidth', not {' '.join(words)!r}")
    src = _edge_end(words[0])
    dst = _edge_end(words[1])
    _check_ends(src, dst, words[0])
    # In these files latency comes before bandwidth.
    return src, dst, *_speed(words[3], words[2])


def _edge_end(word: str) -> _Device:
    if word.startswith("s"):
        return word
    # A bounded number of digits, as Python refuses to convert very long ones with an error of its
    # own.
    digits = len(str(MOST_NPUS))
    if re.fullmatch(rf"[0-9]{{1,{digits}}}", word) and int(word) < MOST_NPUS:
        return int(word)
    raise FormatError(
        f"{word!r} is neither the number of an NPU nor the name of a switch, which starts with s"
    )
