"""What is wrong with a file, as values: a kind that programs can act on, a place, and one line for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple


class Kind(Enum):
    """What sort of problem it is."""

    TEXT = auto()  # readers would reject it, or take it for something else
    RULE = auto()  # a limit is exceeded, an index is out of range, a part is missing
    DEFECT = auto()  # it is allowed, but the runtime gets it wrong
    CONNECTION = auto()  # the two ends of a connection do not fit
    DEADLOCK = auto()
    RACE = auto()
    UNWRITTEN = auto()  # a read of what nothing has been written to
    HANDSHAKE = auto()  # a rank is reached that may not have started, or may be done
    COUNTER = auto()  # a counter does not end as it began, so that the next run goes wrong
    RESULT = auto()  # the collective promises something else


class Place(NamedTuple):
    """Where a problem is; -1 stands for all of them."""

    rank: int = -1
    threadblock: int = -1
    step: int = -1


_EVERYWHERE = Place()


@dataclass(frozen=True)
class Problem:
    """One problem; as text it is one line, which names the place in the words of the file."""

    kind: Kind
    text: str
    place: Place = _EVERYWHERE

    def __str__(self) -> str:
        return self.text


class Problems:
    """Problems in the order in which they were found, each of them once."""

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}

    def add(self, kind: Kind, text: str, place: Place = _EVERYWHERE) -> None:
        """Add a problem unless it is known already."""
        self._found[Problem(kind, text, place)] = None

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)
