"""What all collectives share, and how their parameters are checked."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from pccl._arrays import Ints
from pccl.collective.conditions import Conditions
from pccl.collective.groups import format_group
from pccl.errors import CollectiveError
from pccl.topology import Topology
from pccl.units import Bytes, Size, parse, whole

__all__ = ["Collective", "check_npu", "npu_numbers", "yes_or_no"]

_MOST_CHUNKS = 2**31 - 1  # pieces are numbered in 32 bits


@dataclass(frozen=True)
class Collective:
    """What all collectives share; use one of the kinds.

    Parameters
    ----------
    size
        Buffer of one NPU, for example ``"8MiB"``.
    group
        The NPUs that take part, in the order of their ranks; ``None`` for all of them.
    chunks
        Into how many pieces every share is cut; ``None`` to let :func:`pccl.synthesize` find out what is best (where
        nothing is searched for, that is one).
    """

    size: Size
    group: Iterable[int] | None = None
    chunks: int | None = None

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        self._set("size", parse(Bytes, self.size, f"size of {self.kind}"))
        if self.size == 0:
            raise CollectiveError(f"{self.kind} has a size of 0; it must be positive")
        self._check_shared()

    def _check_shared(self) -> None:
        if self.group is not None:
            self._set("group", npu_numbers(self.group, f"{self.kind}: the group"))
            self._check_group(self.ranks)
        if self.chunks is None:
            return
        chunks = whole(self.chunks)
        if chunks is None or chunks < 1:
            raise CollectiveError(
                f"{self.kind}: chunks must be a positive whole number, not {self.chunks!r}"
            )
        if chunks > _MOST_CHUNKS:
            raise CollectiveError(
                f"{self.kind}: {chunks} chunks are too many; {_MOST_CHUNKS} is the limit"
            )
        self._set("chunks", chunks)

    @property
    def pieces(self) -> int:
        """Into how many pieces every share is cut."""
        return self.chunks or 1

    @property
    def ranks(self) -> tuple[int, ...]:
        """The group as a tuple; empty when it spans all NPUs."""
        return tuple(self.group) if self.group is not None else ()

    def conditions(self, topology: Topology) -> Conditions:
        """One condition per chunk, on this topology."""
        if self.group is None:
            return self._conditions(topology.npus)
        for rank in self.ranks:
            check_npu(topology, rank, self.kind)
        return self._conditions(np.array(self.ranks, np.int64))

    def _conditions(self, group: Ints) -> Conditions:
        raise NotImplementedError

    def _check_group(self, group: tuple[int, ...]) -> None:
        if not group:
            raise CollectiveError(f"{self.kind}: the group is empty")
        if len(set(group)) < len(group):
            twice = next(rank for i, rank in enumerate(group) if rank in group[:i])
            raise CollectiveError(f"{self.kind}: NPU {twice} appears twice in the group")

    def _cut(self, shares: int) -> int:
        """Bytes of one chunk when the buffer consists of this many shares."""
        size, parts = int(self.size), shares * self.pieces
        if size % parts:
            near = Bytes(max(1, round(size / parts)) * parts)
            raise CollectiveError(
                f"{self.kind}: size {self.size} does not divide into {shares} x {self.pieces} chunks; try {near}"
            )
        return size // parts

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __str__(self) -> str:
        """One line for people."""
        who = (
            "all NPUs"
            if self.group is None
            else f"{len(self.ranks)} NPUs ({_shortened(format_group(self.ranks))})"
        )
        text = f"{self.kind} of {self.size} among {who}"
        return (
            text
            if self.chunks is None
            else f"{text}, {self.chunks} {'chunk' if self.chunks == 1 else 'chunks'}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data that :func:`collective_from_dict` reads back."""
        data: dict[str, Any] = {"kind": self.kind}
        for f in fields(self):
            value = getattr(self, f.name)
            if value != f.default:
                data[f.name] = str(value) if isinstance(value, Bytes) else _plain(value)
        return data


def check_npu(topology: Topology, device: int, what: str) -> None:
    """Raise unless the device is an NPU of the topology."""
    if not 0 <= device < topology.num_devices:
        present = _shortened(format_group(topology.npus.tolist()))
        raise CollectiveError(
            f"{what}: there is no NPU {device} in {topology.name}, which has NPUs {present}"
        )
    if topology.is_switch(device):
        raise CollectiveError(
            f"{what}: device {device} ({topology.labels[device]}) is a switch, not an NPU"
        )
    if device not in topology.npus:
        raise CollectiveError(f"{what}: NPU {device} is absent from {topology.name}")


def npu_numbers(value: object, what: str) -> tuple[int, ...]:
    """The value as NPU numbers; `what` names it in the error message."""
    try:
        if not isinstance(value, str | Mapping):
            return tuple(operator.index(rank) for rank in value)  # type: ignore[attr-defined]
    except TypeError:
        pass
    raise CollectiveError(f"{what} must be a list of NPU numbers, not {value!r}")


def yes_or_no(value: object, what: str) -> bool:
    """The value as a truth value; `what` names it in the error message."""
    if not isinstance(value, bool | np.bool_):
        raise CollectiveError(f"{what} must be true or false, not {value!r}")
    return bool(value)


def _plain(value: object) -> object:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _shortened(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
