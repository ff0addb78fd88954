"""What the page shows: how busy links are over time, exactly, and the ways of chunks, or of a sample; and its texts.

Everything is columns of a size that does not depend on how many transfers there are, so that a page stays usable.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Column, Indices, Ints, count_within, largest, stable_order
from pccl.algorithm import Algorithm
from pccl.algorithm.holding import held_time
from pccl.reporting.groups import process_groups, shortened
from pccl.reporting.layouts import Drawing, lost_cables
from pccl.topology.core import transmission_time
from pccl.units import Bytes, BytesPerSecond, Picoseconds

# Intervals of time; fewer where there are very many links.
INTERVALS = 240
FEWEST_INTERVALS = 24
# Links times intervals that a page carries.
MOST_CELLS = 8_000_000
# Transfers that a page carries one by one.
MOST_TRANSFERS = 200_000
# Chunks that are always in the sample.
LATEST = 20
# Starts are counted in ticks that fit 32 bits.
_TICKS = 2**32 - 1
_LONGEST_GROUP = 60
# Characters of the name of a network or a device that there is room for.
LONGEST_NAME = 100


@dataclass(frozen=True, eq=False)
class Load:
    """How busy links are, for each collective apart unless that is too much.

    Attributes
    ----------
    collective, link
        Per row: whose traffic over which link. Pairs without any traffic have no row.
    share
        Per row and interval: 255 times the share of the interval for which the link is held.
    curve
        Per collective and interval: the share of all links that it holds.
    apart
        Whether collectives are told apart; otherwise all of them are number 0.
    """

    collective: Ints
    link: Ints
    share: NDArray[np.uint8]
    curve: NDArray[np.float32]
    apart: bool


@dataclass(frozen=True, eq=False)
class Sample:
    """Some chunks with all their transfers.

    Attributes
    ----------
    chunks
        Their numbers, ascending.
    transfers
        Rows of their transfers, chunk by chunk.
    complete
        Whether these are all transfers that there are.
    """

    chunks: Ints
    transfers: Ints
    complete: bool


def load_over_time(
    algorithm: Algorithm, *, intervals: int = INTERVALS, most_cells: int = MOST_CELLS
) -> Load:
    """Return how busy links are over time.

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(3, unidirectional=True, bandwidth="1GB/s", latency="0ns")
    >>> load_over_time(pccl.synthesize(ring, pccl.Broadcast(size="1kB", chunks=1)), intervals=4).share.tolist()
    [[255, 255, 0, 0], [0, 0, 255, 255]]
    """
    t = algorithm.transfers
    links = max(algorithm.topology.num_links, 1)
    collective = algorithm.conditions.collective[t.chunk].astype(np.int64)
    # One row for each collective on each link, as the filters of the page need it.
    pairs, row = _numbered(collective * links + t.link)
    # A coarse picture of every collective is better than a fine one of all together, but only so far.
    apart = len(pairs) * FEWEST_INTERVALS <= most_cells
    if not apart:
        pairs, row = _numbered(t.link)
    intervals = max(min(intervals, most_cells // max(len(pairs), 1)), 1)
    width = max(int(algorithm.duration), 1) / intervals
    held = held_time(row, t.start, t.hold, rows=len(pairs), intervals=intervals, width=width)
    curve = np.zeros((max(len(algorithm.collectives), 1) if apart else 1, intervals))
    # Several rows belong to one collective, so that plain indexing would lose all but one.
    np.add.at(curve, pairs // links, held / (width * links))
    # A byte is as fine as the eye, and a quarter of a float.
    share = np.rint(np.clip(held / width, 0, 1) * 255).astype(np.uint8)
    return Load(
        pairs // links, pairs % links, share, np.clip(curve, 0, 1).astype(np.float32), apart
    )


def sample(algorithm: Algorithm, *, most: int = MOST_TRANSFERS, seed: int = 0) -> Sample:
    """Return all chunks if they have at most so many transfers; otherwise the latest ones and some of every collective.

    A sample has no chunks that never move.

    Examples
    --------
    >>> import pccl
    >>> algorithm = pccl.synthesize(pccl.topology.mesh(4, 4), pccl.AllToAll(size="16kB", chunks=1))
    >>> len(sample(algorithm).chunks), len(sample(algorithm, most=200).chunks) < 100
    (240, True)
    """
    t = algorithm.transfers
    count = len(algorithm.conditions)
    if len(t) <= most:
        return Sample(np.arange(count), np.arange(len(t)), complete=True)
    transfers = np.bincount(t.chunk, minlength=count)
    # They decide how long it all takes, so they are shown in any case.
    latest = latest_chunks(algorithm, LATEST)
    others = transfers > 0
    others[latest] = False
    order = np.concatenate([latest, _mixed(algorithm, np.flatnonzero(others), seed)])
    shown = np.zeros(count, np.bool_)
    # Whole chunks only: half a way would look like a chunk that got lost.
    shown[order[np.cumsum(transfers[order]) <= most]] = True
    return Sample(np.flatnonzero(shown), np.flatnonzero(shown[t.chunk]), complete=False)


def latest_chunks(algorithm: Algorithm, most: int) -> Ints:
    """Return the chunks that are done last, the very last first; those that never move are left out."""
    return largest(chunk_finish(algorithm), most)


def chunk_finish(algorithm: Algorithm) -> Ints:
    """Return, per chunk, when its last transfer has arrived."""
    finish = np.zeros(len(algorithm.conditions), np.int64)
    np.maximum.at(finish, algorithm.transfers.chunk, algorithm.transfers.arrival)
    return finish


def page_data(
    algorithm: Algorithm, drawing: Drawing, load: Load, shown: Sample
) -> tuple[dict[str, Any], dict[str, Column]]:
    """Return texts and numbers for all of the page, and columns: one number per device, link, chunk or transfer."""
    topology = algorithm.topology
    t = algorithm.transfers
    conditions = algorithm.conditions
    chunks = shown.chunks
    duration = int(algorithm.duration)
    # One picosecond, unless the algorithm takes longer than four milliseconds.
    tick = duration // _TICKS + 1
    # Few different values, each with its text once; links and chunks hold their numbers.
    rates, rate_of_link = topology.rates
    latencies, latency_of_link = np.unique(topology.latency, return_inverse=True)
    sizes, size_of_chunk = np.unique(conditions.bytes[chunks], return_inverse=True)
    groups, group_of_collective = process_groups(topology, algorithm.collectives)
    document = {
        "duration": duration,
        "tick": tick,
        "intervals": load.share.shape[1],
        "apart": load.apart,
        "chunks": len(conditions),
        "radius": drawing.radius,
        "extent": drawing.extent,
        "frames": [astuple(frame) for frame in drawing.frames],
        "lost": list(lost_cables(topology)),
        "devices": [
            shortened(topology.device_text(device), LONGEST_NAME)
            for device in range(topology.num_devices)
        ],
        "bandwidths": [str(BytesPerSecond(rate)) for rate in rates.tolist()],
        "latencies": [str(Picoseconds(latency)) for latency in latencies.tolist()],
        "latency": latencies.tolist(),
        "sizes": [str(Bytes(size)) for size in sizes.tolist()],
        # For every size at every rate: the script looks up how long a transfer is under way.
        "transmission": transmission_time(sizes[:, None], rates[None, :]).ravel().tolist(),
        "collectives": [str(collective) for collective in algorithm.collectives],
        "groups": [shortened(group.name, _LONGEST_GROUP) for group in groups],
        "group": group_of_collective,
    }
    columns: dict[str, Column] = {
        "kind": topology.kind,
        "x": drawing.x,
        "y": drawing.y,
        "span": drawing.span,
        "src": topology.src,
        "dst": topology.dst,
        "curve": drawing.curves(gap=0.7 * drawing.radius),
        "rate": rate_of_link,
        "latency": latency_of_link,
        "busy": algorithm.utilization,
        "carried": np.bincount(t.link, minlength=topology.num_links),
        "bytes": np.bincount(t.link, t.bytes, topology.num_links),
        "members": np.array([npu for group in groups for npu in group.npus], np.int64),
        "group_size": np.array([len(group.npus) for group in groups], np.int64),
        "row_collective": load.collective,
        "row_link": load.link,
        "share": load.share,
        "usage": load.curve,
        "size": size_of_chunk,
        "chunk": chunks,
        "collective": conditions.collective[chunks],
        "hops": np.bincount(t.chunk[shown.transfers], minlength=len(conditions))[chunks],
        **_ends("source", conditions.source_offsets, conditions.source_ids, chunks),
        **_ends("destination", conditions.destination_offsets, conditions.destination_ids, chunks),
        "link": t.link[shown.transfers],
        "reduce": t.reduce[shown.transfers].astype(np.uint8),
        "start": t.start[shown.transfers] // tick,
    }
    return document, columns


def pack(columns: Mapping[str, Column]) -> tuple[list[list[object]], str]:
    """Return a directory of the columns (name, type, length), and all of them deflated, as base64.

    Whole numbers take as few bytes as the largest needs; all first bytes of a column come before all second ones, since
    that deflates better.

    Examples
    --------
    >>> directory, text = pack({"link": np.array([1, 700]), "share": np.array([0.5])})
    >>> directory
    [['link', 'u2', 2], ['share', 'f4', 1]]
    """
    directory: list[list[object]] = []
    parts = []
    for name, column in columns.items():
        values = np.ravel(column)
        short = "f4"
        if values.dtype.kind != "f":
            # Without the sign for the order of bytes, which is always the same.
            short = np.min_scalar_type(int(values.max(initial=0))).str[1:]
        # Little-endian, as typed arrays are in every browser.
        values = np.ascontiguousarray(values, f"<{short}")
        directory.append([name, short, len(values)])
        parts.append(values.view(np.uint8).reshape(len(values), values.itemsize).T.tobytes())
    return directory, base64.b64encode(zlib.compress(b"".join(parts), 6)).decode("ascii")


def _mixed(algorithm: Algorithm, chunks: Ints, seed: int) -> Ints:
    """Return the chunks at random, such that any number of first ones has its share of every collective."""
    shuffled = np.random.default_rng(seed).permutation(chunks)
    collective = algorithm.conditions.collective[shuffled]
    order = stable_order(collective, len(algorithm.collectives))
    count = np.bincount(collective)
    share = count_within(count) / np.repeat(count, count)
    return shuffled[order][np.argsort(share, kind="stable")]


def _numbered(key: Column) -> tuple[Ints, Ints]:
    """Return the different keys, ascending, and for each entry which of them it has."""
    # Keys are small and dense, which makes this much quicker than sorting them.
    used = np.zeros(int(key.max(initial=-1)) + 1, np.bool_)
    used[key] = True
    number = np.cumsum(used) - 1
    return np.flatnonzero(used), number[key]


def _ends(name: str, offsets: Ints, ids: Indices, chunks: Ints) -> dict[str, Column]:
    """Return the first of the devices at one end of each chunk, and how many there are."""
    count = offsets[chunks + 1] - offsets[chunks]
    # The offset of an empty last row is one beyond the end.
    padded = np.append(ids, 0)
    return {name: np.where(count > 0, padded[offsets[chunks]], 0), f"{name}s": count}
