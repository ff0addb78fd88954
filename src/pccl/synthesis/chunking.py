"""Into how many chunks to cut shares: many let transfers overlap, few pay for latency less often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pccl.collective import Collective, compile_conditions
from pccl.topology import Topology

__all__ = ["choices", "cut"]

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
NEAR = 1.4  # a number of chunks that divides the data may differ from one of these by this factor


def choices(topology: Topology, collectives: Sequence[Collective]) -> list[int]:
    """Numbers of chunks worth a try for the collectives that leave it open; they all take the same."""
    free = [collective for collective in collectives if collective.chunks is None]
    if not free:
        return [1]
    share = math.gcd(*compile_conditions(topology, free).sizes[0].tolist())
    near = (_divisor(share, count) for count in COUNTS)
    return sorted({count for count in near if count is not None} | {1})


def _divisor(size: int, count: int) -> int | None:
    """The number nearest to `count` that divides the size, if there is one near."""
    candidates = range(math.ceil(count / NEAR), int(count * NEAR) + 1)
    return min((c for c in candidates if size % c == 0), key=lambda c: abs(c - count), default=None)


def cut(collectives: Sequence[Collective], chunks: int) -> tuple[Collective, ...]:
    """The collectives with that many chunks where they leave it open."""
    return tuple(c if c.chunks is not None else replace(c, chunks=chunks) for c in collectives)
