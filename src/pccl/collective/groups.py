"""Process groups the way people think of them: ranges of ranks, and meshes with named dimensions."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pccl.errors import CollectiveError
from pccl.units import whole

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
# A typing error should not fill the memory with ranks.
_MOST_RANKS = 1_000_000


@dataclass(frozen=True)
class DeviceMesh:
    """Ranks arranged row by row in a grid with named dimensions, as PyTorch's device mesh does."""

    shape: tuple[int, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return math.prod(self.shape)

    def __getitem__(self, name: str) -> tuple[tuple[int, ...], ...]:
        """Short for :meth:`groups` along one dimension."""
        return self.groups(name)

    def groups(self, *names: str) -> tuple[tuple[int, ...], ...]:
        """Every process group along the named dimension (or along several, flattened in the order of the mesh).

        Examples
        --------
        >>> device_mesh(dp=2, tp=3).groups("tp")
        ((0, 1, 2), (3, 4, 5))
        >>> device_mesh(dp=2, tp=3)["dp"]
        ((0, 3), (1, 4), (2, 5))
        """
        if not names:
            raise CollectiveError(f"name the dimension to group along: {', '.join(self.names)}")
        for name in names:
            if name not in self.names:
                raise CollectiveError(
                    f"the mesh has no dimension {name!r}; it has {', '.join(self.names)}"
                )
        along = [d for d, name in enumerate(self.names) if name in names]
        across = [d for d in range(len(self.shape)) if d not in along]
        size = math.prod(self.shape[d] for d in along)
        # The dimensions to group along go last: then every row is a group.
        ranks = np.arange(len(self)).reshape(self.shape)
        groups = ranks.transpose(*across, *along).reshape(-1, size)
        return tuple(map(tuple, groups.tolist()))


def device_mesh(
    shape: Sequence[int] | None = None, names: Sequence[str] | None = None, **sizes: int
) -> DeviceMesh:
    """Arrange ranks in a mesh: ``device_mesh((8, 8), ("dp", "tp"))``, or in short ``device_mesh(dp=8, tp=8)``.

    Examples
    --------
    >>> len(device_mesh((4, 2), ("dp", "tp")).groups("tp"))
    4
    """
    if sizes:
        if shape is not None or names is not None:
            raise CollectiveError("give either a shape with names or name=size pairs, not both")
        shape = tuple(sizes.values())
        names = tuple(sizes)
    if shape is None:
        raise CollectiveError(
            'a device mesh needs a shape: device_mesh((8, 8), ("dp", "tp")) or device_mesh(dp=8, tp=8)'
        )
    if names is None:
        names = tuple(f"dim{d}" for d in range(len(shape)))
    if len(shape) != len(names):
        raise CollectiveError(f"the mesh has {len(shape)} dimensions but {len(names)} names")
    if len(set(names)) != len(names):
        raise CollectiveError(f"two dimensions of the mesh have the same name: {', '.join(names)}")
    counts = []
    for name, size in zip(names, shape, strict=True):
        count = whole(size)
        if count is None or count < 1:
            raise CollectiveError(
                f"dimension {name!r} of the mesh has size {size!r}; it must be a positive whole number"
            )
        counts.append(count)
    return DeviceMesh(tuple(counts), tuple(names))


def parse_group(text: str) -> tuple[int, ...]:
    """Read ranks from text: single ones, ranges, and ranges with a step.

    Examples
    --------
    >>> parse_group("0-3,8,16-24:4")
    (0, 1, 2, 3, 8, 16, 20, 24)
    """
    ranks: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise CollectiveError(
                f"group {text!r}: {part.strip()!r} is not a rank or range such as 0-7 or 0-56:8"
            )
        first = int(match[1])
        last = int(match[2] or first)
        step = int(match[3] or 1)
        if step == 0 or last < first:
            raise CollectiveError(f"group {text!r}: {part.strip()!r} is an empty range")
        # Cut before it is listed: the range itself takes no memory, but a typing error may be a
        # billion long.
        ranks.extend(range(first, last + 1, step)[: _MOST_RANKS + 1])
        if len(ranks) > _MOST_RANKS:
            raise CollectiveError(f"group {text!r} is beyond {_MOST_RANKS:,} ranks")
    return tuple(ranks)


def format_group(group: Iterable[int]) -> str:
    """Write ranks as short text that :func:`parse_group` reads back.

    Examples
    --------
    >>> format_group([0, 1, 2, 3, 8, 9])
    '0-3,8-9'
    """
    ranges: list[list[int]] = []
    for rank in group:
        if ranges and rank == ranges[-1][1] + 1:
            ranges[-1][1] = rank
        else:
            ranges.append([rank, rank])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)


def npu_numbers(value: object, what: str) -> tuple[int, ...]:
    """The value as NPU numbers; `what` names it in the error message."""
    # Text and mappings are iterable as well, but what they yield are no NPUs.
    try:
        if not isinstance(value, str | Mapping):
            return tuple(operator.index(rank) for rank in value)  # type: ignore[attr-defined]
    except TypeError:
        pass
    raise CollectiveError(f"{what} must be a list of NPU numbers, not {value!r}")
