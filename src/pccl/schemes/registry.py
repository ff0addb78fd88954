"""The schemes there are: routed without regard to each other, timed by contention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pccl.algorithm import Algorithm
from pccl.algorithm.queues import first_come_starts, oldest_first_starts
from pccl.collective import COLLECTIVES, Collective
from pccl.errors import InternalError
from pccl.network import NEVER
from pccl.schemes.dimensions import hierarchical
from pccl.schemes.exchanges import (
    exchange,
    one_shot,
    recursive_doubling,
    scattered_exchange,
    two_shot,
)
from pccl.schemes.multitree import multitree
from pccl.schemes.nccl import nccl_ring, nccl_tree, nvls
from pccl.schemes.rings import best_ring, ring
from pccl.schemes.sends import Sends, Service, lay
from pccl.schemes.textbook import (
    bruck,
    direct,
    direct_ascending,
    double_tree,
    halving_doubling,
)
from pccl.schemes.workload import UnsupportedError, Workload
from pccl.topology import Topology

# Where the number of chunks is left open it is doubled for as long as that saves at least this share of the time.
LEAST_GAIN = 0.005
# More transfers than this are not tried; that keeps a scheme below a second.
MOST_TRANSFERS = 150_000
# Smaller pieces are not made either: in one step the 512 threads of a channel of NCCL move 8 bytes each.
LEAST_PIECE = 4096
# No duration is as long as this.
FOREVER = int(NEVER)


class Tried(NamedTuple):
    """What came of a scheme: the best that took less than was asked for, and how many transfers it took to find out."""

    algorithm: Algorithm | None
    transfers: int


@dataclass(frozen=True)
class Scheme:
    """One way in which collectives are run.

    Attributes
    ----------
    name, description
        What to ask for, and what it does.
    kinds
        The collectives that it supports.
    plan
        How one collective is sent.
    needs
        What it asks of groups or networks; empty if any will do.
    pipelined
        Whether it chooses a number of chunks by itself where that is left open.
    exchanges
        Whether partial sums are exchanged: then each must be sent before another one is added to it.
    """

    name: str
    description: str
    kinds: frozenset[str]
    plan: Callable[[Workload], Sends] = field(repr=False)
    needs: str = ""
    pipelined: bool = False
    exchanges: bool = False

    def check(self, topology: Topology, collectives: Sequence[Collective]) -> None:
        """Refuse collectives of another kind, and switches with limits."""
        check_support(self.name, self.kinds, topology, collectives)

    def run(self, topology: Topology, collectives: Sequence[Collective]) -> Algorithm:
        """Run the collectives this way; raises `UnsupportedError` where that is not possible."""
        self.check(topology, collectives)
        try:
            found = self.try_for(topology, collectives).algorithm
        except UnsupportedError as error:
            raise UnsupportedError(error.reason, self.name) from None
        if found is None:
            raise InternalError(f"{self.name} takes longer than anything on {topology.name}")
        return found

    def try_for(
        self,
        topology: Topology,
        collectives: Sequence[Collective],
        duration: int = FOREVER,
        most: int = MOST_TRANSFERS,
    ) -> Tried:
        """Run the collectives this way as long as that may take less than a duration.

        Where the number of chunks is left open, a pipelined scheme doubles it for as long as that helps, and as long as
        there are not more than `most` transfers.
        """
        best = None
        before = None
        tried = 0
        pieces = 1
        vain = 0
        while vain < 2:
            cut = collectives
            if self.pipelined:
                cut = [one if one.chunks else replace(one, chunks=pieces) for one in collectives]
            is_cut = not self.pipelined or all(one.chunks for one in collectives)
            laid = lay([self.plan] * len(cut), topology, cut)
            tried += len(laid)
            if laid.least(any_cut=not is_cut) >= duration:
                break
            tried += len(laid) * len(self._services)
            found = laid.timed(*self._services, exchanges=self.exchanges)
            if before is None or found.duration < before * (1 - LEAST_GAIN):
                best = found
                vain = 0
            else:
                # One doubling may be in vain where it takes two to fill all channels.
                vain += 1
            before = int(found.duration)
            too_small = laid.transfers.conditions.bytes.max(initial=0) < 2 * LEAST_PIECE
            if is_cut or too_small or 2 * len(laid) > most:
                break
            pieces *= 2
        if best is not None and best.duration >= duration:
            best = None
        return Tried(best, tried)

    def in_turn(
        self, topology: Topology, collectives: Sequence[Collective], turn: Sequence[int]
    ) -> Algorithm:
        """Run collectives that are cut already, so that links serve them in turn."""
        laid = lay([self.plan] * len(collectives), topology, collectives, turn)
        return laid.timed(oldest_first_starts, exchanges=self.exchanges)

    @property
    def _services(self) -> tuple[Service, ...]:
        # Senders that wait for room at the receiver let old pieces through before new ones, others serve in turn:
        # which of the two is more like NCCL depends on its buffers, so it gets the better one.
        # What is exchanged may be held up by what others have just begun.
        if self.pipelined or self.exchanges:
            return (first_come_starts, oldest_first_starts)
        return (first_come_starts,)


def side_by_side(
    schemes: Sequence[Scheme], topology: Topology, collectives: Sequence[Collective]
) -> Algorithm:
    """Run collectives that are cut already at the same time, each by a scheme of its own that exchanges no sums."""
    laid = lay([scheme.plan for scheme in schemes], topology, collectives)
    return laid.timed(first_come_starts, oldest_first_starts)


def check_support(
    name: str, kinds: frozenset[str], topology: Topology, collectives: Sequence[Collective]
) -> None:
    """Refuse collectives of other kinds than these, and switches with limits."""
    for collective in collectives:
        if isinstance(collective, Collective) and collective.kind not in kinds:
            raise UnsupportedError(f"does not support {collective.kind}", name)
    if topology.limited:
        reason = "ignores the limits of switches; unroll_switches() does without"
        raise UnsupportedError(reason, name)


SHARED = frozenset({"all-gather", "reduce-scatter", "all-reduce"})
ROOTED = frozenset({"broadcast", "reduce"})
_EXCHANGES = frozenset({"all-to-all", "all-to-all-v"})
COPIES = frozenset(COLLECTIVES) - {"reduce-scatter", "all-reduce", "reduce"}

# One line for each: its name, what it does, the kinds that it serves, how it is made, and what it needs.
SCHEMES = (
    Scheme("nccl-ring", "rings over all NICs and links at once, as NCCL builds them",
           SHARED | ROOTED, nccl_ring, pipelined=True),
    Scheme("nccl-tree", "double binary trees across boxes over all NICs, chains inside, as NCCL builds them",
           frozenset({"all-reduce"}), nccl_tree, pipelined=True),
    Scheme("nvls", "sums and copies made in NVSwitches, rings and trees between boxes, as NCCL does",
           SHARED, nvls, "a switch in every box that multiplies and adds", pipelined=True),
    Scheme("direct", "every NPU sends to every destination by itself, over a fixed route",
           COPIES, direct),
    Scheme("direct-ascending", "as direct, but all begin with the first destination, as in ASTRA-sim",
           COPIES, direct_ascending),
    Scheme("ring", "shares go round the group in its own order",
           SHARED | ROOTED, ring),
    Scheme("best-ring", "shares go round the best ring that a quick search finds",
           SHARED | ROOTED, best_ring),
    Scheme("one-shot", "everyone sends all it has to everyone, who adds it up",
           frozenset({"all-reduce"}), one_shot, "NPUs that reach each other directly", exchanges=True),
    Scheme("two-shot", "everyone sends each share to the member that adds it up and sends the sum to everyone",
           frozenset({"all-reduce"}), two_shot),
    Scheme("recursive-doubling", "blocks exchange their sums in pairs, one dimension after another",
           frozenset({"all-reduce"}), recursive_doubling, "NPUs next to each other", exchanges=True),
    Scheme("exchange", "blocks exchange their sums, in pairs or several at once, whichever is quickest",
           frozenset({"all-reduce"}), exchange, "NPUs next to each other", exchanges=True),
    Scheme("scattered-exchange", "one NPU of each box adds up a share; these exchange their sums and copy them inside",
           frozenset({"all-reduce"}), scattered_exchange, "boxes with NPUs next to each other", exchanges=True),
    Scheme("halving-doubling", "shares are exchanged at doubling distances",
           SHARED, halving_doubling, "a power of two NPUs per group"),
    Scheme("double-tree", "two complementary binary trees, each for every second chunk",
           ROOTED | {"all-reduce"}, double_tree),
    Scheme("bruck", "chunks go on at doubling distances until they are there",
           _EXCHANGES, bruck),
    Scheme("hierarchical", "one dimension after another, in rings",
           SHARED | _EXCHANGES, hierarchical,
           "a network with dimensions, and groups that are grids along them"),
    Scheme("multitree", "one tree per NPU, all grown together over free links",
           SHARED, multitree),
)  # fmt: skip
