"""What the page shows of the traffic: how busy links are over time, exactly, and the ways of chunks, or of a sample.

Everything is columns of a size that does not depend on how many transfers there are, so that a page stays usable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Floats, Ints, stable_order
from pccl.algorithm import Algorithm

__all__ = ["Load", "Sample", "chunk_finish", "latest_chunks", "load_over_time", "sample"]


INTERVALS = 240  # of time; fewer where there are very many links
FEWEST_INTERVALS = 24
MOST_CELLS = 8_000_000  # links x intervals that a page carries
MOST_TRANSFERS = 200_000  # of which a page carries the ways one by one
LATEST = 20  # chunks that are always among the sample
_BLOCK = 2**21  # transfers looked at together: a few columns of so many fit the memory anywhere


@dataclass(frozen=True, eq=False)
class Load:
    """How busy links are, for each collective apart unless that is too much.

    Attributes
    ----------
    width
        Picoseconds of an interval.
    collective, link
        Per row: whose traffic over which link. Pairs without any traffic have no row.
    share
        Per row and interval: 255 times the share of the interval for which the link is held.
    curve
        Per collective and interval: the share of all links that it holds.
    apart
        Whether collectives are told apart; otherwise all of them are number 0.
    """

    width: float
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
    """

    chunks: Ints
    transfers: Ints


def load_over_time(
    algorithm: Algorithm, *, intervals: int = INTERVALS, most_cells: int = MOST_CELLS
) -> Load:
    """How busy links are over time.

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(3, unidirectional=True, bandwidth="1GB/s", latency="0ns")
    >>> load_over_time(pccl.synthesize(ring, pccl.Broadcast(size="1kB", chunks=1)), intervals=4).share.tolist()
    [[255, 255, 0, 0], [0, 0, 255, 255]]
    """
    links, number = algorithm.topology.num_links, max(len(algorithm.collectives), 1)
    pairs = _pairs(algorithm)
    apart = len(pairs) * FEWEST_INTERVALS <= most_cells
    if not apart:
        pairs, number = np.unique(pairs % links), 1
    intervals = max(min(intervals, most_cells // max(len(pairs), 1)), 1)
    width = max(int(algorithm.duration), 1) / intervals
    held = _held(algorithm, pairs, apart, intervals, width)
    collective = pairs // max(links, 1)
    curve = np.zeros((number, intervals))
    np.add.at(curve, collective, held / (width * max(links, 1)))
    share = np.rint(np.clip(held / width, 0, 1) * 255).astype(np.uint8)
    return Load(
        width,
        collective,
        pairs % max(links, 1),
        share,
        np.clip(curve, 0, 1).astype(np.float32),
        apart,
    )


def sample(algorithm: Algorithm, *, most: int = MOST_TRANSFERS, seed: int = 0) -> Sample:
    """All chunks if they have at most so many transfers; otherwise the latest ones and some of every collective.

    A sample has no chunks that never move.

    Examples
    --------
    >>> import pccl
    >>> algorithm = pccl.synthesize(pccl.topology.mesh(4, 4), pccl.AllToAll(size="16kB", chunks=1))
    >>> len(sample(algorithm).chunks), len(sample(algorithm, most=200).chunks) < 100
    (240, True)
    """
    t, count = algorithm.transfers, len(algorithm.conditions)
    if len(t) <= most:
        return Sample(np.arange(count), np.arange(len(t)))
    transfers = np.bincount(t.chunk, minlength=count)
    others = transfers > 0
    latest = latest_chunks(algorithm, LATEST)
    others[latest] = False
    order = np.concatenate([latest, _mixed(algorithm, np.flatnonzero(others), seed)])
    shown = np.zeros(count, np.bool_)
    shown[order[np.cumsum(transfers[order]) <= most]] = True
    return Sample(np.flatnonzero(shown), np.flatnonzero(shown[t.chunk]))


def latest_chunks(algorithm: Algorithm, most: int) -> Ints:
    """The chunks that are done last, the very last first; those that never move are left out."""
    finish = chunk_finish(algorithm)
    few = np.argsort(-finish, kind="stable")[:most]
    return few[finish[few] > 0]


def chunk_finish(algorithm: Algorithm) -> Ints:
    """Per chunk: when its last transfer has arrived."""
    finish = np.zeros(len(algorithm.conditions), np.int64)
    t = algorithm.transfers
    if len(t):
        first = np.flatnonzero(np.append(True, t.chunk[1:] != t.chunk[:-1]))
        finish[t.chunk[first]] = np.maximum.reduceat(t.arrival, first)
    return finish


def _mixed(algorithm: Algorithm, chunks: Ints, seed: int) -> Ints:
    """The chunks at random, such that any number of first ones has its share of every collective."""
    shuffled = np.random.default_rng(seed).permutation(chunks)
    collective = algorithm.conditions.collective[shuffled]
    order, count = stable_order(collective, len(algorithm.collectives)), np.bincount(collective)
    rank = np.arange(len(chunks)) - np.repeat(np.cumsum(count) - count, count)
    return shuffled[order][np.argsort(rank / np.repeat(count, count), kind="stable")]


def _pairs(algorithm: Algorithm) -> Ints:
    """Collectives and links that have to do with each other, as ``collective * links + link``, ascending."""
    t, links = algorithm.transfers, algorithm.topology.num_links
    used = np.zeros(max(len(algorithm.collectives), 1) * links, np.bool_)
    for rows in _blocks(len(t)):
        used[t.conditions.collective[t.chunk[rows]].astype(np.int64) * links + t.link[rows]] = True
    return np.flatnonzero(used)


def _held(algorithm: Algorithm, pairs: Ints, apart: bool, intervals: int, width: float) -> Floats:
    """Per pair and interval: for how long the link is held."""
    t, links = algorithm.transfers, algorithm.topology.num_links
    row_of = np.zeros(int(pairs.max(initial=0)) + 1, np.int64)
    row_of[pairs] = np.arange(len(pairs))
    lag = np.where(algorithm.topology.exclusive, algorithm.topology.latency, 0)
    held, transmission = np.zeros(len(pairs) * intervals), t.transmission
    changes = np.zeros(held.size, np.int64)
    for rows in _blocks(len(t)):
        link = t.link[rows].astype(np.int64)
        row = row_of[t.conditions.collective[t.chunk[rows]] * links * apart + link]
        start = t.start[rows]
        # A link held from a moment on fills the rest of that interval and all that follow; its end takes that back.
        for moment, sign in ((start, 1), (start + transmission[rows] + lag[link], -1)):
            interval = np.minimum((moment / width).astype(np.int64), intervals - 1)
            cell = row * intervals + interval
            held += sign * np.bincount(cell, (interval + 1) * width - moment, held.size)
            changes += sign * np.bincount(cell, minlength=held.size)
    table = changes.reshape(len(pairs), intervals)
    return held.reshape(table.shape) + width * (np.cumsum(table, axis=1) - table)


def _blocks(count: int) -> list[slice]:
    return [slice(begin, begin + _BLOCK) for begin in range(0, count, _BLOCK)]
