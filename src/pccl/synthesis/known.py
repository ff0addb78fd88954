"""What is known: schemes that others run, one of which may be faster than what a search has found.

Schemes are tried when a search is over, the cheap ones first, with a small share of the work that it has done; those
that take longer at least are not even timed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pccl.algorithm import Algorithm, Bound
from pccl.collective import Collective
from pccl.errors import PcclError
from pccl.schemes import SCHEMES, Scheme
from pccl.synthesis.chunking import cut, pieces_of
from pccl.synthesis.neighbours import SAME
from pccl.synthesis.search import WORTH_A_RELAY, Search
from pccl.synthesis.zones import members_of
from pccl.topology import Topology

# A transfer of a scheme takes as long as so many links that a search looks at.
WORK_OF_TRANSFER = 50
# Of the work of the search: what schemes may add to it.
SHARE_OF_SCHEMES = 0.1
# Transfers that may be tried anyway, unless the search has proven that there is next to nothing to gain.
FEWEST_TRANSFERS = 120_000


class Known(NamedTuple):
    """A scheme, and what it makes of the collectives."""

    scheme: Scheme
    algorithm: Algorithm

    def with_fewer_chunks(
        self, collectives: Sequence[Collective], most: float
    ) -> Iterator[Algorithm]:
        """The same with half as many chunks, and half of that, where that is open and takes at most so long."""
        pieces = pieces_of(collectives, self.algorithm.collectives)
        while pieces > 1:
            pieces //= 2
            fewer = self.scheme.run(self.algorithm.topology, cut(collectives, pieces))
            if fewer.duration > most:
                return
            yield fewer


def faster_schemes(
    search: Search, found: Algorithm, bound: Bound | None, duration: int
) -> Iterator[Known]:
    """Schemes that take less than a duration, each less than the one before it.

    A search has found an algorithm, and proven a bound for it.
    """
    topology = search.topology
    collectives = search.collectives
    if bound is None or duration <= bound.value or not _may_be(search):
        return
    best = duration
    if len(collectives) > 1:
        # Of several collectives, what takes hardly less may suit them worse.
        best = int(best * (1 - SAME))
    left = int(SHARE_OF_SCHEMES * search.budget.spent / WORK_OF_TRANSFER)
    if duration > bound.value * (1 + search.budget.effort.gap):
        left = max(left, FEWEST_TRANSFERS)
    pieces = _pieces(found.collectives)
    unsuited = set()
    for scheme, parts in _tries(collectives, found.collectives):
        # About as many transfers as ours has, if it is cut likewise.
        expected = len(found.transfers) * _pieces(parts) // pieces
        if scheme.name in unsuited or expected > left or search.budget.over():
            continue
        search.progress(0, 1, f"as {scheme.name}")
        try:
            scheme.check(topology, parts)
            algorithm, transfers = scheme.try_for(topology, parts, best, left)
        except PcclError:
            # It does not suit this group or this network.
            unsuited.add(scheme.name)
            continue
        left -= transfers
        if algorithm is not None and _keeps_to_itself(search, algorithm, best):
            best = int(algorithm.duration)
            yield Known(scheme, algorithm)


def _tries(
    collectives: Sequence[Collective], ours: Sequence[Collective]
) -> list[tuple[Scheme, tuple[Collective, ...]]]:
    """All schemes with all ways to cut the data, those with few chunks first: they take least to try."""
    tries = [(scheme, parts) for scheme in SCHEMES for parts in _cuts(scheme, collectives, ours)]
    return sorted(tries, key=lambda one: (one[0].pipelined, _pieces(one[1])))


def _pieces(collectives: Sequence[Collective]) -> int:
    return max((one.pieces for one in collectives), default=1)


def _may_be(search: Search) -> bool:
    """Whether a scheme would be what the caller asked for, and whether there is time."""
    settings = search.settings
    if search.budget.effort.work == 0 or search.budget.over() or search.topology.limited:
        return False
    if settings.method or settings.order or settings.routes:
        return False
    # Schemes serve all collectives alike.
    return len({one.priority for one in search.collectives}) == 1


def _cuts(
    scheme: Scheme, collectives: Sequence[Collective], ours: Sequence[Collective]
) -> list[tuple[Collective, ...]]:
    """Into how many chunks to cut the collectives: as asked, as ours, or not at all; some schemes choose themselves."""
    if scheme.pipelined or all(one.chunks for one in collectives):
        return [tuple(collectives)]
    shares = tuple(one if one.chunks else replace(one, chunks=1) for one in collectives)
    cuts = [shares, tuple(ours)]
    if scheme.exchanges:
        # All of it goes the same way, so that shares would only cost messages.
        cuts.append(tuple(one if one.chunks else one.in_one() for one in collectives))
    return list(dict.fromkeys(cuts))


def _keeps_to_itself(search: Search, algorithm: Algorithm, best: int) -> bool:
    """Whether no outsiders relay for others, unless they may and that is worth it."""
    relaying = relays_of(search.topology, algorithm)
    confined = any(search.collectives[number].confined for number in relaying)
    worth_it = algorithm.duration <= (1 - WORTH_A_RELAY) * best
    return not relaying or (worth_it and not confined)


def relays_of(topology: Topology, algorithm: Algorithm) -> list[int]:
    """The collectives for which NPUs relay that do not take part in them."""
    transfers = algorithm.transfers
    collective = algorithm.conditions.collective[transfers.chunk]
    is_npu = np.zeros(topology.num_devices, np.bool_)
    is_npu[topology.npus] = True
    found = []
    for number, one in enumerate(algorithm.collectives):
        outside = is_npu & ~members_of(topology, one)
        if np.any(outside[transfers.dst[collective == number]]):
            found.append(number)
    return found
