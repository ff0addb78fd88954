"""Our own files and those of ASTRA-sim, as :mod:`pccl.topology.files` reads them: what no other importer knows."""

from __future__ import annotations

from pccl.topology.files import topology_from_text
from pccl.topology.importers.model import Hints, Part, Source

SUFFIXES = (".yaml", ".yml", ".json", ".txt", ".edges")


def recognises(text: str) -> bool:  # noqa: ARG001
    """Whether to try: always."""
    return True


def read(source: Source, hints: Hints) -> Part:  # noqa: ARG001
    """Read YAML, JSON, an edge list or a network of ASTRA-sim."""
    return Part(topology=topology_from_text(source.text, source.path))
