"""What travels from NPU to NPU: transfers followed through switches, chunk by chunk, in the planned order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pccl._arrays import Bools, Ints
from pccl.algorithm import Algorithm
from pccl.errors import PcclError

__all__ = ["Trace", "trace"]


_UNFOUNDED = "chunk {chunk} is sent by {device}, which does not have it; verify the algorithm first"


@dataclass(frozen=True, eq=False)
class Trace:
    """One row per message, ordered by start.

    Attributes
    ----------
    chunk
        Counted from the first of the collective.
    src, dst
        Devices, all of them NPUs.
    route
        Which of the ways between the two, counted from zero.
    start, arrival
        When it leaves and when it has arrived.
    reduce
        Whether the receiver adds it to what it has.
    from_input, adds_input
        Whether the sender still has the chunk only as its own input; whether the receiver adds to its own input.
    sequence
        In which order messages that arrive at the same time are written.
    """

    chunk: Ints
    src: Ints
    dst: Ints
    route: Ints
    start: Ints
    arrival: Ints
    reduce: Bools
    from_input: Bools
    adds_input: Bools
    sequence: Ints


class _Part(NamedTuple):
    """What an NPU sent of a chunk, wherever it is now."""

    npu: int
    bits: int  # the contributions in it; 1 for a chunk that is not a sum
    from_input: bool
    start: int
    links: tuple[int, ...]


class _Held(NamedTuple):
    """What an NPU has of a chunk."""

    bits: int
    is_input: bool


def trace(algorithm: Algorithm, chunks: Ints) -> Trace:
    """Follow these chunks, which are consecutive."""
    if not _has_switches(algorithm) and not algorithm.conditions.reduces[chunks].any():
        return _trace_directly(algorithm, chunks)
    walk = _Walk(algorithm)
    t, c = algorithm.transfers, algorithm.conditions
    arrival = t.arrival
    bounds = (
        np.searchsorted(t.chunk, [chunks[0], chunks[-1] + 1])
        if len(chunks)
        else np.zeros(2, np.int64)
    )
    rows = np.arange(bounds[0], bounds[1])
    landing = rows[np.lexsort((_turns(algorithm, rows), arrival[rows], t.chunk[rows]))]
    ends = (
        np.searchsorted(t.chunk[rows], np.append(chunks, chunks[-1] + 1))
        if len(chunks)
        else rows[:0]
    )
    leave = [x[rows].tolist() for x in (t.link, t.src, t.start)]
    land = [x[landing].tolist() for x in (t.link, t.dst, arrival, t.reduce)]
    where = (landing - bounds[0]).tolist()
    for number, (chunk, low, high) in enumerate(
        zip(chunks.tolist(), ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ):
        walk.follow(
            number,
            c.sources(chunk).tolist(),
            bool(c.reduces[chunk]),
            range(low, high),
            leave,
            land,
            where,
        )
    return walk.result()


def _turns(algorithm: Algorithm, rows: Ints) -> Ints:
    """Per transfer: the turn of its receiver among those that it arrives at together; another is first for each chunk.

    Who is first with a sum that a switch has made sends it to the others.
    """
    t, c = algorithm.transfers, algorithm.conditions
    turn = np.zeros(algorithm.topology.num_devices, np.int64)
    chunk = t.chunk[rows]
    members = c.sources(int(chunk[0])) if len(rows) else turn[:0]
    turn[members] = np.arange(len(members))
    found: Ints = (turn[t.dst[rows]] - chunk) % max(len(members), 1)
    return found


def _has_switches(algorithm: Algorithm) -> bool:
    return bool((algorithm.topology.kind == 1).any())


def _trace_directly(algorithm: Algorithm, chunks: Ints) -> Trace:
    """Without switches and sums every transfer is a message, unless its receiver has the chunk already."""
    t, c, devices = algorithm.transfers, algorithm.conditions, algorithm.topology.num_devices
    rows = np.flatnonzero(np.isin(t.chunk, chunks))
    arrival = t.arrival[rows]
    by = np.lexsort((arrival, t.chunk[rows]))
    rows, arrival = rows[by], arrival[by]
    chunk, src, dst, start, link = (
        x[rows].astype(np.int64) for x in (t.chunk, t.src, t.dst, t.start, t.link)
    )
    counts = np.diff(c.source_offsets)
    sources = np.repeat(np.arange(len(counts)), counts) * devices + c.source_ids
    places, first = np.unique(chunk * devices + dst, return_index=True)
    new = np.zeros(len(rows), np.bool_)
    new[first] = ~np.isin(places, sources)
    _refuse_unfounded(algorithm, chunk * devices + src, start, sources, places, arrival[first])
    chunk, src, dst, start, link, arrival = (
        x[new] for x in (chunk, src, dst, start, link, arrival)
    )
    sequence = np.arange(len(chunk))
    order = np.lexsort((sequence, chunk, arrival, start))
    nothing = np.zeros(len(chunk), np.bool_)
    return Trace(
        chunk[order] - chunks.min(initial=np.iinfo(np.int64).max), src[order], dst[order],
        _numbered(src * devices + dst, link)[order], start[order], arrival[order], nothing,
        np.isin(chunk * devices + src, sources)[order], nothing, sequence[order],
    )  # fmt: skip


def _refuse_unfounded(
    algorithm: Algorithm, sent: Ints, start: Ints, sources: Ints, places: Ints, arrival: Ints
) -> None:
    """Raise if something is sent before it is there."""
    at = np.minimum(np.searchsorted(places, sent), max(len(places) - 1, 0))
    arrived = (
        (places[at] == sent) & (arrival[at] <= start)
        if len(places)
        else np.zeros(len(sent), np.bool_)
    )
    wrong = np.flatnonzero(~arrived & ~np.isin(sent, sources))
    if len(wrong):
        chunk, device = divmod(int(sent[wrong[0]]), algorithm.topology.num_devices)
        raise PcclError(
            _UNFOUNDED.format(chunk=chunk, device=algorithm.topology.device_text(device))
        )


def _numbered(pair: Ints, link: Ints) -> Ints:
    """Which of the links between a pair, counted from zero in the order in which they are first taken."""
    links, first, which = np.unique(link, return_index=True, return_inverse=True)
    by = np.lexsort((first, pair[first]))
    ends = pair[first][by]
    number = np.empty(len(links), np.int64)
    number[by] = np.arange(len(by)) - np.searchsorted(ends, ends)
    found: Ints = number[which]
    return found


class _Walk:
    """The messages found so far."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.topology = algorithm.topology
        self.is_switch = (algorithm.topology.kind == 1).tolist()
        self.rows: list[tuple[int, ...]] = []
        self.whole = 0  # all contributions to the chunk that is followed, if it is a sum
        self.first: _Part | None = (
            None  # the first NPU that has received such a sum, as something to send
        )
        self.routes: dict[tuple[int, int], dict[tuple[int, ...], int]] = {}

    def follow(
        self, chunk: int, sources: list[int], sums: bool, rows: range, leave: list[list[int]], land: list[list[int]],
        where: list[int],
    ) -> None:  # fmt: skip
        """Follow one chunk; a transfer leaves after everything that has arrived by then."""
        held = {npu: _Held(1 << i if sums else 1, is_input=True) for i, npu in enumerate(sources)}
        self.whole, self.first = (1 << len(sources)) - 1 if sums else 0, None
        stored: dict[int, list[_Part]] = {}
        flying: dict[int, list[_Part]] = {}
        leaving = rows.start
        for landing in rows:
            while leaving < rows.stop and leave[2][leaving] < land[2][landing]:
                link, device, start = leave[0][leaving], leave[1][leaving], leave[2][leaving]
                flying[leaving] = self._parts(chunk, link, device, start, held, stored)
                leaving += 1
            parts, device, adds = (
                flying.pop(where[landing]),
                land[1][landing],
                bool(land[3][landing]),
            )
            if not self.is_switch[device]:
                held[device] = self._receive(
                    chunk, parts, device, land[2][landing], adds, held.get(device)
                )
            elif adds:
                stored[device] = stored.get(device, []) + parts
            elif sums or device not in stored:
                stored[device] = parts

    def _parts(
        self,
        chunk: int,
        link: int,
        device: int,
        start: int,
        held: dict[int, _Held],
        stored: dict[int, list[_Part]],
    ) -> list[_Part]:
        if device in stored:
            return [part._replace(links=(*part.links, link)) for part in stored[device]]
        if device not in held:
            where = self.topology.device_text(device)
            raise PcclError(_UNFOUNDED.format(chunk=chunk, device=where))
        return [_Part(device, held[device].bits, held[device].is_input, start, (link,))]

    def _receive(
        self,
        chunk: int,
        parts: list[_Part],
        device: int,
        arrival: int,
        adds: bool,
        mine: _Held | None,
    ) -> _Held:
        """Write down the messages for parts that arrive at an NPU, and return what it has then."""
        total = 0
        for part in parts:
            total |= part.bits
        have = mine.bits if mine is not None else 0
        if total == have and not adds:
            return mine or _Held(0, is_input=False)  # it has all that already
        if total == self.whole and len(parts) > 1 and not adds:  # made by a switch
            if self.first is not None:
                parts = [self.first._replace(links=parts[0].links)]
                self._message(chunk, parts[0], device, arrival, adds=False, to_input=False)
                return _Held(total, is_input=False)
            self.first = _Part(device, total, from_input=False, start=arrival, links=())
        if not adds and have:
            parts, adds = self._instead_of_copy(chunk, parts, device, total, have)
        is_input = mine is not None and mine.is_input and adds
        for part in parts:
            adds_to = adds and bool(have)
            self._message(chunk, part, device, arrival, adds_to, is_input and adds_to)
            have, is_input, adds = have | part.bits, False, True
        return _Held(total | have, is_input=False)

    def _instead_of_copy(
        self, chunk: int, parts: list[_Part], device: int, total: int, have: int
    ) -> tuple[list[_Part], bool]:
        """A copy over something one has: if the new parts add up to what is missing, add them instead."""
        new = [part for part in parts if not part.bits & have]
        covered = have
        for part in new:
            covered |= part.bits
        if covered == total:
            return new, True
        if any(part.npu == device for part in parts):
            raise PcclError(
                f"chunk {chunk}: {self.topology.device_text(device)} gets back, within a sum made by a switch, what it "
                "no longer has; messages between NPUs cannot do that"
            )
        return parts, False

    def _message(
        self, chunk: int, part: _Part, device: int, arrival: int, adds: bool, to_input: bool
    ) -> None:
        routes = self.routes.setdefault((part.npu, device), {})
        route = routes.setdefault(part.links, len(routes))
        self.rows.append(
            (
                chunk,
                part.npu,
                device,
                route,
                part.start,
                arrival,
                adds,
                part.from_input,
                to_input,
                len(self.rows),
            )
        )

    def result(self) -> Trace:
        """All messages by start, and by arrival and chunk among those that start together."""
        table = np.array(self.rows, np.int64).reshape(-1, 10)
        table = table[np.lexsort((table[:, 9], table[:, 0], table[:, 5], table[:, 4]))]
        columns = [np.ascontiguousarray(column) for column in table.T]
        reduce, from_input, adds_input = (column.astype(np.bool_) for column in columns[6:9])
        chunk, src, dst, route, start, arrival = columns[:6]
        return Trace(
            chunk, src, dst, route, start, arrival, reduce, from_input, adds_input, columns[9]
        )
