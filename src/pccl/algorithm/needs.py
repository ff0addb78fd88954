"""What an algorithm needs of switches beyond passing messages on one by one."""

from __future__ import annotations

import numpy as np

from pccl.algorithm.core import Transfers
from pccl.topology.parts import SWITCH


def needs_of_switches(transfers: Transfers) -> tuple[str, ...]:
    """What switches must do for these transfers: ``"multicast"``, ``"reduce"``, both or neither.

    A switch multiplies what leaves it more often than it came in, and adds up sums of which fewer leave than came.
    """
    t = transfers
    able = (t.topology.kind == SWITCH) & (t.topology.multicast | t.topology.reduce)
    if not np.any(able):
        return ()
    into = np.flatnonzero(able[t.dst])
    out = np.flatnonzero(able[t.src])
    devices = t.topology.num_devices
    came = t.chunk[into] * np.int64(devices) + t.dst[into]
    left = t.chunk[out] * np.int64(devices) + t.src[out]
    places, place = np.unique(np.concatenate([came, left]), return_inverse=True)
    came = place[: len(into)]
    left = place[len(into) :]
    sums_in = np.bincount(came, t.reduce[into], len(places))
    sums_out = np.bincount(left, t.reduce[out], len(places))
    copies_in = np.bincount(came, ~t.reduce[into], len(places))
    copies_out = np.bincount(left, ~t.reduce[out], len(places))
    # What is added up may leave whole, as one copy more than came in.
    summed = sums_in > sums_out
    # A sum may come in as a copy and leave to be added: that is passed on.
    multiplies = copies_out + np.maximum(sums_out - sums_in, 0) > copies_in + summed
    adds = summed & (sums_in > 1)
    found = {"multicast": np.any(multiplies), "reduce": np.any(adds)}
    return tuple(name for name, needed in found.items() if needed)
