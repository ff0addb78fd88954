"""Graph files of NCCL (``NCCL_GRAPH_DUMP_FILE``): the rings and trees that it chose on a machine.

They say what NCCL does, not what the machine is; so they are no topology, but a baseline: see
:func:`pccl.analysis.nccl_graph_baselines`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pccl.topology.documents import read_text
from pccl.topology.importers.markup import Element, read_xml
from pccl.topology.importers.model import Hints, Part, Source
from pccl.units import counted

# Values of `pattern` in NCCL's src/include/graph.h.
_PATTERNS = {
    1: "balanced tree",
    2: "split tree",
    3: "tree",
    4: "ring",
    5: "NVLS",
    6: "CollNet direct",
}
# Values of `id`, from src/init.cc: CollNet and trees may have one pattern.
_ALGORITHMS = {0: "ring", 1: "tree", 2: "CollNet chain", 3: "NVLS", 4: "CollNet direct"}
# What a graph without an id is for.
_BY_PATTERN = {1: "tree", 2: "tree", 3: "tree", 4: "ring", 5: "NVLS", 6: "CollNet direct"}
# Value of `crossnic` where boxes take pairs of rings in turns.
_IN_TURNS = 2


@dataclass(frozen=True)
class Graph:
    """What NCCL chose for one algorithm.

    Attributes
    ----------
    algorithm
        ``"ring"``, ``"tree"``, ``"NVLS"``, ``"CollNet chain"`` or ``"CollNet direct"``.
    pattern
        Its shape, such as ``"ring"`` or ``"balanced tree"``.
    speed
        What NCCL expects of a channel inside a box, in GB/s.
    channels
        The GPUs of each channel, in their order; all channels have the same.
    has_nics
        Whether channels begin and end at NICs, which lead to other boxes.
    in_turns
        Whether every second box takes the rings of each pair the other way round.
    """

    algorithm: str
    pattern: str
    speed: float
    channels: tuple[tuple[int, ...], ...]
    has_nics: bool = False
    in_turns: bool = False


def recognises(text: str) -> bool:
    """Whether it is such a file."""
    return re.search(r"<graphs\b", text) is not None


def read(source: Source, hints: Hints) -> Part:  # noqa: ARG001
    """Refuse it: there are no links in it."""
    graphs = _graphs(source)
    kinds = ", ".join(
        f"{graph.pattern} with {counted(len(graph.channels), 'channel')}" for graph in graphs
    )
    raise source.error(
        f"this is what NCCL chose on a machine ({kinds}), not the machine; give the topology file of the same run, "
        "and this one to pccl compare --nccl-graph"
    )


def read_nccl_graph(path: str | Path) -> list[Graph]:
    """Return the rings and trees of a graph file."""
    path = Path(path).expanduser()
    return _graphs(Source(path, read_text(path, "a graph file of NCCL")))


def _graphs(source: Source) -> list[Graph]:
    root = read_xml(source)
    if root.tag != "graphs":
        raise source.error(
            f"it begins with <{root.tag}>; graph files of NCCL have <graphs>", root.line
        )
    graphs = [_graph(element, source) for element in root.all("graph")]
    if not graphs:
        raise source.error("no <graph> in it", root.line)
    return graphs


def _graph(element: Element, source: Source) -> Graph:
    pattern = _number(element, "pattern", source)
    if pattern not in _PATTERNS:
        raise source.error(f"there is no pattern {pattern}", element.line)
    number = _number(element, "id", source, -1)
    speed = element.get("speedintra", "0")
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", speed):
        raise source.error(f"speedintra={speed!r} is not a number", element.line)
    found = list(element.all("channel"))
    announced = _number(element, "nchannels", source, len(found))
    if announced != len(found):
        raise source.error(f"nchannels={announced}, but {len(found)} are there", element.line)
    channels = [_channel(channel, source) for channel in found]
    _check_alike(found, channels, source)
    return Graph(
        algorithm=_ALGORITHMS.get(number, _BY_PATTERN[pattern]),
        pattern=_PATTERNS[pattern],
        speed=float(speed),
        channels=tuple(channels),
        has_nics=next(element.all("net"), None) is not None,
        in_turns=_number(element, "crossnic", source, 0) == _IN_TURNS,
    )


def _channel(element: Element, source: Source) -> tuple[int, ...]:
    gpus = list(element.all("gpu"))
    if not gpus:
        raise source.error("a channel without GPUs", element.line)
    numbers: dict[int, None] = {}
    for gpu in gpus:
        number = _number(gpu, "dev" if gpu.get("dev") else "rank", source)
        if number in numbers:
            raise source.error(f"GPU {number} is in the channel twice", gpu.line)
        numbers[number] = None
    return tuple(numbers)


def _check_alike(
    elements: Sequence[Element], channels: Sequence[tuple[int, ...]], source: Source
) -> None:
    # Those of NVLS have one GPU each, the head.
    if all(len(channel) == 1 for channel in channels):
        return
    for element, channel in zip(elements, channels, strict=True):
        other = set(channel) ^ set(channels[0])
        if other:
            raise source.error(
                f"GPU {min(other)} is not in this channel and in the first one alike", element.line
            )


def _number(element: Element, name: str, source: Source, default: int | None = None) -> int:
    """An attribute as a whole number, which newer versions write with 0x in front."""
    text = element.get(name)
    if not text and default is not None:
        return default
    if not re.fullmatch("[0-9]{1,18}|0x[0-9a-fA-F]{1,16}", text):
        raise source.error(
            f"<{element.tag}> has {name}={text!r}, which is not a whole number", element.line
        )
    return int(text, 16 if text.startswith("0x") else 10)
