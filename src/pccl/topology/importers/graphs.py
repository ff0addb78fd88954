"""GraphML and GML, by way of networkx: edges with a bandwidth and a latency, nodes that are NPUs or switches."""

from __future__ import annotations

import io
import re
from typing import Any

from pccl.errors import PcclError
from pccl.topology.importers.model import Hints, Part, Source
from pccl.topology.interchange import from_networkx, require_networkx
from pccl.units import BytesPerSecond

# Attributes of the Internet Topology Zoo, in bits per second.
_RAW_SPEED = "LinkSpeedRaw"
_LATENCY = "500ns"
# What networkx makes of it takes a hundred times as much memory.
_MOST_CHARACTERS = 16 * 2**20


def recognises_graphml(text: str) -> bool:
    """Whether it is GraphML."""
    return re.search(r"<graphml\b", text) is not None


def recognises_gml(text: str) -> bool:
    """Whether it is GML."""
    return (
        re.search(r"^\s*graph\s*\[?\s*$", text, re.M) is not None
        and re.search(r"\bnode\s*\[?", text) is not None
    )


def read_graphml(source: Source, hints: Hints) -> Part:  # noqa: ARG001
    """Read a graph in GraphML."""
    if re.search(r"<!(?:DOCTYPE|ENTITY)", source.text):
        # Entities can make a small file huge.
        raise source.error("a DOCTYPE; graphs need none")
    networkx = require_networkx()
    return _part(source, lambda: networkx.read_graphml(io.BytesIO(source.text.encode())))


def read_gml(source: Source, hints: Hints) -> Part:  # noqa: ARG001
    """Read a graph in GML."""
    networkx = require_networkx()
    label = "label" if re.search(r"\blabel\b", source.text) else None
    return _part(source, lambda: networkx.parse_gml(source.text, label=label))


def _part(source: Source, parse: Any) -> Part:
    part = Part()
    if len(source.text) > _MOST_CHARACTERS:
        raise source.error(f"more than {_MOST_CHARACTERS >> 20} MiB")
    try:
        graph = parse()
    # networkx raises what its parsers raise: syntax errors, missing keys, wrong types.
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise source.error(f"networkx cannot read it: {text}") from None
    for _, _, about in graph.edges(data=True):
        if "bandwidth" not in about and _RAW_SPEED in about:
            try:
                about["bandwidth"] = BytesPerSecond(max(1, round(float(about[_RAW_SPEED]) / 8)))
            except (ValueError, OverflowError):
                raise source.error(f"{_RAW_SPEED}={about[_RAW_SPEED]!r} is not a number") from None
            part.assume(f"{_RAW_SPEED} is in bits per second, in each direction")
        if "latency" not in about:
            about["latency"] = _LATENCY
            part.assume(f"{_LATENCY} where an edge has no latency")
    graph.graph["name"] = str(graph.graph.get("name") or source.path.stem)
    try:
        part.topology = from_networkx(graph)
    except PcclError as error:
        raise source.error(str(error)) from None
    part.found.append(f"{graph.number_of_nodes()} nodes, {graph.number_of_edges()} edges")
    return part
