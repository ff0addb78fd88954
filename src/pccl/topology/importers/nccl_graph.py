"""Graph files of NCCL (``NCCL_GRAPH_DUMP_FILE``): the rings and trees that it chose on a machine.

They say what NCCL does, not what the machine is; so they are no topology, but can be a baseline.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pccl.topology.documents import read_text
from pccl.topology.importers.markup import read_xml
from pccl.topology.importers.model import Hints, Part, Source

# Values of `pattern` in NCCL's src/include/graph.h.
_PATTERNS = {
    1: "balanced tree",
    2: "split tree",
    3: "tree",
    4: "ring",
    5: "NVLS",
    6: "CollNet direct",
}


@dataclass(frozen=True)
class Graph:
    """What NCCL chose for one algorithm.

    Attributes
    ----------
    pattern
        Such as ``"ring"`` or ``"tree"``.
    speed
        What NCCL expects of a channel inside a box, in GB/s.
    channels
        The GPUs of each channel, in their order.
    """

    pattern: str
    speed: float
    channels: tuple[tuple[int, ...], ...]


def recognises(text: str) -> bool:
    """Whether it is such a file."""
    return re.search(r"<graphs\b", text) is not None


def read(source: Source, hints: Hints) -> Part:  # noqa: ARG001
    """Refuse it: there are no links in it."""
    graphs = _graphs(source)
    kinds = ", ".join(f"{graph.pattern} with {len(graph.channels)} channels" for graph in graphs)
    raise source.error(
        f"this is what NCCL chose on a machine ({kinds}), not the machine; give the topology file of the same run, "
        "and read this one with pccl.topology.importers.read_nccl_graph"
    )


def read_nccl_graph(path: str | Path) -> list[Graph]:
    """Return the rings and trees of a graph file."""
    path = Path(path)
    return _graphs(Source(path, read_text(path, "a graph file of NCCL")))


def _graphs(source: Source) -> list[Graph]:
    root = read_xml(source)
    graphs = []
    for graph in root.all("graph"):
        channels = []
        for channel in graph.all("channel"):
            numbers = [gpu.get("dev") or gpu.get("rank") for gpu in channel.all("gpu")]
            if not all(re.fullmatch("[0-9]{1,6}", number) for number in numbers):
                raise source.error("a GPU without its number", channel.line)
            channels.append(tuple(int(number) for number in numbers))
        pattern = graph.get("pattern", "0")
        speed = graph.get("speedintra", "0")
        if not pattern.isdecimal() or not re.fullmatch(r"[0-9]+(\.[0-9]+)?", speed):
            raise source.error("a graph without its pattern or its speed", graph.line)
        name = _PATTERNS.get(int(pattern), f"pattern {pattern}")
        graphs.append(Graph(name, float(speed), tuple(channels)))
    if not graphs:
        raise source.error("no <graph> in it", root.line)
    return graphs
