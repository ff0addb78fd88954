"""What kernels pass around: plain arrays under a name, and the numbers they agree on.

Times are int64, in units of the greatest common divisor of all times, so that small numbers stay small; indices are
signed throughout, as mixing in unsigned integers would turn them into floats.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Bools, Indices, Ints

DONE, PAUSED, OUTPUT_FULL, LANE_FULL, STORE_FULL, STUCK = 0, 1, 2, 3, 4, 5
FARTHEST = np.int64(2**38)  # as far as ties look; shifted by 24 bits it still fits
ARRIVAL, START, ARC, SLOT = 0, 1, 2, 3  # columns of a label


class Tasks(NamedTuple):
    """What to place: one row per chunk and direction, in the order of placement."""

    source: Indices
    release: Ints
    size: Indices  # size class
    row: Indices  # row of `remaining`; 0, which holds zeros, for chunks with several destinations
    first: Ints  # destinations of task i are destination[first[i]:first[i + 1]]
    destination: Indices
    remaining: NDArray[
        Any
    ]  # [row, device]: unloaded time from the device to the destination of the row, in units
    unreachable: int  # what `remaining` says where there is no way
    minimal: bool  # only arcs that bring a chunk nearer to its one destination
    haste: int  # on minimal routes, how much more the way ahead counts, in 1/256: faster, and nearly as good


class Moves(NamedTuple):
    """Transfers to start again, each between two slots that say when a chunk is ready at a device."""

    arc: Indices
    size: Indices  # size class
    sender: Ints  # slot
    receiver: Ints  # slot
    start: Ints


class Work(NamedTuple):
    """Scratch space of one search; what is noted for a device counts if it bears the number of the search."""

    state: (
        Ints  # twice the number of the search that labelled the device, plus one once it is closed
    )
    label: Ints  # [device, (arrival, start, arc, slot in the calendar of the lane)]
    wanted: Ints
    in_tree: Ints
    not_before: Ints  # per device: earliest moment at which this chunk may begin to come in
    port: Ints  # per one-way switch: until when it is sending this chunk
    heap: Ints  # [slot, (score, tie, device)]: of equal scores the nearest to its destination, then the first
    pending: Ints  # [slot, (device, next arc)]: devices left half-way because one of their arcs lost no time
    tree: Ints  # arcs of the tree found
    search: Ints  # [0]: number of the last search, [1]: relaxations so far


class Output(NamedTuple):
    """Transfers placed so far, task by task."""

    count: Ints  # [0]: transfers, [1]: when the last arrives
    first: Ints  # transfers of task i are first[i] .. first[i + 1] - 1
    arc: Indices
    start: Ints


class Columns(NamedTuple):
    """Transfers by chunk, in picoseconds."""

    chunk: Indices
    link: Indices
    start: Ints
    reduce: Bools
