"""What happens on links over time: what the trace formats show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Floats, Indices, Ints
from pccl.algorithm import Algorithm
from pccl.errors import PcclError
from pccl.formats.lowering.deliveries import feeds

__all__ = ["Slices", "Timeline", "timeline"]


@dataclass(frozen=True)
class Slices:
    """Times at which links are held, ordered by link and time; those of one link do not overlap.

    Attributes
    ----------
    link, begin, end
        Which link is held, from when until when (picoseconds).
    first
        The first transfer of the slice.
    count
        How many transfers it stands for: one, unless transfers that follow one another were merged.
    bytes
        How much is transferred in it.
    """

    link: Indices
    begin: Ints
    end: Ints
    first: Ints
    count: Ints
    bytes: Ints

    def __len__(self) -> int:
        return len(self.link)


@dataclass(frozen=True)
class Timeline:
    """What a trace shows.

    Attributes
    ----------
    slices
        When links are held.
    before, after
        Slices between which a chunk is handed on, one pair after another; none if transfers were merged.
    moments, load
        ``load[d, i]`` is the share of the links leaving device ``d`` that is held from ``moments[i]`` to the next
        moment, on average; the last row is that of all links.
    """

    algorithm: Algorithm
    slices: Slices
    before: Ints
    after: Ints
    moments: Ints
    load: Floats


def timeline(algorithm: Algorithm, *, merge: bool, intervals: int, most: int) -> Timeline:
    """Prepare a trace, or refuse to if there were more than `most` slices in it."""
    count = len(algorithm.transfers)
    if not merge and count > most:
        raise PcclError(
            f"{count:,} transfers are more than viewers can show ({most:,} for this format); "
            "merge=True (--merge) joins those that follow one another on a link"
        )
    slices = _slices(algorithm)
    _check(algorithm, slices)
    moments, load = _load(algorithm, slices, intervals)
    if merge:
        slices = _merged(slices)
        if len(slices) > most:
            raise PcclError(
                f"even merged, {len(slices):,} slices are more than viewers can show ({most:,})"
            )
        before = after = np.zeros(0, np.int64)
    else:
        place = np.empty(count, np.int64)
        place[slices.first] = np.arange(count)
        before, after = (place[rows] for rows in feeds(algorithm))
    return Timeline(algorithm, slices, before, after, moments, load)


def _slices(algorithm: Algorithm) -> Slices:
    t, topology = algorithm.transfers, algorithm.topology
    order = np.lexsort((t.start, t.link))
    hold = t.transmission + np.where(topology.exclusive, topology.latency, 0)[t.link]
    return Slices(
        t.link[order],
        t.start[order],
        (t.start + hold)[order],
        order,
        np.ones_like(order),
        t.bytes[order],
    )


def _check(algorithm: Algorithm, slices: Slices) -> None:
    overlap = np.zeros(len(slices), np.bool_)
    overlap[1:] = (slices.link[1:] == slices.link[:-1]) & (slices.begin[1:] < slices.end[:-1])
    for wrong, text in (
        (slices.begin < 0, "starts before time zero"),
        (overlap, "starts while its link is held"),
    ):
        if np.any(wrong):
            k = int(np.argmax(wrong))
            chunk, link = (
                algorithm.transfers.chunk[slices.first[k]],
                algorithm.topology.link_text(int(slices.link[k])),
            )
            raise PcclError(
                f"cannot show this algorithm, which is wrong: chunk {chunk} over {link} {text}"
            )


def _merged(slices: Slices) -> Slices:
    """Join slices of one link of which each begins when the one before it ends."""
    if not len(slices):
        return slices
    new = np.ones(len(slices), np.bool_)
    new[1:] = (slices.link[1:] != slices.link[:-1]) | (slices.begin[1:] > slices.end[:-1])
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(slices)) - 1
    return Slices(
        slices.link[first],
        slices.begin[first],
        slices.end[last],
        slices.first[first],
        last - first + 1,
        np.add.reduceat(slices.bytes, first),
    )


def _load(algorithm: Algorithm, slices: Slices, intervals: int) -> tuple[Ints, Floats]:
    """A link held from a moment on fills the rest of that interval and all that follow; its end takes that back."""
    topology, width = algorithm.topology, max(-(-int(slices.end.max(initial=0)) // intervals), 1)
    device, held = (
        topology.src[slices.link].astype(np.int64),
        np.zeros((topology.num_devices, intervals)),
    )
    for time, sign in ((slices.begin, 1), (slices.end, -1)):
        interval = np.minimum(time // width, intervals - 1)
        cell, size = device * intervals + interval, held.size
        rest = np.bincount(cell, (interval + 1) * width - time, size).reshape(held.shape)
        changes = np.bincount(cell, minlength=size).reshape(held.shape)
        held += sign * (rest + width * (np.cumsum(changes, axis=1) - changes))
    links = np.bincount(topology.src, minlength=topology.num_devices)
    share = (
        np.vstack([held, held.sum(axis=0)])
        / (width * np.maximum(np.append(links, topology.num_links), 1))[:, None]
    )
    return np.arange(intervals + 1) * width, np.hstack([share, np.zeros((len(share), 1))])
