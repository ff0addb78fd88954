"""``rocm-smi --showtopo``: which GPUs of a box xGMI joins, and over how many hops, without any speed."""

from __future__ import annotations

import re
from itertools import combinations

from pccl.topology.importers.hardware import GB, GPUS, SMP, Gpu
from pccl.topology.importers.model import Box, Hints, Part, Source, Wire
from pccl.topology.importers.pcie import CPU, GPU, Spot, add_tree
from pccl.units import counted

_TABLES = {
    "weight": "Weight between two GPUs",
    "hops": "Hops between two GPUs",
    "type": "Link Type between two GPUs",
}
_MOST_GPUS = 256
_NUMA = re.compile(r"GPU\W?([0-9]+)\W.*Numa Node:\s*(-?[0-9]+)")


def recognises(text: str) -> bool:
    """Whether it is the output of that command."""
    return _TABLES["type"] in text


def read(source: Source, hints: Hints) -> Part:
    """Read the tables of one box."""
    part = Part()
    tables, numa = _tables(source)
    kinds = tables["type"]
    names = sorted({name for pair in kinds for name in pair}, key=lambda name: int(name[3:]))
    box = Box(source.path.stem, [name.lower() for name in names])
    direct = _direct(tables, names)
    gpu = hints.gpu or _model(len(names), direct, source, part)
    if hints.gpu:
        part.assume(f"the GPUs are {gpu.title}, as gpu={gpu.name} says ({gpu.source})")
    for a, b in direct:
        box.wires.append(Wire(a.lower(), b.lower(), gpu.link, gpu.latency))
    part.found.append(f"{len(names)} GPUs, {counted(len(direct), 'pair')} joined by xGMI")
    if direct:
        part.assume(f"one link a pair, of {gpu.link / GB:g}GB/s in each direction ({gpu.source})")
    cpus: dict[int, Spot] = {}
    for name in names:
        node = numa.get(int(name[3:]), 0)
        cpu = cpus.setdefault(node, Spot(CPU, f"cpu{max(node, 0)}", 0))
        cpu.children.append(Spot(GPU, name.lower(), gpu.pcie))
    add_tree(box, list(cpus.values()), SMP, part)
    part.boxes.append(box)
    return part


def _tables(source: Source) -> tuple[dict[str, dict[tuple[str, str], str]], dict[int, int]]:
    tables: dict[str, dict[tuple[str, str], str]] = {key: {} for key in _TABLES}
    numa: dict[int, int] = {}
    current: dict[tuple[str, str], str] | None = None
    columns: list[str] = []
    for number, line in enumerate(source.lines, start=1):
        words = line.split()
        if line.startswith("="):
            current = next((tables[key] for key, title in _TABLES.items() if title in line), None)
            columns = []
        elif (
            current is not None
            and words
            and all(re.fullmatch("GPU[0-9]{1,4}", word) for word in words)
        ):
            if len(words) > _MOST_GPUS:
                raise source.error(f"more than {_MOST_GPUS} GPUs", number)
            columns = words
        elif current is not None and words and re.fullmatch("GPU[0-9]{1,4}", words[0]):
            if len(words) != len(columns) + 1:
                raise source.error(f"{len(words) - 1} entries for {len(columns)} GPUs", number)
            current |= {(words[0], b): word for b, word in zip(columns, words[1:], strict=True)}
        elif match := _NUMA.match(line):
            numa[int(match[1])] = int(match[2])
    if not tables["type"]:
        raise source.error("no table of link types between GPUs")
    return tables, numa


def _direct(
    tables: dict[str, dict[tuple[str, str], str]], names: list[str]
) -> list[tuple[str, str]]:
    """Pairs that a link joins, and not a way over others."""
    kinds = tables["type"]
    hops = tables["hops"]
    xgmi = [
        pair
        for pair in combinations(names, 2)
        if kinds.get(pair) == "XGMI" and hops.get(pair, "1") == "1"
    ]
    weights = {pair: tables["weight"].get(pair, "0") for pair in xgmi}
    numbers = {pair: int(weight) for pair, weight in weights.items() if weight.isdecimal()}
    # Several hops weigh more than one.
    least = min((weight for weight in numbers.values() if weight), default=0)
    return [pair for pair in xgmi if numbers.get(pair, least) <= least]


def _model(npus: int, direct: list[tuple[str, str]], source: Source, part: Part) -> Gpu:
    if not direct:
        raise source.error(
            "no xGMI, and nothing tells how fast PCIe is; say which GPUs these are, for example --gpu mi210"
        )
    complete = len(direct) == npus * (npus - 1) // 2
    name = "mi300x" if complete and npus == 8 else "mi210" if complete and npus <= 4 else "mi250"
    others = {"mi300x": "gpu=mi355x", "mi210": "gpu=mi100", "mi250": "gpu=mi100"}[name]
    part.assume(f"{GPUS[name].title}, by how many are joined; {others} says otherwise")
    return GPUS[name]
