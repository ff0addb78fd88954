"""Models of topograph: a YAML document of switches, and blocks of hosts at them, without any speed."""

from __future__ import annotations

import re
from typing import Any

from pccl.topology.documents import parse_yaml
from pccl.topology.importers.model import Hints, Part, Source
from pccl.topology.importers.slurm import Tree, hostlist


def recognises(text: str) -> bool:
    """Whether it is such a file."""
    return (
        all(re.search(rf"^{key}:", text, re.M) for key in ("switches", "blocks"))
        and "\nlinks:" not in text
    )


def read(source: Source, hints: Hints) -> Part:
    """Read switches and blocks."""
    try:
        document = parse_yaml(source.text)
    except (ValueError, RecursionError) as error:
        raise source.error(" ".join(str(error).split())) from None
    tree = Tree(source, hints)
    switches = _entries(document, "switches", dict, source)
    blocks = _entries(document, "blocks", list, source)
    for name, about in switches.items():
        below = about.get("switches") or [] if isinstance(about, dict) else []
        tree.add(str(name), [str(switch) for switch in below], [], 0)
    for i, block in enumerate(blocks):
        if not isinstance(block, dict) or "switch" not in block:
            raise source.error(f"block {i} has no switch")
        notes = block.get("annotations") or {}
        domain = next(
            (str(value) for key, value in notes.items() if str(key).endswith("/domain")), ""
        )
        hosts = [
            host for text in block.get("nodes") or [] for host in hostlist(str(text), source, 0)
        ]
        tree.add(str(block["switch"]), [], hosts, 0, domain=domain)
    return tree.part()


def _entries(document: Any, key: str, kind: type, source: Source) -> Any:
    value = document.get(key) if isinstance(document, dict) else None
    if not isinstance(value, kind):
        raise source.error(f"{key!r} must be a {'mapping' if kind is dict else 'list'}")
    return value
