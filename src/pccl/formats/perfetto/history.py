"""What happens on links over time: what a trace shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Floats, Indices, Ints
from pccl.algorithm import Algorithm
from pccl.algorithm.holding import held_time
from pccl.errors import PcclError
from pccl.formats.lowering.deliveries import feeds

__all__ = ["History", "Slices", "history_of"]


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
class History:
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


def history_of(algorithm: Algorithm, *, merge: bool, intervals: int, most: int) -> History:
    """Return what a trace shows, or refuse to if there were more than `most` slices in it."""
    count = len(algorithm.transfers)
    if not merge and count > most:
        raise PcclError(
            f"{count:,} transfers are more than viewers can show ({most:,} for this format); "
            "merge=True (--merge) joins those that follow one another on a link"
        )
    slices = _slices(algorithm)
    moments, load = _load(algorithm, intervals)
    before = after = np.zeros(0, np.int64)
    if merge:
        slices = _merged(slices)
        if len(slices) > most:
            raise PcclError(
                f"even merged, {len(slices):,} slices are more than viewers can show ({most:,})"
            )
    else:
        place = np.empty(count, np.int64)
        place[slices.first] = np.arange(count)
        feeding, fed = feeds(algorithm)
        before = place[feeding]
        after = place[fed]
    return History(algorithm, slices, before, after, moments, load)


def _slices(algorithm: Algorithm) -> Slices:
    """Return one slice per transfer, or raise if that cannot be shown."""
    t = algorithm.transfers
    order = np.lexsort((t.start, t.link))
    link = t.link[order]
    begin = t.start[order]
    end = begin + t.hold[order]
    overlap = (link[1:] == link[:-1]) & (begin[1:] < end[:-1])
    for wrong, text in (
        (np.flatnonzero(begin < 0), "starts before time zero"),
        (np.flatnonzero(overlap) + 1, "starts while its link is held"),
    ):
        if len(wrong):
            chunk = t.chunk[order[wrong[0]]]
            where = algorithm.topology.link_text(int(link[wrong[0]]))
            raise PcclError(
                f"cannot show this algorithm, which is wrong: chunk {chunk} over {where} {text}"
            )
    return Slices(link, begin, end, order, np.ones_like(order), t.bytes[order])


def _merged(slices: Slices) -> Slices:
    """Join slices of one link of which each begins when the one before it ends."""
    if not len(slices):
        return slices
    gap = (slices.link[1:] != slices.link[:-1]) | (slices.begin[1:] > slices.end[:-1])
    first = np.append(0, np.flatnonzero(gap) + 1)
    last = np.append(first[1:], len(slices)) - 1
    return Slices(
        link=slices.link[first],
        begin=slices.begin[first],
        end=slices.end[last],
        first=slices.first[first],
        count=last - first + 1,
        bytes=np.add.reduceat(slices.bytes, first),
    )


def _load(algorithm: Algorithm, intervals: int) -> tuple[Ints, Floats]:
    """Return moments, and per device and for all links the share of links that is held from each to the next."""
    t = algorithm.transfers
    topology = algorithm.topology
    devices = topology.num_devices
    end = int((t.start + t.hold).max(initial=0))
    width = max(-(-end // intervals), 1)
    held = held_time(t.src, t.start, t.hold, rows=devices, intervals=intervals, width=width)
    held = np.vstack([held, held.sum(axis=0)])
    links = np.append(np.bincount(topology.src, minlength=devices), topology.num_links)
    share = held / (width * np.maximum(links, 1))[:, None]
    # A counter keeps its last value, so that there is one more moment, when nothing is held.
    return np.arange(intervals + 1) * width, np.hstack([share, np.zeros((devices + 1, 1))])
