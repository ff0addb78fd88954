"""What both kinds of files say about an algorithm beside its network and its columns."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import msgspec

from pccl.algorithm.bound import Bound
from pccl.algorithm.core import Algorithm, Provenance
from pccl.collective import Collective, collective_from_dict
from pccl.errors import FormatError
from pccl.units import Picoseconds

__all__ = ["Header", "check_header", "header_of"]

FORMAT = "pccl-algorithm"
VERSION = 1


class _Made(msgspec.Struct, forbid_unknown_fields=True):
    method: str = "unknown"
    seed: int = 0
    seconds: float = 0.0
    version: str = "unknown"


class _Proven(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    value_ps: Annotated[int, msgspec.Meta(ge=0, le=2**62)]
    certificate: dict[str, tuple[int, ...]]
    whole_chunks: bool
    reason: str


class Header(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The part that is the same in every file."""

    format: str
    version: int
    collectives: list[dict[str, Any]]
    provenance: _Made = msgspec.field(default_factory=_Made)
    bound: _Proven | None = None

    def read_collectives(self) -> list[Collective]:
        """Return what the algorithm is for."""
        return [collective_from_dict(data) for data in self.collectives]

    def knowledge(self) -> dict[str, Any]:
        """Return what is known about the algorithm, by the names that :meth:`Algorithm.build` has for it."""
        provenance = Provenance(**msgspec.structs.asdict(self.provenance))
        if self.bound is None:
            return {"provenance": provenance}
        said = msgspec.structs.asdict(self.bound)
        value = Picoseconds(said.pop("value_ps"))
        return {"provenance": provenance, "bound": Bound(value=value, **said)}


def header_of(algorithm: Algorithm) -> dict[str, Any]:
    """Return the same for an algorithm that is to be written."""
    said = {
        "format": FORMAT,
        "version": VERSION,
        "collectives": [collective.to_dict() for collective in algorithm.collectives],
        "provenance": asdict(algorithm.provenance),
    }
    if algorithm.bound is not None:
        bound = asdict(algorithm.bound)
        said["bound"] = {"value_ps": int(bound.pop("value")), **bound}
    return said


def check_header(said: dict[str, Any], path: Path, other: str) -> None:
    """Refuse what is something `other` than an algorithm, or of a version that we do not know."""
    if said.get("format") != FORMAT:
        raise FormatError(f"{path} is not {other}")
    version = said.get("version")
    if type(version) is not int or version != VERSION:
        raise FormatError(f"{path} has version {version!r}; this pccl reads version {VERSION}")
