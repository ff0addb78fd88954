"""What a topology is made of, as users write it down: links and switches."""

from __future__ import annotations

from dataclasses import dataclass

from pccl.units import Bandwidth, Time

__all__ = ["ABSENT", "MOST_NPUS", "NPU", "SWITCH", "UNLIMITED", "Link", "Switch"]

# Values of `kind`.
NPU = 0
SWITCH = 1
ABSENT = 2
# Value of `buffer` for a switch that holds any number of chunks.
UNLIMITED = 0
# A typing error should not fill the memory with NPUs.
MOST_NPUS = 10_000_000


@dataclass(frozen=True)
class Link:
    """One directed physical connection, as users write it down."""

    src: int
    dst: int
    bandwidth: Bandwidth
    latency: Time
    exclusive: bool = False


@dataclass(frozen=True)
class Switch:
    """A device that stores and forwards chunks but takes part in no collective.

    Parameters
    ----------
    name
        What to call it; ``"switch0"``, ``"switch1"``, … when empty.
    buffer
        How many chunks it holds at once, each from its first byte received to its last byte sent; ``None`` for any.
    multicast
        Whether one stored chunk may leave over several links at the same time (and partial sums of one chunk may come
        in over several links at the same time). Without it they do so one after another.
    """

    name: str = ""
    buffer: int | None = None
    multicast: bool = True
