"""What NPUs deliver to one another: transfers followed through switches, in the planned order.

A way through switches becomes one delivery. A switch that sends a chunk to several NPUs stands for a delivery to each
of them; a switch that adds partial sums stands for a delivery from each contributor, and the receiver adds them. Of
several receivers of a whole sum, the first adds it up and sends it to the others. So links to and from such a switch
carry more than planned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Bools, Column, Ints, offsets_by_owner, offsets_of, take_rows
from pccl.algorithm import Algorithm
from pccl.algorithm.kernels import Moves
from pccl.algorithm.timing import find_inputs
from pccl.errors import InternalError, PcclError
from pccl.formats.lowering import kernels
from pccl.formats.lowering.kernels import Arrivals, Decisions, Holdings, Sources
from pccl.topology.parts import SWITCH


@dataclass(frozen=True, eq=False)
class Deliveries:
    """One row per delivery from an NPU to another, ordered by start.

    Attributes
    ----------
    chunk
        Row of the conditions of the algorithm.
    src, dst
        Devices, all of them NPUs.
    links, link_starts, link_offsets
        The links that delivery ``i`` takes are ``links[link_offsets[i]:link_offsets[i + 1]]``, and when it was planned
        to enter each of them.
    start, arrival
        When it is planned to leave its sender, and to have arrived (picoseconds).
    reduce
        Whether the receiver adds it to what it has; otherwise it keeps a copy.
    from_input, adds_input
        Whether the sender still has the chunk only as its own input; whether the receiver adds to its own input.
    sequence
        In which order receivers take what arrives at the same time.
    """

    chunk: Ints
    src: Ints
    dst: Ints
    links: Ints
    link_starts: Ints
    link_offsets: Ints
    start: Ints
    arrival: Ints
    reduce: Bools
    from_input: Bools
    adds_input: Bools
    sequence: Ints

    def __len__(self) -> int:
        return len(self.chunk)

    def routes(self) -> Ints:
        """Per delivery: which of the ways from its sender to its receiver it takes, in the order of their first use."""
        width = np.diff(self.link_offsets)
        # Number the ways, link by link: those that agree so far have the same number.
        way = np.zeros(len(self), np.int64)
        for hop in range(int(width.max(initial=0))):
            going = np.flatnonzero(width > hop)
            link = np.zeros(len(self), np.int64)
            link[going] = self.links[self.link_offsets[going] + hop] + 1
            way = np.unique(way * (int(link.max(initial=0)) + 1) + link, return_inverse=True)[1]
        # Ways between the same ends are counted from zero, those first that are used first.
        in_turn = np.argsort(self.sequence)
        _, first = np.unique(way[in_turn], return_index=True)
        first = in_turn[first]
        ends = self.src[first] * (int(self.dst.max(initial=0)) + 1) + self.dst[first]
        order = np.lexsort((self.sequence[first], ends))
        number = np.empty(len(first), np.int64)
        number[order] = np.arange(len(order)) - np.searchsorted(ends[order], ends[order])
        found: Ints = number[way]
        return found

    def inputs(self) -> tuple[Ints, Ints]:
        """Per delivery: all deliveries of the chunk that its sender has received by then, as offsets and values."""
        count = len(self)
        devices = int(max(self.src.max(initial=0), self.dst.max(initial=0))) + 1
        where = np.concatenate([self.chunk * devices + self.dst, self.chunk * devices + self.src])
        when = np.concatenate([self.arrival, self.start])
        leaves = np.repeat([False, True], count)
        # Arrivals and starts of a chunk at a device, by time: a start needs the arrivals before it.
        order = np.lexsort((leaves, when, where))
        arrived = np.cumsum(~leaves[order])
        received = order[~leaves[order]]
        end = np.empty(count, np.int64)
        end[order[leaves[order]] - count] = arrived[leaves[order]]
        begin = np.searchsorted(where[received], where[count:])
        # A row of arrivals for each delivery: from the first at its sender to the last in time.
        offsets = offsets_of(end - begin)
        index = np.repeat(begin - offsets[:-1], end - begin) + np.arange(offsets[-1])
        return offsets, received[index]


def follow(algorithm: Algorithm, first: int = 0, end: int | None = None) -> Deliveries:
    """Follow chunks from `first` to before `end`, or all of them, from NPU to NPU.

    Examples
    --------
    >>> import pccl
    >>> star = pccl.topology.switch(4)
    >>> found = follow(pccl.synthesize(star, pccl.AllToAll("4MiB", chunks=1)))
    >>> len(found), found.link_offsets[:3].tolist()
    (12, [0, 2, 4])
    """
    t = algorithm.transfers
    c = algorithm.conditions
    chunks = np.arange(first, (len(c) if end is None else end) + 1)
    rows = np.searchsorted(t.chunk, chunks)
    moves = Moves(rows, t.src, t.dst, t.start, t.arrival, t.reduce)
    sources = Sources(c.source_offsets[chunks], c.source_ids, c.reduces[chunks[:-1]])
    paths = _paths(algorithm, _landings(algorithm, moves, sources))
    # The transfer that arrives; behind it a row is filled up with -1.
    last = paths[np.arange(len(paths)), np.sum(paths >= 0, axis=1) - 1]
    leaves = np.ascontiguousarray(paths[:, 0])
    made = _decide(algorithm, chunks, moves, sources, leaves, last)
    # What brings nothing new is not delivered.
    kept = np.flatnonzero(made.sequence >= 0)
    kept = kept[np.lexsort((made.sequence[kept], t.arrival[last[kept]], made.start[kept]))]
    hops = paths[kept]
    taken = hops[hops >= 0]
    last = last[kept]
    return Deliveries(
        t.chunk[last].astype(np.int64),
        t.src[leaves[kept]].astype(np.int64),
        t.dst[last].astype(np.int64),
        t.link[taken].astype(np.int64),
        t.start[taken],
        offsets_of(np.sum(hops >= 0, axis=1)),
        made.start[kept],
        t.arrival[last],
        made.reduce[kept],
        made.from_input[kept],
        made.adds_input[kept],
        made.sequence[kept],
    )


def feeds(algorithm: Algorithm) -> tuple[Ints, Ints]:
    """Return pairs of transfers of which the first brings what the second sends on; what a copy replaces is not."""
    inputs = find_inputs(algorithm.transfers, algorithm.topology)
    adds = algorithm.transfers.reduce
    after = np.arange(len(adds))
    before = inputs.newest
    pairs = [np.zeros((2, 0), np.int64)]
    # A sum consists of everything that was added since the last copy: step back through it.
    for _ in range(len(adds) + 1):
        if not len(after):
            break
        after = after[before >= 0]
        before = before[before >= 0]
        pairs.append(np.stack([before, after]))
        before = np.where(adds[before], inputs.previous[before], -1)
    else:
        raise InternalError("the inputs of a transfer are a list without an end")
    both = np.concatenate(pairs, axis=1)
    return both[0], both[1]


def _landings(algorithm: Algorithm, moves: Moves, sources: Sources) -> Ints:
    """Return the transfers that arrive at NPUs, by chunk and arrival; of those at the same time, by turn."""
    t = algorithm.transfers
    turn = np.zeros(len(t), np.int64)
    # Without sums or switches nobody takes turns.
    if np.any(sources.sums) and len(algorithm.topology.switches):
        kernels.find_turns(moves, sources, np.zeros(algorithm.topology.num_devices, np.int64), turn)
    rows = np.arange(moves.first[0], moves.first[-1])
    rows = rows[t.topology.kind[t.dst[rows]] != SWITCH]
    found: Ints = rows[np.lexsort((turn[rows], t.arrival[rows], t.chunk[rows]))]
    return found


def _paths(algorithm: Algorithm, last: Ints) -> Column:
    """Return every path from NPU to NPU that ends with one of these transfers: a row of transfers, -1 behind them."""
    t = algorithm.transfers
    from_switch = t.topology.kind[t.src] == SWITCH
    before, after = feeds(algorithm)
    offsets = offsets_by_owner(after, len(t))
    # Pairs come with the newest first; a receiver takes the oldest first.
    fed_by = before[::-1][np.argsort(after[::-1], kind="stable")]
    paths = last[:, None]
    # Lengthen all paths that begin at a switch by one transfer, until none is left.
    while np.any(inner := from_switch[paths[:, 0]]):
        if paths.shape[1] > len(t):
            raise InternalError("a path through switches is longer than all transfers together")
        grown = np.flatnonzero(inner)
        done = np.flatnonzero(~inner)
        taken, head = take_rows(offsets, fed_by, paths[grown, 0])
        longer = np.column_stack([head, np.repeat(paths[grown], np.diff(taken), axis=0)])
        as_long = np.column_stack([paths[done], np.full(len(done), -1)])
        owner = np.concatenate([np.repeat(grown, np.diff(taken)), done])
        paths = np.concatenate([longer, as_long])[np.argsort(owner, kind="stable")]
    return paths


def _decide(
    algorithm: Algorithm, chunks: Ints, moves: Moves, sources: Sources, leaves: Ints, last: Ints
) -> Decisions:
    """Return what becomes of every path, given the transfers with which it leaves and arrives."""
    t = algorithm.transfers
    # All paths with the same last transfer arrive at once, as one sum.
    begins = np.flatnonzero(np.append([True] * bool(len(last)), last[1:] != last[:-1]))
    row = last[begins]
    arrivals = Arrivals(
        np.searchsorted(t.chunk[row], chunks), row, np.append(begins, len(last)), leaves
    )
    widths = np.diff(sources.offsets)[sources.sums]
    # Room for the chunk with the most contributions; one bit is enough for what is no sum.
    words = (int(widths.max(initial=1)) + 63) // 64
    devices = algorithm.topology.num_devices
    longest = int(np.diff(moves.first).max(initial=0))
    held = Holdings(
        np.zeros((devices, words), np.uint64),
        np.zeros(devices, np.bool_),
        np.zeros((longest, words), np.uint64),
        np.zeros(longest, np.bool_),
        *np.zeros((3, words), np.uint64),
    )
    count = len(last)
    made = Decisions(
        start=np.zeros(count, np.int64),
        reduce=np.zeros(count, np.bool_),
        from_input=np.zeros(count, np.bool_),
        adds_input=np.zeros(count, np.bool_),
        sequence=np.full(count, -1, np.int64),
    )
    wrong = kernels.decide(moves, sources, arrivals, held, made)
    if wrong >= 0:
        row = arrivals.row[wrong]
        device = algorithm.topology.device_text(int(t.dst[row]))
        raise PcclError(
            f"chunk {t.chunk[row]}: {device} gets back, within a sum made by a switch, what it no longer has; messages "
            "between NPUs cannot do that"
        )
    return made
