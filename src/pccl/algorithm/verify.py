"""The verifier: every rule of the network and every promise of the collectives, checked from scratch.

It shares nothing with the synthesizer but the definition of how long a transfer takes, and accepts any algorithm that
keeps the rules, however it came about (a chunk may, for example, be sent twice; a contribution may not).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pccl._arrays import Bools, offsets_of, stable_order
from pccl.algorithm.core import Algorithm
from pccl.collective import compile_conditions
from pccl.errors import VerificationError
from pccl.topology.core import UNLIMITED
from pccl.units import Picoseconds

__all__ = ["verify"]

# Twenty-six and thirteen days, in picoseconds: with latencies below 2**62, sums stay within an int64.
LATEST_START, LONGEST_TRANSMISSION = 2**61, 2**60


def verify(algorithm: Algorithm) -> None:
    """Raise :class:`VerificationError`, naming the first offence, unless the algorithm is correct.

    Checked are: transfers use existing links while these are free; the sender has what it sends when it sends it;
    partial sums are disjoint and complete; switches keep within their buffers and multicast limits; every destination
    ends with what its collective promises.

    Examples
    --------
    >>> import pccl
    >>> algorithm = pccl.synthesize(pccl.topology.ring(4), pccl.AllReduce(size="4MiB"))
    >>> pccl.verify(algorithm)
    """
    if compile_conditions(algorithm.topology, algorithm.collectives) != algorithm.conditions:
        raise VerificationError("the conditions are not those of the collectives")
    if algorithm.transfers.topology != algorithm.topology:
        raise VerificationError("the transfers are on another topology")
    check = _Check(algorithm)
    check.columns()
    check.links()
    check.copies()
    check.sums()
    if algorithm.topology.limited:
        check.simultaneous()
        check.buffers()


class _Check:
    """The columns that several checks share."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm, self.topology, self.conditions = (
            algorithm,
            algorithm.topology,
            algorithm.conditions,
        )
        # A copy has nothing in its caches: derived columns are computed afresh.
        self.transfers = replace(algorithm.transfers)

    def columns(self) -> None:
        """Everything refers to something that exists, in the order that all else relies on."""
        t = self.transfers
        lengths = [len(column) for column in (t.chunk, t.link, t.start, t.reduce)]
        if len(set(lengths)) != 1:
            raise VerificationError(f"transfer columns differ in length: {lengths}")
        for column, limit, what in (
            (t.chunk, len(self.conditions), "chunk"),
            (t.link, self.topology.num_links, "link"),
        ):
            self._refuse((column < 0) | (column >= limit), f"there is no such {what}")
        self._refuse(t.start < 0, "it starts before time zero")
        self._refuse(t.start >= LATEST_START, f"it starts later than {Picoseconds(LATEST_START)}")
        (sizes, size_of), (rates, rate_of) = self.conditions.sizes, self.topology.rates
        too_long = sizes[:, None] / rates[None, :] * 1e12 >= LONGEST_TRANSMISSION
        if np.any(too_long):
            text = f"it takes longer than {Picoseconds(LONGEST_TRANSMISSION)}"
            self._refuse(too_long[size_of[t.chunk], rate_of[t.link]], text)
        later = (t.chunk[1:] > t.chunk[:-1]) | (
            (t.chunk[1:] == t.chunk[:-1]) & (t.start[1:] >= t.start[:-1])
        )
        if not np.all(later):
            raise VerificationError(
                "transfers are not ordered by chunk and start; Algorithm.build does that"
            )
        self._refuse(
            t.reduce & ~self.conditions.reduces[t.chunk], "it reduces, but its chunk is not a sum"
        )
        self.src, self.dst = t.src, t.dst
        self.transmission = t.transmission
        self.arrival = t.arrival
        self.first = offsets_of(np.bincount(t.chunk, minlength=len(self.conditions)))

    def links(self) -> None:
        """No link carries two chunks at once."""
        from pccl.algorithm.kernels import first_overlap

        t = self.transfers
        hold = t.hold
        by_start = np.argsort(t.start)
        order = by_start[stable_order(t.link[by_start], self.topology.num_links)]
        k = first_overlap(order, t.link, t.start, hold)
        if k >= 0:
            before, after = int(order[k - 1]), int(order[k])
            until = Picoseconds(t.start[before] + hold[before])
            raise self._offence(after, f"the link is held until {until} by chunk {t.chunk[before]}")

    def copies(self) -> None:
        """Chunks that do not reduce are where they are sent from, and get to where they must."""
        from pccl.algorithm import kernels

        c = self.conditions
        chunks = np.flatnonzero(~c.reduces)
        source = c.source_ids[c.source_offsets[:-1][chunks]].astype(np.int64)
        since, seen = np.zeros((2, self.topology.num_devices), np.int64)
        problem, i, j = kernels.check_copies(
            self._columns(), chunks, source, c.destination_offsets, c.destination_ids, since, seen
        )
        if problem == kernels.SENDER_HAS_NONE:
            self._raise_has_none(i, j)
        if problem == kernels.NOT_DELIVERED:
            raise VerificationError(
                f"chunk {i} ({self._whose(i)}) never gets to {self.topology.device_text(j)}"
            )

    def sums(self) -> None:
        """Contributions are added once each, and the destinations end with all of them."""
        from pccl.algorithm import kernels

        c = self.conditions
        chunks = np.flatnonzero(c.reduces)
        if not len(chunks):
            return
        words = int(np.diff(c.source_offsets)[chunks].max() + 63) // 64
        longest = int(np.diff(self.first)[chunks].max(initial=0))
        held = np.zeros((self.topology.num_devices, words), np.uint64)
        flying = np.zeros((longest, words), np.uint64)
        by_arrival = np.lexsort((self.arrival, self.transfers.chunk))
        problem, i, j = kernels.check_sums(
            self._columns(), by_arrival, chunks, c.source_offsets, c.source_ids, c.destination_offsets,
            c.destination_ids, held, flying, np.zeros(words, np.uint64),
        )  # fmt: skip
        if problem == kernels.SENDER_HAS_NONE:
            self._raise_has_none(i, -1)
        if problem in (kernels.COUNTED_TWICE, kernels.OVERWRITTEN):
            whose = self.topology.device_text(int(c.sources(int(self.transfers.chunk[i]))[j]))
            receiver = self.topology.device_text(int(self.dst[i]))
            raise self._offence(
                i,
                f"{receiver} would count the contribution of {whose} twice"
                if problem == kernels.COUNTED_TWICE
                else f"the copy would overwrite the contribution of {whose} at {receiver}",
            )
        if problem == kernels.INCOMPLETE:
            where = self.topology.device_text(j)
            raise VerificationError(
                f"chunk {i} ({self._whose(i)}): the sum at {where} is not complete"
            )

    def simultaneous(self) -> None:
        """Switches without multicast send a chunk over one link at a time, and take in its partial sums likewise."""
        one_way = ~self.topology.multicast
        sends = np.flatnonzero(one_way[self.src])
        takes = np.flatnonzero(one_way[self.dst] & self.transfers.reduce)
        for rows, device, begin, what in (
            (sends, self.src[sends], self.transfers.start[sends], "sends"),
            (takes, self.dst[takes], (self.arrival - self.transmission)[takes], "takes in"),
        ):
            end = begin + self.transmission[rows]
            chunk = self.transfers.chunk[rows]
            order = np.lexsort((begin, chunk, device))
            same = (np.diff(device[order]) == 0) & (np.diff(chunk[order]) == 0)
            same &= begin[order][1:] < end[order][:-1]
            if np.any(same):
                k = order[1:][int(np.argmax(same))]
                switch = self.topology.device_text(int(device[k]))
                raise self._offence(
                    int(rows[k]),
                    f"{switch} {what} this chunk over two links at once, without multicast",
                )

    def buffers(self) -> None:
        """Switches hold no more chunks at once than fit: each from its first byte received to its last byte sent.

        A stay lasts from a reception of a chunk to its last sending. Another one begins when the chunk comes in anew
        after a sending; unless it is a sum that adds to what is held, or is sent on before it has come in.
        """
        finite = self.topology.buffer != UNLIMITED
        into, out = np.flatnonzero(finite[self.dst]), np.flatnonzero(finite[self.src])
        row = np.concatenate([into, out])
        is_in = np.arange(len(row)) < len(into)
        device = np.where(is_in, self.dst[row], self.src[row])
        begin = np.where(
            is_in, self.arrival[row] - self.transmission[row], self.transfers.start[row]
        )
        end = begin + self.transmission[row]
        chunk = self.transfers.chunk[row]
        order = np.lexsort((is_in, begin, chunk, device))
        row, is_in, device, begin, end, chunk = (
            x[order] for x in (row, is_in, device, begin, end, chunk)
        )
        if not len(row):
            return
        other = np.ones(len(row), np.bool_)
        other[1:] = (device[1:] != device[:-1]) | (chunk[1:] != chunk[:-1])
        whole = is_in & ~self.transfers.reduce[row]
        whole[:-1] &= other[1:] | (end[:-1] <= begin[1:])
        other[1:] |= whole[1:] & ~is_in[:-1]
        stays = np.flatnonzero(other)
        until = np.maximum.reduceat(end, stays)
        moment = np.concatenate([begin[stays], until])
        change = np.repeat([1, -1], len(stays))
        where = np.tile(device[stays], 2)
        order = np.lexsort((change, moment, where))
        level = np.cumsum(
            change[order]
        )  # every stay of a switch ends before the next switch begins: levels restart at 0
        over = level > self.topology.buffer[where[order]]
        if np.any(over):
            k = order[int(np.argmax(over))]
            switch, limit = int(where[k]), int(self.topology.buffer[where[k]])
            text = f"{self.topology.device_text(switch)} would hold more chunks than its buffer of {limit}"
            raise self._offence(int(row[stays[k % len(stays)]]), text)

    def _columns(self) -> Any:
        from pccl.algorithm.kernels import Columns

        return Columns(
            self.first,
            self.src,
            self.dst,
            self.transfers.start,
            self.arrival,
            self.transfers.reduce,
        )

    def _raise_has_none(self, i: int, since: int) -> None:
        sender = self.topology.device_text(int(self.src[i]))
        when = "at that time" if since < 0 else f"before {Picoseconds(since)}"
        raise self._offence(i, f"{sender} does not have the chunk {when}")

    def _refuse(self, wrong: Bools, text: str) -> None:
        if np.any(wrong):
            i, t = int(np.argmax(wrong)), self.transfers
            raise VerificationError(
                f"transfer {i} (chunk {t.chunk[i]}, link {t.link[i]}, start {t.start[i]} ps): {text}"
            )

    def _offence(self, i: int, text: str) -> VerificationError:
        t = self.transfers
        link, when = self.topology.link_text(int(t.link[i])), Picoseconds(t.start[i])
        return VerificationError(f"transfer {i} (chunk {t.chunk[i]} over {link} at {when}): {text}")

    def _whose(self, chunk: int) -> str:
        return self.algorithm.collectives[int(self.conditions.collective[chunk])].kind
