"""Bandwidths as nccl-tests defines them, so that figures can be compared."""

from __future__ import annotations

from pccl.collective import Collective

__all__ = ["bandwidths"]


def bandwidths(collective: Collective, members: int, duration: int) -> tuple[float, float]:
    """Algorithm and bus bandwidth, in bytes per second, of a collective that takes so many picoseconds.

    The first is size over time. The second says how busy that keeps the links of an NPU, whatever the collective, so
    that it can be held against the hardware.

    Examples
    --------
    >>> from pccl import AllReduce
    >>> bandwidths(AllReduce(size="8GB"), 4, 10**12)
    (8000000000.0, 12000000000.0)
    """
    seconds = duration / 1e12
    rate = int(collective.size) / seconds if seconds else 0.0
    return rate, rate * collective.bus_factor(members)
