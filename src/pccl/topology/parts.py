"""What a network is made of, as users write it down: links and switches; and the columns that they become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pccl.errors import TopologyError
from pccl.units import Bandwidth, Time, truth, whole

# Values of `kind`.
NPU = 0
SWITCH = 1
ABSENT = 2
# Value of `buffer` for a switch that holds any number of chunks.
UNLIMITED = 0
# A typing error should not fill the memory with NPUs.
MOST_NPUS = 10_000_000
# Chunks that a buffer is said to hold: more than nine digits are a mistake.
MOST_PLACES = 999_999_999


@dataclass(frozen=True)
class Link:
    """One directed physical connection, as users write it down.

    Parameters
    ----------
    src, dst
        Device numbers.
    bandwidth, latency
        How fast bytes follow each other, and how long each of them takes.
    exclusive
        Whether a transfer holds the link until it has arrived, so that its latency holds the link too.
    gap
        For how long a transfer holds the link besides: what a message costs, however short (the g of LogGP).
    """

    src: int
    dst: int
    bandwidth: Bandwidth
    latency: Time
    exclusive: bool = False
    gap: Time = "0ns"


@dataclass(frozen=True)
class Switch:
    """A device that passes messages on but takes part in no collective.

    A plain switch does no more than that: every message that comes in leaves once, over one link.

    Parameters
    ----------
    name
        What to call it; ``"switch0"``, ``"switch1"``, … when empty.
    buffer
        How many chunks it holds at once, each from its first byte received to its last byte sent; ``None`` for any.
    multicast
        Whether it multiplies: a chunk that came in once may leave over several links.
    reduce
        Whether it adds: partial sums of a chunk that come in leave as one.
    """

    name: str = ""
    buffer: int | None = None
    multicast: bool = False
    reduce: bool = False


def read_flag(value: object, what: str, words: Mapping[str, bool] | None = None) -> bool:
    """Return a truth value; with `words` it may be written as one of them. Whatever else it is, is refused.

    Examples
    --------
    >>> read_flag("no", "multicast")
    Traceback (most recent call last):
    ...
    pccl.errors.TopologyError: multicast is True or False, not 'no'
    """
    found = truth(value, words)
    if found is None:
        raise TopologyError(f"{what} is {'yes or no' if words else 'True or False'}, not {value!r}")
    return found


def check_switch(given: object, number: int) -> str:
    """Return what the switch of this number is called; raises if it is not what a switch can be."""
    if not isinstance(given, Switch):
        raise TopologyError(f"switch {number} is {given!r}; write Switch(name)")
    name = given.name or f"switch{number}"
    if given.buffer is not None and not 1 <= (whole(given.buffer) or 0) <= MOST_PLACES:
        text = f"a buffer of {given.buffer!r}; it must hold a chunk or more, up to {MOST_PLACES:,}"
        raise TopologyError(f"switch {name!r} has {text}")
    for ability in ("multicast", "reduce"):
        read_flag(getattr(given, ability), f"{ability} of switch {name!r}")
    return name


DEVICE_COLUMNS = {"kind": np.int8, "buffer": np.int64, "multicast": np.bool_, "reduce": np.bool_}
LINK_COLUMNS = {
    "src": np.int32,
    "dst": np.int32,
    "latency": np.int64,
    "bandwidth": np.int64,
    "exclusive": np.bool_,
    "gap": np.int64,
}
COLUMNS: dict[str, Any] = DEVICE_COLUMNS | LINK_COLUMNS
