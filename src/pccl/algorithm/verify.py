"""The verifier: every rule of the network and every promise of the collectives, checked from scratch.

It shares nothing with the synthesizer but the definition of how long a transfer takes, and accepts any algorithm that
keeps the rules, however it came about (a chunk may, for example, be sent twice; a contribution may not).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pccl._arrays import Bools, offsets_by_owner, stable_order
from pccl.algorithm.bound import Bound
from pccl.algorithm.core import Algorithm, check_algorithm
from pccl.collective import compile_conditions
from pccl.errors import VerificationError
from pccl.topology.parts import UNLIMITED
from pccl.units import Picoseconds

# Twenty-six and thirteen days, in picoseconds: with latencies below 2**62, sums stay within an int64.
LATEST_START = 2**61
LONGEST_TRANSMISSION = 2**60


def verify(algorithm: Algorithm) -> None:
    """Raise :class:`VerificationError`, naming the first offence, unless the algorithm is correct.

    Checked are: transfers use existing links while these are free; the sender has what it sends when it sends it;
    partial sums are disjoint and complete; switches multiply and add only if they can, and keep within their buffers;
    every destination ends with what its collective promises.

    Examples
    --------
    >>> import pccl
    >>> algorithm = pccl.synthesize(pccl.topology.ring(4), pccl.AllReduce(size="4MiB"))
    >>> pccl.verify(algorithm)
    """
    check_algorithm(algorithm, "verify checks")
    if compile_conditions(algorithm.topology, algorithm.collectives) != algorithm.conditions:
        raise VerificationError("the conditions are not those of the collectives")
    if algorithm.transfers.topology != algorithm.topology:
        raise VerificationError("the transfers are on another topology")
    check = _Check(algorithm)
    # In this order, as each relies on what those before it have found to be so.
    check.columns()
    check.links()
    check.messages()
    check.copies()
    check.sums()
    if algorithm.topology.limited:
        check.buffers()
    check.bound(algorithm.bound)


class _Check:
    """An algorithm, and the checks that it has to pass in this order."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.collectives = algorithm.collectives
        self.topology = algorithm.topology
        self.conditions = algorithm.conditions
        # A copy has nothing in its caches: derived columns are computed afresh.
        self.transfers = replace(algorithm.transfers)

    def columns(self) -> None:
        """Everything refers to something that exists, in the order that all else relies on."""
        t = self.transfers
        lengths = [len(column) for column in (t.chunk, t.link, t.start, t.reduce)]
        if self.topology.plain:
            lengths.append(len(t.follows))
        if len(set(lengths)) != 1:
            raise VerificationError(f"transfer columns differ in length: {lengths}")
        no_chunk = (t.chunk < 0) | (t.chunk >= len(self.conditions))
        no_link = (t.link < 0) | (t.link >= self.topology.num_links)
        self._refuse(no_chunk, "there is no such chunk")
        self._refuse(no_link, "there is no such link")
        self._refuse(t.start < 0, "it starts before time zero")
        self._refuse(t.start >= LATEST_START, f"it starts later than {Picoseconds(LATEST_START)}")
        sizes, size_of = self.conditions.sizes
        rates, rate_of = self.topology.rates
        too_long = sizes[:, None] / rates[None, :] * 1e12 >= LONGEST_TRANSMISSION
        if np.any(too_long):
            text = f"it takes longer than {Picoseconds(LONGEST_TRANSMISSION)}"
            self._refuse(too_long[size_of[t.chunk], rate_of[t.link]], text)
        same_chunk = t.chunk[1:] == t.chunk[:-1]
        in_order = (t.chunk[1:] > t.chunk[:-1]) | (same_chunk & (t.start[1:] >= t.start[:-1]))
        if not np.all(in_order):
            raise VerificationError(
                "transfers are not ordered by chunk and start; Algorithm.build does that"
            )
        no_sum = t.reduce & ~self.conditions.reduces[t.chunk]
        self._refuse(no_sum, "it reduces, but its chunk is not a sum")
        self.first = offsets_by_owner(t.chunk, len(self.conditions))
        # When the first byte comes out of the link.
        self.landing = t.arrival - t.transmission

    def links(self) -> None:
        """No link carries two chunks at once."""
        from pccl.algorithm.kernels import first_overlap

        t = self.transfers
        # Without regard to ties, as two that start together on one link overlap in any order.
        by_start = np.argsort(t.start)
        order = by_start[stable_order(t.link[by_start], self.topology.num_links)]
        k = first_overlap(order, t.link, t.start, t.hold)
        if k >= 0:
            before = int(order[k - 1])
            until = Picoseconds(t.start[before] + t.hold[before])
            text = f"the link is held until {until} by chunk {t.chunk[before]}"
            raise self._offence(int(order[k]), text)

    def messages(self) -> None:
        """Switches that cannot multiply or add pass every message on once, over one link, after it has come in."""
        t = self.transfers
        # Messages that come in to be passed on are nothing that the switch could send otherwise.
        self.passing = np.zeros(len(t), np.bool_)
        self.follows = np.full(len(t), -1, np.int32)
        if not self.topology.plain:
            return
        self.passing = t.comes_to_pass
        self.follows = t.follows
        rows = np.flatnonzero(t.passes_on)
        before = t.follows[rows]
        strange = t.follows >= 0
        strange[rows] = False
        self._refuse(strange, "it follows a transfer, but its sender passes nothing on")
        brought = (before >= 0) & (before < len(t))
        before = np.clip(before, 0, len(t) - 1)
        brought &= self.passing[before] & (t.dst[before] == t.src[rows])
        brought &= (t.chunk[before] == t.chunk[rows]) & (t.reduce[before] == t.reduce[rows])
        brought &= t.arrival[before] <= t.start[rows]
        if not np.all(brought):
            raise self._has_none(int(rows[np.argmin(brought)]), "to pass on at that time")
        again = np.bincount(before, minlength=1) > 1
        if np.any(again):
            i = int(rows[before == np.argmax(again)][-1])
            text = "passes on what it has passed on before; it can neither multiply nor add"
            raise self._offence(i, f"{self._device(t.src[i])} {text}")

    def copies(self) -> None:
        """Chunks that do not reduce are where they are sent from, and get to where they must."""
        from pccl.algorithm import kernels

        t = self.transfers
        c = self.conditions
        chunks = np.flatnonzero(~c.reduces)
        source = c.source_ids[c.source_offsets[:-1][chunks]].astype(np.int64)
        since, seen = np.zeros((2, self.topology.num_devices), np.int64)
        problem, i, j = kernels.check_copies(
            kernels.Moves(self.first, t.src, t.dst, t.start, t.arrival, t.reduce),
            self.follows, self.passing, chunks, source, c.destination_offsets, c.destination_ids, since, seen,
        )  # fmt: skip
        if problem == kernels.NOT_DELIVERED:
            raise VerificationError(f"{self._whose(i)} never gets to {self._device(j)}")
        if problem != kernels.FINE:
            raise self._has_none(i, "at that time" if j < 0 else f"before {Picoseconds(j)}")

    def sums(self) -> None:
        """Contributions are added once each, and the destinations end with all of them."""
        from pccl.algorithm import kernels

        t = self.transfers
        c = self.conditions
        chunks = np.flatnonzero(c.reduces)
        if not len(chunks):
            return
        # A set of contributions is a row of 64-bit words.
        words = int(np.diff(c.source_offsets)[chunks].max() + 63) // 64
        longest = int(np.diff(self.first)[chunks].max(initial=0))
        held = np.zeros((self.topology.num_devices, words), np.uint64)
        flying = np.zeros((longest, words), np.uint64)
        by_arrival = np.lexsort((t.arrival, t.chunk))
        problem, i, j = kernels.check_sums(
            kernels.Moves(self.first, t.src, t.dst, t.start, t.arrival, t.reduce),
            self.follows, self.passing, ~self.topology.multicast, by_arrival,
            chunks, c.source_offsets, c.source_ids, c.destination_offsets,
            c.destination_ids, held, flying, np.zeros(words, np.uint64),
        )  # fmt: skip
        if problem == kernels.SENDER_HAS_NONE:
            raise self._has_none(i, "at that time")
        if problem == kernels.INCOMPLETE:
            whose = self._whose(i)
            raise VerificationError(f"{whose}: the sum at {self._device(j)} is not complete")
        if problem != kernels.FINE:
            owner = self._device(c.sources(int(t.chunk[i]))[j])
            receiver = self._device(t.dst[i])
            text = f"the copy would overwrite the contribution of {owner} at {receiver}"
            if problem == kernels.COUNTED_TWICE:
                text = f"{receiver} would count the contribution of {owner} twice"
            raise self._offence(i, text)

    def buffers(self) -> None:
        """Switches hold no more chunks at once than fit: each from its first byte received to its last byte sent.

        A stay lasts from a reception of a chunk to its last sending. Another one begins when the chunk comes in anew
        after a sending; unless it is a sum that adds to what is held, or is sent on before it has come in. Messages
        that are passed on one by one stay one by one.
        """
        t = self.transfers
        finite = self.topology.buffer != UNLIMITED
        into = np.flatnonzero(finite[t.dst])
        out = np.flatnonzero(finite[t.src])
        row = np.concatenate([into, out])
        if not len(row):
            return
        comes = np.arange(len(row)) < len(into)
        switch = np.where(comes, t.dst[row], t.src[row])
        begin = np.where(comes, self.landing[row], t.start[row])
        message = np.where(comes, np.where(self.passing[row], row, -1), self.follows[row])
        # By switch, chunk, message and moment; of what happens at one moment, sendings first.
        order = np.lexsort((comes, begin, message, t.chunk[row], switch))
        row = row[order]
        comes = comes[order]
        switch = switch[order]
        begin = begin[order]
        end = begin + t.transmission[row]
        owner = np.stack([switch, t.chunk[row], message[order]])
        new = np.append(True, np.any(owner[:, 1:] != owner[:, :-1], axis=0))
        comes_whole = comes & ~t.reduce[row]
        comes_whole[:-1] &= new[1:] | (end[:-1] <= begin[1:])
        new[1:] |= comes_whole[1:] & ~comes[:-1]
        stays = np.flatnonzero(new)
        until = np.maximum.reduceat(end, stays)
        # Count stays up and down along time, switch by switch: all of a switch end before those of the next begin.
        moment = np.concatenate([begin[stays], until])
        change = np.repeat([1, -1], len(stays))
        where = np.tile(switch[stays], 2)
        # Of one moment, ends come first: a place can be taken as soon as it is left.
        order = np.lexsort((change, moment, where))
        over = np.cumsum(change[order]) > self.topology.buffer[where[order]]
        if np.any(over):
            k = order[int(np.argmax(over))]
            limit = self.topology.buffer[where[k]]
            text = f"{self._device(where[k])} would hold more chunks than its buffer of {limit}"
            raise self._offence(int(row[stays[k % len(stays)]]), text)

    def bound(self, bound: Bound | None) -> None:
        """What claims to be faster than anything can be is wrong, or the claim is."""
        duration = Picoseconds(self.transfers.arrival.max(initial=0))
        if bound is not None and bound.value > duration:
            text = f"its bound claims that nothing is faster than {bound.value}"
            raise VerificationError(f"the algorithm takes {duration}, and {text}")

    def _refuse(self, wrong: Bools, text: str) -> None:
        """Raise for the first transfer that is wrong; its link need not exist."""
        if np.any(wrong):
            t = self.transfers
            i = int(np.argmax(wrong))
            which = f"chunk {t.chunk[i]}, link {t.link[i]}, start {t.start[i]} ps"
            raise VerificationError(f"transfer {i} ({which}): {text}")

    def _has_none(self, i: int, when: str) -> VerificationError:
        sender = self._device(self.transfers.src[i])
        return self._offence(i, f"{sender} does not have the chunk {when}")

    def _device(self, device: int | np.integer[Any]) -> str:
        return self.topology.device_text(int(device))

    def _offence(self, i: int, text: str) -> VerificationError:
        t = self.transfers
        link = self.topology.link_text(int(t.link[i]))
        which = f"chunk {t.chunk[i]} over {link} at {Picoseconds(t.start[i])}"
        return VerificationError(f"transfer {i} ({which}): {text}")

    def _whose(self, chunk: int) -> str:
        return f"chunk {chunk} ({self.collectives[int(self.conditions.collective[chunk])].kind})"
