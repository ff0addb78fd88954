"""Into how many chunks to cut shares: many let transfers overlap, few pay for latency less often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pccl.collective import Collective, compile_conditions
from pccl.topology import Topology

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
ENOUGH = 4  # numbers that divide the data; with fewer of them, chunks may differ by an element
NEAR = 1.4  # a number of chunks that divides the data may differ from one of these by this factor


def numbers_of_chunks(topology: Topology, collectives: Sequence[Collective]) -> list[int]:
    """Numbers worth a try for the collectives that leave it open, ascending; they all take the same."""
    free = [collective for collective in collectives if collective.chunks is None]
    if not free:
        return [1]
    # Shares of all of them: a number of chunks must suit every collective that leaves it open.
    sizes = compile_conditions(topology, free).sizes[0].tolist()
    share = math.gcd(*sizes)
    # Chunks of equal size fit together best; but there must be something to choose from.
    numbers = {_divisor(share, count) for count in COUNTS} - {None}
    if len(numbers) < ENOUGH:
        numbers |= set(COUNTS)
    return sorted(number for number in numbers if number and number <= max(sizes, default=1))


def _divisor(size: int, count: int) -> int | None:
    """The number nearest to `count` that divides the size, if there is one near."""
    candidates = range(math.ceil(count / NEAR), int(count * NEAR) + 1)
    divisors = [candidate for candidate in candidates if size % candidate == 0]
    return min(divisors, key=lambda divisor: abs(divisor - count), default=None)


def cut(collectives: Sequence[Collective], chunks: int) -> tuple[Collective, ...]:
    """The collectives with that many chunks where they leave it open."""
    return tuple(
        replace(collective, chunks=chunks) if collective.chunks is None else collective
        for collective in collectives
    )


def pieces_of(given: Sequence[Collective], cut: Sequence[Collective]) -> int:
    """Into how many chunks those collectives are cut that left it open."""
    pairs = zip(given, cut, strict=True)
    return max((one.pieces for asked, one in pairs if asked.chunks is None), default=1)
