"""Any pattern at all: a collective given condition by condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pccl._arrays import Ints
from pccl.collective.base import Collective, yes_or_no
from pccl.collective.conditions import Conditions
from pccl.collective.groups import npu_numbers
from pccl.collective.layout import BufferLayout, Ranks, kept
from pccl.errors import CollectiveError
from pccl.units import Bytes, Size, parse, whole


@dataclass(frozen=True)
class Condition:
    """What one chunk of a :class:`Custom` collective starts from and where it must end.

    Parameters
    ----------
    sources
        The NPU that has the chunk, or all contributors of a reduction.
    destinations
        The NPUs that must end with it.
    size
        Bytes of the chunk, with a unit.
    reduces
        Whether the sources contribute to a sum.
    """

    sources: int | Iterable[int]
    destinations: int | Iterable[int]
    size: Size
    reduces: bool = False

    def __post_init__(self) -> None:
        for name in ("sources", "destinations"):
            value = getattr(self, name)
            several = [value] if whole(value) is not None else value
            ranks = npu_numbers(several, f"{name} of a condition")
            object.__setattr__(self, name, ranks)
            if not ranks or len(set(ranks)) < len(ranks):
                raise CollectiveError(
                    f"a condition with {name} {list(ranks)}: there must be some, each only once"
                )
        object.__setattr__(self, "reduces", yes_or_no(self.reduces, "reduces of a condition"))
        object.__setattr__(self, "size", parse(Bytes, self.size, "size of a condition"))
        if self.size == 0:
            raise CollectiveError("a condition has a size of 0; it must be positive")
        if not self.reduces and len(self.sources) != 1:  # type: ignore[arg-type]
            raise CollectiveError(
                f"a condition that does not reduce has one source, not {self.sources}"
            )


@dataclass(frozen=True)
class Custom(Collective):
    """Any pattern at all, condition by condition.

    Examples
    --------
    >>> Custom([Condition(0, [1, 2], "1MiB"), Condition([1, 2], 0, "4KiB", reduces=True)]).group
    (0, 1, 2)
    """

    # All that other collectives are told follows from the pattern here.
    size: Bytes = field(init=False)
    group: tuple[int, ...] = field(init=False)
    chunks: int = field(init=False, default=1)
    dtype: str = field(init=False, default="uint8")
    pattern: Sequence[Condition] = ()
    kind = "custom"
    nccl_name = None
    _is_one_share = True
    has_one_size = False

    def __init__(self, pattern: Iterable[Condition | Mapping[str, Any]]) -> None:
        try:
            rows = tuple(row if isinstance(row, Condition) else Condition(**row) for row in pattern)
        except TypeError as error:
            raise self._error(f"the pattern must be a list of conditions: {error}") from None
        if not rows:
            raise self._error("there is no condition")
        members = {rank for row in rows for rank in _ranks(row.sources) + _ranks(row.destinations)}
        self._set("pattern", rows)
        self._set("group", tuple(sorted(members)))
        self._set("size", Bytes(sum(int(row.size) for row in rows)))

    def uncut(self) -> Custom:
        """The same pattern, whose conditions are what they are."""
        return self

    def with_elements(self, count: int) -> Custom:
        """The same pattern in the same ratios; chunks may be empty, which no pattern of users has."""
        ends = np.cumsum([int(row.size) for row in self.pattern]) * count // int(self.size)
        rows = []
        for row, size in zip(self.pattern, np.diff(ends, prepend=0).tolist(), strict=True):
            scaled = copy(row)
            object.__setattr__(scaled, "size", Bytes(size))
            rows.append(scaled)
        found = copy(self)
        found._set("pattern", tuple(rows))
        found._set("size", Bytes(count))
        return found

    def _share_sizes(self, group: Ints) -> Ints:  # noqa: ARG002
        return np.array([int(row.size) for row in self.pattern], np.int64)

    def _conditions(self, group: Ints) -> Conditions:  # noqa: ARG002
        parts = []
        for row in self.pattern:
            sources = np.array(_ranks(row.sources))
            destinations = np.array(_ranks(row.destinations))
            # Who has a chunk from the start is no destination of it. A sum nobody has from the
            # start, so its contributors may well be destinations.
            if not row.reduces:
                destinations = destinations[destinations != sources[0]]
            size = int(row.size)
            parts.append(Conditions.of(size, 0, sources[None], destinations[None], row.reduces))
        return Conditions.join(parts)

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        layout = super()._layout(conditions, ranks)
        place = layout.input_offset
        # A chunk that is no sum stays where it is if its source is among its destinations.
        stays = [
            not row.reduces and _ranks(row.sources)[0] in _ranks(row.destinations)
            for row in self.pattern
        ]
        chunk = np.flatnonzero(stays)
        rank = ranks.of_device[conditions.source_ids[conditions.source_offsets[chunk]]]
        own = kept(rank, conditions.bytes[chunk], place[chunk], place[chunk])
        return replace(layout, shift=None, own=own)


def _ranks(value: int | Iterable[int]) -> tuple[int, ...]:
    # The annotation says what callers may write; conditions that exist have tuples.
    return (value,) if isinstance(value, int) else tuple(value)
