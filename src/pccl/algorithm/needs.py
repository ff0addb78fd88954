"""What an algorithm needs of switches beyond passing messages on one by one."""

from __future__ import annotations

import numpy as np

from pccl._arrays import offsets_by_owner
from pccl.algorithm.core import Transfers
from pccl.topology.parts import SWITCH


def needs_of_switches(transfers: Transfers) -> tuple[str, ...]:
    """What switches must do for these transfers: ``"multicast"``, ``"reduce"``, both or neither.

    A switch passes on what leaves it as it came, once for every time it came. It adds up what leaves it as the sum of
    several messages that came, and it has multiplied whatever else leaves.
    """
    t = transfers
    c = t.conditions
    able = (t.topology.kind == SWITCH) & (t.topology.multicast | t.topology.reduce)
    passing = np.zeros(len(t), np.bool_)
    follows = np.full(len(t), -1, np.int32)
    if t.topology.plain:
        passing = t.comes_to_pass
        follows = t.follows
    chunks = np.unique(t.chunk[able[t.src] & (follows < 0)])
    if not len(chunks):
        return ()
    from pccl.algorithm import kernels

    first = offsets_by_owner(t.chunk, len(c))
    longest = int(np.diff(first)[chunks].max())
    # A set of contributions is a row of 64-bit words.
    words = int(np.diff(c.source_offsets)[chunks].max() + 63) // 64
    multiplies, adds = kernels.find_needs(
        kernels.Moves(first, t.src, t.dst, t.start, t.arrival, t.reduce),
        follows, passing, ~t.topology.multicast, able, np.lexsort((t.arrival, t.chunk)),
        chunks, c.source_offsets, c.source_ids,
        held=np.zeros((t.topology.num_devices, words), np.uint64),
        flying=np.zeros((longest, words), np.uint64),
        came=np.full(t.topology.num_devices, -1),
        came_before=np.full(longest, -1),
        used=np.zeros(longest, np.bool_),
        rest=np.zeros(words, np.uint64),
    )  # fmt: skip
    found = {"multicast": multiplies, "reduce": adds}
    return tuple(name for name, needed in found.items() if needed)
