"""What is known: schemes that others run, one of which may be faster than what a search has found.

Schemes are tried when a search is over, the cheap ones first, with a small share of the work that it has done; those
that take longer at least are not even timed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from pccl.algorithm import Algorithm, Bound
from pccl.collective import Collective, compile_conditions
from pccl.errors import PcclError
from pccl.schemes import SCHEMES, Scheme
from pccl.schemes.registry import MOST_TRANSFERS
from pccl.synthesis.chunking import cut, pieces_of
from pccl.synthesis.neighbours import SAME
from pccl.synthesis.roots import least_along_trees
from pccl.synthesis.search import WORTH_A_RELAY, Search
from pccl.synthesis.zones import members_of, zones_of

# A transfer of a scheme takes as long as so many links that a search looks at.
WORK_OF_TRANSFER = 5
# Of the work of the search: what schemes may add to it.
SHARE_OF_SCHEMES = 0.1
# Transfers that may be tried anyway.
FEWEST_TRANSFERS = 2_000_000
# Numbers of chunks to try exchanges with where no search has found one.
SOME_CHUNKS = (2, 4, 8)


class Try(NamedTuple):
    """A scheme, and the collectives as they are cut for it."""

    scheme: Scheme
    parts: tuple[Collective, ...]


class Known(NamedTuple):
    """A scheme, and what it makes of the collectives."""

    scheme: Scheme
    algorithm: Algorithm

    def in_turn(self, turn: Sequence[int]) -> Algorithm:
        """The same, with several collectives served in turn."""
        made = self.algorithm
        return self.scheme.in_turn(made.topology, made.collectives, turn)

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


@dataclass
class Schemes:
    """The schemes that may be tried beside what a search has found, each once with each way to cut the data."""

    search: Search
    bound: Bound | None
    duration: int  # what a scheme must beat; whoever takes one says so here
    left: int  # transfers that may still be tried
    tried: set[Try] = field(default_factory=set)
    unsuited: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, search: Search, bound: Bound | None, duration: int) -> Schemes:
        """For a search that is over, the bound that it has proven, and how long its best takes."""
        share = int(SHARE_OF_SCHEMES * search.budget.spent / WORK_OF_TRANSFER)
        return cls(search, bound, duration, max(share, FEWEST_TRANSFERS))

    def faster(self, found: Algorithm) -> Iterator[Known]:
        """Schemes that take less than the duration to beat.

        Data are cut as in the algorithm that was found, or not at all; some schemes choose themselves. What has been
        tried for another algorithm is not tried again.
        """
        search = self.search
        if self.bound is None or not _may_be(search):
            return
        ours = _pieces(found.collectives)
        tries = _tries(search.collectives, found.collectives)
        for one in chain(tries, self._with_more_chunks(self.bound)):
            # About as many transfers as ours has, if it is cut likewise.
            expected = len(found.transfers) * _pieces(one.parts) // ours
            if expected > self.left or self.duration <= self.bound.value or search.budget.over():
                continue
            if not self._is_new(one):
                continue
            algorithm = self._run(one)
            if algorithm is not None and may_relay(search, algorithm, found, self.duration):
                yield Known(one.scheme, algorithm)

    def _with_more_chunks(self, bound: Bound) -> Iterator[Try]:
        """Exchanges with more chunks, where no search has found how many are good and there is something to gain."""
        search = self.search
        enough = bound.value * (1 + search.budget.effort.gap)
        for pieces in SOME_CHUNKS if search.is_beaten else ():
            for one in _tries(search.collectives, cut(search.collectives, pieces)):
                if one.scheme.exchanges and self.duration > enough:
                    yield one

    def _is_new(self, one: Try) -> bool:
        is_new = one not in self.tried and one.scheme.name not in self.unsuited
        self.tried.add(one)
        return is_new

    def _run(self, one: Try) -> Algorithm | None:
        """What a scheme makes of the data, if it takes less than the duration to beat."""
        search = self.search
        duration = self.duration
        if len(search.collectives) > 1:
            # Of several collectives, what takes hardly more may suit them better.
            duration = int(duration * (1 + SAME)) + 1
        search.progress(0, 1, f"as {one.scheme.name}")
        # As many as a baseline may have, so that it finds no more than this.
        most = min(self.left, MOST_TRANSFERS)
        try:
            one.scheme.check(search.topology, one.parts)
            algorithm, transfers = one.scheme.try_for(search.topology, one.parts, duration, most)
        except PcclError:
            # It does not suit this group or this network.
            self.unsuited.add(one.scheme.name)
            return None
        self.left -= transfers
        return algorithm


def beats_trees(search: Search) -> bool:
    """Whether an exchange of partial sums takes less than all that a search looks for.

    Its sums are collected at one device each, and spread from there.
    """
    if len(search.collectives) > 1 or not _may_be(search):
        return False
    shares = cut(search.collectives, 1)
    conditions = compile_conditions(search.topology, shares)
    zones = zones_of(search.topology, shares, search.confined)
    least = least_along_trees(search.topology, conditions, zones)
    if least == 0 or search.bound_of_any_cut.value >= least:
        return False
    exchanges = [one for one in _tries(search.collectives, shares) if one.scheme.exchanges]
    return any(_takes_less(search, one, least) for one in exchanges)


def _takes_less(search: Search, one: Try, duration: int) -> bool:
    try:
        one.scheme.check(search.topology, one.parts)
        found, _ = one.scheme.try_for(search.topology, one.parts, duration)
    except PcclError:
        return False
    return found is not None and not relays_of(found)


def _tries(collectives: Sequence[Collective], ours: Sequence[Collective]) -> list[Try]:
    """All schemes with all ways to cut the data, those with few chunks first: they take least to try.

    Then those first that ask something of the network, as they make use of it.
    """
    tries = [Try(one, parts) for one in SCHEMES for parts in _cuts(one, collectives, ours)]
    return sorted(
        tries, key=lambda one: (one.scheme.pipelined, _pieces(one.parts), not one.scheme.needs)
    )


def _pieces(collectives: Sequence[Collective]) -> int:
    return max((one.pieces for one in collectives), default=1)


def _may_be(search: Search) -> bool:
    """Whether a scheme would be what the caller asked for, and whether there is time."""
    settings = search.settings
    if search.budget.effort.work == 0 or search.budget.over() or search.topology.limited:
        return False
    return not (settings.method or settings.order or settings.routes)


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


def may_relay(search: Search, algorithm: Algorithm, found: Algorithm, best: int) -> bool:
    """Whether no outsiders relay who did not before, unless they may and that is worth it."""
    relaying = set(relays_of(algorithm))
    confined = any(search.collectives[number].confined for number in relaying)
    worth_it = algorithm.duration <= (1 - WORTH_A_RELAY) * best
    return not confined and (worth_it or relaying <= set(relays_of(found)))


def relays_of(algorithm: Algorithm) -> list[int]:
    """The collectives for which NPUs relay that do not take part in them."""
    topology = algorithm.topology
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
