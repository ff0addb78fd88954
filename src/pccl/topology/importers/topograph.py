"""Trees in YAML, without any speed: models of topograph, and SLURM's ``topology.yaml``."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from pccl.topology.documents import parse_yaml
from pccl.topology.importers.model import Hints, Part, Source
from pccl.topology.importers.slurm import Tree, hostlist

# Names that look like numbers are numbers in YAML.
_Name = str | int


class _Switch(msgspec.Struct):
    switches: list[_Name] = []


class _Block(msgspec.Struct):
    switch: _Name
    nodes: list[_Name] = []
    annotations: dict[str, Any] = {}


class _Model(msgspec.Struct):
    switches: dict[_Name, _Switch | None]
    blocks: list[_Block]


class _SlurmSwitch(msgspec.Struct):
    switch: _Name
    children: _Name = ""
    nodes: _Name = ""


class _SlurmTree(msgspec.Struct):
    switches: list[_SlurmSwitch]


class _SlurmBlock(msgspec.Struct):
    block: _Name
    nodes: _Name


class _SlurmBlocks(msgspec.Struct):
    blocks: list[_SlurmBlock]


class _SlurmTopology(msgspec.Struct):
    topology: str
    tree: _SlurmTree | None = None
    block: _SlurmBlocks | None = None
    cluster_default: bool = False


T = TypeVar("T")


def recognises(text: str) -> bool:
    """Whether it is such a file."""
    keys = ("switches", "blocks")
    return all(re.search(rf"^{key}:", text, re.M) for key in keys) and "\nlinks:" not in text


def read(source: Source, hints: Hints) -> Part:
    """Read switches and blocks."""
    model = _converted(source, _Model)
    tree = Tree(source, hints)
    for name, about in model.switches.items():
        tree.add(str(name), [str(below) for below in about.switches] if about else [], [])
    for block in model.blocks:
        domains = [
            str(value) for key, value in block.annotations.items() if key.endswith("/domain")
        ]
        hosts = [host for text in block.nodes for host in hostlist(str(text), source)]
        tree.add(str(block.switch), [], hosts, domain=domains[0] if domains else "")
    return tree.part()


def recognises_slurm(text: str) -> bool:
    """Whether it is SLURM's."""
    return re.search(r"^-\s+topology:", text, re.M) is not None


def read_slurm(source: Source, hints: Hints) -> Part:
    """Read SLURM's file, of several topologies the default one."""
    found = _converted(source, list[_SlurmTopology])
    useful = [one for one in found if one.tree or one.block]
    if not useful:
        raise source.error("neither a tree nor blocks in it")
    chosen = next((one for one in useful if one.cluster_default), useful[0])
    tree = Tree(source, hints)
    for switch in chosen.tree.switches if chosen.tree else ():
        below = list(hostlist(str(switch.children), source))
        tree.add(str(switch.switch), below, list(hostlist(str(switch.nodes), source)))
    for block in chosen.block.blocks if chosen.block else ():
        hosts = list(hostlist(str(block.nodes), source))
        tree.add(str(block.block), [], hosts, domain=str(block.block))
    part = tree.part()
    if len(useful) > 1:
        part.found.append(f"of {len(useful)} topologies, {chosen.topology!r}")
    return part


def _converted(source: Source, kind: type[T]) -> T:
    try:
        return msgspec.convert(parse_yaml(source.text), kind)
    except (ValueError, RecursionError) as error:
        raise source.error(" ".join(str(error).split())) from None
