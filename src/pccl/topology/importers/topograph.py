"""Models of topograph: a YAML document of switches, and blocks of hosts at them, without any speed."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from pccl.errors import FormatError
from pccl.topology.documents import converted, parse_yaml
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


def recognises(text: str) -> bool:
    """Whether it is such a file."""
    keys = ("switches", "blocks")
    return all(re.search(rf"^{key}:", text, re.M) for key in keys) and "\nlinks:" not in text


def read(source: Source, hints: Hints) -> Part:
    """Read switches and blocks."""
    try:
        document = parse_yaml(source.text)
        model = converted(document, _Model)
    except (ValueError, RecursionError, FormatError) as error:
        raise source.error(" ".join(str(error).split())) from None
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
