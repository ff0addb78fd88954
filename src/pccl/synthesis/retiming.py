"""Times for given routes: by rank, event by event, and by justification, to and fro."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pccl._arrays import Ints, compact, offsets_of
from pccl.network import Network, Ten
from pccl.synthesis import kernels
from pccl.synthesis.kernels import Moves, Queues, Waiting
from pccl.synthesis.placement import Part, moves_of
from pccl.topology import Topology

__all__ = ["RANKS", "Timetable"]

RANKS = ("most-followers", "longest-way", "fifo")
FEWEST_GAINED = 1e-4  # a share of the duration: passes that gain less are the last


@dataclass(frozen=True)
class Timetable:
    """Routes of chunks, as transfers between slots that say when a chunk is ready at a device."""

    topology: Topology
    net: Network
    moves: Moves
    chunks: int

    @classmethod
    def of(cls, topology: Topology, net: Network, parts: list[Part], chunks: int) -> Timetable:
        """The routes of all parts; the starts they have are kept as a plan."""
        return cls(topology, net, moves_of(topology, net, parts), chunks)

    @cached_property
    def travel(self) -> Ints:
        """Per transfer: from its start until the receiver has it all."""
        return np.asarray(self.net.travel[self.moves.size, self.net.kind[self.moves.arc]])

    def end(self, start: Ints) -> int:
        """When the last transfer arrives."""
        return int((start + self.travel).max(initial=0))

    # --- by rank -----------------------------------------------------------------------------------------------------

    def by_rank(self, name: str) -> Ints:
        """Starts if each free link takes the ready transfer of the best rank."""
        count, lanes = len(self.moves.arc), self.topology.num_links
        lane = self.net.lane[self.moves.arc]
        first = offsets_of(np.bincount(lane, minlength=lanes))
        queues = Queues(
            first, np.zeros(lanes, np.int64), np.empty(count, np.int64), np.empty(count, np.int64),
            np.ones(lanes, np.int64), np.empty(count + lanes, np.int64),
        )  # fmt: skip
        moves = self.moves._replace(start=np.zeros(count, np.int64))
        waiting = self._waiting._replace(missing=self._waiting.missing.copy())
        heap = np.empty((count + lanes + 2, 3), np.int64)
        kernels.serve_by_rank(self.net, moves, waiting, self._rank(name), queues, heap)
        return moves.start

    def by_rank_backwards(self, name: str) -> Ints:
        """Likewise from the end: what is sent last is chosen first."""
        late = self._mirrored.by_rank(name) + self.travel
        return np.asarray(late.max(initial=0) - late)

    @cached_property
    def _mirrored(self) -> Timetable:
        moves, end = self.moves, self.end(self.moves.start)
        start = end - moves.start - self.travel
        mirrored = moves._replace(sender=moves.receiver, receiver=moves.sender, start=start)
        return Timetable(self.topology, self.net, mirrored, self.chunks)

    def _rank(self, name: str) -> Ints:
        if name == "fifo":
            return np.empty(0, np.int64)
        tail, followers = self._weights
        receiver = self.moves.receiver
        keys = (tail, followers) if name == "most-followers" else (followers, tail)
        order = np.lexsort((self.moves.start, -keys[0][receiver], -keys[1][receiver]))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank

    @cached_property
    def _weights(self) -> tuple[Ints, Ints]:
        tail, followers = np.zeros((2, len(self.moves.arc) + self.chunks), np.int64)
        kernels.weigh(
            self.net, self.moves, np.argsort(self.moves.start, kind="stable"), tail, followers
        )
        return tail, followers

    @cached_property
    def _waiting(self) -> Waiting:
        slots = len(self.moves.arc) + self.chunks
        first = offsets_of(np.bincount(self.moves.sender, minlength=slots))
        followers = np.argsort(self.moves.sender, kind="stable")
        return Waiting(first, followers, np.bincount(self.moves.receiver, minlength=slots))

    # --- by justification --------------------------------------------------------------------------------------------

    def justified(self, start: Ints, passes: int) -> Ints:
        """Move everything as late as it can go, then as early, again and again while that gains time."""
        best, end = start, self.end(start)
        for _ in range(passes):
            start = self.moved_up(self.moved_down(best))
            reached = self.end(start)
            gained = end - reached
            if gained > 0:
                best, end = start, reached
            if gained <= FEWEST_GAINED * end:
                break
        return best

    def moved_up(self, start: Ints) -> Ints:
        """Start all transfers, in the order of their starts, as early as links and inputs let them."""
        return self._replayed(start, self.moves.sender, self.moves.receiver)

    def moved_down(self, start: Ints) -> Ints:
        """Likewise backwards: the last to arrive first, as late as what follows lets it; the first starts at 0."""
        mirrored = -(start + self.travel)
        late = self._replayed(
            mirrored - mirrored.min(initial=0), self.moves.receiver, self.moves.sender
        )
        late += self.travel
        return np.asarray(late.max(initial=0) - late)

    def _replayed(self, start: Ints, sender: Ints, receiver: Ints) -> Ints:
        order = np.argsort(compact(start), kind="stable")
        moves = Moves(
            self.moves.arc[order],
            self.moves.size[order],
            sender[order],
            receiver[order],
            np.empty_like(start),
        )
        ready = np.zeros(len(order) + self.chunks, np.int64)
        ten, done = Ten.empty(self.topology, self.net), 0
        while (done := kernels.replay(self.net, ten.lanes, moves, ready, done)) < len(order):
            ten.grow_lanes()
        replayed = np.empty_like(start)
        replayed[order] = moves.start
        return replayed

    def parts(self, parts: list[Part], start: Ints) -> list[Part]:
        """The parts with other starts."""
        end, low = self.end(start), 0
        timed = []
        for part in parts:
            high = low + len(part.placed)
            timed.append(part._replace(placed=replace(part.placed, start=start[low:high], end=end)))
            low = high
        return timed
